"""Both drivers of the CUDA runtime, and a real GPU, do the same by the same protocol."""

import inspect
import pathlib

import pytest

from treadle.emulate.cuda.context import EmulatedContext
from treadle.emulate.cuda.driver import EmulatedDriver
from treadle.emulate.cuda.module import EmulatedKernel, EmulatedModule
from treadle.errors import DeviceError
from treadle.runtime.cuda import driver as protocol
from treadle.runtime.cuda import open_driver
from treadle.runtime.cuda.bindings import CudaDriver
from treadle.runtime.cuda.context import CudaContext, CudaKernel, CudaModule

from .cuda_protocol import CHECKS

MADE = [
    (protocol.Driver, CudaDriver, EmulatedDriver), (protocol.Context, CudaContext, EmulatedContext),
    (protocol.Module, CudaModule, EmulatedModule), (protocol.Kernel, CudaKernel, EmulatedKernel),
]  # fmt: skip
ROOT = pathlib.Path(__file__).parents[2]


def functions(kind):
    return {
        name: list(inspect.signature(value).parameters)
        for name, value in vars(kind).items()
        if inspect.isfunction(value) and (not name.startswith("_") or name == "__call__")
    }


@pytest.mark.parametrize(("promised", "one", "other"), MADE, ids=lambda kind: kind.__name__)
def test_each_function_is_there_with_the_same_parameters(promised, one, other):
    wanted = functions(promised)
    for made in (one, other):
        found = functions(made)
        assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", CHECKS)
def test_the_emulated_driver(name):
    CHECKS[name](EmulatedDriver("sm_90a", devices=2))


@pytest.mark.parametrize("name", CHECKS)
def test_nvidias_driver_over_our_libcuda(stub, name):
    code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.runtime.cuda_protocol import CHECKS
from treadle.runtime.cuda import open_driver
CHECKS[{name!r}](open_driver())
"""
    stub(code)


@pytest.mark.parametrize("name", CHECKS)
def test_nvidias_driver_on_a_gpu(name):
    try:
        driver = open_driver()
    except DeviceError as error:
        pytest.skip(str(error))
    CHECKS[name](driver)
