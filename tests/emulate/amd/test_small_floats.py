"""Floats of eight bits to and from float32, beside ml_dtypes."""

import struct

import ml_dtypes
import numpy as np
import pytest

from .conftest import compile_for, instructions

CHIPS = ("gfx942", "gfx950", "gfx1201")
FORMATS = {"gfx942": ("float8_e4m3fnuz", "float8_e5m2fnuz")}
KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
declare float @llvm.amdgcn.cvt.f32.KIND(i32, i32)
declare <2 x float> @llvm.amdgcn.cvt.pk.f32.KIND(i32, i1)
declare i32 @llvm.amdgcn.cvt.pk.KIND.f32(float, float, i32, i1)
define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %r) #0 {
  %l = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %first = shl i32 %g, 6
  %i = or i32 %first, %l
  %px = getelementptr i32, ptr addrspace(1) %x, i32 %i
  BODY
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""
# The four bytes of a word by themselves, and in pairs.
FROM = (
    [f"%b{n} = call float @llvm.amdgcn.cvt.f32.KIND(i32 %w, i32 {n})" for n in range(4)]
    + [f"%h{n} = call <2 x float> @llvm.amdgcn.cvt.pk.f32.KIND(i32 %w, i1 {n})" for n in range(2)]
    + [f"%b{4 + n} = extractelement <2 x float> %h{n // 2}, i32 {n % 2}" for n in range(4)]
)


def decoding(kind):
    lines = ["%w = load i32, ptr addrspace(1) %px", *FROM]
    for n in range(8):
        lines.append(f"%n{n} = add i32 %row, {n}")
        lines.append(f"%p{n} = getelementptr float, ptr addrspace(1) %r, i32 %n{n}")
        lines.append(f"store float %b{n}, ptr addrspace(1) %p{n}")
    lines.insert(0, "%row = shl i32 %i, 3")
    return KERNEL.replace("BODY", "\n  ".join(lines)).replace("KIND", kind)


def encoding(kind):
    lines = ["%pr = getelementptr i32, ptr addrspace(1) %r, i32 %i",
             "%f = load float, ptr addrspace(1) %px", "%m = fneg float %f",
             "%low = call i32 @llvm.amdgcn.cvt.pk.KIND.f32(float %f, float %m, i32 -1, i1 false)",
             "%both = call i32 @llvm.amdgcn.cvt.pk.KIND.f32(float %m, float %f, i32 %low, i1 true)",
             "store i32 %both, ptr addrspace(1) %pr"]  # fmt: skip
    return KERNEL.replace("BODY", "\n  ".join(lines)).replace("KIND", kind)


def dtype(chip, kind):
    names = FORMATS.get(chip, ("float8_e4m3fn", "float8_e5m2"))
    return getattr(ml_dtypes, names[kind == "bf8"])


def run(gpu, code, given, count):
    places = [gpu.put(given.tobytes()), gpu.put(bytes(4 * count))]
    gpu.launch(code, "k", (len(given) // 64, 1, 1), (64, 1, 1), struct.pack("<2Q", *places))
    return np.frombuffer(gpu.space.read(places[1], 4 * count), np.uint32)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_each_byte_means_what_its_format_says(machine, chip, kind):
    gpu, given = machine(chip), np.random.default_rng(1).permutation(256).astype(np.uint8)
    code = gpu.load(compile_for(chip, decoding(kind)))
    assert f"v_cvt_f32_{kind}" in {item.operation for _, item in instructions(code[0], chip)}
    found = run(gpu, code, given.view(np.uint32), 512).view(np.float32).reshape(64, 2, 4)
    wanted = given.view(dtype(chip, kind)).astype(np.float32).reshape(64, 1, 4)
    np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape))
    number = np.broadcast_to(wanted, found.shape)
    np.testing.assert_array_equal(np.signbit(found)[number == 0], np.signbit(number)[number == 0])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", ["fp8", "bf8"])
def test_numbers_are_rounded_to_the_nearest_byte(machine, chip, kind):
    """All numbers of the format, what lies halfway between, near that, and far outside."""
    gpu, of = machine(chip), dtype(chip, kind)
    known = np.arange(256, dtype=np.uint8).view(of).astype(np.float32)
    known = np.unique(np.abs(known[np.isfinite(known)]))
    halfway = (known[1:] + known[:-1]) / 2
    ends = np.array([np.inf, np.nan, known[-1] * 1.04, known[-1] * 1.07, 1e30, 1e-30], np.float32)
    some = [known, halfway, np.nextafter(halfway, np.float32(0)), np.nextafter(halfway, ends[0]),
            ends, np.random.default_rng(2).normal(size=200).astype(np.float32)]  # fmt: skip
    x = np.concatenate(some)
    x = np.concatenate([x, np.zeros(-len(x) % 64, np.float32)])
    code = gpu.load(compile_for(chip, encoding(kind)))
    found = run(gpu, code, x, len(x)).view(np.uint8).reshape(-1, 4)
    wanted = np.stack([x, -x, -x, x], 1).astype(of)
    numbers = np.isfinite(wanted.astype(np.float32))
    assert (numbers[:, 0]).sum() > 300
    np.testing.assert_array_equal(found[numbers], wanted.view(np.uint8)[numbers])
    np.testing.assert_array_equal(
        found.view(of).astype(np.float32)[~numbers], wanted.astype(np.float32)[~numbers]
    )
