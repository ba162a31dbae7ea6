"""What a launch costs the host, on a queue that executes nothing.

The tests count calls. `python -m tests.runtime.hardware.amd.test_launch_cost` prints the time.
"""

from functools import partial

import pytest
from tests.emulate.kfd.machine import Machine
from tests.runtime.hardware.launch_cost import (
    calls_of_one,
    calls_of_replay,
    calls_of_run,
    idle,
    told,
)

GPUS = [("gfx1100", False), ("gfx90a", False), ("gfx942", True)]


def idle_device(arch, uses_aql):
    """A device whose GPU does nothing, and a kernel."""
    return idle(Machine(arch, uses_aql=uses_aql), function=lambda run: None)


# The time of a launch depends on the machine and on who shares it. The calls that it makes do not:
# the emulated ioctl and ring are among them. 170 calls take less than 25 us on a quiet core.
@pytest.mark.parametrize(("arch", "uses_aql"), GPUS)
def test_a_launch_makes_few_calls(arch, uses_aql):
    make = partial(idle_device, arch, uses_aql)
    assert calls_of_one(make) <= 170
    assert calls_of_run(make) <= 18


@pytest.mark.parametrize(("arch", "uses_aql"), GPUS)
def test_a_replayed_launch_makes_few_calls(arch, uses_aql):
    assert calls_of_replay(partial(idle_device, arch, uses_aql)) <= 12


if __name__ == "__main__":
    for arch, uses_aql in GPUS:
        print(
            f"{arch} {'AQL' if uses_aql else 'PM4'}: {told(partial(idle_device, arch, uses_aql))}"
        )
