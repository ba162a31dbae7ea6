"""What is legal in a tensor graph, in a kernel and in a linear program.

    verify_kernel(sink)   # returns, or raises InternalError naming the node and the broken rule

Checks run between passes in tests. Rules on one node are in the table CHECKS; a linear program also
needs every source before its use, and loops and conditions that nest.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import dtypes
from ..errors import InternalError
from .accumulators import identity
from .loops import closed_ranges, free_ranges
from .node import Node
from .op import ALU, COMPARE, INFO, MOVEMENT, SAME, TRANSCENDENTAL, Op

__all__ = ["shared_by_lanes", "verify_kernel", "verify_linear", "verify_loops", "verify_tensor"]

_VALUES = frozenset((Op.CONST, Op.VARIABLE, Op.BIND))
_LANES = frozenset((Op.BROADCAST, Op.LANES, Op.EXTRACT, Op.STACK, Op.SHUFFLE, Op.HREDUCE))
TENSOR_OPS = ALU | MOVEMENT | _VALUES | frozenset((
    Op.BUFFER, Op.IOTA, Op.UNWINDOW, Op.REDUCE, Op.SCAN, Op.GATHER, Op.SCATTER, Op.SORT,
    Op.DISTRIBUTE, Op.CONTIGUOUS, Op.CONTIGUOUS_BACKWARD, Op.DETACH, Op.ALIAS, Op.CHECKED, Op.COPY,
    Op.HOST, Op.COLLECTIVE, Op.RECUR, Op.MULTI, Op.PART, Op.ASSIGN, Op.AFTER, Op.SINK,
))  # fmt: skip
_MACHINE = ALU | _VALUES | _LANES | frozenset((
    Op.PARAM, Op.LOCAL, Op.REGISTER, Op.RANGE, Op.LOAD, Op.STORE, Op.PREFETCH, Op.LINE,
    Op.UPDATE, Op.END, Op.AFTER,
    Op.BARRIER, Op.COMMIT, Op.WAIT, Op.AWAIT, Op.EXPECT, Op.BOX, Op.WORK_ITEM, Op.SUBGROUP,
    Op.BUTTERFLY, Op.QUICK_EXP2, Op.SCALE, Op.HALVES, Op.FRAGMENT, Op.MMA, Op.WGMMA, Op.SINK,
))  # fmt: skip
KERNEL_OPS = _MACHINE | {Op.REDUCE, Op.SCAN, Op.STAGE, Op.TICKET, Op.TUPLE, Op.ITEM}

_FLOAT_ONLY = TRANSCENDENTAL | {Op.RECIP, Op.SQRT, Op.FDIV, Op.FMA}
_BITS_ONLY = frozenset((Op.IDIV, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR))
_REDUCERS = frozenset((Op.ADD, Op.MUL, Op.MAX, Op.MIN))
_MEMORY = frozenset((Op.PARAM, Op.LOCAL, Op.STAGE, Op.LINE))
_COMPUTED_LATER = frozenset((Op.CONST,))  # printed where it is used: needs no place in a program


def _fail(node: Node, rule: str) -> None:
    raise InternalError(f"[verify] {node!r} ({node.op.name}, {node.dtype!r}): {rule}")


def _need(node: Node, holds: bool, rule: str) -> None:
    if not holds:
        _fail(node, rule)


def _is_index(node: Node) -> bool:
    return node.dtype.kind in ("index", "int", "uint")


def _behind_after(node: Node) -> Node:
    while node.op is Op.AFTER and node.src:
        node = node.src[0]
    return node


def _check_alu(node: Node) -> None:
    lanes = {s.dtype.count for s in node.src if s.dtype.count > 1}
    _need(node, lanes <= {node.dtype.count}, "sources have a different number of lanes")
    if node.op in (Op.CAST, Op.REAL, Op.IMAG):
        return
    if node.op is Op.COMPLEX:
        _need(
            node, all(s.dtype is node.dtype.real for s in node.src), "the parts have other dtypes"
        )
        return
    if node.op is Op.BITCAST:
        _need(node, node.dtype.bits == node.src[0].dtype.bits, "a bitcast keeps the width")
        return
    values = node.src[1:] if node.op is Op.WHERE else node.src
    kinds = {s.dtype.scalar for s in values}
    _need(node, len(kinds) == 1, "sources have different dtypes")
    if node.op in COMPARE:
        _need(node, node.dtype.is_bool, "a comparison is bool")
    else:
        _need(node, node.dtype.scalar in kinds, "the dtype is not the sources'")
    if node.op is Op.WHERE:
        _need(node, node.src[0].dtype.is_bool, "the condition is not bool")
    if node.op in _FLOAT_ONLY:
        _need(node, node.dtype.is_inexact, "needs floats")
    if node.op in _BITS_ONLY:
        _need(node, not node.dtype.is_float, "needs integers")


def _check_lanes(node: Node) -> None:
    if node.op is Op.LANES:
        return
    values = node.src[:1] if node.op is Op.EXTRACT else node.src
    same = all(s.dtype.scalar is node.dtype.scalar for s in values)
    _need(node, same, "the lanes have a different dtype")
    if node.op is Op.EXTRACT and node.arg is None:
        _need(node, len(node.src) == 2 and _is_index(node.src[1]), "no lane is named")
    elif node.op is Op.EXTRACT:
        _need(node, 0 <= node.arg < node.src[0].dtype.count, "there is no such lane")
    if node.op is Op.STACK:
        _need(node, len(node.src) == node.dtype.count, "needs one source for each lane")
    if node.op is Op.SHUFFLE:
        lanes = node.src[0].dtype.count + node.src[1].dtype.count
        picks = node.arg or ()
        _need(node, len(picks) == node.dtype.count, "needs one lane for each of its own")
        _need(node, all(0 <= n < lanes for n in picks), "there is no such lane")
    if node.op is Op.HREDUCE:
        _need(node, node.arg in _REDUCERS, "the arg is no associative op")
    if node.op in (Op.EXTRACT, Op.HREDUCE):
        _need(node, node.dtype.count == 1, "the result is one lane")


def _check_subgroup(node: Node, op: Op) -> None:
    _need(node, op in _REDUCERS, "the arg is no associative op")
    _need(node, node.src[0].dtype is node.dtype, "the dtype is not the source's")
    _need(node, node.dtype.count == 1, "combines scalars")
    can = node.dtype.is_bool or (node.dtype.bits <= 32 and op is not Op.MUL)
    _need(node, can, "not every subgroup multiplies, or combines 64 bits")


def _check_mma(node: Node) -> None:
    _need(node, node.dtype.scalar in (dtypes.float32, dtypes.int32), "sums have another dtype")
    _need(node, {s.dtype for s in node.src} == {dtypes.uint32}, "the pieces are no words")


def _check_halves(node: Node) -> None:
    _need(node, node.dtype is dtypes.uint32, "is no word")
    _need(node, {s.dtype for s in node.src} == {dtypes.float32}, "the sources are no float32")
    _need(node, node.arg in ("float16", "bfloat16"), "the arg names no float of 16 bits")


def _check_fragment(node: Node) -> None:
    counts = (1, 2, 4) if node.arg == "own" else (2, 4)
    is_words = node.dtype.scalar is dtypes.uint32 and node.dtype.count in counts
    _need(node, is_words, f"is not {' or '.join(map(str, counts))} words")
    memory = _behind_after(node.src[0])
    is_place = memory.op is Op.LOCAL and len(node.src) == 2 and _is_index(node.src[1])
    _need(node, is_place or memory.op is Op.STAGE, "names no place in shared memory")


def _check_stage(node: Node) -> None:
    arg, width = node.arg, node.dtype.itemsize
    _need(node, len(node.src) >= 2 + 2 * len(arg.sizes), "needs a place to store and to read")
    _need(node, arg.buffers == 1 or arg.scope == "shared", "only workgroups have pipelines")
    lines = arg.sizes[-1] * width
    _need(node, arg.swizzle in (0, lines), "swizzled lines have another length")
    if arg.fill == "copies":
        value = node.src[0]
        plain = value.op is Op.LOAD and (len(value.src) == 2 or value.src[3].value == 0)
        _need(node, plain and arg.buffers > 1, "copies are of memory, into a pipeline")


def _check_wait(node: Node) -> None:
    _need(node, node.src[0].op is Op.RANGE, "the first source is no RANGE")
    _need(node, node.arg >= 0, "waits for less than nothing")


def _check_wgmma(node: Node) -> None:
    words, src = node.arg.words, node.src[node.arg.words :]
    _need(node, all(n.dtype is dtypes.uint32 for n in node.src[:words]), "has no words first")
    places = -1 if words else 1 if node.arg.x is not None else 2 * node.arg.turns
    is_lowered = len(src) == places + (6 if node.arg.is_left else 3)
    _need(node, is_lowered or len(src) == (1 if words else 2), "does not have two factors")
    if not words:
        x, y = src[0], src[1 + places if is_lowered else 1]
        _need(node, x.dtype is y.dtype, "the factors have different dtypes")
    _need(node, node.dtype.count == node.arg.columns // 2, "has not two sums for four columns")


def _check_box(node: Node) -> None:
    arg, rank = node.arg, len(node.arg.shape)
    _need(node, _behind_after(node.src[0]).op is Op.PARAM, "the first source is no argument")
    _need(node, len(node.src) in (1 + rank, 3 + rank), "needs a place on each axis")
    _need(node, len(arg.strides) + 1 == len(arg.box) == rank <= 5, "has other axes than its tensor")


def _check_mbarrier(node: Node) -> None:
    memory = _behind_after(node.src[0])
    _need(node, memory.op is Op.LOCAL and len(memory.arg.arrivals) > 0, "names no mbarrier")
    _need(node, all(map(_is_index, node.src[1:])), "the place or parity is no integer")


def _check_reduce(node: Node) -> None:
    _need(node, node.arg.op in _REDUCERS, "the arg is no associative op")
    is_place = node.op is Op.REDUCE and node.arg.is_place
    if is_place:
        is_extreme = node.arg.op in (Op.MAX, Op.MIN) and len(node.arg.axes) == 1
        _need(node, is_extreme and node.dtype.is_int, "only an extreme along one axis has a place")
    _need(node, is_place or node.src[0].dtype is node.dtype, "the dtype is not the source's")
    if node.op is Op.SCAN and len(node.src) > 1:
        factors = {(s.dtype, s.shape) for s in node.src[1:]} == {(node.dtype, node.shape)}
        _need(node, factors and len(node.src) == 2, "has one factor for each element")
        _need(node, node.arg.op is Op.ADD and node.dtype.is_float, "only sums of floats have them")
    if node.op is Op.REDUCE:
        ranges = all(s.op is Op.RANGE for s in node.src[1:])
        _need(node, ranges, "sources after the first are RANGEs")


def _check_memory(node: Node) -> None:
    memory = _behind_after(node.src[0])
    _need(node, memory.op in _MEMORY, "the first source is no memory")
    _need(node, _is_index(node.src[1]), "the index is no integer")
    load = node.op is Op.LOAD
    _need(node, len(node.src) in ((2, 4) if load else (3, 4)), "wrong number of sources")
    value = node if load else node.src[2]
    same = value.dtype.scalar is memory.dtype.scalar
    _need(node, same or memory.op is Op.STAGE, "the dtype is not the memory's")
    if len(node.src) == 4:
        gate = node.src[2 if load else 3]
        _need(node, gate.dtype.is_bool, "the gate is not bool")
    if load and len(node.src) == 4:
        other = node.src[3].dtype.scalar is node.dtype.scalar
        _need(node, other, "the value behind the gate has a different dtype")


def _check_update(node: Node) -> None:
    register = _behind_after(node.src[0])
    _need(node, register.op is Op.REGISTER, "the first source is no register")
    _need(node, register.dtype is node.src[1].dtype, "the dtype is not the register's")


def _check_register(node: Node) -> None:
    _need(node, len(node.src) > 0, "needs a first value")
    _need(node, node.src[0].dtype is node.dtype, "the dtype is not the first value's")
    _need(node, all(s.op is Op.RANGE for s in node.src[1:]), "sources after the first are RANGEs")
    part = node.arg.part
    is_empty = part is None or node.src[0] is identity(part, node.dtype)
    _need(node, is_empty, "a part of a reduction begins at another value than the op's identity")


def _check_range(node: Node) -> None:
    _need(node, _is_index(node), "a range is an index, or int64 once sizes are lowered")
    _need(node, _is_index(node.src[0]), "the size is no integer")


def _check_end(node: Node) -> None:
    # In a linear program the effects stand before it, and END closes one RANGE.
    closes_one = node.arg == 0 and len(node.src) == 1
    _need(node, closes_one or 0 < node.arg <= len(node.src), "needs effects or a RANGE")
    _need(node, all(s.op is Op.RANGE for s in node.src[node.arg :]), "ends what is no RANGE")


def _check_after(node: Node) -> None:
    _need(node, len(node.src) > 0 and node.src[0].dtype is node.dtype, "the dtype is not src[0]'s")


def _check_places(node: Node) -> None:
    _need(node, _is_index(node.src[1]), "the places are no integers")
    _need(node, node.src[0].dtype is node.dtype, "the dtype is not the source's")
    if node.op is Op.SCATTER:
        _need(node, node.src[2].dtype is node.dtype, "the values have a different dtype")


def _check_sort(node: Node) -> None:
    _need(node, node.src[0].dtype.is_unsigned, "the keys are no unsigned integers")
    _need(node, node.dtype.is_int, "the places are no integers")


def _check_distribute(node: Node) -> None:
    _need(node, node.src[0].dtype is node.dtype, "the dtype is not the values'")
    _need(node, all(s.dtype.is_int for s in node.src[1:]), "bins and starts are no integers")


def _check_ticket(node: Node) -> None:
    _need(node, node.src[0].op in (Op.STAGE, Op.LOAD), "the first source is no STAGE")
    _need(node, node.dtype is node.src[0].dtype, "the dtype is not the STAGE's")


def _check_tuple(node: Node) -> None:
    _need(node, node.dtype is dtypes.void, "has a dtype, of which each item has its own")
    _need(node, all(s.dtype is not dtypes.void for s in node.src), "an item is no value")


def _check_item(node: Node) -> None:
    kept = node.src[0].op in (Op.REDUCE, Op.STAGE)
    _need(node, kept and node.src[0].dtype is dtypes.void, "the source keeps no tuple")


def _check_host(node: Node) -> None:
    _need(node, len(node.src) > 0, "needs an operand")
    _need(node, len({s.dtype.real for s in node.src}) == 1, "the operands differ in their width")
    _need(node, 0 <= node.arg.number < len(node.arg.shapes), "there is no such result")
    _need(node, node.dtype.name == node.arg.dtypes[node.arg.number], "is not of the result's dtype")


def _check_collective(node: Node) -> None:
    arg = node.arg
    _need(node, len(node.src) == (arg.kind != "receive"), "has the wrong number of operands")
    _need(node, all(s.dtype is node.dtype for s in node.src), "the dtype is not the source's")
    _need(node, 0 <= arg.rank < arg.size and 0 <= arg.peer < arg.size, "there is no such process")


def _check_recur(node: Node) -> None:
    arg, states = node.arg, node.src[: len(node.arg.body)]
    _need(node, 0 <= arg.number < len(arg.body), "there is no such state")
    pairs = list(zip(states, arg.body, strict=True))
    _need(node, all(a.shape == b.shape for a, b in pairs), "a state changes its shape")
    _need(node, all(a.dtype is b.dtype for a, b in pairs), "a state changes its dtype")
    _need(node, node.dtype is states[arg.number].dtype, "the dtype is not the state's")
    rows = node.src[len(states) : len(states) + arg.sequences]
    _need(node, all(s.shape[0] == arg.steps for s in rows), "a sequence lacks a row for each step")


def _check_same(node: Node) -> None:
    _need(node, node.src[0].dtype is node.dtype, "the dtype is not the source's")


def _check_assign(node: Node) -> None:
    _need(node, node.src[1].dtype is node.src[0].dtype, "the value has a different dtype")


CHECKS: dict[Op, Callable[[Node], None]] = {
    **dict.fromkeys(ALU, _check_alu),
    **dict.fromkeys(_LANES, _check_lanes),
    **dict.fromkeys(MOVEMENT | SAME | {Op.UNWINDOW, Op.CONTIGUOUS, Op.COPY}, _check_same),
    **dict.fromkeys((Op.REDUCE, Op.SCAN), _check_reduce),
    **dict.fromkeys((Op.LOAD, Op.STORE), _check_memory),
    **dict.fromkeys((Op.GATHER, Op.SCATTER), _check_places),
    Op.SUBGROUP: lambda node: _check_subgroup(node, node.arg),
    Op.BUTTERFLY: lambda node: _check_subgroup(node, node.arg.op),
    Op.AWAIT: _check_mbarrier,
    Op.EXPECT: _check_mbarrier,
    Op.BOX: _check_box,
    Op.WGMMA: _check_wgmma,
    Op.HALVES: _check_halves,
    Op.FRAGMENT: _check_fragment,
    Op.MMA: _check_mma,
    Op.STAGE: _check_stage,
    Op.WAIT: _check_wait,
    Op.SORT: _check_sort,
    Op.HOST: _check_host,
    Op.COLLECTIVE: _check_collective,
    Op.RECUR: _check_recur,
    Op.DISTRIBUTE: _check_distribute,
    Op.UPDATE: _check_update,
    Op.TICKET: _check_ticket,
    Op.TUPLE: _check_tuple,
    Op.ITEM: _check_item,
    Op.REGISTER: _check_register,
    Op.RANGE: _check_range,
    Op.END: _check_end,
    Op.AFTER: _check_after,
    Op.ASSIGN: _check_assign,
}


def _check(node: Node, legal: frozenset[Op], stage: str) -> None:
    _need(node, node.op in legal, f"is not legal in a {stage}")
    arity = INFO[node.op].arity
    _need(node, arity in (-1, len(node.src)), f"has {len(node.src)} sources, not {arity}")
    if node.op in CHECKS:
        CHECKS[node.op](node)


def verify_tensor(root: Node) -> None:
    """Raise InternalError unless every node under `root` is legal in a tensor graph."""
    for node in root.toposort():
        _check(node, TENSOR_OPS, "tensor graph")
        if node.op is Op.REDUCE:
            _need(node, len(node.src) == 1, "reduces RANGEs in a tensor graph")


def verify_kernel(root: Node) -> None:
    """Raise InternalError unless every node under `root` is legal in a kernel."""
    for node in root.toposort():
        _check(node, KERNEL_OPS, "kernel")
        _need(node, node.shape == (), "has a shape in a kernel")


def verify_loops(root: Node) -> None:
    """Raise InternalError unless steps under `root` that stand in order are made one by one.

    The memory of every STAGE serves one at a time. That of a grid is filled in a phase of its own,
    outside of all loops. What a worker shares is filled anew in each step of the loops around it,
    but not for several lanes or copies at once. Each UPDATE goes on from the step before: one
    worker makes those that a register is not new in, one by one or in the lanes of a vector.
    """
    free = free_ranges(root)
    for node in root.toposort():
        if node.op is Op.STAGE and node.arg.scope == "grid":
            _need(node, not _filled_in(node, free), "is filled inside of loops")
        if node.op is Op.UPDATE:
            around = free[_behind_after(node.src[0])]
            own = frozenset().union(*(free[position] for position in node.src[2:])) - around
            kinds = {loop.arg.kind for loop in own}
            in_order = kinds <= {"loop", "vector"} or kinds <= {"loop", "unroll"}
            _need(node, in_order, f"has steps in loops that are {sorted(kinds)}")
    for node in shared_by_lanes(root):
        _fail(node, "lanes or copies that need other values share its memory")


def shared_by_lanes(root: Node) -> list[Node]:
    """The STAGEs under `root` that lanes or copies around would fill with values of their own."""
    free = free_ranges(root)
    return [
        node
        for node in root.toposort()
        if node.op is Op.STAGE
        and any(r.arg.kind in ("unroll", "vector") for r in _filled_in(node, free))
    ]


def _filled_in(stage: Node, free: dict[Node, frozenset[Node]]) -> frozenset[Node]:
    """The loops around the one that fills a STAGE; where it is read does not count."""
    stored = stage.src[: 2 + len(stage.arg.sizes)]
    return frozenset().union(*(free[s] for s in stored)) - frozenset(closed_ranges(stage))


def verify_linear(linear: Node) -> None:
    """Raise InternalError unless the LINEAR node is a program that can be printed line by line.

    Each source stands before its use and in a block that is still open there (effects may be named
    after their block); every RANGE but a grid's is closed by an END.
    """
    _need(linear, linear.op is Op.LINEAR, "is no linear program")
    blocks: list[Node] = []  # the RANGEs that are open, outermost first
    home: dict[Node, tuple[Node, ...]] = {}
    for node in linear.src:
        _check(node, _MACHINE, "linear program")
        _need(node, node not in home, "stands twice in the program")
        _check_sources(node, home, blocks)
        if node.op is Op.END:
            _close(node, blocks, list(node.src[node.arg :]))
        elif node.op is Op.RANGE:
            blocks.append(node)
        home[node] = tuple(blocks)
    for block in blocks:
        _need(block, block.arg.kind == "grid", "is never closed")


def _check_sources(node: Node, home: dict[Node, tuple[Node, ...]], blocks: list[Node]) -> None:
    sources = node.src
    if node.op in (Op.COMMIT, Op.WAIT):  # what they wait for is before them likewise
        sources = node.src[:1] if node.op is Op.WAIT else ()
    if node.op is Op.AFTER:
        # What it waits for is a closed block before it; for a PARAM, an earlier phase.
        sources = () if node.src[0].op is Op.PARAM else node.src[:1]
    for source in sources:
        if source.op in _COMPUTED_LATER:
            continue
        _need(node, source in home, f"stands before its source {source!r}")
        if source.dtype.kind != "void":
            is_open = home[source] == tuple(blocks[: len(home[source])])
            _need(node, is_open, f"uses {source!r} outside its block")


def _close(node: Node, blocks: list[Node], closed: list[Node]) -> None:
    count = len(closed)
    _need(node, set(blocks[len(blocks) - count :]) == set(closed), "closes blocks not innermost")
    del blocks[len(blocks) - count :]
