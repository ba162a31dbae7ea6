"""Programs of many processes, on one machine or on many: `treadle run -n 4 train.py`.

from treadle import distributed

world = distributed.init()              # of a process alone it is a group of one
total = world.allreduce(x)              # the sum of what all processes have
print(world.rank, "of", world.size)
"""

from __future__ import annotations

from ..ir.args import Mesh
from . import checkpoint
from .group import Group
from .job import init, shrink
from .parts import part_of

__all__ = ["Group", "Mesh", "checkpoint", "init", "part_of", "shrink"]
