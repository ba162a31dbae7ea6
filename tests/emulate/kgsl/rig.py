"""A program that uses /dev/kgsl-3d0: calls by number, packets by hand."""

import ctypes
import struct

from treadle.emulate.kgsl import EmulatedKGSL
from treadle.emulate.machine.platform import EmulatedPlatform

ALLOC, FREE, INFO = 0xC0300945, 0x40200946, 0xC0300947
CREATE, DESTROY = 0xC0080913, 0x40040914
COMMAND, WAIT, STAMP = 0xC040094A, 0x400C0907, 0xC00C0916
PROPERTY, SET, MAP, UNMAP = 0xC0180902, 0x40180932, 0xC0300915, 0x40080921
PAGE = 4096
NOP, WAIT_FOR_IDLE, RUN_OPENCL, EXEC_CS = 0x10, 0x26, 0x31, 0x33
LOAD_STATE, LOAD_STATE_FRAG, WAIT_REG_MEM, MEM_WRITE = 0x36, 0x34, 0x3C, 0x3D
REG_TO_MEM, BUFFER, EXEC_INDIRECT, MEM_TO_REG = 0x3E, 0x3F, 0x41, 0x42
EVENT_WRITE, MARKER, MEM_TO_MEM, WAIT_MEM_GTE = 0x46, 0x65, 0x73, 0x14
FLUSH = 4  # the event CACHE_FLUSH_TS


def odd(value):
    """The bit that makes the count of ones odd."""
    return (value.bit_count() + 1) % 2


def write(register, *values):
    """A packet of type 4."""
    count = len(values)
    head = 4 << 28 | count | odd(count) << 7 | register << 8 | odd(register) << 27
    return [head, *values]


def packet(opcode, *words):
    """A packet of type 7."""
    count = len(words)
    return [7 << 28 | count | odd(count) << 15 | opcode << 16 | odd(opcode) << 23, *words]


def halves(address):
    return address & 0xFFFFFFFF, address >> 32


def signal(address, value, event=FLUSH):
    return packet(EVENT_WRITE, event, *halves(address), value)


class Memory:
    """An object of the driver's."""

    def __init__(self, rig, nbytes, flags=0):
        block = bytearray(struct.pack("<QQQQIIQ", nbytes, flags, 0, 0, 0, 0, 0))
        rig.ioctl(ALLOC, block)
        self.nbytes = -(-nbytes // PAGE) * PAGE
        self.number = struct.unpack_from("<I", block, 32)[0]
        info = bytearray(48)
        struct.pack_into("<I", info, 40, self.number)
        rig.ioctl(INFO, info)
        self.address = struct.unpack_from("<Q", info)[0]
        self.host = rig.platform.reserve(self.nbytes, PAGE)
        rig.platform.map(rig.fd, self.nbytes, self.number * PAGE, self.host)

    def put(self, data, at=0):
        ctypes.memmove(self.host + at, data, len(data))

    def words(self, count, at=0):
        return list(struct.unpack(f"<{count}I", ctypes.string_at(self.host + at, 4 * count)))


class Rig:
    """An open file of a driver."""

    def __init__(self, execute, seed=0, arch="a630", **driver):
        self.platform = EmulatedPlatform(seed)
        self.driver = EmulatedKGSL(self.platform, arch, execute, **driver)
        self.fd = self.platform.open("/dev/kgsl-3d0")

    def ioctl(self, request, block):
        self.platform.ioctl(self.fd, request, block)
        return block

    def memory(self, nbytes=PAGE, flags=0):
        return Memory(self, nbytes, flags)

    def context(self):
        return struct.unpack("<II", self.ioctl(CREATE, bytearray(8)))[1]

    def submit(self, context, *buffers):
        """Submits lists of words, and gives the timestamp."""
        commands = b""
        for words in buffers:
            memory = self.memory(4 * len(words))
            memory.put(struct.pack(f"<{len(words)}I", *words))
            commands += struct.pack("<QQQII", 0, memory.address, 4 * len(words), 1, memory.number)
        return self.submit_raw(context, commands, len(buffers))

    def submit_raw(self, context, commands, count):
        held = ctypes.create_string_buffer(commands, len(commands))
        block = bytearray(64)
        struct.pack_into("<QQII", block, 0, 0, ctypes.addressof(held), 32, count)
        struct.pack_into("<I", block, 56, context)
        self.ioctl(COMMAND, block)
        return struct.unpack_from("<I", block, 60)[0]

    def wait(self, context, timestamp, timeout=100_000):
        self.ioctl(WAIT, bytearray(struct.pack("<III", context, timestamp, timeout)))

    def run(self, *words):
        """Packets in a new context, and waits for their end."""
        context = self.context()
        self.wait(context, self.submit(context, [word for part in words for word in part]))


def setup(program, instrlen=1, constants=1, wave=0, workgroup=(64, 1, 1), workgroups=(1, 1, 1),
          shared=1, registers=48, private=(0, 0, 0), ids=(48 * 4, 0)):  # fmt: skip
    """Packets that set all that a dispatch needs."""
    x, y, z = (size - 1 for size in workgroup)
    whole = [size * count for size, count in zip(workgroup, workgroups, strict=True)]
    words = [
        packet(MARKER, 8),
        write(0xBB08, 1 << 5),  # HLSQ_INVALIDATE_CMD
        write(0xAB00, 1),  # SP_MODE_CONTROL: demotion
        write(0xA9B0, 1 << 31 | wave << 20 | registers << 7, shared),  # SP_CS_CTRL_REG0, 1
        write(0xA9B4, *halves(program)),  # SP_CS_OBJ_START
        write(0xA9BB, 1 << 8, instrlen),  # SP_CS_CONFIG, SP_CS_INSTRLEN
        write(0xB987, 1 << 8 | -(-constants // 4)),  # HLSQ_CS_CNTL
        write(0xB990, 3 | x << 2 | y << 12 | z << 22,
              whole[0], 0, whole[1], 0, whole[2], 0),  # HLSQ_CS_NDRANGE
        write(0xB997, ids[0] | 0xFCFC << 8 | ids[1] << 24, 0xFC | wave << 9),  # HLSQ_CS_CNTL
        write(0xB999, *workgroups),
        packet(LOAD_STATE_FRAG, 2 << 16 | 13 << 18 | instrlen << 22, *halves(program)),
    ]  # fmt: skip
    if private[0]:
        words.insert(-1, write(0xA9B6, private[0] >> 9, *halves(private[1]), private[2] >> 12))
    return [word for part in words for word in part]


def constants(words, first=0):
    """Constants in the packet; a number of four components."""
    words = [*words, *[0] * (-len(words) % 4)]
    return packet(LOAD_STATE, first | 1 << 14 | 13 << 18 | len(words) // 4 << 22, 0, 0, *words)


def constants_at(address, count, first=0):
    """So many constants of four components from memory."""
    return packet(LOAD_STATE, first | 1 << 14 | 2 << 16 | 13 << 18 | count << 22, *halves(address))
