"""The records of warps that run PTX, and the faults that only PTX has."""

from __future__ import annotations

from enum import IntEnum

from treadle.emulate.simt.machine import Fault, Machine

__all__ = ["BULK", "LANES", "MACHINE", "MATRICES", "TENSOR_MAP", "TENSOR_MAP_BYTES",
           "TENSOR_MAP_SIGN", "PTXFault"]  # fmt: skip

LANES = 32
MATRICES, BULK = 0, 1  # kinds of pending reads: wgmma, and cp.async.bulk with groups

MACHINE = Machine(
    LANES,
    launch=(("globals", 8),),  # a table of the addresses of the module's variables
    block=(("proxy_stamps", 4 * LANES),),  # of each warp: see proxies
    # `groups` are each thread's of cp.async, `oldest_copy` and `next_copy` number the warp's
    # copies: see async_support. `tiles` are matrices on their way through a product.
    warp=(("groups", 4 * LANES), ("oldest_copy", 4), ("next_copy", 4), ("tiles", 24 * 1024)),
)

# A tensor map is opaque to PTX, so its 128 bytes are ours to lay out. `sign` tells that it is one;
# dimensions that it lacks have a size and a box of 1. `pieces` has ones where a swizzle has bits,
# `rounds` says that elements become tf32.
TENSOR_MAP = {
    "sign": 0, "rank": 4, "nbytes": 8, "pieces": 12, "address": 16,
    **{f"size{d}": 24 + 8 * d for d in range(5)}, **{f"stride{d}": 56 + 8 * d for d in range(1, 5)},
    **{f"box{d}": 96 + 2 * d for d in range(5)}, "rounds": 106,
}  # fmt: skip
TENSOR_MAP_BYTES, TENSOR_MAP_SIGN = 128, 0x54_4D_41_50


class PTXFault(IntEnum):
    """What can go wrong in PTX alone."""

    BAD_TENSOR_MAP = Fault.FIRST_OWN
    PROXY = Fault.FIRST_OWN + 1
