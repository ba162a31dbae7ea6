"""MPI's part in calls that NCCL makes, on emulated GPUs: `treadle run -n 2 gpu_calls.py right`.

In place of NCCL each process has a fake of its own, for which all processes give the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from fake_nccl import FakeNCCL

from treadle import Device, Tensor, distributed

fake = FakeNCCL(together=1)
fake.install(pytest.MonkeyPatch())
world = distributed.init()
runtime = Device["CUDA:PTX"].runtime
assert runtime.is_software
runtime.is_software = False


def on(device: str, *shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32), device=device).realize()


if sys.argv[1] == "right":
    for count in (3, 40_000):
        assert world.allreduce(on("CUDA:PTX", count)).tolist() == [2.0] * count
    half = world.split(0)
    assert half.allgather(on("CUDA:PTX", 2)).tolist() == [1.0] * 4
    assert [call[0] for call in fake.log] == ["all_reduce", "all_reduce", "all_gather"]
    print("all right")
elif sys.argv[1] == "different":
    world.allreduce(on("CUDA:PTX", 3))
    world.allreduce(on("CUDA:PTX", 3 + world.rank))
else:
    world.allreduce(on("CUDA:PTX" if world.rank else "CPU", 3))
