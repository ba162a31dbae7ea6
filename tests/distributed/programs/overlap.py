"""Large calls run while a process computes: nobody reads too early, or overwrites too early.

Each loop is as long as it has to be for a call that is not waited for to show.
"""

from __future__ import annotations

import numpy as np

from treadle import Tensor, TinyJit, distributed

world = distributed.init()
rank, size = world.rank, world.size
COUNT = 600_000
SUM = size * (size + 1) / 2  # of rank + 1


def full(value: float) -> Tensor:
    return Tensor(np.full(COUNT, value, np.float32)).realize()


def same(x: Tensor, value: float) -> None:
    found = x.numpy()
    assert (found == value).all(), (found[found != value][:4], value)


for turn in range(8):
    x = full(rank + 1)
    total = world.allreduce(x)
    if turn % 2:
        x.assign(full(-1.0)).realize()  # which the call still reads
    else:
        del x
        filler = [full(-1.0) for _ in range(3)]  # in memory that is free again
    if turn % 3:
        same(total + 1, SUM + 1)
    else:
        dropped = world.allreduce(total)  # waits for what it reads, and nobody waits for it
        del dropped
        same(total, SUM)

state = full(0.0)


@TinyJit
def step(x: Tensor) -> tuple[Tensor, Tensor]:
    total = world.allreduce(x * 2)
    state.assign(state + 1).realize()  # meanwhile
    again = world.allgather(state[: COUNT // 2] + total[: COUNT // 2])
    state.assign(state + 1).realize()
    return (total - x).realize(), again.realize()


for turn in range(6):
    difference, again = step(full(turn + rank + 1))
    total = 2 * (SUM + size * turn)
    if turn % 2:
        same(difference, total - (turn + rank + 1))
    same(again, total + 2 * turn + 1)
    same(state, 2 * turn + 2)
print("14 right")
