"""Counts together, and goes on when one dies: `treadle run -n 3 --shrink shrinking.py FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

from treadle import Tensor, distributed
from treadle.distributed import checkpoint
from treadle.errors import DistributedError

folder, steps, dies_at = sys.argv[1], 12, 5
world = distributed.init()
number = world.rank
start = world.size
done = 0
while done < steps:
    try:
        found = checkpoint.load(world, folder)
        done, x = (found.step, found.read("x")) if found else (0, Tensor.zeros(4))
        while done < steps:
            if done == dies_at and world.size == start and number == start - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            big = world.allreduce(Tensor.ones(100_000))  # goes on in the background
            x = x + world.allreduce(Tensor.ones(4), "mean")
            assert (big.numpy() == world.size).all()
            done += 1
            if done % 2 == 0:
                checkpoint.save(world, folder, done, {"x": x}, keep=2)
    except DistributedError as error:
        print(f"lost: {str(error).splitlines()[0]}", flush=True)
        began = time.monotonic()
        world = distributed.shrink()
        print(f"goes on with {world.size} after {time.monotonic() - began:.0f} s", flush=True)
np.testing.assert_array_equal(x.numpy(), np.full(4, steps))
half = world.split(world.rank % 2)
assert half.tell(str(number)) == [str(n) for n in range(start - 1) if n % 2 == number % 2]
print(f"{done} right", flush=True)
