"""What each of two processes does that `treadle run` starts: `main()`.

Each has a GPU of its own where there are two. The values have to be right in any case; the first
process says whether it was NCCL that exchanged them, or why not.
"""

from __future__ import annotations

import warnings

from ... import Device, Tensor, distributed
from ...runtime import nccl

__all__ = ["BY_NCCL", "REFUSED", "main"]

BY_NCCL, REFUSED = "by NCCL", "not by NCCL: "
_SIZES = (4, 1 << 20)


def main() -> None:
    """Exchange and compare values; the first process prints what exchanged them."""
    world = distributed.init()
    count = len(Device["CUDA"].runtime.driver.devices())
    device = f"CUDA:{world.rank % count}" if world.rank % count else "CUDA"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for size in _SIZES:
            _check(world, size, device)
    if world.rank:
        return
    if any(one is not None for one in nccl._connections.values()):
        print(BY_NCCL)
    else:
        print(REFUSED + "; ".join(str(one.message) for one in told))


def _check(world: distributed.Group, size: int, device: str) -> None:
    first = (Tensor.arange(size, device="CPU") % 5).float()
    x = (first + world.rank).to(device).realize()
    _same(world.allreduce(x), 2 * first + 1)
    _same(world.allgather(x), first.cat(first + 1))
    _same(world.broadcast(x, 1), first + 1)
    own = first.reshape(2, size // 2)[world.rank]
    _same(world.all_to_all(x), own.cat(own + 1))
    _same(world.reduce_scatter(x), 2 * own + 1)


def _same(found: Tensor, expected: Tensor) -> None:
    assert found.to("CPU").tolist() == expected.tolist()
