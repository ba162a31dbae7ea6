"""Which addresses are objects of an OpenCL driver: a cl_mem is the address of one.

    table_of(context)   ->  what every living object of this driver begins with, or None
    begins_with(address)

The interface between OpenCL's loader and its drivers has each object begin with the address of the
driver's table of functions. So an integer can be told from the address of data, and an object that
was released from one that lives: no call of OpenCL can, they follow that first word blindly.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    import pyopencl as cl

__all__ = ["begins_with", "table_of"]

_WORD = 8


def begins_with(address: int) -> int | None:
    """The 8 bytes at `address`; None where nothing is, or where that cannot be asked."""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
    except OSError:
        return None
    try:
        found = os.pread(memory, _WORD, address)
    except (OSError, OverflowError):  # no page of this process
        return None
    finally:
        os.close(memory)
    return int.from_bytes(found, "little") if len(found) == _WORD else None


def table_of(binding: ModuleType, context: cl.Context) -> int | None:
    """What living objects of `context`'s driver begin with; None if they do not begin alike."""
    flags = binding.mem_flags.READ_WRITE
    buffers = [binding.Buffer(context, flags, size) for size in (4, 4096)]
    words = {begins_with(made.int_ptr) for made in (context, *buffers)}
    return words.pop() if len(words) == 1 else None
