"""Faults put into an emulated GPU on purpose, to show that a forgotten command would be noticed.

    kfd.injection = Injection("wait", every=3)      # every third wait is passed over

A dropped command is what a runtime that forgot it would have sent. The kinds:

* `release`: the end of work is signalled although its writes have reached nobody else yet.
* `signal`: the end of work is never signalled.
* `wait`: work begins although what it waits for has not happened.
* `barrier`: work runs beside the work before it, in either order.
* `acquire`: caches are not invalidated before a kernel reads what others wrote.
* `mapping`: memory is not mapped to a GPU.
"""

from __future__ import annotations

__all__ = ["KINDS", "Injection"]

KINDS = ("release", "signal", "wait", "barrier", "acquire", "mapping")


class Injection:
    """Drops commands of one kind: each `every`-th, from the first on. `dropped` counts them."""

    def __init__(self, kind: str, every: int = 1, skip: int = 0) -> None:
        if kind not in KINDS:
            raise ValueError(f"nothing of the kind {kind!r} can be dropped; {', '.join(KINDS)} can")
        self.kind, self._every = kind, every
        self._seen, self.dropped = -skip, 0

    def drops(self, kind: str) -> bool:
        """Whether this command, of that kind, is passed over."""
        if kind != self.kind:
            return False
        is_dropped = self._seen >= 0 and self._seen % self._every == 0
        self._seen += 1
        self.dropped += is_dropped
        return is_dropped
