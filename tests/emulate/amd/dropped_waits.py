"""python -m tests.emulate.amd.dropped_waits [SEEDS]: machine code without a wait, or a barrier.

A seed makes a program of loads, loops and exchanges through shared memory, and drops one of its
waits for memory, or one of its barriers. That is a fault, or the result is right: then nothing
needed it. A wrong result would be one that the emulated GPU does not notice.

    chip     dropped   fault  right  wrong  of
    gfx1100  wait        171     29      0  200
"""

from __future__ import annotations

import random
import struct
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.amd.decode import Instruction
from treadle.emulate.amd.names import canonical
from treadle.emulate.kfd.dispatch import KernelFault
from treadle.emulate.machine.memory import Permission
from treadle.target import host_target

from .conftest import Machine, compile_for, instructions

CHIPS = ("gfx1100", "gfx1030", "gfx1201", "gfx90a", "gfx942")
KINDS = ("wait", "barrier")
ITEMS, ROWS = 128, 8
_NOTHING = bytes.fromhex("000080bf")  # s_nop
_HEAD = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
@shared = internal addrspace(3) global [128 x i32] poison
define amdgpu_kernel void @k(ptr addrspace(1) %a, ptr addrspace(1) %r, i32 %count) #0 {
entry:
  %i = call i32 @llvm.amdgcn.workitem.id.x()
"""
_TAIL = """
  %out = getelementptr i32, ptr addrspace(1) %r, i32 %i
  store i32 SUM, ptr addrspace(1) %out
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }
"""


@dataclass
class Program:
    """The text of a kernel, and what it makes of an array of ROWS rows of ITEMS words."""

    text: str
    expected: Any


class _Writer:
    """Writes one step after the other, and computes it beside."""

    def __init__(self, draw: random.Random, data: Any) -> None:
        self._draw, self._data = draw, data
        self._lines: list[str] = []
        self._block, self._count = "entry", 0
        self._sum, self._value = "%i", np.arange(ITEMS, dtype=np.uint32)

    def op(self, text: str) -> str:
        self._count += 1
        self._lines.append(f"  %v{self._count} = {text}")
        return f"%v{self._count}"

    def _load(self, row: str) -> str:
        first = self.op(f"shl i32 {row}, 7")
        at = self.op(f"add i32 {first}, %i")
        place = self.op(f"getelementptr i32, ptr addrspace(1) %a, i32 {at}")
        return self.op(f"load i32, ptr addrspace(1) {place}")

    def load(self) -> None:
        """A word of some row is added, or taken by its bits."""
        row, how = self._draw.randrange(ROWS), self._draw.choice(("add", "xor"))
        self._sum = self.op(f"{how} i32 {self._sum}, {self._load(str(row))}")
        with np.errstate(over="ignore"):
            take = np.add if how == "add" else np.bitwise_xor
            self._value = take(self._value, self._data[row])

    def loop(self) -> None:
        """Rows from the first one on, in turn."""
        self._count += 1
        name, last = f"loop{self._count}", f"behind{self._count}"
        before, start = self._block, self._sum
        self._lines += [f"  br label %{name}", f"{name}:",
                        f"  %j{name} = phi i32 [0, %{before}], [%n{name}, %{name}]",
                        f"  %s{name} = phi i32 [{start}, %{before}], [%t{name}, %{name}]",
                        ]  # fmt: skip
        word = self._load(f"%j{name}")
        odd = self.op(f"mul i32 %s{name}, 3")
        self._lines += [f"  %t{name} = add i32 {odd}, {word}", f"  %n{name} = add i32 %j{name}, 1",
                        f"  %d{name} = icmp eq i32 %n{name}, %count",
                        f"  br i1 %d{name}, label %{last}, label %{name}", f"{last}:"]  # fmt: skip
        self._block, self._sum = last, f"%t{name}"
        for row in self._data[: ROWS // 2]:
            self._value = self._value * np.uint32(3) + row

    def exchange(self) -> None:
        """Words go to other work items through shared memory."""
        flip = self._draw.choice((127, 64, 96, 33))
        place = "getelementptr [128 x i32], ptr addrspace(3) @shared, i32 0, i32"
        barrier = ["  fence syncscope(\"workgroup\") release",
                   "  call void @llvm.amdgcn.s.barrier()",
                   "  fence syncscope(\"workgroup\") acquire"]  # fmt: skip
        mine = self.op(f"{place} %i")
        self._lines += [f"  store i32 {self._sum}, ptr addrspace(3) {mine}", *barrier]
        theirs = self.op(f"{place} {self.op(f'xor i32 %i, {flip}')}")
        self._sum = self.op(f"load i32, ptr addrspace(3) {theirs}")
        self._lines += barrier  # the next exchange may write there
        self._value = self._value[np.arange(ITEMS) ^ flip]

    def program(self) -> Program:
        steps = [self.exchange, *self._draw.choices((self.load, self.loop, self.exchange), k=4)]
        self._draw.shuffle(steps)
        for step in steps:
            step()
        text = _HEAD + "\n".join(self._lines) + _TAIL.replace("SUM", self._sum)
        return Program(text, self._value)


def is_of(kind: str, item: Instruction) -> bool:
    """Whether an instruction is a wait for memory, or a barrier."""
    name = canonical(item.operation)
    if kind == "barrier":
        return name in ("s_barrier", "s_barrier_signal", "s_barrier_wait")
    return name.startswith("s_wait") and "alu" not in name and "depctr" not in name


def outcome(machine: Machine, seed: int, kind: str = "") -> str:
    """What becomes of a seed's program without something: "fault", "right" or "wrong".

    "none" where it has nothing of the kind.
    """
    draw, data = random.Random(seed), np.random.default_rng(seed)
    a = data.integers(0, 1 << 32, (ROWS, ITEMS), dtype=np.uint32)
    program = _Writer(draw, a).program()
    image, _ = machine.load(compile_for(machine.chip, program.text))
    code = bytearray(image.data)
    if kind:
        places = [at for at, item in instructions(image, machine.chip) if is_of(kind, item)]
        if not places:
            return "none"
        at = draw.choice(places)
        code[at : at + 4] = _NOTHING
    base = machine.put(bytes(code), Permission.READ | Permission.EXECUTE)
    places = [machine.put(array.tobytes()) for array in (a, np.zeros(ITEMS, np.uint32))]
    kernargs = struct.pack("<2QI", *places, ROWS // 2)
    try:
        machine.launch((image, base), "k", (1, 1, 1), (ITEMS, 1, 1), kernargs)
    except KernelFault:
        return "fault"
    found = np.frombuffer(machine.space.read(places[1], 4 * ITEMS), np.uint32)
    return "right" if (found == program.expected).all() else "wrong"


def main() -> None:
    seeds = int(sys.argv[1]) if sys.argv[1:] else 200
    compile_ir = LLVMCompiler(host_target()).compile
    print("chip     dropped  fault  right  wrong   of")
    for chip in CHIPS:
        for kind in KINDS:
            found = Counter(outcome(Machine(compile_ir, chip), seed, kind) for seed in range(seeds))
            fault, right, wrong = (found[what] for what in ("fault", "right", "wrong"))
            total = fault + right + wrong
            print(f"{chip:8} {kind:8} {fault:5} {right:6} {wrong:6} {total:4}", flush=True)


if __name__ == "__main__":
    main()
