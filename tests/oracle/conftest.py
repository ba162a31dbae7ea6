"""What the random programs share: the devices to compare with the interpreter."""

import pytest

from treadle import Device
from treadle.errors import DeviceError


@pytest.fixture(scope="module")
def engines():
    """The devices that open here, the interpreter apart."""
    found = []
    for name in ("CPU", "CL", "WEBGPU"):
        try:
            found.append(Device[name].name)
        except DeviceError:
            continue
    return found
