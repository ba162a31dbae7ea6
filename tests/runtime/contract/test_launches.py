"""What launches mean: in order, changed in place, from threads, over memory freed in flight."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.engine.devices import Opened

from .kernels import COUNT, Kernel, get, put
from .test_memory import in_threads
from .test_processes import finish, start

X = np.arange(COUNT, dtype=np.int32)


def test_no_launches_run(launching: Opened) -> None:
    device = launching.runtime
    device.run([])
    calls = device.call_list([])
    assert len(calls) == 0
    calls.run()
    assert calls.run_timed() == []


def test_launches_happen_in_order(launching: Opened, kernel: Kernel) -> None:
    device = launching.runtime
    library, x = kernel.load(device), put(device, X)
    a, b = (device.allocator.alloc(4 * COUNT) for _ in range(2))
    steps = [(x, a, 1), (a, b, 2), (b, a, 3), (a, b, 4)]
    expected = X
    for _, _, n in steps:
        expected = expected * 3 + n
    device.run([kernel.launch(library, *step) for step in steps])
    np.testing.assert_array_equal(get(device, b), expected)


@pytest.mark.parametrize("timed", [False, True])
def test_a_list_is_replayed_with_other_memory_and_numbers(
    launching: Opened, kernel: Kernel, timed: bool
) -> None:
    device = launching.runtime
    library = kernel.load(device)
    x, a, b, c = put(device, X), *(put(device, 0 * X) for _ in range(3))
    calls = device.call_list(
        [kernel.launch(library, x, a, 7), kernel.launch(library, a, b, 1)], keep=(library, x)
    )
    run = calls.run_timed if timed else calls.run
    assert len(calls) == 2
    run()
    run()
    np.testing.assert_array_equal(get(device, b), (X * 3 + 7) * 3 + 1)
    calls.set_arg(1, kernel.out, c.argument)
    calls.set_var(0, 0, 2)
    del library, x
    run()
    np.testing.assert_array_equal(get(device, c), (X * 3 + 2) * 3 + 1)
    np.testing.assert_array_equal(get(device, b), (X * 3 + 7) * 3 + 1)


def test_times_are_in_the_order_of_the_launches(launching: Opened, kernel: Kernel) -> None:
    device = launching.runtime
    library, x, a = kernel.load(device), put(device, X), put(device, X)
    times = device.call_list([kernel.launch(library, x, a, 1)] * 3).run_timed()
    assert len(times) == 3
    assert all(start <= end for start, end in times)
    assert sorted(times) == times


def test_memory_that_is_dropped_in_flight_is_not_reused_too_early(
    launching: Opened, kernel: Kernel
) -> None:
    device = launching.runtime
    library = kernel.load(device)
    for turn in range(20):
        x, a, b = put(device, X + turn), *(device.allocator.alloc(4 * COUNT) for _ in range(2))
        device.run([kernel.launch(library, x, a, 1), kernel.launch(library, a, b, 2)])
        del x, a
        junk = [put(device, np.full(COUNT, -1, np.int32)) for _ in range(2)]
        np.testing.assert_array_equal(get(device, b), ((X + turn) * 3 + 1) * 3 + 2)
        assert all((get(device, one) == -1).all() for one in junk)


def test_memory_that_is_trimmed_in_flight_goes_back_once_no_work_uses_it(
    launching: Opened,
) -> None:
    """In a process of its own, which a kernel would take down that lost its memory."""
    code = f"""
n = {800 if launching.runtime.shares_memory else 64}
z = Tensor(np.ones((n, n), np.float32), device=name).realize()
for _ in range(3):
    y = (z @ z).realize()
    w = (y @ z).realize()
    del y
    Device[name].allocator.trim()
    assert (w.numpy() == n * n).all()
print("end")
"""
    assert finish(start(launching, code)) == "end\n"


def test_code_that_is_dropped_in_flight_runs_to_its_end(launching: Opened, kernel: Kernel) -> None:
    device = launching.runtime
    x, a = put(device, X), device.allocator.alloc(4 * COUNT)
    for n in range(5):
        library = kernel.load(device)
        device.run([kernel.launch(library, x, a, n)])
        del library
    np.testing.assert_array_equal(get(device, a), X * 3 + 4)


def test_threads_launch_at_once(launching: Opened, kernel: Kernel) -> None:
    device = launching.runtime
    library, wrong = kernel.load(device), []

    def work(number: int) -> None:
        for turn in range(20):
            x, a = put(device, X + number), device.allocator.alloc(4 * COUNT)
            device.run([kernel.launch(library, x, a, turn)])
            if not (get(device, a) == (X + number) * 3 + turn).all():
                wrong.append((number, turn))

    in_threads(work, 4)
    assert not wrong
