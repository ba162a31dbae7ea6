"""The least of a value and a greatest one, and the other way around, beside NumPy's."""

import struct

import numpy as np
import pytest

from .conftest import compile_for, instructions

KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare TYPE @llvm.HIGH.SUFFIX(TYPE, TYPE)
declare TYPE @llvm.LOW.SUFFIX(TYPE, TYPE)
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c,
    ptr addrspace(1) %r) {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %pa = getelementptr TYPE, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr TYPE, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr TYPE, ptr addrspace(1) %c, i32 %i
  %x = load TYPE, ptr addrspace(1) %pa
  %y = load TYPE, ptr addrspace(1) %pb
  %z = load TYPE, ptr addrspace(1) %pc
  %first = call TYPE @llvm.HIGH.SUFFIX(TYPE %x, TYPE %y)
  %second = call TYPE @llvm.LOW.SUFFIX(TYPE %first, TYPE %z)
  %pr = getelementptr TYPE, ptr addrspace(1) %r, i32 %i
  store TYPE %second, ptr addrspace(1) %pr
  ret void
}
"""
# Names of LLVM's and of the instruction on gfx1201, and what NumPy calls the same.
FLOATS = [
    ("maximum", "minimum", "v_maximumminimum", np.maximum, np.minimum),
    ("minimum", "maximum", "v_minimummaximum", np.minimum, np.maximum),
    ("maximum", "maximum", "v_maximum3", np.maximum, np.maximum),
    ("minimum", "minimum", "v_minimum3", np.minimum, np.minimum),
]
INTEGERS = [
    ("smax", "smin", "v_maxmin", np.maximum, np.minimum),
    ("smin", "smax", "v_minmax", np.minimum, np.maximum),
]
CASES = [
    *(("float", "f32", np.float32, row) for row in FLOATS),
    *(("half", "f16", np.float16, row) for row in FLOATS),
    *(("i32", "i32", np.int32, row) for row in INTEGERS),
]


@pytest.mark.parametrize(("name", "suffix", "dtype", "row"), CASES)
def test_two_of_them_in_one_instruction_are_what_numpy_computes(machine, name, suffix, dtype, row):
    first, second, operation, of_first, of_second = row
    text = KERNEL.replace("TYPE", name).replace("SUFFIX", suffix)
    text = text.replace("HIGH", first).replace("LOW", second)
    if first == second:
        text = text.replace(f"declare {name} @llvm.{first}.{suffix}({name}, {name})\n", "", 1)
    gpu, rng = machine("gfx1201"), np.random.default_rng(6)
    loaded = gpu.load(compile_for("gfx1201", text))
    assert f"{operation}_{suffix}" in {
        item.operation for _, item in instructions(loaded[0], "gfx1201")
    }
    values = rng.integers(-9, 10, (3, 128)).astype(dtype)
    if dtype is not np.int32:
        values[rng.random((3, 128)) < 0.1] = np.nan
    places = [gpu.put(array.tobytes()) for array in (*values, np.zeros_like(values[0]))]
    gpu.launch(loaded, "k", (1, 1, 1), (128, 1, 1), struct.pack("<4Q", *places))
    found = np.frombuffer(gpu.space.read(places[3], values[0].nbytes), dtype)
    np.testing.assert_array_equal(found, of_second(of_first(values[0], values[1]), values[2]))
