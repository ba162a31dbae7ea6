"""Commands of a channel: methods of its classes with their values, as words of a pushbuffer.

    semaphore_release(address, 0)        ->  [header, ...]: writes 0 and the time there
    copy(target, source, 4096)

A header says the method (in words), the subchannel, and how many values follow for methods in a
row (`NVC56F_DMA_INCR_*`). Numbers are those of NVIDIA's class headers: `clc56f.h` (host),
`clc6b5.h` (copies) and `clc6c0.h` (compute). They are the same in all later ones used here.
"""

from __future__ import annotations

import enum

__all__ = [
    "Method", "Subchannel", "acquire", "command", "copy", "invalidate_caches", "launch",
    "local_memory", "release", "set_object", "wait_for_idle",
]  # fmt: skip

_INCREASING = 1  # NVC56F_DMA_SEC_OP_INC_METHOD, in bits 31:29
_MOST = 1 << 31  # bytes of one copy: LINE_LENGTH_IN has 32 bits


class Subchannel(enum.IntEnum):
    """Who reads a method. Methods below 0x100 are the host's, whatever the subchannel."""

    HOST = 0
    COMPUTE = 1
    COPY = 4


class Method(enum.IntEnum):
    """The first of methods in a row."""

    SET_OBJECT = 0x0000
    SEM_ADDR_LO = 0x005C
    WAIT_FOR_IDLE = 0x0110
    SET_SHADER_SHARED_MEMORY_WINDOW_A = 0x02A0
    SEND_PCAS_A = 0x02B4
    SEND_SIGNALING_PCAS2_B = 0x02C0
    SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A = 0x02E4
    SET_SHADER_LOCAL_MEMORY_A = 0x0790
    SET_SHADER_LOCAL_MEMORY_WINDOW_A = 0x07B0
    INVALIDATE_SHADER_CACHES_NO_WFI = 0x1698
    LAUNCH_DMA = 0x0300
    OFFSET_IN_UPPER = 0x0400
    LINE_LENGTH_IN = 0x0418


# SEM_EXECUTE: operation in 2:0, ACQUIRE_SWITCH_TSG 12, RELEASE_WFI 20, PAYLOAD_SIZE 24 (64 bits),
# RELEASE_TIMESTAMP 25.
_ACQUIRE = 0 | 1 << 12 | 1 << 24
_RELEASE = 1 | 1 << 20 | 1 << 24 | 1 << 25
# LAUNCH_DMA: DATA_TRANSFER_TYPE 1:0 (not pipelined), FLUSH_ENABLE 2, layouts 7 and 8 (pitch).
_PLAIN_COPY = 2 | 1 << 2 | 1 << 7 | 1 << 8
_SCHEDULE = 9  # SEND_SIGNALING_PCAS2_B_PCAS_ACTION_PREFETCH_SCHEDULE
_INSTRUCTIONS, _DATA, _CONSTANTS = 1 << 0, 1 << 4, 1 << 12


def command(method: Method, *values: int, to: Subchannel = Subchannel.HOST) -> list[int]:
    """Methods in a row, from `method` on, with their values."""
    header = _INCREASING << 29 | len(values) << 16 | to << 13 | method >> 2
    return [header, *values]


def _high_low(address: int) -> tuple[int, int]:
    return address >> 32, address & 0xFFFFFFFF


def set_object(to: Subchannel, number: int) -> list[int]:
    """Binds a class to a subchannel."""
    return command(Method.SET_OBJECT, number, to=to)


# -- the host class -------------------------------------------------------------------------------


def _semaphore(address: int, payload: int, execute: int) -> list[int]:
    high, low = _high_low(address)
    return command(Method.SEM_ADDR_LO, low, high, payload & 0xFFFFFFFF, payload >> 32, execute)


def release(address: int, payload: int) -> list[int]:
    """When all before has been done, writes 64 bits, and the time in ns 8 bytes behind."""
    return _semaphore(address, payload, _RELEASE)


def acquire(address: int, payload: int) -> list[int]:
    """Waits until the 64 bits there are the payload."""
    return _semaphore(address, payload, _ACQUIRE)


# -- copies ---------------------------------------------------------------------------------------


def copy(target: int, source: int, nbytes: int) -> list[int]:
    """Copies bytes, in as many commands as it takes."""
    words: list[int] = []
    for start in range(0, nbytes, _MOST):
        size, to = min(_MOST, nbytes - start), Subchannel.COPY
        addresses = (*_high_low(source + start), *_high_low(target + start))
        words += command(Method.OFFSET_IN_UPPER, *addresses, to=to)
        words += command(Method.LINE_LENGTH_IN, size, to=to)
        words += command(Method.LAUNCH_DMA, _PLAIN_COPY, to=to)
    return words


# -- compute --------------------------------------------------------------------------------------


def _compute(method: Method, *values: int) -> list[int]:
    return command(method, *values, to=Subchannel.COMPUTE)


def launch(meta_data: int) -> list[int]:
    """Starts the kernel whose queue meta data (QMD) is at an address."""
    words = _compute(Method.SEND_PCAS_A, meta_data >> 8)
    return words + _compute(Method.SEND_SIGNALING_PCAS2_B, _SCHEDULE)


def wait_for_idle() -> list[int]:
    """What comes later begins when all kernels have ended."""
    return _compute(Method.WAIT_FOR_IDLE, 0)


def invalidate_caches() -> list[int]:
    """Kernels read what others have written: code, constants and data."""
    flags = _INSTRUCTIONS | _DATA | _CONSTANTS
    return _compute(Method.INVALIDATE_SHADER_CACHES_NO_WFI, flags)


def windows(local: int, shared: int) -> list[int]:
    """Where generic addresses of local and of shared memory begin."""
    words = _compute(Method.SET_SHADER_SHARED_MEMORY_WINDOW_A, *_high_low(shared))
    return words + _compute(Method.SET_SHADER_LOCAL_MEMORY_WINDOW_A, *_high_low(local))


def local_memory(address: int, nbytes_of_tpc: int, tpcs: int) -> list[int]:
    """The local memory of all work items: so many bytes for each group of multiprocessors."""
    words = _compute(Method.SET_SHADER_LOCAL_MEMORY_A, *_high_low(address))
    sizes = (*_high_low(nbytes_of_tpc), tpcs)
    return words + _compute(Method.SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, *sizes)
