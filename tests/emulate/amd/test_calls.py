"""Functions that are called, jumps by registers, and memory of work items beside registers."""

import struct

import numpy as np
import pytest

from treadle.emulate.kfd.dispatch import KernelFault

from .conftest import compile_for
from .test_kernels import CHIPS

CALLS = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define internal i32 @odd(i32 %n) noinline {
  %m = mul i32 %n, 3
  %r = add i32 %m, 1
  ret i32 %r
}
define internal i32 @even(i32 %n) noinline {
  %r = lshr i32 %n, 1
  ret i32 %r
}
define internal i32 @steps(i32 %n) noinline {
entry:
  br label %loop
loop:
  %x = phi i32 [%n, %entry], [%next, %again]
  %count = phi i32 [0, %entry], [%more, %again]
  %done = icmp ult i32 %x, 2
  br i1 %done, label %end, label %step
step:
  %bit = and i32 %x, 1
  %isodd = icmp eq i32 %bit, 1
  br i1 %isodd, label %threefold, label %half
threefold:
  %a = call i32 @odd(i32 %x)
  br label %again
half:
  %b = call i32 @even(i32 %x)
  br label %again
again:
  %next = phi i32 [%a, %threefold], [%b, %half]
  %more = add i32 %count, 1
  br label %loop
end:
  ret i32 %count
}
define amdgpu_kernel void @k(ptr addrspace(1) %r) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %w = mul i32 %g, 64
  %n = add i32 %i, %w
  %p = getelementptr i32, ptr addrspace(1) %r, i32 %n
  %c = call i32 @steps(i32 %n)
  store i32 %c, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""


def collatz(n):
    count = 0
    while n > 1:
        n, count = (3 * n + 1 if n & 1 else n >> 1), count + 1
    return count


@pytest.mark.parametrize("chip", CHIPS)
def test_functions_call_functions_and_return(machine, chip):
    gpu = machine(chip)
    place = gpu.put(bytes(4 * 256))
    gpu.launch(
        gpu.load(compile_for(chip, CALLS)), "k", (4, 1, 1), (64, 1, 1), struct.pack("<Q", place)
    )
    found = np.frombuffer(gpu.space.read(place, 4 * 256), np.uint32)
    np.testing.assert_array_equal(found, [collatz(n) for n in range(256)])


# Work items write words, halves and bytes of memory of their own at places that data decide, and a
# function reads them by a generic address, which may be of global memory as well.
PRIVATE = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define internal i32 @pick(ptr %p, i32 %k) noinline {
  %at = getelementptr i32, ptr %p, i32 %k
  %v = load i32, ptr %at
  %more = add i32 %v, 1
  store i32 %more, ptr %at
  ret i32 %v
}
define amdgpu_kernel void @k(ptr addrspace(1) %r, ptr addrspace(1) %a) #0 {
entry:
  %own = alloca [16 x i32], align 4, addrspace(5)
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %w = mul i32 %g, 128
  %n = add i32 %i, %w
  br label %fill
fill:
  %j = phi i32 [0, %entry], [%next, %fill]
  %rot = add i32 %j, %n
  %slot = and i32 %rot, 15
  %p = getelementptr i32, ptr addrspace(5) %own, i32 %slot
  %tens = mul i32 %n, 65552
  %v = add i32 %tens, %slot
  store i32 %v, ptr addrspace(5) %p
  %next = add i32 %j, 1
  %done = icmp eq i32 %next, 16
  br i1 %done, label %change, label %fill
change:
  %three = mul i32 %n, 3
  %b = and i32 %three, 63
  %pb = getelementptr i8, ptr addrspace(5) %own, i32 %b
  %byte = load i8, ptr addrspace(5) %pb
  %byte1 = add i8 %byte, 17
  store i8 %byte1, ptr addrspace(5) %pb
  %h = and i32 %three, 31
  %ph = getelementptr i16, ptr addrspace(5) %own, i32 %h
  %half = load i16, ptr addrspace(5) %ph
  %half1 = xor i16 %half, 291
  store i16 %half1, ptr addrspace(5) %ph
  %k4 = and i32 %n, 3
  %p4 = getelementptr [4 x i32], ptr addrspace(5) %own, i32 %k4
  %four = load <4 x i32>, ptr addrspace(5) %p4, align 4
  %x = extractelement <4 x i32> %four, i32 2
  %mine = addrspacecast ptr addrspace(5) %own to ptr
  %theirs = addrspacecast ptr addrspace(1) %a to ptr
  %off = mul i32 %n, 16
  %part = getelementptr i32, ptr %theirs, i32 %off
  %odd = and i32 %n, 1
  %is.odd = icmp eq i32 %odd, 1
  %where = select i1 %is.odd, ptr %mine, ptr %part
  %k = and i32 %n, 15
  %y = call i32 @pick(ptr %where, i32 %k)
  %z = call i32 @pick(ptr %where, i32 %k)
  %total = shl i32 %x, 1
  %t1 = add i32 %total, %y
  %t2 = xor i32 %t1, %z
  %out = getelementptr i32, ptr addrspace(1) %r, i32 %n
  store i32 %t2, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="128,128" "amdgpu-no-implicitarg-ptr"
  "amdgpu-no-dispatch-ptr" }
"""
ITEMS = 128 * 20  # more waves than have memory at a time


def private_result(n, part):
    own = np.array([n * 65552 + slot & 0xFFFFFFFF for slot in range(16)], np.uint32)
    own.view(np.uint8)[3 * n & 63] += 17
    own.view(np.uint16)[3 * n & 31] ^= 291
    x = int(own[4 * (n & 3) + 2])
    where = own if n & 1 else part
    y = int(where[n & 15])
    return (2 * x + y & 0xFFFFFFFF) ^ (y + 1 & 0xFFFFFFFF)


@pytest.mark.parametrize("chip", CHIPS)
def test_each_work_item_has_scratch_memory_of_its_own(machine, chip):
    gpu, rng = machine(chip, threads=2, checks_races=True), np.random.default_rng(2)
    data = rng.integers(0, 1 << 32, (ITEMS, 16), dtype=np.uint32)
    places = [gpu.put(array.tobytes()) for array in (np.zeros(ITEMS, np.uint32), data)]
    code = gpu.load(compile_for(chip, PRIVATE))
    gpu.launch(code, "k", (ITEMS // 128, 1, 1), (128, 1, 1), struct.pack("<2Q", *places))
    found = np.frombuffer(gpu.space.read(places[0], 4 * ITEMS), np.uint32)
    with np.errstate(over="ignore"):
        expected = [private_result(n, data[n]) for n in range(ITEMS)]
    np.testing.assert_array_equal(found, expected)


JUMP = """
target triple = "amdgcn-amd-amdhsa"
define amdgpu_kernel void @k(ptr addrspace(1) %r) {
  %f = ptrtoint ptr addrspace(1) %r to i64
  %p = inttoptr i64 %f to ptr
  call void %p()
  ret void
}
"""


def test_a_call_of_what_is_no_function_is_a_fault(machine):
    gpu = machine("gfx1100")
    place = gpu.put(bytes(64))
    with pytest.raises(KernelFault, match=f"jumps to {place:#x}, where no instruction begins"):
        gpu.launch(
            gpu.load(compile_for("gfx1100", JUMP)), "k", (1, 1, 1), (32, 1, 1),
            struct.pack("<Q", place),
        )  # fmt: skip
