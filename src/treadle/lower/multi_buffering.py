"""STAGEs in several buffers: the next slices arrive while work items use one.

    for i in S:  use(STAGE(value[i]))        in B buffers
      ->
    fill buffers 0 .. B-2 with value[0] .. value[B-2], a COMMIT after each
    for i in S:
      WAIT until all but the latest B-2 groups have happened, and all work items are here
      fill buffer (i + B-1) % B with value[i + B-1], or 0 behind the last step; COMMIT
      use(buffer i % B)

All STAGEs of one loop share its WAIT. One meeting of the work items a step is enough: what arrived
for all of them may be read, and the buffer that is filled next is the one that all have read. The
last steps fill buffers that nobody reads, so that the count of groups is right to the end. What no
loop changes, such as a row that is expanded, is one slice: lower/stage.py fills it before the loop.

Filling is STOREs, ASYNCHRONOUS ones where the STAGE says "copies": those happen some time before
the WAIT. A renderer may make ordinary STOREs of them, which the WAIT covers as well.
"""

from __future__ import annotations

from ..dtype import dtypes
from ..errors import InternalError
from ..ir.args import LocalRef
from ..ir.choices import take
from ..ir.interval import bounds
from ..ir.loops import Split, ranges_of, replace_ranges
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.rules.index import linear_terms, simplify, sum_terms
from ..ir.shape import size_product, strides_of
from ..ir.views import End, Stage, Store, bound_of

__all__ = [
    "ASYNCHRONOUS",
    "alignment_of",
    "buffers_of",
    "lower_buffered_stages",
    "place_in",
    "slice_place",
]

ASYNCHRONOUS = "asynchronous"  # the arg of a STORE that nobody sees before a WAIT
PIECE = 16  # bytes that change places as a whole
ROW = 128  # bytes that the banks of shared memory hold side by side

Key = tuple[Node, ...]  # what a STAGE stores, and where: those that are read elsewhere share it
_NONE = Node.index(0)


def lower_buffered_stages(root: Node) -> Node:
    """`root` with STAGEs in several buffers as LOADs of LOCAL memory that is filled ahead."""
    loops: dict[Node, dict[Key, Node]] = {}
    is_pipeline = lambda n: n.op is Op.STAGE and n.arg.buffers > 1 and n.arg.fill != "boxes"
    found = {n: _loop_of(n) for n in filter(is_pipeline, root.toposort())}
    stages = {stage: loop for stage, loop in found.items() if loop is not None}
    for stage, loop in stages.items():
        loops.setdefault(loop, {}).setdefault(Stage.of(stage).filling, stage)
    ready: dict[Key, tuple[Node, Node]] = {}
    for loop, filled in loops.items():
        memory = {
            key: buffers_of(stage, len(ready) + number)
            for number, (key, stage) in enumerate(filled.items())
        }
        take("multi_buffering")
        if any(s.arg.fill == "copies" for s in filled.values()):
            take("asynchronous_copies")
        ready |= _pipeline(loop, filled, memory)
    loads = {}
    for stage in stages:
        memory, first = ready[Stage.of(stage).filling]
        place = place_in(stage, Stage.of(stage).read, first)
        loads[stage] = Node(Op.LOAD, stage.dtype, (memory, place))
    return root.substitute(loads)


def place_in(stage: Node, index: tuple[Node, ...], first: Node = _NONE) -> Node:
    """Where the element at `index` is in a STAGE's memory that begins at `first`."""
    sizes, swizzle = stage.arg.sizes, stage.arg.swizzle
    strides = strides_of(sizes)
    *outer, last = index
    line = Node.index(0)
    for number, stride in zip(outer, strides, strict=False):
        line = line + number * stride
    if swizzle:
        each = PIECE // stage.dtype.itemsize
        # Lines that are rows of banks, or longer ones, all begin in the same bank.
        take("swizzled_tiles")
        row = line * stage.dtype.itemsize // max(ROW, swizzle)
        turn = simplify(row % (swizzle // PIECE))
        if simplify(last % each).value == 0:
            return _turned(simplify(first + line), simplify(last), turn * each)
        last = alu(Op.XOR, simplify(last // each), turn) * each + last % each
    return simplify(first + line + last)


def _turned(line: Node, last: Node, turn: Node) -> Node:
    """The place of a piece that is `last` in a line, with the bits of `turn` turned.

    What is constant goes to the outside: a work item has one place, and turns a few bits of it for
    each piece. Those places would take a register each.
    """
    terms, beyond = linear_terms(line)
    parts, fixed = linear_terms(last)
    line, within = sum_terms(terms, 0), sum_terms(parts, 0)
    if fixed and not 0 <= bounds(within)[0] <= bounds(within)[1] < fixed & -fixed:
        within, fixed = last, 0
    place = alu(Op.XOR, simplify(line + within), simplify(turn))
    return simplify((alu(Op.XOR, place, Node.index(fixed)) if fixed else place) + beyond)


def alignment_of(stage: Node) -> int:
    """What the address of a STAGE's memory is a multiple of.

    The first bits of an address say which row it is in: rows repeat after eight.
    """
    return max(PIECE, 8 * stage.arg.swizzle)


def buffers_of(stage: Node, number: int) -> Node:
    """The LOCAL memory of a STAGE's buffers, by its number."""
    size = stage.arg.buffers * size_product(stage.arg.sizes)
    return Node(Op.LOCAL, stage.dtype, (), LocalRef(number, size, alignment_of(stage)))


def _loop_of(stage: Node) -> Node | None:
    """The innermost loop that what is stored depends on: its steps are the slices. None: of one."""
    slice_ = Stage.of(stage)
    part = Node.sink((slice_.value, slice_.gate, *slice_.filled))
    inside = frozenset(slice_.loops)
    if any(r.arg.kind == "loop" for r in inside):
        raise InternalError(f"a pipeline is filled in loops: {stage!r}")
    around = (r for r in ranges_of(part) - inside if r.arg.kind == "loop")
    return max(around, key=lambda r: r.arg.number, default=None)


def _pipeline(
    loop: Node, stages: dict[Key, Node], memory: dict[Key, Node]
) -> dict[Key, tuple[Node, Node]]:
    """For each STAGE its memory as a step of the loop finds it, and where the step's slice is."""
    counts = {stage.arg.buffers for stage in stages.values()}
    if len(counts) > 1:
        raise InternalError(f"the STAGEs of a pipeline have {sorted(counts)} buffers")
    ahead = counts.pop() - 1
    filled: tuple[Node, ...] = ()
    for number in range(ahead):
        filled = (_filled(stages, memory, filled, loop, Node.index(number)),)
    wait = Node(Op.WAIT, dtypes.void, (loop, *filled), ahead - 1)
    commit = _filled(stages, memory, (wait,), loop, loop + ahead)
    return {
        key: (Node(Op.AFTER, m.dtype, (m, wait, commit)), slice_place(stages[key], loop))
        for key, m in memory.items()
    }


def _filled(
    stages: dict[Key, Node],
    memory: dict[Key, Node],
    before: tuple[Node, ...],
    loop: Node,
    step: Node,
) -> Node:
    """The COMMIT of all slices of a step, filled after what is `before`."""
    ends = (
        _fill(stage, Node(Op.AFTER, stage.dtype, (memory[key], *before)), loop, step)
        for key, stage in stages.items()
    )
    return Node(Op.COMMIT, dtypes.void, tuple(ends))


def slice_place(stage: Node, step: Node) -> Node:
    """Where the slice of a step begins."""
    return step % stage.arg.buffers * size_product(stage.arg.sizes)


def _fill(stage: Node, memory: Node, loop: Node, step: Node) -> Node:
    """The END that stores the slice of `step`; nothing is read for one behind the last."""
    slice_ = Stage.of(stage)
    is_step = simplify(step < bound_of(loop))
    value = simplify(replace_ranges(slice_.value, {loop: Split(step, (), is_step)}))
    gate, *index = (simplify(s.substitute({loop: step})) for s in (slice_.gate, *slice_.filled))
    position = simplify(slice_place(stage, step) + place_in(stage, tuple(index)))
    how = ASYNCHRONOUS if slice_.arg.fill == "copies" else None
    return End((Store(memory, position, value, gate, how).node(),), slice_.loops).node()
