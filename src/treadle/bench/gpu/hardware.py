"""Copies, launches and replays on a GPU past its own user-space driver: right, and how quick.

    kernel = Kernel(device, code, "k")            # out = x * 3 + n
    launches(device, kernel)                      # AssertionError where the result is not right
    latencies(device, kernel, many=64)            # {"a launch, host": seconds, ...}

What is of one maker's GPUs alone is in `amd` and `nv`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from typing import Protocol

    import numpy as np

    from ...runtime.base import Buffer, Device, Launch
    from ...runtime.hardware.calls import HardwareCallList

    class Way(Device, Protocol):
        """A GPU by its kernel driver, or by another one that is beside it."""

        is_software: bool

        def copy_from(self, other: object, source: Buffer, target: Buffer, nbytes: int) -> bool: ...


__all__ = [
    "COUNT", "ITEMS", "REPLAYED", "Kernel", "copies", "get", "latencies", "launches", "numbers",
    "put", "rates", "replays", "shown",
]  # fmt: skip

COUNT, ITEMS = 4096, 64
REPLAYED, _WORDS = 16, 8  # launches of a replay, and words that one may change
_ROUNDS = 5


def put(device: Way, data: np.ndarray) -> Buffer:
    """A buffer with this data."""
    buffer = device.allocator.alloc(data.nbytes)
    device.write(buffer, data.data.cast("B"))
    return buffer


def get(device: Way, buffer: Buffer, like: np.ndarray) -> np.ndarray:
    """What a buffer holds, as an array like another one."""
    import numpy as np

    found = np.zeros_like(like)
    device.read(buffer, found.data.cast("B"))
    return found


def numbers() -> np.ndarray:
    """COUNT integers, none of them negative."""
    import numpy as np

    return np.random.default_rng(COUNT).integers(0, 1 << 28, COUNT, np.int64).astype(np.int32)


class Kernel:
    """One kernel (out, x, n) of COUNT work items on one device, by machine code for it."""

    def __init__(self, device: Way, code: bytes, symbol: str) -> None:
        from ...runtime.base import Entry, Slot

        slots = (Slot(0, 4 * COUNT, True), Slot(1, 4 * COUNT, False))
        self._library = device.load(code, [Entry(symbol, COUNT // ITEMS, ITEMS, slots, (0,))])

    def launch(self, out: Buffer, x: Buffer, n: int) -> Launch:
        """One launch of it."""
        from ...runtime.base import Launch

        return Launch(self._library.phases, [out.argument, x.argument], [n])


# -- right ------------------------------------------------------------------------------------


def copies(device: Way) -> None:
    """To the GPU, within it and back, of sizes that are no multiple of anything."""
    import numpy as np

    for nbytes in (1, 4, 4095, 65537, (1 << 20) + 3):
        data = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
        source, target = put(device, data), put(device, 0 * data)
        assert device.copy_from(device, source, target, nbytes), "the GPU does not reach itself"
        np.testing.assert_array_equal(get(device, target, data), data)


def launches(device: Way, kernel: Kernel) -> None:
    """Each launch reads what the one before it has written. The kernel is out = x * 3 + n."""
    import numpy as np

    data = numbers()
    buffers = [put(device, data), put(device, 0 * data)]
    expected = data
    for number in range(_ROUNDS):
        device.run([kernel.launch(buffers[1], buffers[0], number)])
        buffers.reverse()
        expected = expected * np.int32(3) + np.int32(number)
    np.testing.assert_array_equal(get(device, buffers[0], data), expected)


def replays(device: Way, kernel: Kernel) -> None:
    """Other memory and another integer for each launch, while the last replay may still run."""
    import numpy as np

    data = numbers()
    x, outs = put(device, data), [put(device, 0 * data) for _ in range(2 * REPLAYED)]
    given = [kernel.launch(out, x, 0) for out in outs[:REPLAYED]]
    calls = cast("HardwareCallList", device.call_list(given))  # which counts words
    for number in range(_ROUNDS):
        used = outs[REPLAYED * (number % 2) :][:REPLAYED]
        before = calls.patched
        for call, out in enumerate(used):
            calls.set_arg(call, 0, out.argument)
            calls.set_var(call, 0, number + call)
        calls.run()
        words = (calls.patched - before) / REPLAYED
        assert words <= _WORDS, f"{words} words change for each launch"
        for call, out in enumerate(used):
            found = get(device, out, data)
            np.testing.assert_array_equal(found, data * np.int32(3) + np.int32(number + call))


# -- times ------------------------------------------------------------------------------------


def _best(action: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of an action: the least of several, each begun when nothing runs."""
    found = []
    for _ in range(_ROUNDS):
        wait()
        start = time.perf_counter()
        action()
        found.append(time.perf_counter() - start)
    wait()
    return min(found)


def latencies(device: Way, kernel: Kernel, many: int) -> dict[str, float]:
    """Seconds that launches take of the host's time, and until the GPU has done them."""
    data = numbers()
    x, out = put(device, data), put(device, data)
    launch, wait = [kernel.launch(out, x, 1)], device.synchronize
    calls = device.call_list(launch * REPLAYED)

    def all_launches() -> None:
        for _ in range(many):
            device.run(launch)

    for _ in range(2):  # what is made once is made
        calls.run()
    return {
        "a launch, host": _best(all_launches, wait) / many,
        "a launch until it is done": _best(lambda: (device.run(launch), wait()), wait),
        f"a replay of {REPLAYED} launches, host": _best(calls.run, wait),
        f"a replay of {REPLAYED} launches until it is done": _best(
            lambda: (calls.run(), wait()), wait
        ),
    }


def rates(device: Way, nbytes: int) -> dict[str, float]:
    """Bytes in a nanosecond of copies."""
    import numpy as np

    data = np.ones(nbytes, np.uint8)
    view, wait, one, two = data.data, device.synchronize, put(device, data), put(device, data)
    times = {
        "copies to the GPU": _best(lambda: (device.write(one, view), wait()), wait),
        "copies from the GPU": _best(lambda: device.read(one, view), wait),
        "copies within the GPU": _best(
            lambda: (device.copy_from(device, one, two, nbytes), wait()), wait
        ),
    }
    return {name: nbytes / took / 1e9 for name, took in times.items()}


def shown(name: str, value: float) -> str:
    """A latency or a rate as a table has it."""
    return f"{value:.2f} GB/s" if "copies" in name else f"{1e6 * value:.1f} us"
