"""Counts in a checkpoint up to STEPS: `treadle run -n 2 saving.py FOLDER STEPS [killed]`.

Where it is to be killed, the last process dies while it writes the one after.
"""

from __future__ import annotations

import os
import signal
import sys

import numpy as np

from treadle import Tensor, distributed
from treadle.distributed import checkpoint
from treadle.distributed.checkpoint import Slice

world = distributed.init()
folder, steps, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
each = 12 // world.size
begin = world.rank * each
found = checkpoint.load(world, folder)
if found is None:
    step, x = 0, Tensor(np.arange(12, dtype=np.float32)[begin:][:each])
else:
    step, x = found.step, found.read("x", (begin,), (each,))
print(f"begins at {step}", flush=True)
write = checkpoint._write


def killed(aside, group, plan, slices):
    if world.rank == world.size - 1:
        (aside / "half").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)
    return write(aside, group, plan, slices)


while True:
    step, x = step + 1, x + 1
    if step > steps:
        break
    checkpoint.save(world, folder, step, {"x": Slice(x, (begin,), (12,))}, keep=2)
if how == "killed":
    checkpoint._write = killed
    checkpoint.save(world, folder, step, {"x": Slice(x, (begin,), (12,))})
np.testing.assert_array_equal((x - 1).numpy(), np.arange(begin, begin + each) + steps)
print(f"{steps} right")
