"""Kernels of LLVM IR, compiled for AMD chips and run from their machine code."""

import struct
from dataclasses import replace

import numpy as np
import pytest

from treadle.emulate.kfd.dispatch import KernelFault

from .conftest import compile_for

CHIPS = ("gfx1100", "gfx1030", "gfx1201", "gfx90a", "gfx942")
HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
"""
SUM = (
    HEAD
    + """
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %r) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %w = mul i32 %g, 64
  %n = add i32 %i, %w
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %n
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %n
  %pr = getelementptr float, ptr addrspace(1) %r, i32 %n
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  %z = fadd float %x, %y
  store float %z, ptr addrspace(1) %pr
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-dispatch-ptr" }
"""
)


@pytest.mark.parametrize("chip", CHIPS)
def test_an_elementwise_kernel_runs_from_its_machine_code(machine, chip):
    gpu = machine(chip)
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 256), np.float32)
    places = [gpu.put(array.tobytes()) for array in (a, b, np.zeros_like(a))]
    gpu.launch(
        gpu.load(compile_for(chip, SUM)), "k", (4, 1, 1), (64, 1, 1), struct.pack("<3Q", *places)
    )
    found = np.frombuffer(gpu.space.read(places[2], a.nbytes), np.float32)
    np.testing.assert_array_equal(found, a + b)


def test_other_roundings_than_to_the_nearest_are_a_fault(machine):
    gpu = machine("gfx1100")
    image, base = gpu.load(compile_for("gfx1100", SUM))
    kernel = image.kernels["k"]
    upwards = replace(kernel.descriptor, rsrc1=kernel.descriptor.rsrc1 | 1 << 12)
    other = replace(image, kernels={"k": replace(kernel, descriptor=upwards)})
    with pytest.raises(KernelFault, match="rounded to the nearest"):
        gpu.launch((other, base), "k", (1, 1, 1), (64, 1, 1), bytes(24))


SMALL = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(4) %a, ptr addrspace(1) %r) {
  %p1 = getelementptr i8, ptr addrspace(4) %a, i32 3
  %p2 = getelementptr i8, ptr addrspace(4) %a, i32 6
  %b = load i8, ptr addrspace(4) %p1
  %h = load i16, ptr addrspace(4) %p2
  %b0 = zext i8 %b to i32
  %b1 = sext i8 %b to i32
  %h0 = zext i16 %h to i32
  %h1 = sext i16 %h to i32
  %v0 = insertelement <4 x i32> poison, i32 %b0, i32 0
  %v1 = insertelement <4 x i32> %v0, i32 %b1, i32 1
  %v2 = insertelement <4 x i32> %v1, i32 %h0, i32 2
  %v3 = insertelement <4 x i32> %v2, i32 %h1, i32 3
  store <4 x i32> %v3, ptr addrspace(1) %r
  ret void
}
"""


@pytest.mark.parametrize("chip", CHIPS)
def test_bytes_and_halves_are_loaded_for_a_whole_wave(machine, chip):
    gpu = machine(chip)
    a, r = gpu.put(bytes([1, 2, 3, 0x84, 5, 6, 7, 0x98])), gpu.put(bytes(16))
    gpu.launch(
        gpu.load(compile_for(chip, SMALL)), "k", (1, 1, 1), (1, 1, 1), struct.pack("<2Q", a, r)
    )
    found = np.frombuffer(gpu.space.read(r, 16), np.int32).tolist()
    assert found == [0x84, 0x84 - 0x100, 0x9807, 0x9807 - 0x10000]
