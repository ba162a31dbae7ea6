"""Trials: a kernel's schedules run on memory of their own, to be timed and compared.

    trial = Trial(ast, writes, opened, build)         fills memory, runs the kernel as it stands
    candidate = trial.candidate(ast, moves)           compiled
    seconds, found = trial.result(candidate)          what it takes, and what it computes
    trial.agrees(found, expected)                     see agreement.py

Of a kernel that takes long as it stands, before any move, only some results are known: those that
optimize/sample.py leaves. Memory is bounded: no kernel of more than 256 MiB is tried, which may
have as much scratch memory, and for each result there are three copies. Weights that last are
packed once and not in the time that a schedule takes, as in a replay (see prepacked.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..dtype import DType
from ..errors import OutOfMemory
from ..ir.elementwise import numpy_dtype
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Access
from ..optimize.moves import Schedule
from ..optimize.sample import sampled
from ..runtime.base import Buffer, CallList, Launch
from .agreement import agree, tolerance
from .prepacked import left_out

if TYPE_CHECKING:
    from .devices import Opened
    from .program import CompiledKernel

__all__ = ["Arrays", "Build", "Candidate", "Trial"]

Build = Callable[[Node, Schedule], "CompiledKernel"]
Arrays = dict[int, np.ndarray]

MAX_BYTES = 1 << 28  # of the memory that a kernel reads and writes, and of its scratch memory
SAMPLE_STEPS = 1 << 25  # of the kernel as it stands: some tenths of a second
POISON = 0xFF  # what each byte of scratch memory is at first: NaN, as a float
GUARD = np.frombuffer(b"nothing is to be written past an end" * 2, np.uint8)[:64]
PERIOD = 1_000_003  # after so many elements data repeats itself; a prime, so that rows differ


@dataclass(frozen=True, eq=False)
class Candidate:
    """A schedule that was compiled, ready to run on the memory of its Trial.

    `packing` is what replays leave out, `rest` all else.
    """

    packing: CallList | None
    rest: CallList
    ast: Node
    moves: Schedule

    def seconds(self) -> float:
        """What one launch takes, behind the packing that comes before it."""
        ((start, end),) = self.rest.run_timed()
        return (end - start) * 1e-9


class Trial:
    """Memory for one kernel, filled with the same numbers for each of its schedules.

    `writes` are the slots of memory that it stores into. Raises what building and running the
    kernel raises; `reference` is None where nothing can tell whether a schedule is right.
    """

    reference: tuple[Arrays, Arrays] | None

    def __init__(self, ast: Node, writes: Sequence[int], opened: Opened, build: Build) -> None:
        self._ast, self._writes, self._opened, self._build = ast, writes, opened, build
        nodes = ast.toposort()
        self._params = sorted((n for n in nodes if n.op is Op.PARAM), key=lambda n: n.arg.slot)
        read = {behind_after(Access.of(n).memory) for n in nodes if n.op is Op.LOAD}
        loaded = {memory.arg.slot for memory in read if memory.op is Op.PARAM}
        self._in_place = bool(loaded & set(writes))
        self._lasting = {p.arg.slot for p in self._params if p.arg.lasts}
        self._tolerance = tolerance(nodes) or 0.0
        self._memory: list[Buffer] = []
        self._fill: Arrays = {}
        self.reference = self._reference()

    # -- running --------------------------------------------------------------------------------

    def candidate(self, ast: Node, moves: Schedule) -> Candidate:
        """Compile a schedule. Raises OutOfMemory where it wants too much scratch memory."""
        compiled = self._build(ast, moves)
        if sum(compiled.scratch) > MAX_BYTES:
            raise OutOfMemory(f"{sum(compiled.scratch)} bytes of scratch memory")
        scratch = [self._filled(np.full(n, POISON, np.uint8)) for n in compiled.scratch]
        args = [memory.argument for memory in (*self._memory, *scratch)]
        once = left_out(compiled, len(self._memory), self._lasting)
        keep = (compiled, scratch, self._memory)

        def calls(phases: Iterable[object]) -> CallList:
            return self._opened.runtime.call_list([Launch([*phases], args)], keep)

        phases = list(enumerate(compiled.library.phases))
        packing = calls(phase for n, phase in phases if n in once) if once else None
        return Candidate(packing, calls(phase for n, phase in phases if n not in once), ast, moves)

    def seconds(self, candidate: Candidate) -> float:
        """What one launch takes; a kernel that reads what it writes meets the same data again."""
        if self._in_place:
            self._restore()
        return candidate.seconds()

    def result(self, candidate: Candidate) -> tuple[float, Arrays]:
        """The seconds of a launch, and all memory that the kernel writes after it."""
        self._restore()
        if candidate.packing is not None:
            candidate.packing.run()
        seconds = candidate.seconds()
        return seconds, {slot: self._read(slot) for slot in self._writes}

    def _restore(self, flipped: bool = False) -> None:
        for slot, data in self._fill.items():
            self._write(self._memory[slot], ~data if flipped else data)

    def _filled(self, data: np.ndarray) -> Buffer:
        memory = self._opened.allocator.alloc(max(1, data.size))
        self._write(memory, data)
        return memory

    def _read(self, slot: int) -> np.ndarray:
        data = bytearray(self._fill[slot].size)
        self._opened.runtime.read(self._memory[slot], memoryview(data))
        return np.frombuffer(data, np.uint8)

    def _write(self, memory: object, data: np.ndarray) -> None:
        if data.size:
            self._opened.runtime.write(memory, data.data)

    # -- the kernel as it stands ------------------------------------------------------------------

    def _reference(self) -> tuple[Arrays, Arrays] | None:
        """(results, where there are any) of the kernel without any moves, or of a sample of it."""
        if sum(p.arg.size * p.dtype.itemsize for p in self._params) > MAX_BYTES:
            return None
        ast = sampled(self._ast, SAMPLE_STEPS)
        if ast is None or (self._in_place and ast is not self._ast):
            return None
        for low in (-8, 1):  # floats of both signs if all is finite then, else positive ones
            self._memory, self._fill = [], {}
            for p in self._params:
                data = _numbers(p.dtype, p.arg.size, p.arg.slot, low)
                if p.arg.slot in self._writes:
                    data = self._fill[p.arg.slot] = np.concatenate([data, GUARD])
                self._memory.append(self._filled(data))
            plain = self.candidate(ast, Schedule())
            _, found = self.result(plain)
            if all(self._is_finite(slot, data) for slot, data in found.items()):
                return found, self._written(plain, found)
        return None

    def _written(self, plain: Candidate, found: Arrays) -> Arrays:
        """Which elements are stored: those that come out the same whatever was there before."""
        if self._in_place:
            return {
                slot: np.ones(len(self._typed(slot, data)), bool) for slot, data in found.items()
            }
        self._restore(flipped=True)
        plain.seconds()
        written = {}
        for slot, data in found.items():
            same = (self._read(slot) == data)[: -len(GUARD)]
            written[slot] = same.reshape(-1, self._params[slot].dtype.itemsize).all(axis=1)
        return written

    # -- comparing ------------------------------------------------------------------------------

    def matches_reference(self, found: Arrays) -> bool:
        """Whether a schedule's results are those of the kernel as it stands, where known."""
        assert self.reference is not None  # whoever asks has looked
        expected, written = self.reference
        return all(self._equal(s, found[s], expected[s], written[s]) for s in self._writes)

    def agrees(self, one: Arrays, other: Arrays) -> bool:
        """Whether two schedules have the same results everywhere."""
        return all(self._equal(slot, one[slot], other[slot]) for slot in self._writes)

    def _equal(
        self, slot: int, found: np.ndarray, expected: np.ndarray, where: np.ndarray | None = None
    ) -> bool:
        if not np.array_equal(found[-len(GUARD) :], GUARD):  # it stores behind the end
            return False
        one, other = self._typed(slot, found), self._typed(slot, expected)
        if where is not None:
            one, other = one[where], other[where]
        return agree(one, other, self._tolerance)

    def _is_finite(self, slot: int, data: np.ndarray) -> bool:
        return bool(np.isfinite(self._typed(slot, data)).all())

    def _typed(self, slot: int, data: np.ndarray) -> np.ndarray:
        """The elements of a buffer; floats as NumPy knows them itself."""
        dtype = self._params[slot].dtype
        array = data[: -len(GUARD)].view(numpy_dtype(dtype))
        return array.astype(np.float32) if dtype.kind == "float" and dtype.itemsize < 4 else array


def _numbers(dtype: DType, size: int, seed: int, low: int) -> np.ndarray:
    """The bytes of `size` numbers: floats from `low` / 8 to 1, integers from 0 to 7, bools."""
    random = np.random.default_rng(seed)
    count, kind = min(size, PERIOD), numpy_dtype(dtype)
    if dtype.kind == "float":
        data = (random.integers(low, 9, count) / 8).astype(kind)
    else:
        data = random.integers(0, 2 if dtype.kind == "bool" else 8, count).astype(kind)
    return np.resize(data, size).view(np.uint8)
