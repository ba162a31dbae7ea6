"""Loads and stores at odd addresses, which drivers let hardware do, beside NumPy."""

import struct

import numpy as np
import pytest

from .conftest import compile_for, instructions
from .test_kernels import CHIPS

LANES, STEP, SIZE = 64, 19, 64  # bytes between what work items move, and of scratch memory
# Each work item moves an element from one odd place to another: global memory, shared, scratch,
# and global memory again.
KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
@tile = internal unnamed_addr addrspace(3) global [2048 x i8] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %r, i32 %first) #0 {
  %mine = alloca [SIZE x i8], align 16, addrspace(5)
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %row = mul i32 %i, STEP
  %n = add i32 %row, %first
  %m = and i32 %n, 31
  %pa = getelementptr i8, ptr addrspace(1) %a, i32 %n
  %ps = getelementptr i8, ptr addrspace(3) @tile, i32 %n
  %pm = getelementptr i8, ptr addrspace(5) %mine, i32 %m
  %pr = getelementptr i8, ptr addrspace(1) %r, i32 %n
  %x = load volatile KIND, ptr addrspace(1) %pa, align 1
  store volatile KIND %x, ptr addrspace(3) %ps, align 1
  %y = load volatile KIND, ptr addrspace(3) %ps, align 1
  store volatile KIND %y, ptr addrspace(5) %pm, align 1
  %z = load volatile KIND, ptr addrspace(5) %pm, align 1
  store volatile KIND %z, ptr addrspace(1) %pr, align 1
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""


def kernel(bits):
    """The kernel for elements of so many bits."""
    kind = f"i{bits}" if bits < 64 else f"<{bits // 32} x i32>"
    text = KERNEL.replace("KIND", kind)
    return text.replace("SIZE", str(SIZE)).replace("STEP", str(STEP))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("bits", [16, 32, 64, 96, 128])
def test_elements_at_odd_addresses_are_moved_whole(machine, chip, bits):
    gpu, nbytes = machine(chip), bits // 8
    code = gpu.load(compile_for(chip, kernel(bits)))
    data = np.random.default_rng(bits).integers(1, 256, STEP * LANES + 32).astype(np.uint8)
    for first in (0, 1, 2, 3):
        places = [gpu.put(array.tobytes()) for array in (data, np.zeros_like(data))]
        kernargs = struct.pack("<2QI", *places, first)
        gpu.launch(code, "k", (1, 1, 1), (LANES, 1, 1), kernargs)
        found = np.frombuffer(gpu.space.read(places[1], data.nbytes), np.uint8)
        moved = (np.arange(data.size) - first) % STEP < nbytes
        moved &= (np.arange(data.size) >= first) & (np.arange(data.size) < STEP * LANES + first)
        np.testing.assert_array_equal(found, np.where(moved, data, 0), f"from byte {first}")


@pytest.mark.parametrize("chip", CHIPS)
def test_compilers_use_whole_accesses_at_odd_addresses(machine, chip):
    """Otherwise the test above would be of bytes."""
    image, _ = machine(chip).load(compile_for(chip, kernel(32)))
    names = [item.operation for _, item in instructions(image, chip)]
    for space in ("global", "ds", "buffer" if chip in ("gfx90a", "gfx1030") else "scratch"):
        assert [
            name for name in names if name.startswith(space) and name.endswith(("b32", "dword"))
        ]
        assert not [name for name in names if name.startswith(space) and "b8" in name]
        assert not [name for name in names if name.startswith(space) and "byte" in name]
