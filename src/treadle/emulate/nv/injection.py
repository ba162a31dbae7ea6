"""What an emulated NVIDIA GPU can pass over on purpose, or read changed.

    driver.inject(Injection("acquire", every=3))      # every third acquire is passed over

The kinds:

* `acquire`: work begins although the semaphore that it waits for is not released.
* `release`: a semaphore is never released.
* `order`: a semaphore is released although the work before has not ended.
* `idle`: kernels run beside those before them, in either order.
* `mapping`: memory is not mapped to a GPU.
* `word`: one word of a pushbuffer, which is that much shorter.
* `qmd`: not dropped but changed: one bit of queue meta data, `bit`.
"""

from __future__ import annotations

from treadle.emulate.machine import injection

__all__ = ["KINDS", "Injection"]

KINDS = ("acquire", "release", "order", "idle", "mapping", "word", "qmd")


class Injection(injection.Injection):
    """Drops commands of one kind, or changes a bit of what is of the kind `qmd`."""

    kinds = KINDS

    def __init__(self, kind: str, every: int = 1, skip: int = 0, bit: int = 0) -> None:
        super().__init__(kind, every, skip)
        self._bit = bit

    def changed(self, kind: str, data: bytes) -> bytes:
        """A pushbuffer without words, or meta data with one other bit."""
        if kind != self.kind:
            return data
        if kind == "word":
            words = [data[at : at + 4] for at in range(0, len(data), 4)]
            return b"".join(word for word in words if not self.drops(kind))
        if not self.drops(kind):
            return data
        changed = int.from_bytes(data, "little") ^ 1 << self._bit
        return changed.to_bytes(len(data), "little")
