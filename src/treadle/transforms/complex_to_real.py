"""Complex numbers as pairs of reals: a graph that holds some becomes one of reals alone.

    a * b  ->  (a.re b.re - a.im b.im, a.re b.im + a.im b.re)
    BUFFER complex64 (n,)  ->  BUFFER float32 (2 n,), seen as (n, 2)

One pass, before scheduling, so that neither scheduler nor kernels know of complex numbers. In
memory the two parts are side by side, as in every other library: there a value is `whole`, real
with a last axis of 2. What is computed is a pair of nodes, joined where it is stored. Movements,
sums and whatever treats both parts alike keep a whole one whole. A sum of products with many
results, such as a matmul, is one real sum: one factor stays in place, the other becomes a matrix of
2 by 2 for each of its elements.

    [x.re x.im] [ w.re  w.im]  =  [(x w).re  (x w).im]
                [-w.im  w.re]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..ir.args import ReduceArg
from ..ir.builders import constant, expand, reshape
from ..ir.choices import take
from ..ir.node import Node, alu, rebuild, toposort
from ..ir.op import MOVEMENT, Op
from ..ir.origin import pass_on
from ..ir.shape import size_max, size_product
from ..ir.views import After, Scatter, operand, places_of
from .complex_parts import Pair, behind, side_by_side

__all__ = ["in_reals"]


def in_reals(roots: Sequence[Node]) -> list[Node]:
    """`roots` without complex numbers; a complex root becomes its parts in memory order."""
    order = toposort(roots)
    if not any(node.dtype.is_complex for node in order):
        return list(roots)
    take("complex_to_real")
    found: dict[Node, Value] = {}
    for node in order:
        if any(_is_complex(item) for item in (node, *node.src)):
            value = _RULES[node.op](node, found)
        else:
            value = rebuild(node, tuple(_real(found[s]) for s in node.src))
        pass_on(node, value.nodes if isinstance(value, Pair) else (value,), gradient=False)
        found[node] = value
    results: dict[Node, Node] = {}
    return [_stored(root, found[root], results) for root in roots]


Value = Node | Pair
Found = dict[Node, Value]


def _is_complex(node: Node) -> bool:
    return node.dtype.is_complex


def _real(value: Value) -> Node:
    assert isinstance(value, Node)
    return value


def _pair(value: Value) -> Pair:
    assert isinstance(value, Pair)
    return value


def _stored(root: Node, value: Value, results: dict[Node, Node]) -> Node:
    """What is computed for `root`: one node for each element type in which it is asked for."""
    if not isinstance(value, Pair):
        node = value
    else:
        node = behind(value.whole, (Op.RESHAPE,))
        if node.op in (Op.BUFFER, Op.AFTER) and root.op is not node.op:
            node = Node(Op.CONTIGUOUS, node.dtype, (node,))
    if results.setdefault(node, root).dtype is not root.dtype:
        node = Node(Op.CONTIGUOUS, node.dtype, (node,))
    return node


# -- memory ---------------------------------------------------------------------------------------


def _buffer(node: Node, found: Found) -> Pair:
    ref = replace(node.arg, size=2 * node.arg.size)
    flat = Node(Op.BUFFER, node.dtype.real, (), ref)
    return Pair(None, reshape(flat, (*node.shape, 2)))


def _assign(node: Node, found: Found) -> Node:
    target, value = (_pair(found[s]) for s in node.src)
    written = value.of_shape(node.shape).whole
    return Node(Op.ASSIGN, written.dtype, (target.whole, written))


def _after(node: Node, found: Found) -> Pair:
    """The effects are those of the memory, so its other shape stands on top of them."""
    value, effects = After.of(node)
    shaped = _pair(found[value]).whole
    memory = behind(shaped, (Op.RESHAPE,))
    after = After(memory, tuple(_real(found[effect]) for effect in effects))
    return Pair(None, reshape(after.node(), shaped.shape))


def _contiguous(node: Node, found: Found) -> Pair:
    whole = _pair(found[operand(node)]).whole
    return Pair(None, Node(Op.CONTIGUOUS, whole.dtype, (whole,)))


def _gather(node: Node, found: Found) -> Pair:
    source, index = _pair(found[operand(node)]).whole, _places(node, found)
    return Pair(None, Node(Op.GATHER, source.dtype, (source, index), node.arg))


def _scatter(node: Node, found: Found) -> Pair:
    parts = Scatter.of(node).base, Scatter.of(node).values
    base, new = (_pair(found[part]).of_shape(part.shape).whole for part in parts)
    return Pair(None, Node(Op.SCATTER, base.dtype, (base, _places(node, found), new), node.arg))


def _places(node: Node, found: Found) -> Node:
    """The index of a GATHER or SCATTER; along an axis both parts have the same places."""
    index = _real(found[places_of(node)])
    if not node.arg.along:
        return index
    return expand(reshape(index, (*index.shape, 1)), (*index.shape, 2))


# -- movements ------------------------------------------------------------------------------------


def _moved(node: Node, found: Found) -> Pair:
    return _move(node, _pair(found[operand(node)]), 1)


def _move(node: Node, value: Pair, axes: int) -> Pair:
    """The movement `node` of a value that has further `axes` behind, where it is whole."""
    if not value.is_whole:
        return value.map(lambda part: Node(node.op, part.dtype, (part,), node.arg))
    return Pair(None, _extended(node, value.whole, axes))


def _extended(node: Node, whole: Node, axes: int) -> Node:
    """The movement `node` of `whole`, which has further `axes` behind."""
    rank, behind = len(whole.shape) - axes, whole.shape[len(whole.shape) - axes :]
    arg = node.arg
    if node.op in (Op.RESHAPE, Op.EXPAND):
        arg = (*arg, *behind)
    elif node.op is Op.PERMUTE:
        arg = (*arg, *range(rank, rank + axes))
    elif node.op is Op.PAD:
        arg = (*arg, *((0, 0) for _ in behind))
    elif node.op is Op.SHRINK:
        arg = (*arg, *((0, n) for n in behind))
    elif node.op is Op.UNWINDOW:  # takes the windows from the last axis
        whole = _axis_moved(whole, rank - 1, rank)
    moved = Node(node.op, whole.dtype, (whole,), arg)
    return _axis_moved(moved, rank + 1, rank) if node.op is Op.WINDOW else moved


def _axis_moved(node: Node, axis: int, to: int) -> Node:
    order = [i for i in range(len(node.shape)) if i != axis]
    order.insert(to, axis)
    return Node(Op.PERMUTE, node.dtype, (node,), tuple(order))


# -- arithmetic -----------------------------------------------------------------------------------


def _const(node: Node, found: Found) -> Pair:
    parts = node.arg.real, node.arg.imag
    return Pair(tuple(Node.const(node.dtype.real, part) for part in parts))


def _same(node: Node, found: Found) -> Value:
    return found[operand(node)]


def _complex(node: Node, found: Found) -> Pair:
    parts = tuple(expand(_real(found[s]), node.shape) for s in node.src)
    return Pair(parts)


def _real_part(node: Node, found: Found) -> Node:
    return _pair(found[operand(node)]).re


def _imaginary_part(node: Node, found: Found) -> Node:
    return _pair(found[operand(node)]).im


def _cast(node: Node, found: Found) -> Value:
    value, kind = found[operand(node)], node.dtype.real
    if isinstance(value, Node):
        return Pair((value.cast(kind), constant(kind, 0.0, node.shape)))
    if node.dtype.is_bool:
        return value.re.ne(0.0) | value.im.ne(0.0)
    return value.map(lambda part: part.cast(kind))


def _neg(node: Node, found: Found) -> Pair:
    return _pair(found[operand(node)]).map(lambda part: -part)


def _sum(node: Node, found: Found) -> Pair:
    a, b = (_pair(found[s]) for s in node.src)
    if a.is_whole and b.is_whole:
        return Pair(None, alu(node.op, a.whole, b.whole))
    return Pair((alu(node.op, a.re, b.re), alu(node.op, a.im, b.im)))


def _product(node: Node, found: Found) -> Pair:
    a, b = (_pair(found[s]) for s in node.src)
    if a.is_real:
        a, b = b, a
    if b.is_real:
        return _scaled(a, b.re, Op.MUL)
    return Pair((a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re))


def _scaled(value: Pair, by: Node, op: Op) -> Pair:
    """A value times or over a real one."""
    if value.is_whole and by.op is not Op.CONST:
        by = expand(reshape(by, (*by.shape, 1)), value.whole.shape)
    return value.map(lambda part: alu(op, part, by))


def _quotient(node: Node, found: Found) -> Pair:
    a, b = (_pair(found[s]) for s in node.src)
    return _scaled(a, b.re, Op.FDIV) if b.is_real else _divided(a, b)


def _divided(a: Pair, b: Pair) -> Pair:
    """By R. L. Smith (1962, "Algorithm 116: Complex division"): squares of b would overflow."""
    steep = _size(b.re) < _size(b.im)
    large, small = steep.where(b.im, b.re), steep.where(b.re, b.im)
    ratio = small / large
    whole = large + small * ratio
    first, second = steep.where(a.im, a.re), steep.where(a.re, a.im)
    cross = first * ratio - second
    re, im = (first + second * ratio) / whole, steep.where(cross, -cross) / whole
    return Pair((re, im))


def _size(node: Node) -> Node:
    return node.maximum(-node)


def _reciprocal(node: Node, found: Found) -> Pair:
    value = _pair(found[operand(node)])
    return _divided(Pair((value.re.like(1.0), value.re.like(0.0))), value)


def _equal(node: Node, found: Found) -> Node:
    a, b = (_pair(found[s]) for s in node.src)
    if node.op is Op.CMPEQ:
        return a.re.eq(b.re) & a.im.eq(b.im)
    return a.re.ne(b.re) | a.im.ne(b.im)


def _where(node: Node, found: Found) -> Pair:
    where, yes, no = node.src
    condition, a, b = _real(found[where]), _pair(found[yes]), _pair(found[no])
    if not (a.is_whole and b.is_whole):
        return Pair((condition.where(a.re, b.re), condition.where(a.im, b.im)))
    if condition.op is not Op.CONST:
        condition = expand(reshape(condition, (*condition.shape, 1)), a.whole.shape)
    return Pair(None, condition.where(a.whole, b.whole))


# -- sums -----------------------------------------------------------------------------------------


def _scan(node: Node, found: Found) -> Pair:
    value = _pair(found[operand(node)]).of_shape(node.shape)
    return value.map(lambda part: Node(Op.SCAN, part.dtype, (part,), node.arg))


def _reduce(node: Node, found: Found) -> Pair:
    source = operand(node)
    factors = source.src if source.op is Op.MUL else ()
    count = size_product(map(size_max, source.shape))
    if factors and all(2 * _distinct(factor) <= count for factor in factors):
        return _sum_of_products(node, found)
    value = _pair(found[source]).of_shape(source.shape)
    return value.map(lambda part: Node(Op.REDUCE, part.dtype, (part,), node.arg))


def _distinct(node: Node) -> int:
    """How many elements a factor has that is repeated to the shape of the product."""
    return size_product(map(size_max, _chain(node)[-1].shape))


def _chain(node: Node) -> list[Node]:
    """The movements that repeat a factor, the last one first, and what they repeat."""
    chain = [node]
    while chain[-1].op in (Op.RESHAPE, Op.EXPAND, Op.PERMUTE):
        chain.append(operand(chain[-1]))
    return chain


def _sum_of_products(node: Node, found: Found) -> Pair:
    """As one sum of real products; see the module's text."""
    a, b = sorted(operand(node).src, key=_distinct, reverse=True)
    shape = operand(node).shape
    for scale, other in ((a, b), (b, a)):
        if _pair(found[scale]).is_real:
            by = expand(reshape(_pair(found[scale]).re, (*shape, 1)), (*shape, 2))
            terms = _repeated(other, _pair(found[_chain(other)[-1]]).whole, 1) * by
            return Pair(None, Node(Op.REDUCE, terms.dtype, (terms,), node.arg))
    value = _pair(found[_chain(b)[-1]])
    turned = Pair((-value.im, value.re))
    matrix = side_by_side(value.whole, turned.whole, len(value.whole.shape) - 1)
    rows = _pair(found[_chain(a)[-1]]).whole
    rows = expand(reshape(rows, (*rows.shape, 1)), (*rows.shape, 2))
    terms = _repeated(a, rows, 2) * _repeated(b, Node(Op.CONTIGUOUS, matrix.dtype, (matrix,)), 2)
    total = Node(Op.REDUCE, terms.dtype, (terms,), ReduceArg(Op.ADD, (*node.arg.axes, len(shape))))
    return Pair(None, reshape(total, (*node.shape, 2)))


def _repeated(node: Node, core: Node, axes: int) -> Node:
    """What the movements above the core of a factor make of `core`, which has `axes` behind."""
    for move in reversed(_chain(node)[:-1]):
        core = _extended(move, core, axes)
    return core


_RULES: dict[Op, Callable[[Node, Found], Value]] = {
    Op.CONST: _const,
    Op.BUFFER: _buffer,
    **dict.fromkeys((*MOVEMENT, Op.UNWINDOW), _moved),
    Op.NEG: _neg,
    Op.RECIP: _reciprocal,
    Op.REAL: _real_part,
    Op.IMAG: _imaginary_part,
    Op.CAST: _cast,
    Op.ADD: _sum,
    Op.SUB: _sum,
    Op.MUL: _product,
    Op.FDIV: _quotient,
    Op.COMPLEX: _complex,
    Op.CMPEQ: _equal,
    Op.CMPNE: _equal,
    Op.WHERE: _where,
    Op.REDUCE: _reduce,
    Op.SCAN: _scan,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.CONTIGUOUS: _contiguous,
    Op.CONTIGUOUS_BACKWARD: _same,
    Op.DETACH: _same,
    Op.ALIAS: _same,
    Op.ASSIGN: _assign,
    Op.AFTER: _after,
}
