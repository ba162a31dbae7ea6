"""What errors of kernel drivers become."""

from __future__ import annotations

import errno

import pytest
from tests.emulate.kfd.machine import Machine

from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.hardware.failures import DriverError, Failures


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.EPERM, DeviceError, "^GPU: this user may not map memory .*EPERM.*; run as root"),
        (errno.EACCES, DeviceError, "^GPU: this user may not map memory .*EACCES.*; run as root"),
        (errno.ENOMEM, OutOfMemory, "^GPU: no memory to map memory: delete tensors"),
        (errno.EINVAL, InternalError, "^GPU: could not map memory: MAP: EINVAL"),
        (errno.ENOSPC, DeviceError, "^GPU: could not map memory: MAP: ENOSPC"),
    ],
)
def test_an_error_of_a_call_is_one_sentence_and_the_device_goes_on(number, kind, text):
    failures = Failures("GPU", Machine("gfx1100").platform)
    with pytest.raises(kind, match=text), failures.translated("map memory"):
        raise DriverError("MAP", OSError(number, "told"))
    failures.check()


def test_after_an_error_of_a_gpu_that_is_gone_every_use_says_so():
    failures = Failures("GPU", Machine("gfx1100").platform)
    with pytest.raises(DeviceError, match="ENODEV"), failures.translated("map memory"):
        raise DriverError("MAP", OSError(errno.ENODEV, "No such device"))
    with pytest.raises(DeviceError, match="ENODEV"):
        failures.check()
