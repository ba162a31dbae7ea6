"""Waits for memory: where one is missing, that shows or does no harm."""

import struct

import numpy as np
import pytest
from tests.thinning import chosen

from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.machine.memory import Permission

from .conftest import compile_for, instructions
from .dropped_waits import KINDS, is_of, outcome
from .test_kernels import CHIPS

ITEMS = 128
# Sums along a loop, turned around in shared memory, and one more load.
KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
@shared = internal addrspace(3) global [128 x i32] poison
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %r,
    i32 %count) #0 {
entry:
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  br label %loop
loop:
  %j = phi i32 [0, %entry], [%next, %loop]
  %sum = phi i32 [0, %entry], [%more, %loop]
  %row = shl i32 %j, 7
  %at = add i32 %row, %i
  %p = getelementptr i32, ptr addrspace(1) %a, i32 %at
  %x = load i32, ptr addrspace(1) %p
  %odd = mul i32 %sum, 3
  %more = add i32 %odd, %x
  %next = add i32 %j, 1
  %done = icmp eq i32 %next, %count
  br i1 %done, label %end, label %loop
end:
  %mine = getelementptr [128 x i32], ptr addrspace(3) @shared, i32 0, i32 %i
  store i32 %more, ptr addrspace(3) %mine
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %other = sub i32 127, %i
  %theirs = getelementptr [128 x i32], ptr addrspace(3) @shared, i32 0, i32 %other
  %y = load i32, ptr addrspace(3) %theirs
  %q = getelementptr i32, ptr addrspace(1) %b, i32 %i
  %z = load i32, ptr addrspace(1) %q
  %both = xor i32 %y, %z
  %out = getelementptr i32, ptr addrspace(1) %r, i32 %i
  store i32 %both, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }
"""
_NOTHING = bytes.fromhex("000080bf")  # s_nop


@pytest.mark.parametrize("chip", CHIPS)
def test_a_wait_that_is_missing_is_a_fault_or_does_no_harm(machine, chip):
    gpu, rng = machine(chip), np.random.default_rng(7)
    a = rng.integers(0, 1 << 20, (5, ITEMS)).astype(np.uint32)
    b = rng.integers(0, 1 << 32, ITEMS, dtype=np.uint32)
    sums = np.zeros(ITEMS, np.uint32)
    for row in a:
        sums = sums * np.uint32(3) + row
    image, _ = gpu.load(compile_for(chip, KERNEL))

    def is_right(data):
        places = [gpu.put(array.tobytes()) for array in (a, b, np.zeros_like(b))]
        base = gpu.put(data, Permission.READ | Permission.EXECUTE)
        kernargs = struct.pack("<3QI", *places, len(a))
        gpu.launch((image, base), "k", (1, 1, 1), (ITEMS, 1, 1), kernargs)
        found = np.frombuffer(gpu.space.read(places[2], b.nbytes), np.uint32)
        return (found == sums[::-1] ^ b).all()

    assert is_right(image.data)
    caught = 0
    for at in [at for at, item in instructions(image, chip) if is_of("wait", item)]:
        data = bytearray(image.data)
        data[at : at + 4] = _NOTHING
        try:
            assert is_right(bytes(data))
        except KernelFault as fault:
            assert "the wave does not wait for memory" in str(fault)  # noqa: PT017
            caught += 1
    assert caught >= 3


SEEDS = [seed for seed in range(200) if chosen(f"a seed of a kernel: {seed}", 40)]


@pytest.mark.parametrize("chip", CHIPS)
def test_random_kernels_are_right(machine, chip):
    assert {outcome(machine(chip), seed) for seed in SEEDS} == {"right"}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_dropped_from_a_random_kernel_shows_or_does_no_harm(machine, chip, kind):
    """With `--full` at 200 seeds: dropped_waits.py prints what becomes of them."""
    found = [outcome(machine(chip), seed, kind) for seed in SEEDS]
    assert "wrong" not in found
    assert found.count("fault") >= len(found) // 2
