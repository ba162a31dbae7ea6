"""What launches cost the host, on a device whose GPU executes nothing; for all drivers.

device, phase = make()          # a kernel with three addresses and an integer
cost_of_run(make), calls_of_run(make)
"""

import gc
import sys
import time
from collections import Counter

from treadle.runtime.base import Launch

LAUNCHES, ROUNDS = 64, 12


def idle(machine, **kernel):
    """A machine with its device and a kernel; its GPU stands still from here on."""
    device = machine.device()
    phase = machine.kernel(device, slots=3, variables=1, **kernel)
    machine.run_dispatch = lambda dispatch: None
    machine.platform.ordering.sees_host = False  # which would be the emulator's time
    catch_up(machine, device)
    return machine, device, phase


def catch_up(machine, device):
    """The GPU takes all that it was given, and stands still again."""
    machine.platform.scheduler.is_paused = False
    device.synchronize()
    machine.platform.scheduler.is_paused = True


def launch_of(phase):
    return Launch([phase], [1, 2, 3], [4])


# -- seconds --------------------------------------------------------------------------------------


def least(machine, device, run):
    """Seconds for each launch of some, in the quickest of some rounds."""
    found = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
        catch_up(machine, device)
    return min(found) / LAUNCHES


def cost_of_one(make):
    """Seconds for a launch that is started by itself."""
    machine, device, phase = make()
    launch = [launch_of(phase)]
    return least(machine, device, lambda: [device.run(launch) for _ in range(LAUNCHES)])


def cost_of_run(make):
    """Seconds for each launch of `device.run`."""
    machine, device, phase = make()
    launches = [launch_of(phase)] * LAUNCHES
    return least(machine, device, lambda: device.run(launches))


def cost_of_replay(make):
    """Seconds for each launch of a replay in which each launch gets other memory."""
    machine, device, phase = make()
    calls, turns = replayed(machine, device, phase), iter(range(1000))
    return least(machine, device, lambda: replay(calls, next(turns)))


def told(make):
    """One line of all of it."""
    one, run, again = (1e6 * cost(make) for cost in (cost_of_one, cost_of_run, cost_of_replay))
    return (
        f"{one:.1f} us for one launch, {run:.1f} us for one of {LAUNCHES}, "
        f"{again:.1f} us in a replay"
    )


# -- replays --------------------------------------------------------------------------------------


def replayed(machine, device, phase):
    """A list of launches that has run, so that both of its copies are made."""
    calls = device.call_list([launch_of(phase) for _ in range(LAUNCHES)])
    for _ in range(2):
        calls.run()
        catch_up(machine, device)
    return calls


def replay(calls, turn):
    for call in range(LAUNCHES):
        calls.set_arg(call, 0, 1000 + turn)
    calls.run()


# -- calls ----------------------------------------------------------------------------------------


def calls_of(run):
    """How many functions `run` calls for each launch, of Python and of C.

    Garbage of earlier tests is not collected meanwhile: what finalizes it would count.
    """
    found = Counter()
    gc.disable()
    sys.setprofile(lambda frame, event, function: found.update([event]))
    try:
        run()
    finally:
        sys.setprofile(None)
        gc.enable()
    return (found["call"] + found["c_call"]) / LAUNCHES


def calls_of_one(make):
    _, device, phase = make()
    launch = [launch_of(phase)]
    device.run(launch)
    return calls_of(lambda: [device.run(launch) for _ in range(LAUNCHES)])


def calls_of_run(make):
    _, device, phase = make()
    launches = [launch_of(phase)] * LAUNCHES
    device.run(launches)
    return calls_of(lambda: device.run(launches))


def calls_of_replay(make):
    calls = replayed(*make())
    return calls_of(lambda: replay(calls, 0))
