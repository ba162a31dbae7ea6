"""Machines of all widths, with both ways of control flow, and programs of the toy run on arrays."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from treadle.emulate.simt.execute import Program
from treadle.emulate.simt.machine import Access, Region

from .toy import front_end, translation

WIDTHS = (32, 64, 128)


@dataclass
class Toy:
    """Runs programs. `memory` is what they may touch: `put` adds to it."""

    compile_ir: object
    width: int
    has_lane_counters: bool
    memory: list = field(default_factory=list)
    arrays: list = field(default_factory=list)

    def put(self, array, start=None, access=Access.ALL):
        """The address of an array for kernels: the host's, or `start`."""
        host = array.ctypes.data
        self.arrays.append(array)
        start = host if start is None else start
        self.memory.append(Region(start, array.nbytes, host - start, access))
        return start

    def run(
        self, program, threads, blocks=1, shared=0, local=0, user=0, races=True, host_threads=1
    ):
        front = front_end(self.width, self.has_lane_counters)
        block = threads if isinstance(threads, tuple) else (threads, 1, 1)
        make = lambda name: translation(front, program, shared, local)
        kernels = Program(front, make, self.compile_ir, host_threads, races)
        kernels.launch("k", (blocks, 1, 1), block, b"", self.memory, 0, {"user": user})

    def results(self, program, threads, blocks=1, **options):
        """What each thread leaves in `j`. Registers `a` and `i` are its number and its place's."""
        count = threads * blocks
        array = np.zeros(count, np.uint64)
        address = self.put(array)
        head = [
            ("id", "a"), ("user", "b"), ("const", "c", threads), ("mul", "b", "b", "c"),
            ("add", "i", "a", "b"), ("const", "c", 8), ("mul", "i", "i", "c"),
            ("const", "c", address), ("add", "i", "i", "c"),
        ]  # fmt: skip
        self.run([*head, *program, ("store", "global", "i", "j", 64)], threads, blocks, **options)
        return array


@pytest.fixture(scope="session")
def compile_quickly(compile_ir):
    """Nothing here runs for long: support functions are compiled as quickly as kernels."""
    return lambda source, quick=True: compile_ir(source, quick=True)


@pytest.fixture(params=[f"{width}-{kind}" for kind in ("counters", "exec") for width in WIDTHS])
def toy(request, compile_quickly):
    """All widths, with both ways of control flow."""
    width, kind = request.param.split("-")
    return Toy(compile_quickly, int(width), kind == "counters")


@pytest.fixture(params=WIDTHS)
def with_counters(request, compile_quickly):
    """All widths; each lane has a program counter."""
    return Toy(compile_quickly, request.param, True)


@pytest.fixture(params=WIDTHS)
def with_exec(request, compile_quickly):
    """All widths; a warp has one program counter and a mask EXEC."""
    return Toy(compile_quickly, request.param, False)
