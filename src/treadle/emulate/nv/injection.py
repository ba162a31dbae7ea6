"""What an emulated NVIDIA GPU can pass over on purpose, or read changed.

    driver.inject(Injection("acquire", every=3))      # every third acquire is passed over

The kinds:

* `acquire`: work begins although the semaphore that it waits for is not released.
* `release`: a semaphore is never released.
* `order`: a semaphore is released although the work before has not ended.
* `idle`: kernels run beside those before them, in either order.
* `mapping`: memory is not mapped to a GPU.
* `qmd`: not dropped but changed: one bit of queue meta data, `bit`.
"""

from __future__ import annotations

from treadle.emulate.machine import injection

__all__ = ["KINDS", "Injection"]

KINDS = ("acquire", "release", "order", "idle", "mapping", "qmd")


class Injection(injection.Injection):
    """Drops commands of one kind, or changes a bit of what is of the kind `qmd`."""

    kinds = KINDS

    def __init__(self, kind: str, every: int = 1, skip: int = 0, bit: int = 0) -> None:
        super().__init__(kind, every, skip)
        self._bit = bit

    def changed(self, kind: str, data: bytes) -> bytes:
        """The bytes with one other bit."""
        if not self.drops(kind):
            return data
        words = int.from_bytes(data, "little") ^ 1 << self._bit
        return words.to_bytes(len(data), "little")
