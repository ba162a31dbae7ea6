"""An emulated Adreno GPU, and devices of the runtime on it, with kernels of words.

machine = Machine("a630", seed=3)
device = machine.device()
phase = machine.kernel(device)                      # out[i] = x[i] + n
device.run([Launch([phase], [a.argument, b.argument], [5])])
"""

import struct

from tests.emulate.ir3.words import c, immed, mov, move, r, word
from tests.emulate.machines import download, upload

from treadle.emulate.ir3.execute import Executor
from treadle.emulate.kgsl import EmulatedKGSL
from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.engine.host_code import compile_for_host
from treadle.runtime.base import Entry, Slot
from treadle.runtime.hardware.qcom import KGSL, QCOMDevice, target_of

__all__ = ["Machine", "add_number", "download", "pack", "upload"]

NOPS = word("nop", REPEAT=5)
_R = [4 * n for n in range(8)]
execute = Executor(compile_for_host)


def add_number(load=None, value=()):
    """Words of a kernel out[i] = x[i] + n: n is c1.x, and `value` changes r3.x before."""
    return [
        word("mad.u24", DST=_R[1], SRC1=c(8, cat3=True), SRC2=4 * 48, SRC3=r(0)), NOPS,
        word("shl.b", DST=_R[1], FULL=1, SRC1=r(_R[1]), SRC2=immed(2), NOP=3),
        word("add.u", DST=_R[2], FULL=1, SRC1=c(0), SRC2=r(_R[1]), NOP=3),
        mov(_R[2] + 1, 1, form="mov-const"),
        word("add.u", DST=_R[4], FULL=1, SRC1=c(2), SRC2=r(_R[1]), NOP=3),
        mov(_R[4] + 1, 3, form="mov-const"), NOPS,
        load or word("ldg", DST=_R[3], SRC1=_R[2], TYPE=3, SIZE=1), word("nop", SY=1), *value,
        NOPS, word("nop", SS=1, SY=1),
        word("add.u", DST=_R[3], FULL=1, SRC1=r(_R[3]), SRC2=c(4)), NOPS,
        word("stg", SRC1=_R[4], SRC3=_R[3], TYPE=3, SIZE=1), word("end"),
    ]  # fmt: skip


def private_sum():
    """Words that put r3.x into private memory and take it from there."""
    return [
        move(_R[5], 64), NOPS, word("stp", DST=_R[5], SRC=_R[3], TYPE=3, SIZE=1),
        word("nop", SS=1, SY=1), word("ldp", DST=_R[3], SRC=_R[5], TYPE=3, SIZE=1),
        word("nop", SY=1),
    ]  # fmt: skip


def pack(words, work_items=64, private=0, name="k", literals=None, wave=64):
    """An object of one kernel with two buffers and an integer; c2.x is the first literal."""
    literals = [work_items] if literals is None else literals
    head = (work_items, 2, 1, 8, 2, wave, private, 0, 3, 2, 0, 0, len(literals), len(words))
    data = b"IR3OBJ\x02\x00" + struct.pack("<I", 1)
    data += struct.pack("<I", len(name)) + name.encode() + struct.pack("<14I", *head)
    data += struct.pack(f"<{len(literals)}I", *literals)
    return data + struct.pack(f"<{len(words)}Q", *words)


class Machine:
    """A computer with an Adreno GPU. `run_dispatch` may be replaced."""

    def __init__(self, arch="a630", seed=0, **driver):
        self.platform = EmulatedPlatform(seed)
        self.run_dispatch = execute
        self.driver = EmulatedKGSL(
            self.platform, arch, lambda dispatch: self.run_dispatch(dispatch), **driver
        )
        self.kgsl = KGSL(self.platform)

    def device(self, **options):
        return QCOMDevice(
            "QCOM", self.kgsl, lambda chip_id: target_of(chip_id, None, True), **options
        )

    def kernel(self, device, words=None, groups=1, work_items=64, **packed):
        entry = Entry("k", groups, work_items, (Slot(0, 4, False), Slot(1, 4, True)), (0,))
        code = pack(words or add_number(), work_items, **packed)
        return device.load(code, [entry]).phases[0]
