"""CHECK_KERNELS: whether each kernel computes what it was made from.

    with Context(CHECK_KERNELS=1):
        (a @ b + c @ d).realize()
    KernelMismatch: [realize] CPU: kernel reduce_add_64_128_3fa81c stores 1024.0 as element (0, 17)
    of float32 of shape (64, 128); 512.0, within 0.0039, is what its loops compute before any move
      choices: register_tile, pack_operand
      train.py:12: y = a @ b + c @ d

Kernels run one by one. What one is going to read and overwrite is kept; then what it has stored is
compared, at some elements, with the kernel before any move (`ir/interpret_kernel`), and with the
part of the graph that was fused into it (`ir/interpret_at`). Both are computed in float64, with
bounds of what rounding may do (`ir/rounding`). Among the elements are those at the ends of the
loops, before all moves and after them. What runs the quick way, a replay of a captured function or
the rounds of a loop, runs like that once more, on the same memory: the two must agree.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..config import settings
from ..dtype import dtypes
from ..errors import KernelMismatch
from ..ir.elementwise import numpy_dtype
from ..ir.interpret_at import GraphMeaning
from ..ir.interpret_kernel import KernelMeaning, NotPlain, digits, steps_and
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rounding import Value
from ..ir.rounding_bits import distance
from ..ir.versions import memory_key, view_base
from ..ir.views import After, Assign
from ..optimize.heuristic import parsed, replay
from ..schedule.kernel import Kernel
from ..target import Target
from .devices import Device, Opened
from .error_context import blamed
from .memory import Memory
from .program import CompiledKernel, Place
from .steps import BetweenRuns, Run

__all__ = ["TALLY", "Tally", "check_again", "check_launches"]

Array = np.ndarray
_NONE = np.zeros(0, np.int64)
WORK = 1 << 20  # terms that one kernel's elements may take together
MOST_WORK = 1 << 26  # a kernel one element of which takes more is not checked
FEWEST, MOST = 4, 1024  # elements of a result
TF32 = float(1 << 13)  # roundings of float32 that one of TF32 is


@dataclass
class Tally:
    """What was compared: kernels, elements, those whose bounds say nothing, and what was not."""

    kernels: int = 0
    elements: int = 0
    unknown: int = 0
    graphs: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, why: str) -> None:
        """Count what could not be compared."""
        self.skipped[why] = self.skipped.get(why, 0) + 1


TALLY = Tally()


@dataclass(frozen=True, eq=False)
class _Checked:
    """One launch of a kernel: how it was scheduled and compiled, and its memory before."""

    kernel: Kernel
    compiled: CompiledKernel
    before: Mapping[int, Array]
    variables: Mapping[str, int]
    opened: Opened

    @property
    def roundings(self) -> float:
        """Units in the last place by which every product may be off."""
        return TF32 if settings.ALLOW_TF32 and self.opened.target.matrix_units else 0


def check_launches(run: Run, opened: Opened) -> None:
    """Launch the kernels of `run` one by one. Raises KernelMismatch where one is wrong."""
    assert run.program.schedule is not None  # whoever asks has looked
    for values, launches in zip(run.rounds, run.launches(), strict=True):
        kernels = zip(run.program.schedule, run.program.kernels, strict=True)
        rows = zip(kernels, run.program.arguments, launches, strict=True)
        for (kernel, compiled), places, launch in rows:
            memory = [_memory(run, place) for place in places[: len(kernel.buffers)]]
            slots = list(enumerate(zip(kernel.buffers, places, memory, strict=False)))
            before = {
                slot: _elements(buffer, place, held, slot in kernel.writes)
                for slot, (buffer, place, held) in slots
            }
            opened.runtime.run([launch])
            written = set(kernel.writes)
            after = {
                slot: _elements(buffer, place, held, False)
                for slot, (buffer, place, held) in slots
                if slot in written
            }
            _compare(_Checked(kernel, compiled, before, values, opened), after)


def _memory(run: Run, place: Place) -> Memory:
    if place.kind == "input":
        return run.inputs[place.number]
    if place.kind == "output":
        return run.outputs[place.number]
    block, buffer = run.program.scratch[place.number], run.scratch[place.number]
    if isinstance(block, int):
        return Memory(buffer, _BYTES, block, run.program.device)
    return Memory(buffer, _FLOAT, block.channels, run.program.device, image=block)


def _elements(buffer: Node, place: Place, memory: Memory, copies: bool) -> Array:
    """The elements of a kernel's buffer, as its loads find them."""
    found = memory.array()
    if memory.image is None:
        kind = numpy_dtype(buffer.dtype)
        found = found.view(np.uint8)[place.offset :]
        found = found[: len(found) // kind.itemsize * kind.itemsize].view(kind)
    return found.copy() if copies else found


# -- one launch -----------------------------------------------------------------------------------


def _compare(checked: _Checked, after: Mapping[int, Array]) -> None:
    TALLY.kernels += 1
    kernel = checked.kernel
    seed = zlib.crc32(checked.compiled.name.encode()) + TALLY.kernels
    count = 64
    wanted: Mapping[int, Array] = {}
    try:
        meaning = KernelMeaning(kernel.ast, checked.before, checked.variables, checked.roundings)
        work = meaning.work
        count = max(FEWEST, min(MOST, WORK // work))
        if work > MOST_WORK:
            TALLY.skip("it takes too long")
            return
        wanted = _ends_of_loops(checked, count, seed)
        for stored in meaning.stores(count, seed, wanted):
            _require(checked, stored.slot, stored.places, after[stored.slot], stored.value, _LOOPS)
    except NotPlain as why:
        TALLY.skip(f"kernel: {why}")
    _compare_with_graph(checked, after, count, seed, wanted)


def _ends_of_loops(checked: _Checked, count: int, seed: int) -> Mapping[int, Array]:
    """Where the kernel stores, by slot, at ends of the loops that its moves have made.

    They are half as many as `count` at most.
    """
    try:
        made = _optimised(checked.kernel.ast, checked.opened.target, checked.compiled.moves)
        meaning = KernelMeaning(made, checked.before, checked.variables)
        return meaning.places(max(1, count // 2), seed)
    except (NotPlain, ValueError):  # moves of another kernel that has the same code
        return {}


@functools.lru_cache(maxsize=256)  # steps of a loop check the same kernels again and again
def _optimised(ast: Node, target: Target, moves: tuple[str, ...]) -> Node:
    return replay(ast, target, parsed("\n".join(moves)))


def _compare_with_graph(
    checked: _Checked,
    after: Mapping[int, Array],
    count: int,
    seed: int,
    wanted: Mapping[int, Array],
) -> None:
    """Compare what is stored for each root with the graph below it, as far as the kernel reads."""
    meaning = GraphMeaning(_Known(checked), checked.variables, checked.roundings)
    for root, slot in _last_of_each(checked.kernel):
        view, value = Assign.of(root) if root.op is Op.ASSIGN else (None, root)
        shape = meaning.shape(value)
        if 0 in shape:
            continue
        there = wanted.get(slot, _NONE) if view is None else _NONE
        index = steps_and(digits(there[there < math.prod(shape)], shape), shape, count, seed)
        try:
            found = meaning.at(value, index)
            places = _flat(index, shape) if view is None else meaning.place(view, index)
        except NotPlain as why:
            TALLY.skip(f"graph: {why}")
            continue
        TALLY.graphs += 1
        places = np.broadcast_to(places, index[0].shape if index else (1,))
        _require(checked, slot, places, after[slot], found, _GRAPH)


def _last_of_each(kernel: Kernel) -> Iterator[tuple[Node, int]]:
    """The roots of a kernel, the last one where several are assigned to the same memory."""
    last = {slot: root for root, slot in zip(kernel.roots, kernel.writes, strict=True)}
    return ((root, slot) for slot, root in last.items())


def _flat(index: Sequence[Array], shape: Sequence[int]) -> Array:
    place = np.zeros((), np.int64)
    for position, size in zip(index, shape, strict=True):
        place = place * size + position
    return place


class _Known:
    """The values of the nodes that a kernel finds in memory."""

    def __init__(self, checked: _Checked) -> None:
        kernel = checked.kernel
        self._before, self._roots = checked.before, frozenset(kernel.roots)
        self._slots = {memory_key(buffer): slot for slot, buffer in enumerate(kernel.buffers)}

    def __call__(self, node: Node) -> Array | None:
        if node in self._roots:
            return None
        version = node
        while version.op is Op.AFTER:
            older, effects = After.of(version)
            if not self._roots.isdisjoint(effects):
                raise NotPlain("it reads what it has stored")
            version = view_base(older)
        slot = self._slots.get(memory_key(version))
        return None if slot is None else self._before[slot]


_BYTES, _FLOAT = dtypes.uint8, dtypes.float32


def _require(
    checked: _Checked, slot: int, places: Array, stored: Array, right: Value, source: str
) -> None:
    """Raises KernelMismatch where an element is not what it should be."""
    found = stored[places]
    exact = found if found.dtype.kind in "biu" else found.astype(np.float64)
    value = np.broadcast_to(right.value, exact.shape)
    same = (exact == value) | ((exact != exact) & (value != value))
    if right.error is not None:
        error = np.broadcast_to(right.error, exact.shape)
        same = same | np.isinf(error)
        with np.errstate(all="ignore"):
            if exact.dtype.kind in "iu":  # of bits of floats, which no float64 tells apart
                apart = distance(exact, value.astype(exact.dtype))
            else:
                apart = np.abs(exact.astype(np.float64) - value.astype(np.float64))
        same = same | ((error > 0) & (apart <= error))
        TALLY.unknown += int(np.isinf(error).sum())
    if exact.dtype.kind == "f" and not checked.opened.name.startswith("CPU"):
        same = same | ((exact == 0) & (np.abs(value) < _LEAST))  # numbers that are not normal
    TALLY.elements += same.size
    wrong = np.flatnonzero(~same)
    if wrong.size:
        first = wrong[0]
        within = None if right.error is None else float(error[first])
        message = _message(checked, slot, int(places[first]), found[first], value[first], within)
        raise blamed(
            KernelMismatch(f"{message} {source}{_choices(checked)}"),
            checked.kernel.roots,
            checked.kernel.buffers,
        )


_LEAST = float(np.finfo(np.float32).smallest_normal)
_LOOPS = "is what its loops compute before any move: please report it"
_GRAPH = "is what the graph says that was fused into it: please report it"


def _message(
    checked: _Checked, slot: int, place: int, found: object, value: object, within: float | None
) -> str:
    buffer = checked.kernel.buffers[slot]
    sizes = [size for size in buffer.shape if isinstance(size, int)]
    known = len(sizes) == len(buffer.shape) and place < math.prod(sizes)
    element = tuple(int(i) for i in np.unravel_index(place, sizes)) if known else place
    bound = "" if within is None else f", within {within:.3g},"
    return (
        f"[realize] {checked.opened.name}: kernel {checked.compiled.name} stores {found} as "
        f"element {element} of {buffer.dtype.name} of shape {buffer.shape}; {value}{bound}"
    )


def _choices(checked: _Checked) -> str:
    names = sorted(checked.compiled.choices | checked.kernel.choices)
    moves = "; ".join(checked.compiled.moves)
    return f"\n  choices: {', '.join(names) or 'none'}\n  moves: {moves or 'none'}"


# -- what ran the quick way -----------------------------------------------------------------------


def check_again(
    steps: Sequence[Run | BetweenRuns],
    overwritten: Sequence[Memory],
    moved: Mapping[int, Memory],
    made: Sequence[Memory],
    run: Callable[[], None],
    what: str,
) -> None:
    """Run `steps` by `run`, the quick way, and once more kernel by kernel: both must agree.

    `moved`: the memory, by id, that stands for that of the steps; `made`: what `run` gives results
    in, known when it is done. Raises KernelMismatch.
    """
    before = [memory.array().copy() for memory in overwritten]
    run()
    both = [*overwritten, *made]
    quick = [memory.array().copy() for memory in both]
    for memory, array in zip(overwritten, before, strict=True):
        memory.store(array)
    for step in steps:
        if isinstance(step, Run):
            _run_slowly(step, moved)
        else:
            step.run(moved)
    for memory, array in zip(both, quick, strict=True):
        _require_same(memory, array, memory.array(), what)


def _run_slowly(run: Run, moved: Mapping[int, Memory]) -> None:
    opened = Device[run.program.device]
    allocator = opened.allocator
    scratch = [
        allocator.alloc(block) if isinstance(block, int) else allocator.alloc_image(block)
        for block in run.program.scratch
    ]
    inputs = [moved.get(id(memory), memory) for memory in run.inputs]
    outputs = [moved.get(id(memory), memory) for memory in run.outputs]
    slow = Run(run.program, inputs, outputs, scratch, run.rounds)
    if run.program.schedule is None:
        for launches in slow.launches():
            opened.runtime.run(launches)
    else:
        check_launches(slow, opened)


def _require_same(memory: Memory, quick: Array, slow: Array, what: str) -> None:
    one, other = quick.view(np.uint8), slow.view(np.uint8)
    wrong = np.flatnonzero(one != other)
    if wrong.size:
        place = int(wrong[0]) // quick.itemsize
        raise KernelMismatch(
            f"[realize] {memory.device}: {what} leaves {quick[place]} as element {place} of "
            f"{memory.size} of {memory.dtype.name}; {slow[place]} is what its kernels compute one "
            "by one: please report it"
        )
