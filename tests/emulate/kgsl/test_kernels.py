"""Machine code launched by packets: from the file to memory."""

import errno
import struct

import numpy as np
import pytest
from tests.emulate.ir3.words import c, immed, mov, r, word
from tests.emulate.kgsl.rig import EXEC_CS, WAIT_FOR_IDLE, Rig, constants, halves, packet, setup

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.ir3.execute import Executor
from treadle.target import host_target

R1, R2, R3 = 4, 8, 12
NOPS = word("nop", REPEAT=5)


@pytest.fixture(scope="module")
def execute():
    return Executor(LLVMCompiler(host_target()).compile)


def program(value):
    """Adds to each element of an array its number, and what the words `value` make in r3.x."""
    return [
        word("mad.u24", DST=R1, SRC1=c(2, cat3=True), SRC2=4 * 48, SRC3=r(0)), NOPS,
        word("shl.b", DST=R2, FULL=1, SRC1=r(R1), SRC2=immed(2), NOP=3),
        word("add.u", DST=R2, FULL=1, SRC1=c(0), SRC2=r(R2), NOP=3),
        mov(R2 + 1, 1, form="mov-const"), NOPS,
        word("ldg", DST=R3, SRC1=R2, TYPE=3, SIZE=1), word("nop", SY=1), *value, NOPS,
        word("nop", SS=1, SY=1),
        word("add.u", DST=R3, FULL=1, SRC1=r(R3), SRC2=r(R1)), NOPS,
        word("stg", SRC1=R2, SRC3=R3, TYPE=3, SIZE=1), word("end"),
    ]  # fmt: skip


def launch(machine, words, data, wave=0, launches=1):
    code, memory = machine.memory(), machine.memory(data.nbytes)
    code.put(struct.pack(f"<{len(words)}Q", *words))
    memory.put(data.tobytes())
    length = -(-len(words) // 16)
    parts = [setup(code.address, length, 4, wave, (64, 1, 1), (len(data) // 64, 1, 1)),
             constants([*halves(memory.address), 64, 0])]  # fmt: skip
    for _ in range(launches):
        parts += [packet(EXEC_CS, 0, len(data) // 64, 1, 1), packet(WAIT_FOR_IDLE)]
    machine.run(*parts)
    return np.array(memory.words(len(data)), np.uint32)


@pytest.mark.parametrize("wave", [0, 1])
@pytest.mark.parametrize("launches", [1, 3])
def test_a_kernel_reads_and_writes_memory(execute, wave, launches):
    data = np.arange(1024, dtype=np.uint32) * 7
    found = launch(Rig(execute), program([]), data, wave, launches=launches)
    assert np.array_equal(found, data + launches * np.arange(1024))


def test_code_that_was_changed_is_translated_anew(execute):
    machine, data = Rig(execute), np.zeros(64, np.uint32)
    for value in (5, 9):
        words = program([word("add.u", DST=R3, FULL=1, SRC1=r(R3), SRC2=immed(value))])
        assert np.array_equal(launch(machine, words, data), value + np.arange(64))


def fails(machine, words, message):
    with pytest.raises(OSError, match="a fault") as error:
        launch(machine, words, np.zeros(64, np.uint32))
    assert error.value.errno == errno.EDEADLK
    assert message in machine.platform.explain()


def test_what_a_kernel_does_wrong_ends_the_context(execute):
    words = program([word("add.u", DST=R3, FULL=1, SRC1=r(R3), SRC2=immed(1))])
    words[words.index(word("nop", SY=1))] = word("nop")
    fails(Rig(execute), words, "r3.x, which 'ldg.u32 r3.x, g[r2.x], 1' at word 6 sets")
    fails(Rig(execute), program([word("dsx", DST=R3, SRC1=R3)]), "dsx has no meaning here")
    fails(Rig(execute), [word("nop")] * 16, "the program has 16 words")
    far = program([word("add.u", DST=R2 + 1, FULL=1, SRC1=r(R2 + 1), SRC2=immed(1))])
    fails(Rig(execute), far, "stg.u32 g[r2.x], r3.x, 1")


@pytest.mark.parametrize("arch", ["a630", "a650", "a660"])
def test_a_chip_has_the_instructions_of_its_generation(execute, arch):
    dot = program([word("dp4acc", DST=R3, SRC1=r(R3), SRC2=R3, SRC3=r(R3))])
    if arch == "a660":
        launch(Rig(execute, arch=arch), dot, np.zeros(64, np.uint32))
    else:
        fails(Rig(execute, arch=arch), dot, "this chip has no dp4acc")
