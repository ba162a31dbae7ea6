"""Programs of words, run on an emulated Adreno's shader processors."""

import ctypes

import numpy as np
import pytest

from tests.emulate.ir3.words import P0, c, immed, mov, r, word
from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.ir3.execute import IR3Program
from treadle.emulate.ir3.program import Kernel
from treadle.emulate.simt.machine import Region
from treadle.target import host_target

__all__ = ["P0"]
END = word("end")
NOPS = word("nop", REPEAT=5)


class Machine:
    """Runs programs over arrays: their addresses are the first constants, two for each."""

    def __init__(self, compile_ir):
        self._compile = compile_ir

    def run(self, words, arrays=(), constants=(), workgroup=(64, 1, 1), workgroups=(1, 1, 1),
            wave=64, **kernel):  # fmt: skip
        """Work items have their numbers in r0.x to r0.z, workgroups theirs in r48.x to r48.z."""
        given = []
        for array in arrays:
            given += [array.ctypes.data & 0xFFFFFFFF, array.ctypes.data >> 32]
        given += [int(value) & 0xFFFFFFFF for value in constants]
        program = IR3Program(
            Kernel(tuple(words), wave, 48 * 4, 0, constants=len(given), **kernel), self._compile
        )
        memory = [Region(array.ctypes.data, array.nbytes) for array in arrays]
        program.launch(workgroups, workgroup, given, memory)

    def values(self, words, result, inputs, dtype=np.uint32, wave=64, **kernel):
        """Runs words that make a full register `result` of r1.x, r2.x, ... in each lane.

        `inputs` are arrays of 32 bits, an element of which a lane finds in these registers.
        """
        count = len(inputs[0])
        out = np.zeros(count, np.uint32)
        arrays = [np.ascontiguousarray(a).view(np.uint32) for a in inputs]
        code = [word("shl.b", DST=4 * 40, FULL=1, SRC1=r(0), SRC2=immed(2)), NOPS]
        for i in range(len(arrays)):
            code += self.address(41, 2 + 2 * i)
            code.append(word("ldg", DST=4 * (i + 1), SRC1=4 * 41, TYPE=3, SIZE=1))
        code.append(word("nop", SS=1, SY=1))
        code += [*words, word("nop", REPEAT=5, SS=1, SY=1), *self.address(41, 0)]
        code += [word("stg", SRC1=4 * 41, SRC3=result, TYPE=3, SIZE=1), END]
        assert count <= 1024
        self.run(code, [out, *arrays], workgroup=(count, 1, 1), wave=wave, **kernel)
        return out.view(dtype)

    def address(self, register, constant):
        """Words that make r41.x and r41.y the address of a lane's element of an array."""
        return [
            NOPS,
            word("nop", SS=1, SY=1),
            word("add.u", DST=4 * register, FULL=1, SRC1=c(constant), SRC2=r(4 * 40)),
            mov(4 * register + 1, constant + 1, form="mov-const"),
            NOPS,
            # The carry of the sum.
            word("cmps.u", DST=4 * 42, FULL=1, SRC1=r(4 * register), SRC2=c(constant), COND=0),
            NOPS,
            word("add.u", DST=4 * register + 1, FULL=1, SRC1=r(4 * register + 1), SRC2=r(4 * 42)),
            NOPS,
        ]


@pytest.fixture(scope="session")
def machine():
    return Machine(LLVMCompiler(host_target()).compile)


def bits(value):
    """The bits of a float32."""
    return ctypes.c_uint32.from_buffer(ctypes.c_float(value)).value
