"""The executable meaning of the IR, in plain NumPy: the oracle of the tests and the REF device.

    interpret(graph, {ref: array}.__getitem__)  ->  the tensor's value as an array
    evaluate(range_expression, {r: np.arange(8)})  ->  a kernel expression's values

Arrays have NumPy's dtype of the node's (ml_dtypes for bfloat16 and fp8, int64 for index) and the
node's shape; a CONST is 0-d. An ASSIGN writes into the array that `buffers` returned, while every
other reader sees each version as it was: nothing depends on the order of evaluation.
Sums and products of floats accumulate in float64 and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InternalError
from . import lapack
from .args import BufferRef, WindowArg
from .elementwise import ELEMENTWISE, apply_alu, constant_array, numpy_dtype
from .evaluate import evaluate
from .node import Node
from .op import ALU, MOVEMENT, Op
from .recurrence import Loop
from .shape import Shape
from .symbolic import Size, no_value

__all__ = ["ELEMENTWISE", "evaluate", "interpret", "interpret_many"]

Array = np.ndarray
Buffers = Callable[[BufferRef], Array]

REDUCTIONS: dict[Op, np.ufunc] = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum, Op.MIN: np.minimum,
}  # fmt: skip


def interpret(root: Node, buffers: Buffers, variables: Mapping[str, int] | None = None) -> Array:
    """The value of a tensor graph. `buffers` gives each buffer's flat array of (size,) elements.

    `variables` gives VARIABLEs their values; a BIND in the graph does so too.
    Raises InternalError for an op that belongs to kernels.
    """
    return interpret_many([root], buffers, variables)[0]


def interpret_many(
    roots: Iterable[Node], buffers: Buffers, variables: Mapping[str, int] | None = None
) -> list[Array]:
    """The values of several tensor graphs that share nodes and effects; see `interpret`."""
    roots = list(roots)
    return _Interpreter(buffers, dict(variables or {})).run(roots)


class _Interpreter:
    def __init__(self, buffers: Buffers, variables: dict[str, int]) -> None:
        self.buffers = buffers
        self.variables = variables
        self.values: dict[Node, Array] = {}
        self.has_effects = False
        self.memory: dict[Node, Array] = {}  # what an ASSIGN to a computed base has written

    def run(self, roots: list[Node]) -> list[Array]:
        order = Node.sink(roots).toposort()[:-1]
        self.has_effects = any(node.op is Op.ASSIGN for node in order)
        for node in order:
            if node.op is Op.BIND:
                self.variables[node.src[0].arg.name] = int(node.src[1].arg)
        for node in order:
            self.values[node] = self.value(node)
        return [self.values[root] for root in roots]

    def value(self, node: Node) -> Array:
        source = [self.values[s] for s in node.src]
        if node.op in ALU:
            result = apply_alu(node.op, node.dtype, [s.dtype for s in node.src], source)
            return np.broadcast_to(result, self.sizes(node.shape))
        if node.op in MOVEMENT or node.op is Op.UNWINDOW:
            return _MOVE[node.op](source[0], self.arg(node))
        if node.op not in _TENSOR:
            raise InternalError(f"[{node.op.name.lower()}] has no meaning in a tensor graph")
        return _TENSOR[node.op](self, node, source)

    # -- sizes --------------------------------------------------------------------------------

    def size(self, size: Size) -> int:
        """A size as a number."""
        if not isinstance(size, Node):
            return int(size)
        leaves = [n for n in size.toposort() if n.op is Op.VARIABLE]
        return int(evaluate(size, {n: self.variable(n) for n in leaves}))

    def variable(self, node: Node) -> int:
        if node.arg.name not in self.variables:
            raise no_value(node.arg.name)
        return self.variables[node.arg.name]

    def sizes(self, sizes: Shape) -> Shape:
        """A shape, or a tuple of pairs of sizes, as numbers."""
        return tuple(self.sizes(s) if isinstance(s, tuple) else self.size(s) for s in sizes)

    def arg(self, node: Node) -> Any:
        if node.op is Op.UNWINDOW:
            return (node.arg, self.size(node.arg.extent))
        return node.arg if node.op is Op.WINDOW else self.sizes(node.arg)

    # -- memory and effects -------------------------------------------------------------------

    def storage(self, view: Node) -> tuple[Array, Array]:
        """The flat memory below `view`, and the place in it of each of its elements."""
        chain = []
        base = view
        while base.op in MOVEMENT or base.op is Op.AFTER:
            chain.append(base)
            base = base.src[0]
        if base.op is Op.BUFFER:
            flat = self.buffers(base.arg).reshape(-1)
        else:
            flat = self.memory.setdefault(base, self.values[base].flatten())
        places = np.arange(flat.size).reshape(self.sizes(base.shape))
        for item in reversed(chain):
            if item.op is not Op.AFTER:
                places = _MOVE[item.op](places, self.arg(item))
        return flat, places

    def assign(self, node: Node, source: list[Array]) -> Array:
        if any(n.op is Op.PAD for n in _movement_chain(node.src[0])):
            raise InternalError("[assign] a padded view is no place to write to")
        flat, places = self.storage(node.src[0])
        flat[places] = source[1]
        return np.array(np.broadcast_to(source[1], places.shape))

    def after(self, node: Node, source: list[Array]) -> Array:
        if not any(s.op is Op.ASSIGN for s in node.src[1:]):
            return source[0]
        flat, places = self.storage(node.src[0])
        return flat[places]


def _movement_chain(view: Node) -> Iterable[Node]:
    while view.op in MOVEMENT or view.op is Op.AFTER:
        yield view
        view = view.src[0]


def _pad(x: Array, padding: Sequence[tuple[int, int]]) -> Array:
    # not np.pad, which does not know the narrow floats of ml_dtypes
    shape = [n + a + b for n, (a, b) in zip(x.shape, padding, strict=True)]
    out = np.zeros(shape, x.dtype)
    out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, padding, strict=True))] = x
    return out


def _window(x: Array, arg: WindowArg) -> Array:
    span = (arg.size - 1) * arg.dilation + 1
    windows = np.lib.stride_tricks.sliding_window_view(x, span, axis=arg.axis)
    steps = [slice(None)] * windows.ndim
    steps[arg.axis], steps[-1] = slice(None, None, arg.stride), slice(None, None, arg.dilation)
    return windows[tuple(steps)]


def _unwindow(x: Array, arg_extent: tuple[WindowArg, int]) -> Array:
    arg, extent = arg_extent
    shape = (*x.shape[: arg.axis], extent, *x.shape[arg.axis + 1 : -1])
    out = np.zeros(shape, _accumulator(x, Op.ADD).dtype)
    where = [slice(None)] * out.ndim
    for k in range(arg.size):
        begin = k * arg.dilation
        where[arg.axis] = slice(begin, begin + (x.shape[arg.axis] - 1) * arg.stride + 1, arg.stride)
        out[tuple(where)] += x[..., k].astype(out.dtype)
    return out.astype(x.dtype)


def _is_float(x: Array) -> bool:
    return x.dtype.kind not in "biu"  # the kind of ml_dtypes' types is V


_MOVE: dict[Op, Callable[[Array, Any], Array]] = {
    Op.RESHAPE: lambda x, arg: x.reshape(arg),
    Op.EXPAND: lambda x, arg: np.broadcast_to(x, arg),
    Op.PERMUTE: lambda x, arg: x.transpose(arg),
    Op.PAD: _pad,
    Op.SHRINK: lambda x, arg: x[tuple(slice(begin, end) for begin, end in arg)],
    Op.FLIP: lambda x, arg: np.flip(x, arg),
    Op.WINDOW: _window,
    Op.UNWINDOW: _unwindow,
}


def _accumulator(x: Array, op: Op) -> Array:
    if x.dtype.kind == "c":
        return x.astype(np.complex128, copy=False)
    if not _is_float(x):
        return x
    narrow = op not in (Op.ADD, Op.MUL) and x.dtype != np.float64
    return x.astype(np.float32 if narrow else np.float64, copy=False)


def _reduce(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    ufunc, (x,) = REDUCTIONS[node.arg.op], source
    wide = _accumulator(x, node.arg.op)
    if node.arg.is_place:
        find = np.argmax if node.arg.op is Op.MAX else np.argmin
        return find(wide, node.arg.axes[0], keepdims=True).astype(numpy_dtype(node.dtype))
    start = {} if node.arg.op in (Op.ADD, Op.MUL) else {"initial": _first(node)}
    with np.errstate(all="ignore"):
        total = ufunc.reduce(wide, axis=node.arg.axes, dtype=wide.dtype, keepdims=True, **start)
        return np.asarray(total).astype(numpy_dtype(node.dtype))


def _first(node: Node) -> Any:
    return node.dtype.min if node.arg.op is Op.MAX else node.dtype.max


def _scan(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    wide, axis = _accumulator(source[0], node.arg.op), node.arg.axis
    with np.errstate(all="ignore"):
        if len(source) == 1:
            total = REDUCTIONS[node.arg.op].accumulate(wide, axis=axis, dtype=wide.dtype)
        else:
            total = _recurrence(wide, source[1].astype(wide.dtype), axis)
        return total.astype(numpy_dtype(node.dtype))


def _recurrence(terms: Array, factors: Array, axis: int) -> Array:
    lines, held = np.moveaxis(terms.copy(), axis, 0), np.zeros((), terms.dtype)
    for step, factor in enumerate(np.moveaxis(factors, axis, 0)):
        held = lines[step] = factor * held + lines[step]
    return np.moveaxis(lines, 0, axis)


def _gather(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    x, index = source
    axis = node.arg.axis
    size = x.shape[axis]
    inside = (index >= 0) & (index < size)
    if size == 0:
        return np.zeros(run.sizes(node.shape), x.dtype)
    places = np.where(inside, index, 0).astype(np.int64)
    if node.arg.along:
        return np.where(inside, np.take_along_axis(x, places, axis), np.zeros((), x.dtype))
    mask = inside.reshape((1,) * axis + index.shape + (1,) * (x.ndim - axis - 1))
    return np.where(mask, np.take(x, places, axis=axis), np.zeros((), x.dtype))


def _scatter(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    base, index, new = source
    size, axis = base.shape[node.arg.axis], node.arg.axis
    out = np.moveaxis(np.array(np.broadcast_to(base, run.sizes(node.shape))), axis, 0)
    new = np.broadcast_to(new, run.sizes(node.src[2].shape))
    if node.arg.along:
        rows = np.moveaxis(new, axis, 0)
        places = np.moveaxis(index.astype(np.int64), axis, 0)
        others: tuple[Any, ...] = tuple(np.indices(out.shape[1:]))
    else:
        shape = (*base.shape[:axis], index.size, *base.shape[axis + 1 :])
        rows, places = np.moveaxis(new.reshape(shape), axis, 0), index.reshape(-1).astype(np.int64)
        others = ()
    lines: Any = zip(rows, places, strict=True)
    for row, place in lines:  # in order: the last write stays
        inside = (place >= 0) & (place < size)
        if not np.any(inside):
            continue
        where: Any = place
        if others:
            where = (place[inside], *(other[inside] for other in others))
            row = row[inside]
        out[where] = row if node.arg.op is None else _combine(node, out[where], row)
    return np.moveaxis(out, 0, axis)


def _sort(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    axis = node.arg.axis
    order = np.argsort(source[0], axis=axis, kind="stable").astype(numpy_dtype(node.dtype))
    return np.take(order, np.arange(node.arg.count), axis)


def _distribute(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    values, bins, starts = source
    out, following = np.zeros(values.size, values.dtype), np.array(starts)
    for line, (row, places) in enumerate(zip(values, bins, strict=True)):
        for value, place in zip(row, places, strict=True):
            out[following[line, place]] = value
            following[line, place] += 1
    return out.reshape(node.shape)


def _combine(node: Node, old: Array, new: Array) -> Array:
    return apply_alu(node.arg.op, node.dtype, (node.dtype, node.dtype), (old, new))


def _buffer(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    flat = run.buffers(node.arg)
    return (flat.copy() if run.has_effects else flat).reshape(run.sizes(node.shape))


def _host(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    return lapack.call(node.arg, source)[node.arg.number]


def _collective(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    raise InternalError("[interpret] what several processes compute is no value of one graph")


def _recur(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    loop, sequences = Loop.of(node), node.arg.sequences
    states = source[: len(node.arg.body)]
    shared = dict(enumerate(source[len(states) + sequences :], len(states) + sequences))
    found = [states[node.arg.number]]
    for step in loop.order:
        rows = [rows[step] for rows in source[len(states) : len(states) + sequences]]
        seen = {loop.tokens[i]: x for i, x in (*enumerate([*states, *rows]), *shared.items())}
        # Bound now: the lambda is called before the next step
        states = interpret_many(node.arg.body, lambda ref, seen=seen: seen[ref.token].reshape(-1))
        found.append(states[node.arg.number])
    return np.stack(found[::-1] if node.arg.backward else found)


def _same(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    return source[0]


def _part(run: _Interpreter, node: Node, source: list[Array]) -> Array:
    axis, sizes, mesh = node.arg.to.axis, node.arg.to.sizes, node.arg.to.devices
    if axis is None:
        return source[0]
    return np.split(source[0], np.cumsum(sizes)[:-1], axis)[mesh.rank]


_TENSOR: dict[Op, Callable[[_Interpreter, Node, list[Array]], Array]] = {
    Op.CONST: lambda run, node, source: constant_array(node.dtype, node.arg),
    Op.IOTA: lambda run, node, source: np.arange(run.size(node.arg)).astype(
        numpy_dtype(node.dtype)
    ),
    Op.VARIABLE: lambda run, node, source: constant_array(node.dtype, run.variable(node)),
    Op.BIND: lambda run, node, source: source[1],
    Op.BUFFER: _buffer,
    Op.REDUCE: _reduce,
    Op.SCAN: _scan,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _sort,
    Op.DISTRIBUTE: _distribute,
    Op.CONTIGUOUS: _same,
    Op.CONTIGUOUS_BACKWARD: _same,
    Op.DETACH: _same,
    Op.ALIAS: _same,
    Op.CHECKED: _same,
    Op.COPY: _same,
    Op.HOST: _host,
    Op.COLLECTIVE: _collective,
    Op.RECUR: _recur,
    Op.MULTI: lambda run, node, source: (
        source[0] if node.arg.axis is None else np.concatenate(source, node.arg.axis)
    ),
    Op.PART: _part,
    Op.ASSIGN: _Interpreter.assign,
    Op.AFTER: _Interpreter.after,
    Op.SINK: lambda run, node, source: np.zeros(()),
}
