"""Programs that Apple's compiler made: the kernels of MLX, read, translated, and run.

What runs by default is a share of them, where `.ci/judges --full` has fetched the library.
"""

import functools

import pytest
from tests.emulate.judges import judge
from tests.thinning import chosen

from treadle.emulate.air.execute import Program
from treadle.emulate.air.kernels import Module
from treadle.emulate.air.translate import translate
from treadle.emulate.simt.execute import EmulationFault
from treadle.emulate.simt.machine import Fault

from .conftest import launch
from .metallib import Library
from .mlx_cases import CASES, checks_fences

PARTS = 64  # of all modules, a test each
ONE_IN = 2_000, 120  # modules that are translated, and launches, without --full


@functools.cache
def opened():
    return Library(judge("mlx") / "mlx" / "lib" / "mlx.metallib")


@pytest.fixture
def library():
    return opened()


@pytest.mark.parametrize("part", range(PARTS))
def test_modules_of_apple_s_compiler_are_read_and_translated(library, part):
    assert len(library.names) == 17248
    for name in library.names[part::PARTS]:
        if not chosen(name, ONE_IN[0]):
            continue
        module = Module(library[name])
        assert name in module.kernels
        translate(module, name)


@pytest.mark.parametrize("name", [name for name in CASES if chosen(name, ONE_IN[1])])
def test_a_kernel_of_apple_s_compiler_gives_what_numpy_does(library, compile_ir, name):
    def run(name, constants, grid, block, buffers):
        program = Program(
            Module(library[name], constants), compile_ir, checks_races=True,
            checks_fences=checks_fences(name),
        )  # fmt: skip
        launch(program, name, grid, block, buffers)

    assert CASES[name].check(run) > 0


def test_there_are_launches_of_every_kind():
    assert len(CASES) > 500
    for kind in ("copy", "reduce", "softmax", "scan", "sort", "gemv", "steel_gemm", "attention",
                 "affine"):  # fmt: skip
        assert sum(kind in name for name in CASES) >= 6, kind


@pytest.mark.parametrize(
    ("name", "index", "kind"),
    [("v_copyfloat32float32", 1, Fault.GLOBAL),
     ("c_block_sort_int32_int32_bn32_tn4", 0, Fault.GLOBAL),
     ("gemv_float32_bm1_bn8_sm1_sn32_tm4_tn4_nc0_axpby0", 3, Fault.GLOBAL)],
)  # fmt: skip
def test_a_buffer_that_is_too_small_is_a_fault(library, compile_ir, name, index, kind):
    def run(name, constants, grid, block, buffers):
        buffers[index] = buffers[index].ravel()[:-8].copy()
        module = Module(library[name], constants)
        program = Program(module, compile_ir, checks_fences=checks_fences(name))
        launch(program, name, grid, block, buffers)

    with pytest.raises(EmulationFault) as caught:
        CASES[name].check(run)
    assert caught.value.kind == kind
