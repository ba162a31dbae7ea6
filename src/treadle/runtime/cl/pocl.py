"""What PoCL needs of us to be right: how it makes workgroups, and a name for its processor.

    choose_method()          ->  POCL_WORK_GROUP_METHOD=loops
    name_processor(handle)   ->  "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-haswell"

The work items of a workgroup become a loop around the kernel between two barriers. By default
PoCL has LLVM make vectors of several of its turns, and PoCL 3.0 (LLVM 14) gets that wrong with
AVX-512: a matmul whose work items share tiles in local memory leaves wrong sums. Without vectors it
is right. treadle's kernels for processors have no such loop: one work item, and vectors of their
own.

The LLVM inside of PoCL asks the processor for its name and gets "generic" where that is newer than
itself (LLVM 14 of PoCL 3.0: a Zen 5). PoCL hands this on to its own clang, which knows no such
x86-64 processor and refuses every program (pocl/pocl issue 1049). No option or variable overrules
it, so the name is replaced where PoCL keeps it: a string of eight bytes of its own, which its
structure for the device points to. Memory is looked at through /proc/self/mem, where an address
that is none is an error and not the end of the process.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING

from treadle.target import host_target

if TYPE_CHECKING:
    import pyopencl as cl

__all__ = ["UNKNOWN", "choose_method", "name_processor"]

METHOD = "POCL_WORK_GROUP_METHOD"

UNKNOWN = "generic"
# What every compiler knows, for processors with AVX2 and without; no longer than UNKNOWN.
KNOWN = {True: "haswell", False: "x86-64"}
STRUCTURE = 4096  # bytes from the start of PoCL's structure that are looked through
ADDRESSES = range(1 << 16, 1 << 47)


def choose_method() -> None:
    """PoCL makes workgroups without vectors of work items, but for a user who chose otherwise."""
    os.environ.setdefault(METHOD, "loops")


def name_processor(handle: cl.Device) -> str:
    """The device's version, once PoCL has a name for its processor that its compiler knows.

    The version as it is for any other device; one that ends in "generic" where that was not to be.
    """
    version = handle.version.strip()
    if "pocl" not in version.lower() or not version.endswith(f"x86_64-unknown-linux-gnu-{UNKNOWN}"):
        return version
    known = KNOWN["+avx2" in host_target().features.split(",")]
    return version.removesuffix(UNKNOWN) + (known if _replaced(handle.int_ptr, known) else UNKNOWN)


def _replaced(structure: int, known: str) -> bool:
    """Whether a string UNKNOWN that the structure points to now reads `known`."""
    wanted = UNKNOWN.encode() + b"\0"
    new = known.encode().ljust(len(wanted), b"\0")
    try:
        memory = os.open("/proc/self/mem", os.O_RDWR)
    except OSError:
        return False
    try:
        words = os.pread(memory, STRUCTURE, structure)
        for (address,) in struct.iter_unpack("N", words[: len(words) // 8 * 8]):
            if address in ADDRESSES and _bytes_at(memory, address, len(wanted)) in (wanted, new):
                os.pwrite(memory, new, address)
                return True
        return False
    except OSError:
        return False
    finally:
        os.close(memory)


def _bytes_at(memory: int, address: int, count: int) -> bytes:
    try:
        return os.pread(memory, count, address)
    except OSError:  # no address
        return b""
