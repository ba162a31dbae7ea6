"""What users read when the kernel driver is missing, closed, too old, or refuses."""

import pytest
from tests.emulate.nv.machine import Machine

from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.errors import DeviceError
from treadle.runtime.hardware.nv import RM


def test_no_driver_is_a_sentence_with_a_command():
    with pytest.raises(DeviceError, match=r"^NV: there is no /dev/nvidiactl: .*; sudo nvidia-mod"):
        RM(EmulatedPlatform())


def test_a_missing_permission_names_the_file():
    machine = Machine("sm_80")
    machine.driver.refuses_access = True
    with pytest.raises(DeviceError, match=r"^NV: this user may not open /dev/nvidiactl; sudo"):
        _ = machine.opened


def test_closed_kernel_modules_are_named_as_the_cause():
    machine = Machine("sm_80", is_closed=True)
    with pytest.raises(DeviceError, match=r"^NV: the kernel driver is NVIDIA's closed one"):
        _ = machine.opened


def test_an_old_driver_is_named_with_its_version():
    machine = Machine("sm_80", version="535.54.03")
    with pytest.raises(DeviceError, match=r"is of release 535\.54\.03, and 570 or newer is needed"):
        _ = machine.opened


@pytest.mark.parametrize("version", ["570.133.20", "580.142", "590.48.01"])
def test_each_release_has_a_device(version):
    assert Machine("sm_90a", version=version).device().synchronize() is None


def test_a_gpu_that_is_not_there_is_counted():
    with pytest.raises(DeviceError, match=r"there is no NV:1: the kernel driver shows 1 GPU$"):
        Machine("sm_80").device(1)


def test_an_architecture_that_the_gpu_does_not_have_is_refused():
    from treadle.runtime.hardware.nv import NVDevice, target_of

    machine = Machine("sm_80")
    with pytest.raises(DeviceError, match=r"is of sm_80, which does not run code for sm_90a"):
        NVDevice("NV", machine.opened, 0, lambda own, facts: target_of(own, facts, "sm_90a", True))
