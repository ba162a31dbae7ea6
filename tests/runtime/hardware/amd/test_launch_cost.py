"""What a launch costs the host, on a queue that executes nothing.

The tests count calls. `python -m tests.runtime.hardware.amd.test_launch_cost` prints the time.
"""

import sys
import time
from collections import Counter

import pytest
from tests.emulate.kfd.machine import Machine

from treadle.runtime.base import Launch

LAUNCHES, ROUNDS = 64, 12
GPUS = [("gfx1100", False), ("gfx90a", False), ("gfx942", True)]


def idle_device(arch, uses_aql):
    """A device whose GPU does nothing, and a kernel."""
    machine = Machine(arch, uses_aql=uses_aql)
    device = machine.device()
    phase = machine.kernel(device, lambda run: None, slots=3, variables=1)
    device.synchronize()
    machine.platform.scheduler.is_paused = True
    return device, phase


def cost_of_run(arch, uses_aql):
    """Seconds for each launch of `device.run`: the least of some rounds."""
    device, phase = idle_device(arch, uses_aql)
    launches = [Launch([phase], [1, 2, 3], [4]) for _ in range(LAUNCHES)]
    return min(timed(lambda: device.run(launches)) for _ in range(ROUNDS)) / LAUNCHES


def cost_of_one(arch, uses_aql):
    """Seconds for a launch that is started by itself."""
    device, phase = idle_device(arch, uses_aql)
    launch = [Launch([phase], [1, 2, 3], [4])]

    def run():
        for _ in range(LAUNCHES):
            device.run(launch)

    return min(timed(run) for _ in range(ROUNDS)) / LAUNCHES


def cost_of_replay(arch, uses_aql):
    """Seconds for each launch of a replay in which each launch gets other memory."""
    device, phase = idle_device(arch, uses_aql)
    calls = device.call_list([Launch([phase], [1, 2, 3], [4]) for _ in range(LAUNCHES)])
    calls.run()  # the second copy is made, too
    calls.run()
    found = []
    for turn in range(ROUNDS):
        for copy in calls._copies:
            copy.moment = None  # the GPU does nothing, so it never ends
        found.append(timed(lambda turn=turn: replay(calls, turn)))
    return min(found) / LAUNCHES


def replay(calls, turn):
    for call in range(LAUNCHES):
        calls.set_arg(call, 0, 1000 + turn)
    calls.run()


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


COSTS = [cost_of_run, cost_of_one, cost_of_replay]


def calls(run):
    """How many functions `run` calls for each launch, of Python and of C."""
    found = Counter()
    sys.setprofile(lambda frame, event, function: found.update([event]))
    try:
        run()
    finally:
        sys.setprofile(None)
    return (found["call"] + found["c_call"]) / LAUNCHES


# The time of a launch depends on the machine and on who shares it. The calls that it makes do not:
# the emulated ioctl and ring are among them. 170 calls take less than 25 us on a quiet core.
@pytest.mark.parametrize(("arch", "uses_aql"), GPUS)
def test_a_launch_makes_few_calls(arch, uses_aql):
    device, phase = idle_device(arch, uses_aql)
    launch = [Launch([phase], [1, 2, 3], [4])]
    device.run(launch)
    assert calls(lambda: [device.run(launch) for _ in range(LAUNCHES)]) <= 170
    assert calls(lambda: device.run(launch * LAUNCHES)) <= 18


@pytest.mark.parametrize(("arch", "uses_aql"), GPUS)
def test_a_replayed_launch_makes_few_calls(arch, uses_aql):
    device, phase = idle_device(arch, uses_aql)
    replayed = device.call_list([Launch([phase], [1, 2, 3], [4]) for _ in range(LAUNCHES)])
    replayed.run()  # the second copy is made, too
    replayed.run()
    for copy in replayed._copies:
        copy.moment = None  # the GPU does nothing, so it never ends
    assert calls(lambda: replay(replayed, 0)) <= 12


if __name__ == "__main__":
    for arch, uses_aql in GPUS:
        queue = "AQL" if uses_aql else "PM4"
        run, one, again = (1e6 * cost(arch, uses_aql) for cost in COSTS)
        print(
            f"{arch} {queue}: {one:.1f} us for one launch, {run:.1f} us for one of {LAUNCHES}, "
            f"{again:.1f} us in a replay"
        )
