"""What goes wrong in one process: `treadle run -n 3 failing.py HOW`. All print what they know."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

from treadle import Tensor, TinyJit, distributed
from treadle.errors import TreadleError
from treadle.runtime import mpi

world = distributed.init()
x = Tensor([1.0, 2.0])
world.allreduce(x)
how, last = sys.argv[1], world.rank == world.size - 1
start = time.monotonic()
print("began", flush=True)


def step(x: Tensor) -> Tensor:
    return world.allreduce(x * 2)


def other_step(x: Tensor) -> Tensor:
    return world.allreduce(world.broadcast(x) * 2)


try:
    if how == "kind":
        world.allgather(x) if last else world.allreduce(x)
    elif how == "shape":
        world.allreduce(Tensor.ones(3 if last else 2))
    elif how == "mesh":
        rows = Tensor.ones(3, 2).shard(world.mesh(), 0)
        rows.shard(world.mesh()) if last else rows.sum(0)
    elif how == "replays":
        captured = TinyJit(step)
        for _ in range(3):
            captured(x.contiguous().realize())
        if last:
            world.allgather(x)
        else:
            captured(x.contiguous().realize())
    elif how == "captures":
        functions = TinyJit(step), TinyJit(other_step)
        for function in functions:
            for _ in range(3):
                function(x.contiguous().realize())
        functions[last](x.contiguous().realize())
    elif how == "many captures":  # more than there are channels for
        mpi._CHANNELS = 2
        functions = [TinyJit(lambda x, n=n: world.allreduce(x * n)) for n in range(4)]
        for n, function in enumerate(functions):
            for _ in range(4):
                assert function(x.contiguous().realize()).tolist() == [3 * n, 6 * n]
        (world.allgather if last else functions[3])(x.contiguous().realize())
    elif how == "unread":  # a large call that fails while nobody waits for it
        total = world.allreduce(Tensor(np.ones(50_000 + last, np.float32)))
        total.numpy()
    elif how == "ends":
        if last:
            sys.exit(0)
    elif how == "fails":
        if last:
            raise ValueError("no more")
    elif how == "stops":
        if last:
            os.kill(os.getpid(), signal.SIGSTOP)
    elif how == "killed":
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
    elif how == "goes on":
        while True:
            world.allreduce(x)
    elif how == "late":
        if last:
            time.sleep(4)
    world.allreduce(x)
    print("done", flush=True)
except TreadleError as error:
    print(f"after {time.monotonic() - start:.0f} s: {error}", flush=True)
    raise SystemExit(3) from None
