"""Programs of words, run on an emulated Adreno's shader processors."""

import numpy as np
import pytest
from tests.emulate.ir3.words import c, immed, mov, r, word

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.ir3.execute import IR3Program
from treadle.emulate.ir3.program import Kernel
from treadle.emulate.simt.machine import Region
from treadle.target import host_target

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

    def values(self, pieces, inputs, wave=64, **kernel):
        """Of each piece, which is words and a full register that they set, what is in it at last.

        `inputs` are arrays of 32 bits, an element of which a lane finds in r1.x, r2.x, ...
        """
        count = len(inputs[0])
        assert count <= 1024
        outs = [np.zeros(count, np.uint32) for _ in pieces]
        arrays = [np.ascontiguousarray(a).view(np.uint32) for a in inputs]
        code = [word("shl.b", DST=4 * 40, FULL=1, SRC1=r(0), SRC2=immed(2)), NOPS]
        for i in range(len(arrays)):
            code += self.address(41, 2 * i)
            code.append(word("ldg", DST=4 * (i + 1), SRC1=4 * 41, TYPE=3, SIZE=1))
        for i, (words, result) in enumerate(pieces):
            code += [word("nop", SS=1, SY=1), *words, word("nop", REPEAT=5, SS=1, SY=1)]
            code += self.address(41, 2 * (len(arrays) + i))
            code.append(word("stg", SRC1=4 * 41, SRC3=result, TYPE=3, SIZE=1))
        self.run([*code, END], [*arrays, *outs], workgroup=(count, 1, 1), wave=wave, **kernel)
        return outs

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
