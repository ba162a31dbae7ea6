"""Faults put into an emulated GPU on purpose, to show that a forgotten command would be noticed.

    driver.inject(Injection("acquire", every=3))      # every third acquire is passed over

A dropped command is what a runtime that forgot it would have sent. The kinds:

* `acquire`: work begins although the semaphore that it waits for is not released.
* `release`: a semaphore is never released.
* `order`: a semaphore is released although the work before has not ended.
* `idle`: kernels run beside those before them, in either order.
* `mapping`: memory is not mapped to a GPU.
* `qmd`: not dropped but changed: one bit of queue meta data, `bit`.
"""

from __future__ import annotations

__all__ = ["KINDS", "Injection"]

KINDS = ("acquire", "release", "order", "idle", "mapping", "qmd")


class Injection:
    """Drops commands of one kind: each `every`-th, from number `skip` on. `dropped` counts them."""

    def __init__(self, kind: str, every: int = 1, skip: int = 0, bit: int = 0) -> None:
        if kind not in KINDS:
            raise ValueError(f"nothing of the kind {kind!r} can be dropped; {', '.join(KINDS)} can")
        self.kind, self._every, self.bit = kind, every, bit
        self._seen, self.dropped = -skip, 0

    def drops(self, kind: str) -> bool:
        """Whether this command, of that kind, is passed over."""
        if kind != self.kind:
            return False
        is_dropped = self._seen >= 0 and self._seen % self._every == 0
        self._seen += 1
        self.dropped += is_dropped
        return is_dropped
