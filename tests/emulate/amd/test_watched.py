"""What machine code reads and writes is known by words, and its order behind other work checked."""

import re
import struct

import numpy as np
import pytest

from treadle.emulate.machine.faults import OrderFault

from .conftest import compile_for

COUNT, WORKGROUP = 256, 64
CODE = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare i32 @llvm.amdgcn.workgroup.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %x, i32 %step) #0 {
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %first = shl i32 %g, 6
  %at = add i32 %first, %i
  %far = mul i32 %at, %step
  %from = getelementptr i32, ptr addrspace(1) %x, i32 %far
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %far
  %v = load i32, ptr addrspace(1) %from
  CHANGE
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-implicitarg-ptr" }
"""
STORE = "store i32 %v, ptr addrspace(1) %to"
ATOMIC = '%o = atomicrmw add ptr addrspace(1) %to, i32 %v syncscope("agent") monotonic'
CHIPS = ["gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"]


class Launched:
    """A kernel that reads and changes every `step`-th word, as a work of the stream "compute"."""

    def __init__(self, machine, chip, step, change=STORE):
        self.machine, self.step = machine(chip), step
        self.ordering = self.machine.space.ordering
        self.code = self.machine.load(compile_for(chip, CODE.replace("CHANGE", change)))
        data = np.arange(step * COUNT, dtype=np.int32).tobytes()
        self.out, self.x = self.machine.put(bytes(len(data))), self.machine.put(data)

    def run(self, stream="compute"):
        stream = self.ordering.stream(stream)
        with self.ordering.doing(stream.work(0, stream.before(), "runs k")):
            arguments = struct.pack("<QQi", self.out, self.x, self.step)
            self.machine.launch(
                self.code, "k", (COUNT // WORKGROUP, 1, 1), (WORKGROUP, 1, 1), arguments
            )

    def other(self, action):
        """Another stream does this, which knows of nothing."""
        stream = self.ordering.stream("other")
        with self.ordering.doing(stream.work(0, stream.before(), "does this")):
            action(self.machine.space)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("step", [1, 3])
def test_exactly_what_a_kernel_wrote_is_a_fault_to_read(machine, chip, step):
    launched = Launched(machine, chip, step)
    launched.run()
    for word in (0, 63, 64, COUNT - 1):
        address = launched.out + 4 * step * word
        told = f"other, which does this, reads {address:#x}; compute, which runs k, wrote it"
        with pytest.raises(OrderFault, match=re.escape(told)):
            launched.other(lambda space, address=address: space.read(address, 4))
    behind = launched.out + (4 * COUNT if step == 1 else 4)
    launched.other(lambda space: space.read(behind, 4))


@pytest.mark.parametrize("chip", CHIPS)
def test_what_a_kernel_read_is_a_fault_to_write(machine, chip):
    launched = Launched(machine, chip, 2)
    launched.run()
    with pytest.raises(OrderFault, match=f"writes {launched.x + 8:#x}.*compute.*read it"):
        launched.other(lambda space: space.write(launched.x + 8, bytes(4)))
    launched.other(lambda space: space.write(launched.x + 4, bytes(4)))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_may_not_read_what_another_stream_writes(machine, chip):
    launched = Launched(machine, chip, 1)
    launched.other(lambda space: space.write(launched.x + 4 * 100, bytes(4)))
    with pytest.raises(OrderFault, match=f"compute, which runs k, reads {launched.x + 400:#x}"):
        launched.run()


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1100"])
def test_kernels_may_change_the_same_words_by_atomic_instructions(machine, chip):
    launched = Launched(machine, chip, 1, ATOMIC)
    launched.run()
    launched.run("second")
    with pytest.raises(OrderFault, match=r"reads .*wrote it"):
        launched.other(lambda space: space.read(launched.out, 4))


def test_a_launch_is_told_of_what_it_touches_itself_and_not_of_what_others_have(machine):
    launched = Launched(machine, "gfx1100", 1)
    launched.run()
    first, nbytes = launched.out, 4 * COUNT
    launched.out, launched.x = (
        launched.machine.put(bytes(nbytes)),
        launched.machine.put(bytes(nbytes)),
    )
    launched.run("second")
    with pytest.raises(OrderFault, match="compute, which runs k, wrote it"):
        launched.other(lambda space: space.read(first, 4))
    with pytest.raises(OrderFault, match="second, which runs k, wrote it"):
        launched.other(lambda space: space.read(launched.out, 4))


def test_accesses_that_are_no_work_of_a_queue_are_not_noted(machine):
    launched = Launched(machine, "gfx1100", 1)
    launched.machine.launch(
        launched.code, "k", (COUNT // WORKGROUP, 1, 1), (WORKGROUP, 1, 1),
        struct.pack("<QQi", launched.out, launched.x, 1),
    )  # fmt: skip
    launched.other(lambda space: space.read(launched.out, 4 * COUNT))
    assert not launched.ordering.faults
