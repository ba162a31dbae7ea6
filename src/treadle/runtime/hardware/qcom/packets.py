"""Packets of the command processor as words: registers (type 4) and commands (type 7).

    registers(0xB990, 3, 64)
    wait_for_idle()

Numbers are those of Mesa's `a6xx.xml` and `adreno_pm4.xml`.
"""

from __future__ import annotations

__all__ = [
    "COMPUTE_EVENTS", "execute", "invalidate_caches", "load_constants", "load_images",
    "load_program", "load_samplers", "load_textures", "registers", "set_compute", "signal",
    "timestamp", "wait_for_idle", "wait_for_value",
]  # fmt: skip

_WAIT_FOR_IDLE, _EXEC_CS, _LOAD_STATE_FRAG, _LOAD_STATE = 0x26, 0x33, 0x34, 0x36
_WAIT_REG_MEM, _REG_TO_MEM, _EVENT_WRITE, _SET_MARKER = 0x3C, 0x3E, 0x46, 0x65
_COMPUTE = 8
COMPUTE_EVENTS = _FLUSH, _INVALIDATE = 4, 49  # CACHE_FLUSH_TS, CACHE_INVALIDATE
_SHADER, _CONSTANTS, _IMAGES = 0, 1, 3  # types of state
_INDIRECT, _CS_TEXTURES, _CS_SHADER = 2, 5, 13
_EQUAL, _IN_MEMORY, _CYCLES = 3, 1, 16
_COUNTER, _64_BITS = 0x980, 1 << 30  # CP_ALWAYS_ON_COUNTER


def _odd(value: int) -> int:
    """The bit that makes the count of ones odd."""
    return value.bit_count() + 1 & 1


def registers(first: int, *values: int) -> list[int]:
    """Writes registers from one on."""
    count = len(values)
    head = 4 << 28 | count | _odd(count) << 7 | first << 8 | _odd(first) << 27
    return [head, *values]


def _command(opcode: int, *words: int) -> list[int]:
    count = len(words)
    return [7 << 28 | count | _odd(count) << 15 | opcode << 16 | _odd(opcode) << 23, *words]


def _halves(address: int) -> tuple[int, int]:
    return address & 0xFFFFFFFF, address >> 32


def set_compute() -> list[int]:
    """What follows computes."""
    return _command(_SET_MARKER, _COMPUTE)


def wait_for_idle() -> list[int]:
    """What follows begins when all kernels have ended."""
    return _command(_WAIT_FOR_IDLE)


def invalidate_caches() -> list[int]:
    """What others wrote is read from memory."""
    return _command(_EVENT_WRITE, _INVALIDATE)


def signal(address: int, value: int) -> list[int]:
    """Writes 32 bits when all that came before has ended and its writes have reached memory."""
    return _command(_EVENT_WRITE, _FLUSH, *_halves(address), value)


def timestamp(address: int) -> list[int]:
    """Writes 64 bits of the clock."""
    return _command(_REG_TO_MEM, _COUNTER | _64_BITS, *_halves(address))


def wait_for_value(address: int, value: int) -> list[int]:
    """What follows begins when 32 bits of memory have a value."""
    how = _EQUAL | _IN_MEMORY << 4
    return _command(_WAIT_REG_MEM, how, *_halves(address), value, 0xFFFFFFFF, _CYCLES)


def load_program(address: int, units: int) -> list[int]:
    """Brings so many times 16 instructions to the shader processors."""
    state = _SHADER << 14 | _INDIRECT << 16 | _CS_SHADER << 18 | units << 22
    return _command(_LOAD_STATE_FRAG, state, *_halves(address))


def load_constants(address: int, units: int) -> list[int]:
    """Brings so many times four constants, from c0.x on; the address are the last two words."""
    state = _CONSTANTS << 14 | _INDIRECT << 16 | _CS_SHADER << 18 | units << 22
    return _command(_LOAD_STATE, state, *_halves(address))


def load_samplers(address: int, count: int) -> list[int]:
    """Brings samplers of 16 bytes; of these and of images the address are the last two words."""
    return _load_table(_CS_TEXTURES, _SHADER, address, count)


def load_textures(address: int, count: int) -> list[int]:
    """Brings descriptors of images that are only read."""
    return _load_table(_CS_TEXTURES, _CONSTANTS, address, count)


def load_images(address: int, count: int) -> list[int]:
    """Brings descriptors of the other images."""
    return _load_table(_CS_SHADER, _IMAGES, address, count)


def _load_table(block: int, kind: int, address: int, count: int) -> list[int]:
    state = kind << 14 | _INDIRECT << 16 | block << 18 | count << 22
    return _command(_LOAD_STATE_FRAG, state, *_halves(address))


def execute(groups: int) -> list[int]:
    """Starts workgroups."""
    return _command(_EXEC_CS, 0, groups, 1, 1)
