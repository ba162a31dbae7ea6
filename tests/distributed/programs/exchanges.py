"""Sums and gathers of a few sizes, many times: `treadle run -n 2 exchanges.py [ROUNDS]`."""

from __future__ import annotations

import sys

import numpy as np

from treadle import Tensor, distributed

world = distributed.init()
rank, size = world.rank, world.size
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
print("began", flush=True)
for turn in range(rounds):
    for count in (1, 1000, 200_000):
        x = Tensor(np.full(count, rank + turn, np.float32))
        total = sum(range(size)) + size * turn
        assert (world.allreduce(x).numpy() == total).all()
        every = np.arange(size).repeat(count) + turn
        assert (world.allgather(x).numpy() == every).all()
print(f"{rounds} right")
