"""Checks that GPUs by their kernel drivers share: copies, launches and replays that are right.

    launches(device, kernel)             # AssertionError where a result is wrong
    replays(device, kernel)
    best(action, device.synchronize)     # seconds

A kernel is `out = x * 3 + n` over COUNT integers, in workgroups of ITEMS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol

    import numpy as np

    from ...runtime.base import Buffer, CallList, Device, Launch, Library

    class GPU(Device, Protocol):
        """A GPU by its kernel driver, or by libcuda."""

        is_software: bool

        @property
        def copy_from(self) -> Callable[..., bool]: ...


__all__ = [
    "COUNT", "ITEMS", "REPLAYED", "ROUNDS", "Kernel", "best", "copies", "get", "launches",
    "numbers", "put", "replays",
]  # fmt: skip

COUNT, ITEMS = 4096, 64
REPLAYED, ROUNDS = 16, 5  # launches of a replay, and how often a thing is done


def put(device: GPU, data: np.ndarray) -> Buffer:
    """A buffer with these values."""
    buffer = device.allocator.alloc(data.nbytes)
    device.write(buffer, data.data.cast("B"))
    return buffer


def get(device: GPU, buffer: Buffer, like: np.ndarray) -> np.ndarray:
    """What a buffer holds, of the shape and type of an array."""
    import numpy as np

    found = np.zeros_like(like)
    device.read(buffer, found.data.cast("B"))
    return found


def numbers() -> np.ndarray:
    """COUNT integers."""
    import numpy as np

    return np.random.default_rng(COUNT).integers(0, 1 << 28, COUNT, np.int64).astype(np.int32)


class Kernel:
    """A library's kernel, which takes two buffers and an integer."""

    def __init__(self, library: Library) -> None:
        self._library = library

    def launch(self, out: Buffer, x: Buffer, n: int) -> Launch:
        """One launch of it."""
        from ...runtime.base import Launch

        return Launch(self._library.phases, [out.argument, x.argument], [n])


def copies(device: GPU) -> None:
    """To the GPU, within it and back, of sizes that are no multiple of anything."""
    import numpy as np

    for nbytes in (1, 4, 4095, 65537, (1 << 20) + 3):
        data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
        source, target = put(device, data), put(device, 0 * data)
        assert device.copy_from(device, source, target, nbytes), "the GPU does not reach itself"
        np.testing.assert_array_equal(get(device, target, data), data)


def launches(device: GPU, kernel: Kernel) -> None:
    """Each launch reads what the one before it has written."""
    import numpy as np

    data = numbers()
    buffers = [put(device, data), put(device, 0 * data)]
    expected = data
    for number in range(ROUNDS):
        device.run([kernel.launch(buffers[1], buffers[0], number)])
        buffers.reverse()
        expected = expected * np.int32(3) + np.int32(number)
    np.testing.assert_array_equal(get(device, buffers[0], data), expected)


def replays(device: GPU, kernel: Kernel) -> CallList:
    """Other memory and another integer for each launch, while the last replay may still run."""
    import numpy as np

    data = numbers()
    x, outs = put(device, data), [put(device, 0 * data) for _ in range(2 * REPLAYED)]
    calls = device.call_list([kernel.launch(out, x, 0) for out in outs[:REPLAYED]])
    for number in range(ROUNDS):
        used = outs[REPLAYED * (number % 2) :][:REPLAYED]
        for call, out in enumerate(used):
            calls.set_arg(call, 0, out.argument)
            calls.set_var(call, 0, number + call)
        calls.run()
        for call, out in enumerate(used):
            found = get(device, out, data)
            np.testing.assert_array_equal(found, data * np.int32(3) + np.int32(number + call))
    return calls


def best(action: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of an action: the least of several, each begun when nothing runs."""
    found = []
    for _ in range(ROUNDS):
        wait()
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    wait()
    return min(found)
