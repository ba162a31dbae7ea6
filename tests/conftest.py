"""Fixtures for all tests: the devices that each backend test runs on."""

from __future__ import annotations

import os

import pytest

# taken out of the environment, where treadle would warn of a setting that it does not know
DEVICES = os.environ.pop("TREADLE_TEST_DEVICES", "CPU,REF").upper().split(",")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each device under test, by name; TREADLE_TEST_DEVICES=CPU,CL chooses others."""
    from treadle import Tensor
    from treadle.errors import DeviceError

    try:
        Tensor([1.0], device=request.param).add(1.0).realize()
    except DeviceError as error:
        pytest.skip(f"{request.param}: {error}")
    return request.param
