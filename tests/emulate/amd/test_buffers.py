"""Buffer instructions: addresses and ranges by a resource, beside a model by the manuals."""

import itertools
import struct
from dataclasses import dataclass, replace

import numpy as np
import pytest

from .conftest import compile_for
from .test_kernels import CHIPS

LANES = 64
KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare <3 x i32> @llvm.amdgcn.struct.buffer.load.v3i32(<4 x i32>, i32, i32, i32, i32)
declare i8 @llvm.amdgcn.raw.buffer.load.i8(<4 x i32>, i32, i32, i32)
declare void @llvm.amdgcn.struct.buffer.store.v2i32(<2 x i32>, <4 x i32>, i32, i32, i32, i32)
declare i32 @llvm.amdgcn.struct.buffer.atomic.add.i32(i32, <4 x i32>, i32, i32, i32, i32)
define amdgpu_kernel void @k(<4 x i32> inreg %rsrc, ptr addrspace(1) %index,
    ptr addrspace(1) %offset, ptr addrspace(1) %r, i32 inreg %s) #0 {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %pi = getelementptr i32, ptr addrspace(1) %index, i32 %i
  %po = getelementptr i32, ptr addrspace(1) %offset, i32 %i
  %index.i = load i32, ptr addrspace(1) %pi
  %offset.i = load i32, ptr addrspace(1) %po
  %more = add i32 %offset.i, 4
  BODY
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" }
"""
OPERANDS = "<4 x i32> %rsrc, i32 %index.i, i32 %more, i32 %s, i32 0"
LOAD = f"""
  %x = call <3 x i32> @llvm.amdgcn.struct.buffer.load.v3i32({OPERANDS})
  %b = call i8 @llvm.amdgcn.raw.buffer.load.i8(<4 x i32> %rsrc, i32 %offset.i, i32 %s, i32 0)
  %w = zext i8 %b to i32
  %all = shufflevector <3 x i32> %x, <3 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 0>
  %both = insertelement <4 x i32> %all, i32 %w, i32 3
  %p = getelementptr <4 x i32>, ptr addrspace(1) %r, i32 %i
  store <4 x i32> %both, ptr addrspace(1) %p
"""
STORE = f"""
  %n = add i32 %i, 1000
  %v = insertelement <2 x i32> poison, i32 %n, i32 0
  %both = insertelement <2 x i32> %v, i32 %i, i32 1
  call void @llvm.amdgcn.struct.buffer.store.v2i32(<2 x i32> %both, {OPERANDS})
"""
ADD = f"""
  %x = call i32 @llvm.amdgcn.struct.buffer.atomic.add.i32(i32 7, {OPERANDS})
  %p = getelementptr <4 x i32>, ptr addrspace(1) %r, i32 %i
  store i32 %x, ptr addrspace(1) %p
"""


@dataclass(frozen=True)
class Resource:
    """A buffer's descriptor, before it becomes words."""

    generation: int
    stride: int = 0
    records: int = 1 << 12
    swizzle: int = 0
    neighbours: int = 8
    adds_lane: bool = False
    check: int = 3

    def words(self, base):
        turned = self.swizzle << 30 if self.generation > 10 else bool(self.swizzle) << 31
        last = (self.neighbours // 8).bit_length() - 1
        last = last << 21 | self.adds_lane << 23
        if self.generation > 9:
            last |= self.check << 28
        return base & 0xFFFFFFFF, base >> 32 | self.stride << 16 | turned, self.records, last

    def place(self, lane, index, offset, scalar, nbytes):
        """The offset of bytes from the base on, or None where they are outside."""
        index += lane if self.adds_lane else 0
        linear = index * self.stride + offset
        element = 2 << self.swizzle if self.generation > 10 else 4
        in_records = self.swizzle and self.stride
        if self.generation == 9:
            inside = index < self.records if in_records else linear + scalar < self.records
        elif self.check == 3:
            end = offset + 1 if in_records else linear + nbytes
            inside = end + scalar <= self.records
        else:
            inside = (self.records > 0) if self.check == 2 else index < self.records
            if self.check == 0:
                inside = inside and offset + nbytes <= self.stride
        if not inside:
            return None
        if not self.swizzle:
            return scalar + linear
        group, place = divmod(index, self.neighbours)
        row, byte = divmod(offset, element)
        before = group * self.stride + row * element
        return scalar + before * self.neighbours + place * element + byte

    def places(self, lane, index, offset, scalar, nbytes):
        """The offset of each byte of a word: those of a swizzled element may lie apart."""
        if self.place(lane, index, offset, scalar, nbytes) is None:
            return []
        endless = replace(self, records=1 << 30, check=2)
        return [endless.place(lane, index, offset + i, scalar, 1) for i in range(nbytes)]


def resources(generation):
    checks = (3,) if generation == 9 else range(4)
    swizzles = (0, 1) if generation < 11 else (0, 1, 3)
    for check, swizzle, stride in itertools.product(checks, swizzles, (0, 16)):
        for records in (40, 150):
            yield Resource(generation, stride, records, swizzle, 16, check=check)
    yield Resource(generation, 0, 1 << 12, 1, 32, adds_lane=True, check=2)
    yield Resource(generation, 0, 0, 0, check=2)


def run(gpu, code, resource, data, index, offset, scalar):
    base = gpu.put(data.tobytes())
    places = [gpu.put(array.tobytes()) for array in (index, offset, np.zeros(LANES * 4, np.uint32))]
    kernargs = struct.pack("<4I3QI", *resource.words(base), *places, scalar)
    gpu.launch(code, "k", (1, 1, 1), (LANES, 1, 1), kernargs)
    found = np.frombuffer(gpu.space.read(places[2], LANES * 16), np.uint32).reshape(LANES, 4)
    return found, np.frombuffer(gpu.space.read(base, data.nbytes), np.uint8)


def lanes_of(generation):
    return LANES if generation == 9 else 32


@pytest.mark.parametrize("chip", CHIPS)
def test_loads_find_what_the_resource_says_and_0_outside(machine, chip):
    gpu, generation, rng = machine(chip), int(chip[3:-2]), np.random.default_rng(4)
    code = gpu.load(compile_for(chip, KERNEL.replace("BODY", LOAD)))
    data = rng.integers(1, 256, 1 << 14).astype(np.uint8)
    outside = 0
    for resource in resources(generation):
        index = rng.integers(0, 60, LANES).astype(np.uint32)
        offset = rng.integers(0, 48, LANES).astype(np.uint32)
        scalar = int(rng.integers(0, 3)) * 4
        found, _ = run(gpu, code, resource, data, index, offset, scalar)
        for i in range(LANES):
            lane = i % lanes_of(generation)
            wanted = []
            for part in range(3):
                at = resource.places(lane, int(index[i]), int(offset[i]) + 4 + 4 * part, scalar, 4)
                wanted.append(int.from_bytes(data[at].tobytes(), "little"))
                outside += not at
            at = resource.place(lane, 0, int(offset[i]), scalar, 1)
            wanted.append(0 if at is None else int(data[at]))
            assert found[i].tolist() == wanted, (resource, i, index[i], offset[i], scalar)
    assert outside > 500


@pytest.mark.parametrize("chip", CHIPS)
def test_stores_and_atomics_change_what_is_inside_alone(machine, chip):
    gpu, generation, rng = machine(chip), int(chip[3:-2]), np.random.default_rng(5)
    codes = [gpu.load(compile_for(chip, KERNEL.replace("BODY", body))) for body in (STORE, ADD)]
    lanes = np.arange(LANES, dtype=np.uint32)
    index, offset = lanes // 4, lanes % 4 * 8
    changed = 0
    for resource, code in itertools.product(resources(generation), codes):
        if not resource.stride:
            continue  # lanes would write the same place
        resource = replace(resource, stride=40)
        data = rng.integers(1, 256, 1 << 14).astype(np.uint8)
        wanted, before = data.view("<u4").copy(), np.zeros(LANES, np.uint32)
        is_store = code is codes[0]
        for i in range(LANES):
            for part in range(1 + is_store):
                at = resource.place(0, int(index[i]), int(offset[i]) + 4 + 4 * part, 0, 4)
                if at is not None:
                    before[i] = wanted[at // 4]
                    wanted[at // 4] = (i if part else 1000 + i) if is_store else before[i] + 7
                    changed += 1
        found, after = run(gpu, code, resource, data, index, offset, 0)
        np.testing.assert_array_equal(after.view("<u4"), wanted, str(resource))
        if not is_store:
            np.testing.assert_array_equal(found[:, 0], before)
    assert changed > 200


SCALAR = """
target triple = "amdgcn-amd-amdhsa"
DECLARED
define amdgpu_kernel void @k(<4 x i32> inreg %rsrc, ptr addrspace(1) %r, i32 inreg %offset) {
  BODY
  ret void
}
"""


def scalar_kernel(chip):
    """One load of each size behind each other, and where what it loads goes."""
    kinds = ["i32", "<2 x i32>", "<4 x i32>", "<8 x i32>", "<16 x i32>"]
    kinds += ["<3 x i32>", "i8", "i16"] if chip == "gfx1201" else []
    body, declared, place, at = [], [], 0, 0
    for number, kind in enumerate(kinds):
        name = f"@llvm.amdgcn.s.buffer.load.{kind.replace('<', 'v').replace(' x ', '').strip('>')}"
        declared.append(f"declare {kind} {name}(<4 x i32>, i32, i32)")
        words = int(kind[1:].split()[0]) if kind[0] == "<" else 1
        nbytes = int(kind[1:]) // 8 if kind[0] == "i" else 4 * words
        body += [f"%o{number} = add i32 %offset, {at}",
                 f"%x{number} = call {kind} {name}(<4 x i32> %rsrc, i32 %o{number}, i32 0)",
                 f"%p{number} = getelementptr i8, ptr addrspace(1) %r, i32 {place}"]  # fmt: skip
        value, stored = f"%x{number}", kind
        if nbytes < 4:
            body.append(f"%w{number} = sext {kind} %x{number} to i32")
            value, stored = f"%w{number}", "i32"
        body.append(f"store {stored} {value}, ptr addrspace(1) %p{number}")
        yield nbytes, at, place
        place, at = place + 4 * words, at + (4 * words if nbytes >= 4 else 2)
    text = SCALAR.replace("DECLARED", "\n".join(declared))
    yield text.replace("BODY", "\n  ".join(body))


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("stride", "records"), [(0, 1 << 10), (0, 100), (16, 5), (12, 3)])
def test_scalar_loads_find_what_is_inside(machine, chip, stride, records):
    """Words that are outside are 0 each; records count for where the buffer ends alone."""
    gpu, rng = machine(chip), np.random.default_rng(records)
    *parts, text = scalar_kernel(chip)
    code = gpu.load(compile_for(chip, text))
    data, size = rng.integers(128, 256, 1 << 10).astype(np.uint8), records * (stride or 1)
    resource = Resource(int(chip[3:-2]), stride, records).words(gpu.put(data.tobytes()))
    for offset in (0, 4, 8, 64, 1000):
        place = gpu.put(bytes(256))
        gpu.launch(code, "k", (1, 1, 1), (1, 1, 1), struct.pack("<4IQI", *resource, place, offset))
        found = gpu.space.read(place, 256)
        for nbytes, at, to in parts:
            step = min(nbytes, 4)
            for part in range(0, nbytes, step):
                start = offset + at + part
                inside = start + step <= min(size, len(data))
                wanted = data[start : start + step].tobytes() if inside else bytes(step)
                wanted = int.from_bytes(wanted, "little", signed=True).to_bytes(
                    4, "little", signed=True
                )
                assert found[to + part : to + part + 4] == wanted, (nbytes, start)
