"""The backends that print text, for kernels made by hand."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import replace

import pytest

from treadle.backends import BACKENDS
from treadle.engine.devices import Opened, _open
from treadle.engine.selection import parse_choice
from treadle.errors import DeviceError

ADRENO = "NULL:0:ADRENO:a630"  # with a device that runs it on emulated shader processors
EMULATED = "CL:OPENCL:-fp64"  # float64 in integers, whether the device has it or not
PRINTING = [
    f"{backend.name}:{toolchain.name}"
    for backend in BACKENDS
    for toolchain in backend.toolchains
    if backend.is_here and backend.computes and toolchain.renderer is not None
    if backend.emulated_chip is None or "FULL_TESTS" in os.environ  # emulated GPUs are slow
]
PRINTING.append(EMULATED)
if "FULL_TESTS" in os.environ:
    PRINTING.append(ADRENO)


@functools.cache
def opened(name: str) -> Opened | str:
    """A backend, or why it cannot be used."""
    try:
        return _adreno() if name == ADRENO else _open(parse_choice(name))
    except DeviceError as error:
        return str(error)


def _adreno() -> Opened:
    """Adreno's compiler, with the emulator in the place of NULL's device."""
    if importlib.util.find_spec("treadle.emulate.ir3") is None:
        raise DeviceError("this treadle has no emulator of Adreno's machine code")
    from ..compile.adreno import AdrenoDevice

    found = _open(parse_choice(ADRENO))
    return replace(found, runtime=AdrenoDevice(found.name, found.target))


def need(name: str) -> Opened:
    found = opened(name)
    if isinstance(found, str):
        pytest.skip(f"{name}: {found}")
    return found


@pytest.fixture(params=PRINTING)
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
