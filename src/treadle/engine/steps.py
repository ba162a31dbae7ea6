"""What computing a graph consists of, step by step; a capturing jit records them and replays them.

    Run        kernels on one device, for each step of a loop if they are one
    Transfer   a copy from one device to another
    HostCall   a NumPy function of tensors, computed by the host between kernels
    Collective a call that all processes of a group make

The last three run again on other memory by `step.run(moved)`: what is in `moved`, by id, stands
for the memory of the first time. They wait for what they read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import ModuleType
from typing import cast

from ..ir.args import CollectiveArg, HostArg
from ..ir.origin import Origin
from ..runtime.base import Buffer, Launch
from ..runtime.communicator import Call, Communicator
from .background_calls import Steps, call_in_order, run_in_order, take_part_in_order
from .memory import Memory, transfer
from .nccl_calls import SMALL, by_nccl, nccl_for
from .program import Program
from .provenance import Origins

__all__ = [
    "AS_THEY_ARE", "SMALL", "BetweenRuns", "Collective", "HostCall", "Moved", "Run", "Step",
    "Transfer", "listeners",
]  # fmt: skip

Moved = Mapping[int, Memory]
AS_THEY_ARE: Moved = {}


@dataclass(eq=False)
class Run:
    """A program with everything that one run of it reads and writes.

    It runs once for each of `rounds`, values of its variables. `filled`: memory among the inputs
    that was made for this run, or for one like it just before, to be assigned to. `origins`:
    who made what each kernel computes, if anybody may ask for it.
    """

    program: Program
    inputs: list[Memory]
    outputs: list[Memory]
    scratch: list[Buffer]
    rounds: Sequence[dict[str, int]]
    filled: Sequence[Memory] = ()
    origins: Sequence[Origins] = ()

    @property
    def made(self) -> list[Memory]:
        """The memory that this step was the first to write."""
        return [*self.outputs, *self.filled]

    @property
    def overwritten(self) -> list[Memory]:
        """The memory from before that this step assigns to."""
        new = {id(memory) for memory in self.filled}
        written = [self.inputs[slot] for slot in self.program.written]
        return [memory for memory in written if id(memory) not in new]

    @property
    def work(self) -> tuple[int, int, int]:
        """Kernels, operations and bytes of all rounds."""
        program, rounds = self.program, len(self.rounds)
        return len(program.kernels) * rounds, program.ops * rounds, program.bytes * rounds

    def launches(self) -> list[list[Launch]]:
        """The launches of each round; all have the same arguments."""
        inputs, outputs = [m.buffer for m in self.inputs], [m.buffer for m in self.outputs]
        return [
            self.program.launches(inputs, outputs, self.scratch, values) for values in self.rounds
        ]


@dataclass(eq=False, slots=True)
class Transfer:
    """A copy of all of `source` to `target`, which may be on another device."""

    source: Memory
    target: Memory

    @property
    def operands(self) -> list[Memory]:
        """The memory that this step reads."""
        return [self.source]

    @property
    def made(self) -> list[Memory]:
        """The memory that this step was the first to write."""
        return [self.target]

    def run(self, moved: Moved = AS_THEY_ARE) -> None:
        """Copy."""
        source, target = self.source, self.target
        transfer(moved.get(id(source), source), moved.get(id(target), target))


@dataclass(eq=False, slots=True)
class HostCall:
    """The function `arg.name` of `operands` in `shapes`: all its results into `made`.

    Operands are read where they are if the host sees them there. `origin` is who asked for it.
    """

    arg: HostArg
    operands: Sequence[Memory]
    shapes: Sequence[tuple[int, ...]]
    made: Sequence[Memory]
    origin: Origin | None = None

    def run(self, moved: Moved = AS_THEY_ARE) -> None:
        """Compute. Raises LinAlgError."""
        arrays = []
        for memory, shape in zip(self.operands, self.shapes, strict=True):
            array = moved.get(id(memory), memory).array().reshape(shape)
            array.setflags(write=False)
            arrays.append(array)
        for memory, result in zip(self.made, _lapack().results(self.arg, arrays), strict=True):
            moved.get(id(memory), memory).fill(result)


@dataclass(eq=False, slots=True)
class Collective:
    """The call `arg.kind` of all processes of `arg.group`, with memory for its result.

    `operands` is what this process gives in `shape`, if it gives anything; `made` is one memory.
    An all-reduce may have several of both, which are exchanged as one, one behind the other.
    They take part where they are if the host sees them there, or NCCL does. A call of more than
    SMALL bytes runs while this process computes: whoever asks for the result waits, and so does
    whoever overwrites the operands, and `finish`. `origin` is who asked for it, `check` as in Call.
    """

    arg: CollectiveArg
    operands: Sequence[Memory]
    shape: tuple[int, ...]
    made: Sequence[Memory]
    origin: Origin | None = None
    check: str | None = ""
    _arrived: Callable[[], object] | None = None

    def run(self, moved: Moved = AS_THEY_ARE) -> None:
        """Take part. Raises DistributedError."""
        arg = self.arg
        where = self.origin.where if self.origin else ""
        call = Call(arg.kind, arg.op, arg.peer, where, self.check)
        group = cast("Communicator", arg.group)
        targets = [moved.get(id(memory), memory) for memory in self.made]
        operands = [moved.get(id(memory), memory) for memory in self.operands]
        if (nccl := nccl_for(group, call, targets[0])) is not None:
            self._arrived = by_nccl(nccl, call, self.shape, operands, targets)
            return
        if len(targets) > 1:
            self._run_bucket(group, call, operands, targets)
            return
        (target,) = targets
        given = next((memory.array().reshape(self.shape) for memory in operands), None)
        result = target.array().reshape(arg.shape)
        if not target.is_shared:
            take_part_in_order(group, call, given, result)
            target.fill(result)
            return
        target.written()
        if max(result.nbytes, 0 if given is None else given.nbytes) <= SMALL:
            take_part_in_order(group, call, given, result)
            return
        job = call_in_order(group.steps(call, given, result))  # its arrays keep the buffers as long
        self._arrived = target.arrives(job.wait)
        for memory in operands:
            memory.read_by(job.wait)

    def _run_bucket(
        self, group: Communicator, call: Call, operands: list[Memory], targets: list[Memory]
    ) -> None:
        from numpy import concatenate, empty_like

        given = concatenate([memory.array() for memory in operands])
        result = empty_like(given)
        if not all(target.is_shared for target in targets):
            run_in_order(group.steps(call, given, result))
            for target, (begin, end) in zip(targets, self._pieces(), strict=True):
                target.fill(result[begin:end])
            return
        arrays = [target.array() for target in targets]

        exchange = group.steps(call, given, result)

        def steps() -> Steps:
            yield from exchange
            for array, (begin, end) in zip(arrays, self._pieces(), strict=True):
                array[...] = result[begin:end]

        for target in targets:
            target.written()
        job = call_in_order(steps())
        waits = [target.arrives(job.wait) for target in targets]
        self._arrived = lambda: [wait() for wait in waits]

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Where each of `made` begins and ends in what is exchanged."""
        ends = [0, *accumulate(memory.size for memory in self.made)]
        return pairwise(ends)

    def finish(self) -> None:
        """Wait until the last run is over."""
        arrived, self._arrived = self._arrived, None
        if arrived is not None:
            arrived()


BetweenRuns = Transfer | HostCall | Collective
Step = Run | BetweenRuns

# Told of each step that was taken, in order; a capturing jit listens.
listeners: list[Callable[[Step], None]] = []


@functools.cache
def _lapack() -> ModuleType:
    from ..ir import lapack  # brings NumPy, which only host calls need at once

    return lapack
