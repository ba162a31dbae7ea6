"""Faults put into an emulated GPU on purpose, to show that a forgotten command would be noticed.

    driver.inject(Injection("wait", every=3))      # every third wait is passed over

A dropped command is what a runtime that forgot it would have sent. Each driver says which kinds of
commands it has, and what it can change beside.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["Injection"]


class Injection:
    """Drops commands of one kind: each `every`-th, from number `skip` on. `dropped` counts them,
    and `seen` all of that kind.

    Raises ValueError for a kind that is none of `kinds`.
    """

    kinds: ClassVar[tuple[str, ...]] = ()

    def __init__(self, kind: str, every: int = 1, skip: int = 0) -> None:
        if kind not in self.kinds:
            known = ", ".join(self.kinds)
            raise ValueError(f"nothing of the kind {kind!r} can be dropped; {known} can")
        self.kind, self._every, self._skip = kind, every, skip
        self.seen = self.dropped = 0

    def drops(self, kind: str) -> bool:
        """Whether this command, of that kind, is passed over."""
        if kind != self.kind:
            return False
        place = self.seen - self._skip
        is_dropped = place >= 0 and place % self._every == 0
        self.seen += 1
        self.dropped += is_dropped
        return is_dropped

    def changed(self, kind: str, data: bytes) -> bytes:
        """What an engine reads in place of these bytes, which are of that kind."""
        return data
