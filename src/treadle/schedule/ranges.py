"""Tensor graphs as loops: each fusion group of a Plan becomes one kernel AST over RANGEs.

    relu(a + b) over (4, 8)
      ->  END(STORE(p0, r0*8 + r1, max(LOAD(p1, ..) + LOAD(p2, ..), 0)), r0, r1)

Movement ops vanish into the indices; PAD becomes a WHERE and gates the loads below it, so that
nothing outside a buffer is ever read.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

from ..dtype import dtypes
from ..errors import InternalError
from ..ir.accumulators import identity, tuple_of
from ..ir.args import ParamRef, ReduceArg, RegisterRef, StageArg
from ..ir.loops import loop_size
from ..ir.node import Node, as_index, item, rebuild
from ..ir.op import ALU, MOVEMENT, SAME, Op
from ..ir.rules.index import simplify
from ..ir.shape import size_product
from ..ir.versions import memory_key, stored_below, view_base
from ..ir.views import After, Assign, Gather, Load, Reduce, Register, Update, bound_of, operand
from .index import (
    TRUE,
    Index,
    flat_index,
    gathered_index,
    places_index,
    reduce_index,
    source_index,
)
from .kernel import Kernel
from .plan import Group, Kept, Plan, loops_of, ranges_in
from .store_order import in_order
from .textures import image_of

__all__ = ["build_kernel", "reduce_over", "storage_of"]

Key = tuple[Node, Index, Node]
Steps = Generator[list[Key], None, Node]  # asks for elements, and makes one of them


@dataclass(eq=False)
class _Builder:
    """Evaluates the nodes of one group at indices.

    `roots` are computed here, those of other groups over the same loops included: what one of them
    stores is known where another reads it at the index that it is stored at. Roots of other groups
    that are `inside` are computed at any index.
    """

    plan: Plan
    group: Group
    roots: tuple[Node, ...]
    inside: frozenset[Node] = frozenset()
    slots: dict[object, int] = field(default_factory=dict)
    buffers: list[Node] = field(default_factory=list)
    reads: set[Node] = field(default_factory=set)
    values: dict[Key, Node] = field(default_factory=dict)
    loops: dict[Key, tuple[Node, ...]] = field(default_factory=dict)
    scans: list[tuple[Node, ...]] = field(default_factory=list)  # the loop of each

    def param(self, storage: Node) -> Node:
        """The kernel argument for a BUFFER or a stored node."""
        slot = self.slots.setdefault(memory_key(storage), len(self.buffers))
        if slot == len(self.buffers):
            self.buffers.append(storage)
        is_new = storage.op is not Op.BUFFER
        lasts = not is_new and storage.arg.lasts
        decision = self.plan.decisions.get(storage)
        is_passed_on = is_new and decision is not None and not decision.is_output
        size = size_product(storage.shape)
        ref = ParamRef(slot, size, image_of(storage), lasts, is_new, is_passed_on)
        return Node(Op.PARAM, storage.dtype, (), ref)

    def value(self, node: Node, index: Index, valid: Node = TRUE) -> Node:
        """The value of element `index` of `node`; loads happen only where `valid` holds.

        What others are needed first is kept in a list, since graphs are deep.
        """
        root = (node, index, valid)
        stack, begun = [root], dict[Key, Steps]()
        while stack:
            key = stack[-1]
            if key in self.values:
                stack.pop()
                continue
            if key not in begun:
                begun[key] = self._steps(*key)
            try:
                stack += [need for need in next(begun[key]) if need not in self.values]
            except StopIteration as done:
                self.values[key] = done.value
        return self.values[root]

    # -- how a value is made ----------------------------------------------------------------------

    def _is_read(self, node: Node, index: Index, valid: Node) -> bool:
        """Whether an element is loaded: it is stored before, and not computed here."""
        if node in self.inside:
            return False
        if node not in self.plan.groups:
            return node.op in (Op.BUFFER, Op.AFTER)
        if node.op in (Op.SCATTER, Op.ASSIGN) or node not in self.roots:
            return True
        return valid is not TRUE or index != self.place_of(node)

    def place_of(self, root: Node) -> Index:
        """The index of the element of `root` that each step of the loops stores."""
        return self.plan.groups[root].places[root]

    def _known_from(self, node: Node, index: Index, valid: Node) -> Key | None:
        """For an element that an ASSIGN of `roots` has just written: the value written."""
        if node.op is not Op.AFTER or valid is not TRUE:
            return None
        write, *more = After.of(node).effects
        if more or write not in self.roots:
            return None
        if self.place(write) is not self._position(node, index):
            return None
        return (Assign.of(write).value, self.place_of(write), TRUE)

    def _position(self, node: Node, index: Index) -> Node:
        return simplify(flat_index(index, node.shape))

    def place(self, write: Node) -> Node:
        """Where in its buffer an ASSIGN writes."""
        view, index = Assign.of(write).target, self.place_of(write)
        while view.op in MOVEMENT:
            index, inside = source_index(view, index)
            if inside is not TRUE:
                raise InternalError("ASSIGN into a padded view")
            view = operand(view)
        return self._position(view, index)

    def _steps(self, node: Node, index: Index, valid: Node) -> Steps:
        """How an element is made: asks for others, which are among `values` then."""
        known = self._known_from(node, index, valid)
        if known is not None:
            yield [known]
            return self.values[known]
        if self._is_read(node, index, valid):
            return self._load(node, index, valid)
        kept = self.group.kept.get(node)
        if kept is not None and index != kept.ranges:
            row = (node, kept.ranges, TRUE)
            yield [row]
            return _from_row(self.values[row], kept, index[kept.axis])
        if node.op is Op.CONST:
            return Node(Op.CONST, node.dtype, (), node.arg)
        if node.op in (Op.VARIABLE, Op.BIND):
            return operand(node) if node.op is Op.BIND else node
        if node.op is Op.IOTA:
            return index[0].cast(node.dtype)
        if node.op in ALU:
            sources = [(source, index, valid) for source in node.src]
            yield sources
            return rebuild(node, tuple(self.values[source] for source in sources))
        if node.op in SAME or node.op is Op.CONTIGUOUS:
            same = (operand(node), index, valid)
            yield [same]
            return self.values[same]
        if node.op in MOVEMENT:
            moved, inside = source_index(node, index)
            return (yield from self._behind(operand(node), moved, valid, inside))
        if node.op in (Op.REDUCE, Op.UNWINDOW):
            return (yield from self._reduced(node, index, _conditions_on(index, valid)))
        if node.op is Op.GATHER:
            return (yield from self._gathered(node, index, valid))
        if node.op is Op.SCAN:
            return (yield from self._scanned(node, index, valid))
        raise InternalError(f"no loops for {node.op.name}")

    def _behind(self, source: Node, index: Index, valid: Node, inside: Node) -> Steps:
        """An element of `source` where it is `inside` of that, else 0."""
        valid = simplify(valid & inside)
        yield [(source, index, valid)]
        return self._masked(self.values[source, index, valid], inside, valid)

    def _masked(self, value: Node, inside: Node, valid: Node) -> Node:
        if inside is TRUE:
            return value
        if value.op is Op.LOAD and valid is not TRUE and Load.of(value).gate is valid:
            return value  # the load's own gate gives 0 already
        return inside.where(value, 0)

    def _loops(self, node: Node, index: Index, valid: Node) -> tuple[Node, ...]:
        """The loops of a reduction; under another condition it is another reduction."""
        key = (node, index, valid)
        if key not in self.loops:
            found = self.group.ranges_of_reduce(node, index)
            if found in self.loops.values():
                found = tuple(
                    self.group.fresh_range(bound_of(r)) if r.op is Op.RANGE else r for r in found
                )
            self.loops[key] = found
        return self.loops[key]

    def _reduced(self, node: Node, index: Index, valid: Node) -> Steps:
        positions = self._loops(node, index, valid)
        inner, inside = reduce_index(node, index, positions)
        value = yield from self._behind(operand(node), inner, valid, inside)
        is_wide = node.op is Op.REDUCE and node.arg.is_wide
        arg = ReduceArg(Op.ADD if node.op is Op.UNWINDOW else node.arg.op, is_wide=is_wide)
        loops = loops_of(positions)
        if node.op is Op.REDUCE and node.arg.is_place:
            both = tuple_of((value, positions[0].cast(node.dtype)))
            return item(reduce_over(arg, both, loops), 1)
        return reduce_over(arg, value, loops)

    def _gathered(self, node: Node, index: Index, valid: Node) -> Steps:
        source, where, _ = Gather.of(node)
        place = (where, places_index(node, index), valid)
        yield [place]
        position = self.values[place].cast(dtypes.index)
        inside = (position >= 0) & (position < as_index(source.shape[node.arg.axis]))
        valid = simplify(valid & inside)
        found = (source, gathered_index(node, index, position), valid)
        yield [found]
        return self._masked(self.values[found], valid, valid)

    def _scanned(self, node: Node, index: Index, valid: Node) -> Steps:
        """The running total at the step that stores it: steps of its axis run in order."""
        each = [(source, index, valid) for source in node.src]
        yield each
        axis, op = node.arg.axis, node.arg.op
        outer, loop = loops_of((*index[:axis], *index[axis + 1 :])), loops_of((index[axis],))
        rounds = node.dtype is dtypes.float32 and op in (Op.ADD, Op.MUL)
        ref = RegisterRef(len(self.scans), is_wide=rounds and bool(loop))  # one step is exact
        self.scans.append(loop)
        register = total = Register(identity(op, node.dtype), outer, ref, node.dtype).node()
        value, *factors = (self.values[source] for source in each)
        for then, part in (*((Op.MUL, factor) for factor in factors), (op, value)):
            total = After(register, (Update(total, part, loop, then).node(),)).node()
        return total

    def _load(self, node: Node, index: Index, valid: Node) -> Node:
        storage = stored_below(node)
        self.reads.add(node)
        src = (self.param(storage), self._position(node, index))
        if valid is not TRUE:
            src = (*src, valid, Node.const(node.dtype, 0))
        return Node(Op.LOAD, node.dtype, src)


def _from_row(value: Node, kept: Kept, position: Node) -> Node:
    """One element of a row that the kernel keeps, of which each is `value`."""
    arg = StageArg("shared", (loop_size(kept.loop),))
    return Node(Op.STAGE, value.dtype, (value, TRUE, kept.loop, position, kept.loop), arg)


def _conditions_on(index: Index, valid: Node) -> Node:
    """Those parts of a condition that are about the loops of `index`.

    The others guard axes that a reduction or an expansion has dropped; keeping them would tie a
    row's statistic to loops that it does not depend on.
    """
    used = ranges_in(index)
    kept, parts = TRUE, [valid]
    while parts:
        part = parts.pop()
        if part.op is Op.AND:
            parts.extend(part.src)
            continue
        about = ranges_in((part,))
        if not about or about & used:
            kept = kept & part
    return kept


def reduce_over(arg: ReduceArg, value: Node, loops: tuple[Node, ...]) -> Node:
    """REDUCE, merged with a REDUCE of the same kind that is all of its value."""
    if not loops:
        return value
    if value.op is Op.REDUCE and value.arg == arg:
        inner = Reduce.of(value)
        return inner._replace(loops=(*loops, *inner.loops)).node()
    if value.op is Op.WHERE and arg.op is Op.ADD:
        condition, yes, no = value.src
        if yes.op is Op.REDUCE and yes.arg == arg and no.value == 0:
            inner = Reduce.of(yes)
            return Reduce(condition.where(inner.value, 0), (*loops, *inner.loops), arg).node()
    return Reduce(value, loops, arg).node()


def build_kernel(
    plan: Plan,
    roots: tuple[Node, ...],
    device: str,
    unstored: tuple[Node, ...] = (),
    inside: frozenset[Node] = frozenset(),
) -> tuple[Kernel, frozenset[Node]]:
    """The kernel that stores `roots`, and every stored value (BUFFER, AFTER or root) it reads.

    Several roots have the same loops or some of them, but for axes of one element. `unstored` ones
    are computed there, too, but not kept; those `inside`, wherever they are read.
    """
    builder = _Builder(plan, plan.groups[roots[0]], (*roots, *unstored), inside)
    make = _FORMS.get(roots[0].op)
    effects = make(builder) if make else _together(builder, roots)
    slots = tuple(builder.param(storage_of(root)).arg.slot for root in roots)
    reason = plan.decisions[roots[0]].reason
    if len(roots) > 1:
        reason = f"{reason}; it and {len(roots) - 1} more are stored over the same loops"
    ast, buffers = Node.sink(effects), tuple(builder.buffers)
    choices = frozenset(("fuse_producer",) if inside else ())
    kernel = Kernel(ast, roots, buffers, slots, device, reason, choices)
    return kernel, frozenset(builder.reads)


def storage_of(root: Node) -> Node:
    """What `root` is stored in: the BUFFER that it is assigned to, or memory of its own."""
    return stored_below(view_base(Assign.of(root).target)) if root.op is Op.ASSIGN else root


def _end(index: Index, *effects: Node) -> Node:
    """`effects` in the loops of `index`."""
    return Node(Op.END, dtypes.void, (*effects, *loops_of(index)), len(effects))


def _store(builder: _Builder, root: Node, index: Index, value: Node) -> Node:
    position = simplify(flat_index(index, root.shape))
    return Node(Op.STORE, dtypes.void, (builder.param(root), position, value))


def _together(builder: _Builder, roots: tuple[Node, ...]) -> list[Node]:
    """All stores in one END, the loop of scans inside of the others."""
    stores = in_order([_stored(builder, root) for root in roots])
    is_scanned = lambda r: any(r in loop for loop in builder.scans)
    return [_end(tuple(sorted(builder.group.ranges, key=is_scanned)), *stores)]


def _stored(builder: _Builder, root: Node) -> Node:
    ranges = builder.place_of(root)
    if root.op is not Op.ASSIGN:
        return _store(builder, root, ranges, builder.value(root, ranges))
    value = builder.value(Assign.of(root).value, ranges)
    src = (builder.param(storage_of(root)), builder.place(root), value)
    return Node(Op.STORE, dtypes.void, src)


def _scatter(builder: _Builder) -> list[Node]:
    root, ranges = builder.group.root, builder.group.ranges
    base, where, values = root.src
    axis, op = root.arg.axis, root.arg.op
    first = _end(ranges, _store(builder, root, ranges, builder.value(base, ranges)))
    loops = builder.group.own_loops
    positions = places_index(root, loops)
    place = builder.value(where, positions).cast(dtypes.index)
    inside = simplify((place >= 0) & (place < as_index(root.shape[axis])))
    value = builder.value(values, loops)
    index = gathered_index(root, loops, place)
    memory = Node(Op.AFTER, root.dtype, (builder.param(root), first))
    position = simplify(flat_index(index, root.shape))
    if op is not None:
        old = Node(Op.LOAD, root.dtype, (memory, position, inside, Node.const(root.dtype, 0)))
        value = old.alu(op, value)
    store = Node(Op.STORE, dtypes.void, (memory, position, value, inside))
    inner = frozenset(positions) if not root.arg.along else frozenset((loops[axis],))
    return [_end(tuple(sorted(loops, key=lambda r: r in inner)), store)]


def _distribute(builder: _Builder) -> list[Node]:
    root, (line, step) = builder.group.root, builder.group.ranges
    values, bins, starts = root.src
    (bin,) = builder.group.own_loops
    start, count = builder.value(starts, (line, bin)), starts.shape[1]
    place = builder.value(bins, (line, step)).cast(dtypes.index)
    counters = (start, TRUE, bin, place, *loops_of((bin,)))
    stage = Node(Op.STAGE, starts.dtype, counters, StageArg("shared", (count,)))
    following = Node(Op.TICKET, starts.dtype, (stage, *loops_of((step,)))).cast(dtypes.index)
    value = builder.value(values, (line, step))
    store = Node(Op.STORE, dtypes.void, (builder.param(root), following, value))
    return [_end((line, step), store)]


_FORMS = {Op.SCATTER: _scatter, Op.DISTRIBUTE: _distribute}
