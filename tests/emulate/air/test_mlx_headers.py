"""MLX's headers through clang and our metal_stdlib give what Apple's compiler's modules give.

Both run on the same arrays. That shows what the shim says of Metal's functions to be right, beside
programs that it was not written with; then it judges the texts that treadle prints.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.emulate.judges import judge
from tests.thinning import chosen

from treadle.emulate.air import Module, Program, compile_msl, find_clang

from .conftest import launch
from .mlx_cases import CASES, checks_fences
from .mlx_headers import source_of, text_of
from .test_mlx import opened

ONE_IN = 90  # without --full
SOURCES = {name: source for name in CASES if (source := source_of(name)) is not None}
pytestmark = pytest.mark.skipif(find_clang() is None, reason="no clang 15 or newer")


def results(module, name, compile_ir):
    """The arrays of a case after its launch."""
    case = CASES[name]
    program = Program(module, compile_ir, checks_races=True, checks_fences=checks_fences(name))
    buffers = {
        index: data.copy() if isinstance(data, np.ndarray) else data
        for index, data in case.buffers.items()
    }
    absent = {
        argument.index: bytes(8)  # of a function constant that is not set
        for argument in program.module.kernels[name].arguments
        if argument.kind == "buffer" and argument.space != 3 and argument.index not in buffers
    }
    launch(program, name, case.grid, case.block, {**absent, **buffers})
    return {index: buffers[index] for index in case.expected}


@pytest.mark.parametrize("name", [name for name in SOURCES if chosen(name, ONE_IN)])
def test_a_header_gives_what_apple_s_compiler_made_of_it(compile_ir, name):
    case, include = CASES[name], judge("mlx") / "mlx" / "include"
    theirs = results(Module(opened()[name], case.constants), name, compile_ir)
    text = text_of(include, name, SOURCES[name], case.constants)
    ours = results(Module(compile_msl(text)), name, compile_ir)
    for index, wanted in theirs.items():
        found = ours[index]
        # Clang fuses other sums of products than Apple's compiler where a text leaves that open:
        # such results are as near to each other as each has to be to NumPy's.
        if not case.close:
            np.testing.assert_array_equal(found, wanted)
            continue
        np.testing.assert_allclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol=case.close,
            atol=case.close * case.size,
        )  # fmt: skip


def test_headers_are_of_many_kinds():
    kernels = {(source.header, source.kernel) for source in SOURCES.values()}
    assert len({header for header, _ in kernels}) >= 10
    assert len(kernels) >= 20
    assert len(SOURCES) >= 400


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("looped_softmax_float32", "fast::exp(x)", "fast::exp2(x)"),
     ("contig_scan_inclusive_max_int32_int32", "simd_shuffle_and_fill_up(",
      "simd_shuffle_and_fill_down(")],
)  # fmt: skip
def test_a_function_that_does_something_else_is_found(compile_ir, name, right, wrong):
    include = judge("mlx") / "mlx" / "include"
    text = text_of(include, name, SOURCES[name], {})
    assert right in text
    for source, is_right in ((text, True), (text.replace(right, wrong), False)):
        found = results(Module(compile_msl(source)), name, compile_ir)
        same = all(np.allclose(found[i], x, 1e-5) for i, x in CASES[name].expected.items())
        assert same == is_right
