"""Division as LLVM writes it for AMD (v_div_scale, v_div_fmas, v_div_fixup), beside NumPy's."""

import struct

import numpy as np
import pytest

from .conftest import compile_for
from .test_kernels import CHIPS

DIVIDE = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %r) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %w = mul i32 %g, 64
  %n = add i32 %i, %w
  %pa = getelementptr TYPE, ptr addrspace(1) %a, i32 %n
  %pb = getelementptr TYPE, ptr addrspace(1) %b, i32 %n
  %pr = getelementptr TYPE, ptr addrspace(1) %r, i32 %n
  %x = load TYPE, ptr addrspace(1) %pa
  %y = load TYPE, ptr addrspace(1) %pb
  %z = fdiv TYPE %x, %y
  store TYPE %z, ptr addrspace(1) %pr
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""
TYPES = {np.float16: "half", np.float32: "float", np.float64: "double"}


def special(dtype):
    """Zeros, infinities, NaN, the ends of normal and of subnormal numbers, powers of two."""
    facts = np.finfo(dtype)
    tiny, least, most = facts.smallest_normal, facts.smallest_subnormal, facts.max
    powers = [dtype(2.0) ** n for n in range(facts.minexp, facts.maxexp, max(1, facts.maxexp // 8))]
    values = [0.0, np.inf, np.nan, tiny, least, most, 3 * least, tiny - least, tiny / 2, 1, 1.5, 3]
    values += [np.nextafter(dtype(1), dtype(2)), np.nextafter(dtype(1), dtype(0)), most / 2]
    positive = np.array([*values, *powers], dtype)
    return np.concatenate([positive, -positive])


def subnormal_quotients(dtype):
    """Random pairs whose quotients are subnormal or near, with many in the middle of two."""
    rng, facts = np.random.default_rng(3), np.finfo(dtype)
    b = (1 + rng.random(2000)).astype(dtype)
    b[::2] = 1 + rng.integers(0, 8, 1000) / 8
    middles = (rng.integers(0, 200, 2000) + 0.5) * facts.eps
    a = (b * middles.astype(dtype)).astype(dtype)
    a[::3] = np.nextafter(a[::3], dtype(1))
    scale = dtype(2.0) ** (facts.minexp // 2)
    return a * scale, b / scale


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_are_rounded_correctly(machine, chip, dtype):
    ends = special(dtype)
    pairs = np.stack([np.repeat(ends, len(ends)), np.tile(ends, len(ends))])
    pairs = np.concatenate([pairs, np.stack(subnormal_quotients(dtype))], 1)
    pairs = np.pad(pairs, ((0, 0), (0, -pairs.shape[1] % 64)), constant_values=1)
    gpu = machine(chip)
    places = [gpu.put(array.tobytes()) for array in (*pairs, np.zeros_like(pairs[0]))]
    code = gpu.load(compile_for(chip, DIVIDE.replace("TYPE", TYPES[dtype])))
    gpu.launch(code, "k", (pairs.shape[1] // 64, 1, 1), (64, 1, 1), struct.pack("<3Q", *places))
    found = np.frombuffer(gpu.space.read(places[2], pairs[0].nbytes), dtype)
    with np.errstate(all="ignore"):
        expected = pairs[0] / pairs[1]
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
    assert np.count_nonzero(expected[numbers]) > 3000
