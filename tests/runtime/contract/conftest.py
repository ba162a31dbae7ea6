"""Each runtime in turn, and what excuses one: all of it from its record and its device."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.backends import BACKENDS, Backend, backend_of
from treadle.engine.devices import Device, Opened
from treadle.errors import DeviceError

from .kernels import Kernel

# Where a backend is tested on several architectures its compilers are, too: each makes other code.
RUNTIMES = [
    name
    for backend in BACKENDS
    if backend.is_here
    for plain, names in (backend.tested_devices or {backend.name: []}).items()
    if plain == backend.name or names[1:]
    for name in names or [plain]
]


def opened_or_skipped(name: str) -> Opened:
    """A device; a test skips where it does not open here, for the reason that it gives."""
    try:
        return Device[name]
    except DeviceError as error:
        pytest.skip(f"{name}: {error}")


def skip_unless(possible: object, opened: Opened, reason: str) -> None:
    """Skips a test by name for a runtime that cannot do a thing by its nature."""
    if not possible:
        pytest.skip(f"{opened.name}: {reason}")


@pytest.fixture(params=RUNTIMES)
def opened(request: pytest.FixtureRequest) -> Opened:
    """Each runtime's device."""
    return opened_or_skipped(request.param)


@pytest.fixture
def backend(opened: Opened) -> Backend:
    """Its record."""
    return backend_of(opened.name)


@pytest.fixture
def computing(opened: Opened, backend: Backend) -> Opened:
    """A device that has values."""
    skip_unless(backend.computes, opened, "its record says that it runs nothing (`computes`)")
    return opened


@pytest.fixture
def launching(computing: Opened) -> Opened:
    """A device that loads code and launches it."""
    skip_unless(not computing.interprets, computing, "its record has no compiler: it interprets")
    return computing


@pytest.fixture
def driven(launching: Opened, backend: Backend) -> Opened:
    """A device behind a driver, which can be lost, and which a forked child has not."""
    skip_unless(backend.nodes, launching, "its record has no driver (`nodes`): it is this process")
    return launching


@pytest.fixture
def kernel(launching: Opened) -> Kernel:
    """out = x * 3 + n"""
    return Kernel.of(launching)


@pytest.fixture
def runtime(opened: Opened) -> Any:
    """What fits the protocols of runtime/base.py."""
    return opened.runtime
