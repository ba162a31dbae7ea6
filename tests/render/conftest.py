"""The backends that print text, for kernels made by hand."""

from __future__ import annotations

import functools
import os

import pytest

from treadle.engine.devices import Opened, _open
from treadle.engine.selection import parse_choice
from treadle.errors import DeviceError

EMULATED = "CL:OPENCL:-fp64"  # float64 in integers, whether the device has it or not
BACKENDS = ["CPU:LLVM", "CPU:CLANG", "CL", EMULATED, "WEBGPU"]
if "FULL_TESTS" in os.environ:  # emulated GPUs are slow
    BACKENDS += ["CUDA", "CUDA:PTX"]


@functools.cache
def opened(name: str) -> Opened | str:
    """A backend, or why it cannot be used."""
    try:
        return _open(parse_choice(name))
    except DeviceError as error:
        return str(error)


def need(name: str) -> Opened:
    found = opened(name)
    if isinstance(found, str):
        pytest.skip(f"{name}: {found}")
    return found


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Opened:
    """Each backend that prints text and can be used here."""
    return need(request.param)


@pytest.fixture(params=["CUDA", "CUDA:PTX"])
def cuda(request: pytest.FixtureRequest) -> Opened:
    """The backends of NVIDIA GPUs, emulated where there is none."""
    return need(request.param)


@pytest.fixture
def webgpu() -> Opened:
    """The backend that prints WGSL."""
    return need("WEBGPU")


@pytest.fixture
def opencl() -> Opened:
    """The backend that prints OpenCL C."""
    return need("CL")
