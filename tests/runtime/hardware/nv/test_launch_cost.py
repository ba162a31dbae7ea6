"""What a launch costs the host, on a channel that executes nothing.

The tests count calls and words. `python -m tests.runtime.hardware.nv.test_launch_cost` prints the
time.
"""

from functools import partial

import numpy as np
import pytest
from tests.emulate.nv.machine import Machine, download, upload
from tests.runtime.hardware.launch_cost import (
    calls_of_one,
    calls_of_replay,
    calls_of_run,
    idle,
    told,
)

from treadle.runtime.base import Launch

ARCHS = ("sm_80", "sm_90a", "sm_120")  # one for each version of QMD
COUNT = 64


def idle_device(arch):
    """A device whose GPU does nothing, and a kernel."""
    return idle(Machine(arch), symbol="add_three")


# As with AMD, a test on a busy machine cannot hold a time.
@pytest.mark.parametrize("arch", ARCHS)
def test_a_launch_makes_few_calls(arch):
    make = partial(idle_device, arch)
    assert calls_of_one(make) <= 118
    assert calls_of_run(make) <= 32


@pytest.mark.parametrize("arch", ARCHS)
def test_a_replayed_launch_makes_few_calls(arch):
    assert calls_of_replay(partial(idle_device, arch)) <= 10


@pytest.mark.parametrize("arch", ARCHS)
def test_a_replay_changes_five_words_for_two_addresses_and_an_integer(arch):
    machine = Machine(arch, seed=3)
    device = machine.device()
    phase = machine.kernel(device, "add_number")
    data = np.arange(COUNT, dtype=np.int32)
    a, b = (upload(device, data + 100 * n) for n in range(2))
    outs = [device.allocator.alloc(4 * COUNT) for _ in range(16)]
    calls = device.call_list([Launch([phase], [a.argument, one.argument], [1]) for one in outs])
    for _ in range(3):  # the copies are made and brought up to date
        calls.run()
    before = calls.patched
    calls.run()
    assert calls.patched == before  # nothing was set: nothing is changed
    for turn in range(2):  # both copies
        before = calls.patched
        for number in range(16):
            calls.set_arg(number, 0, b.argument)
            calls.set_arg(number, 1, outs[15 - number].argument)
            calls.set_var(number, 0, 10 * turn + number)
        calls.run()
        for number, one in enumerate(outs):
            found = download(device, one)
            assert (found == data + 100 + 10 * turn + 15 - number).all()
    assert calls.patched - before == 16 * 5


if __name__ == "__main__":
    for arch in ARCHS:
        print(f"{arch}: {told(partial(idle_device, arch))}")
