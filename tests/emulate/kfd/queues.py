"""Queues of an emulated GPU, made and fed by the numbers of AMD's headers alone."""

import struct

from treadle.emulate.kfd.context_save import ContextSave

PAGE, RING = 4096, 1 << 16
COMPUTE, SDMA, AQL = 0, 1, 2


class RawQueue:
    """A queue of a Process. `put` writes words to its ring and rings the doorbell."""

    def __init__(self, process, kind):
        self.process, self.kind, self._words = process, kind, 0
        self.ring, self.pointers = process.mapped(RING), process.mapped(PAGE)
        more = self._for_compute() if kind != SDMA else {}
        given = process.call(
            "create_queue", ring_base_address=self.ring, ring_size=RING,
            write_pointer_address=self.pointers + 0x38, read_pointer_address=self.pointers + 0x80,
            gpu_id=process.gpu.gpu_id, queue_type=kind, queue_percentage=100, **more,
        )  # fmt: skip
        offset = given["doorbell_offset"]
        page = process.platform.reserve(0x2000, PAGE)
        process.platform.map(process.fd, 0x2000, offset & -0x2000, page)
        self._doorbell = page + offset % 0x2000

    def _for_compute(self):
        save = ContextSave(self.process.gpu.chip)
        return {
            "eop_buffer_address": self.process.mapped(save.end_of_pipe),
            "eop_buffer_size": save.end_of_pipe,
            "ctx_save_restore_address": self.process.mapped(save.whole),
            "ctx_save_restore_size": save.area,
            "ctl_stack_size": save.control_stack,
        }

    def put(self, *words):
        for word in words:
            self.process.platform.store32(self.ring + self._words * 4 % RING, word)
            self._words += 1
        unit = {COMPUTE: 4, SDMA: 1, AQL: 64}[self.kind]
        self.write_index = self._words * 4 // unit
        self.process.platform.store64(self.pointers + 0x38, self.write_index)
        self.process.platform.store64(self._doorbell, self.write_index - (self.kind == AQL))

    def run(self, *words):
        """Puts words, and runs until nothing can go on."""
        self.put(*words)
        self.process.platform.scheduler.settle()


def packet3(opcode, *words):
    return [3 << 30 | len(words) - 1 << 16 | opcode << 8, *words]


def set_registers(first, *values):
    return packet3(0x76, first - 0x2C00, *values)


def halves(value):
    return value & 0xFFFFFFFF, value >> 32


def aql_words(packet):
    return struct.unpack("<16I", packet)


DISPATCH = struct.Struct("<HHHHHHIIIIIQQQQ")


def aql_dispatch(kernel, kernarg=0, signal=0, header=2 | 2 << 9 | 2 << 11, items=64, size=64):
    sizes = (size, 1, 1, 0, items, 1, 1, 0, 0)
    return aql_words(DISPATCH.pack(header, 1, *sizes, kernel, kernarg, 0, signal))


def aql_barrier(*signals, completion=0, header=3, any_of=False):
    signals = [*signals, 0, 0, 0, 0, 0][:5]
    header += 2 if any_of else 0
    return aql_words(struct.pack("<HHI5QQQ", header, 0, 0, *signals, 0, completion))
