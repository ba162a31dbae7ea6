"""Node: one immutable, interned value of the intermediate representation.

    x = Node.const(dtypes.index, 3); x + 1  ->  CONST 4

Interned: two nodes built from the same op, dtype, sources and arg are the same object, so `is`
compares structure and dictionaries key by identity. Python operators build nodes with the sources'
dtype and fold constants. `==` is identity: use `.eq()` for the node that compares.
"""

from __future__ import annotations

import contextlib
import struct
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, TypeAlias, overload

from ..dtype import DType, complex_of, dtypes
from ..errors import UserError
from .args import RangeArg, RangeKind, VarArg
from .complexes import check_complex
from .fold import can_fold, fold_bits, fold_scalar, round_to
from .graph import short, toposort
from .interval import bounds
from .op import ALU, COMMUTATIVE, COMPARE, Op
from .remembered import Table
from .shape import Shape, infer_shape, simple_size
from .weak import Reference, inside

__all__ = [
    "Node", "NodeLike", "behind_after", "carry", "changed", "following", "intern_count", "item",
    "substitute", "toposort", "without",
]  # fmt: skip

# What stands beside a node in arithmetic: Python's numbers become constants of its dtype.
NodeLike: TypeAlias = "Node | complex"

# Code, the instruction of it that ran, the code of this package that it called, and whether the
# node is of the gradient of that.
Origin: TypeAlias = tuple[CodeType, int, CodeType | None, bool]

_interned: weakref.WeakValueDictionary[tuple[object, ...], Node] = weakref.WeakValueDictionary()
_ORDERS = Table["Node", "list[Node]"]()  # of the nodes below one
_references, _forget = inside(_interned)  # looked up a million times in a large compilation


def intern_count() -> int:
    """How many nodes are alive."""
    return len(_interned)


class Node:
    """`op` applied to `src`, giving `dtype` and, in tensor graphs, `shape`; `arg` says how.

    Two more are no part of its meaning: `origin` is the line that made it, if known, in the form of
    `ir.origin`, and `memory` what holds its value once the engine has computed that.
    Raises ShapeError if the sources' shapes do not fit the op, DTypeError if they are complex and
    it has no meaning for complex numbers.
    """

    __slots__ = ("__weakref__", "arg", "dtype", "memory", "op", "origin", "shape", "src")

    op: Op
    dtype: DType
    src: tuple[Node, ...]
    arg: Any
    shape: Shape
    origin: Origin | None
    memory: Node | None

    def __new__(  # noqa: PYI034 (an interned node is found, not made)
        cls, op: Op, dtype: DType, src: tuple[Node, ...] = (), arg: object = None
    ) -> Node:
        key = (op, dtype, src, _const_key(arg) if op is Op.CONST else arg)
        reference = _references.get(key)
        if reference is not None and (found := reference()) is not None:
            return found
        if src and src[0].dtype.kind == "complex":
            check_complex(op, dtype, src, arg)
        return _interned_as(key, op, dtype, src, arg, infer_shape(op, src, arg))

    @staticmethod
    def fresh(op: Op, dtype: DType, src: tuple[Node, ...], arg: object, shape: Shape) -> Node:
        """The same as Node(op, dtype, src, arg), quicker where its arg or a source is new.

        Nobody has it then, so it is not looked for; its shape is known.
        """
        return _interned_as((op, dtype, src, arg), op, dtype, src, arg, shape)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Node is immutable: cannot set {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return (Node, (self.op, self.dtype, self.src, self.arg))

    # -- making nodes -------------------------------------------------------------------------

    @staticmethod
    def const(dtype: DType, value: complex) -> Node:
        """The scalar `value` as `dtype`; in a vector dtype, that value in every lane."""
        if dtype.count > 1:
            return Node(Op.BROADCAST, dtype, (Node.const(dtype.scalar, value),))
        number = dtype.as_const(value)
        return Node(Op.CONST, dtype, (), round_to(dtype, number) if dtype.is_inexact else number)

    @staticmethod
    def index(value: int) -> Node:
        """An index constant."""
        return Node(Op.CONST, dtypes.index, (), int(value))

    @staticmethod
    def variable(name: str, low: int, high: int) -> Node:
        """An index known at launch, between `low` and `high` inclusive."""
        return Node(Op.VARIABLE, dtypes.index, (), VarArg(name, low, high))

    def bind(self, value: int) -> Node:
        """This variable with a value for now. Raises UserError outside its bounds."""
        if self.op is not Op.VARIABLE:
            raise UserError(f"[bind] only a Variable can be bound, not {self!r}")
        low, high = self.arg.low, self.arg.high
        if not isinstance(value, int):
            raise UserError(f"[bind] {self.arg.name} is a whole number, not {value!r}")
        if not low <= value <= high:
            raise UserError(
                f"[bind] {value} lies outside {low} to {high}, the bounds of {self.arg.name}"
            )
        return Node(Op.BIND, dtypes.index, (self, Node.index(value)))

    @property
    def val(self) -> int:
        """The value that a Variable is bound to. Raises UserError where it is bound to none."""
        return self.unbind()[1]

    def unbind(self) -> tuple[Node, int]:
        """A bound Variable as (the Variable, its value). Raises UserError for anything else."""
        if self.op is not Op.BIND:
            raise UserError(f"[unbind] only a bound Variable has a value, not {self!r}")
        return self.src[0], self.src[1].arg

    @staticmethod
    def range(size: int | Node, number: int, kind: RangeKind = "loop") -> Node:
        """A loop index, 0 <= value < size. Sizes that are equal make the same loop."""
        return Node(Op.RANGE, dtypes.index, (as_index(simple_size(size)),), RangeArg(number, kind))

    @staticmethod
    def sink(nodes: Iterable[Node]) -> Node:
        return Node(Op.SINK, dtypes.void, tuple(nodes))

    def replace(
        self,
        *,
        src: tuple[Node, ...] | None = None,
        arg: object = None,
        dtype: DType | None = None,
    ) -> Node:
        """This node with other sources, arg or dtype."""
        return Node(
            self.op,
            self.dtype if dtype is None else dtype,
            self.src if src is None else src,
            self.arg if arg is None else arg,
        )

    def alu(self, op: Op, *others: Node) -> Node:
        """`op` on this node and `others`; constants fold, dtype follows from the sources."""
        return alu(op, self, *others)

    def cast(self, dtype: DType) -> Node:
        if dtype is self.dtype:
            return self
        if self.op is Op.CONST:
            _check(Op.CAST, dtype, (self,), None)
            return Node.const(dtype, fold_scalar(Op.CAST, dtype, (self.dtype,), (self.arg,)))
        return Node(Op.CAST, dtype, (self,))

    def bitcast(self, dtype: DType) -> Node:
        if dtype is self.dtype:
            return self
        if self.op is Op.CONST:
            value = fold_bits(dtype, self.dtype, self.arg)
            if value is not None:
                return Node.const(dtype, value)
        return Node(Op.BITCAST, dtype, (self,))

    def like(self, value: NodeLike) -> Node:
        """`value` as a constant of this node's dtype, unless it is a Node already."""
        return value if isinstance(value, Node) else Node.const(self.dtype, value)

    # -- looking at nodes ---------------------------------------------------------------------

    @property
    def is_const(self) -> bool:
        return self.op is Op.CONST

    @property
    def value(self) -> Any:
        """The constant, or None when this is not one."""
        return self.arg if self.op is Op.CONST else None

    def toposort(self, enter: Callable[[Node], bool] | None = None) -> list[Node]:
        """Every node below and including this one, sources first; `enter` as in `toposort`."""
        if enter is not None:
            return toposort((self,), enter)
        orders = _ORDERS.here()
        if self not in orders:
            orders[self] = toposort((self,))
        return [*orders[self]]

    def substitute(self, mapping: dict[Node, Node]) -> Node:
        """This graph with each key of `mapping` replaced; constants are folded again."""
        return substitute((self,), mapping)[0]

    def __repr__(self) -> str:
        return short(self)

    def __bool__(self) -> bool:
        if self.op is Op.CONST:
            return bool(self.arg)
        low, high = bounds(self)
        if low > 0 or high < 0 or low == high == 0:  # whatever its variables are bound to
            return low != 0 or high != 0
        raise TypeError(
            "the truth value of a symbolic Node is not known: it depends on what its variables are "
            "bound to; choose bounds that decide it, or use .eq(), & and |"
        )

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: NodeLike) -> Node:
        return alu(Op.ADD, self, self.like(other))

    def __radd__(self, other: NodeLike) -> Node:
        return alu(Op.ADD, self.like(other), self)

    def __sub__(self, other: NodeLike) -> Node:
        return alu(Op.SUB, self, self.like(other))

    def __rsub__(self, other: NodeLike) -> Node:
        return alu(Op.SUB, self.like(other), self)

    def __mul__(self, other: NodeLike) -> Node:
        return alu(Op.MUL, self, self.like(other))

    def __rmul__(self, other: NodeLike) -> Node:
        return alu(Op.MUL, self.like(other), self)

    def __truediv__(self, other: NodeLike) -> Node:
        return alu(Op.FDIV, self, self.like(other))

    def __rtruediv__(self, other: NodeLike) -> Node:
        return alu(Op.FDIV, self.like(other), self)

    def __floordiv__(self, other: NodeLike) -> Node:
        return alu(Op.IDIV, self, self.like(other))

    def __rfloordiv__(self, other: NodeLike) -> Node:
        return alu(Op.IDIV, self.like(other), self)

    def __mod__(self, other: NodeLike) -> Node:
        return alu(Op.MOD, self, self.like(other))

    def __neg__(self) -> Node:
        return alu(Op.MUL, self, self.like(-1)) if self._is_index() else alu(Op.NEG, self)

    def __and__(self, other: NodeLike) -> Node:
        return alu(Op.AND, self, self.like(other))

    def __or__(self, other: NodeLike) -> Node:
        return alu(Op.OR, self, self.like(other))

    def __xor__(self, other: NodeLike) -> Node:
        return alu(Op.XOR, self, self.like(other))

    def __lshift__(self, other: NodeLike) -> Node:
        return alu(Op.SHL, self, self.like(other))

    def __rshift__(self, other: NodeLike) -> Node:
        return alu(Op.SHR, self, self.like(other))

    def __invert__(self) -> Node:
        return alu(Op.XOR, self, self.like(True if self.dtype.is_bool else -1))

    def __lt__(self, other: NodeLike) -> Node:
        return alu(Op.CMPLT, self, self.like(other))

    def __gt__(self, other: NodeLike) -> Node:
        return alu(Op.CMPLT, self.like(other), self)

    def __le__(self, other: NodeLike) -> Node:
        other = self.like(other)
        return self < other + 1 if self._is_index() else ~(other < self)

    def __ge__(self, other: NodeLike) -> Node:
        return self.like(other) <= self

    def eq(self, other: NodeLike) -> Node:
        return alu(Op.CMPEQ, self, self.like(other))

    def ne(self, other: NodeLike) -> Node:
        return alu(Op.CMPNE, self, self.like(other))

    def maximum(self, other: NodeLike) -> Node:
        return alu(Op.MAX, self, self.like(other))

    def minimum(self, other: NodeLike) -> Node:
        return alu(Op.MIN, self, self.like(other))

    @overload
    def where(self, yes: Node, no: NodeLike) -> Node: ...
    @overload
    def where(self, yes: NodeLike, no: Node) -> Node: ...
    def where(self, yes: NodeLike, no: NodeLike) -> Node:
        """`yes` where this bool holds, else `no`; one of the two must be a Node."""
        if isinstance(yes, Node):
            return alu(Op.WHERE, self, yes, yes.like(no))
        assert isinstance(no, Node)
        return alu(Op.WHERE, self, no.like(yes), no)

    def _is_index(self) -> bool:
        return self.dtype.kind == "index"


# The slots' own setters, past `__setattr__`: twice as quick as `object.__setattr__` by name.
_set_op, _set_dtype, _set_src, _set_arg, _set_shape, _set_origin, _set_memory = (
    Node.__dict__[name].__set__
    for name in ("op", "dtype", "src", "arg", "shape", "origin", "memory")
)


def behind_after(node: Node) -> Node:
    """The memory or register that AFTERs say something of."""
    while node.op is Op.AFTER:
        node = node.src[0]
    return node


def _interned_as(
    key: tuple[object, ...], op: Op, dtype: DType, src: tuple[Node, ...], arg: object, shape: Shape
) -> Node:
    node = object.__new__(Node)
    _set_op(node, op)
    _set_dtype(node, dtype)
    _set_src(node, src)
    _set_arg(node, arg)
    _set_shape(node, shape)
    _set_origin(node, None)
    _set_memory(node, None)
    reference = Reference(node, _forget)
    reference.key = key
    while (earlier := _references.setdefault(key, reference)) is not reference:
        if (found := earlier()) is not None:  # another thread's, made meanwhile
            return found
        _forget(earlier)
    return node


def substitute(roots: tuple[Node, ...], mapping: dict[Node, Node]) -> tuple[Node, ...]:
    """These graphs with each key of `mapping` replaced; constants are folded again."""
    if not mapping:
        return roots
    new: dict[Node, Node] = dict(mapping)
    for node in toposort(roots, lambda n: n not in mapping):
        if node not in new:
            new[node] = _rebuilt(node, new)
    return tuple(new[root] for root in roots)


def changed(roots: Iterable[Node], change: Callable[[Node, Node], Node]) -> tuple[Node, ...]:
    """These graphs with `change(node, now)` in place of each node, which is `now` on what its
    sources became; constants are folded again.
    """
    roots = tuple(roots)
    new: dict[Node, Node] = {}
    for node in toposort(roots):
        new[node] = change(node, _rebuilt(node, new))
    return tuple(new[root] for root in roots)


def without(roots: Iterable[Node], is_dropped: Callable[[Node], bool]) -> tuple[Node, ...]:
    """These graphs with the first source of what is dropped in its place; constants are folded
    again.
    """
    roots = tuple(roots)
    new: dict[Node, Node] = {}
    for node in toposort(roots):
        new[node] = new[node.src[0]] if is_dropped(node) else _rebuilt(node, new)
    return tuple(new[root] for root in roots)


def _rebuilt(node: Node, new: dict[Node, Node]) -> Node:
    """`node` on what its sources became, of the same origin."""
    src = tuple(new[s] for s in node.src)
    if src == node.src:
        return node
    made = rebuild(node, src)
    if node.origin is not None:
        carry(node, made, node.origin)
    return made


# What nodes were made of, while somebody follows: a thread that builds a program.
_derived: dict[Node, Node] | None = None


@contextlib.contextmanager
def following() -> Iterator[dict[Node, Node]]:
    """A block in which nodes are told that others were made of; one at a time.

    What other threads make meanwhile is there, too.
    """
    global _derived
    found = _derived = {}
    try:
        yield found
    finally:
        _derived = None


def carry(node: Node, made: Node, origin: Origin) -> None:
    """`made` was made of `node`, and is of this `origin` unless it has one."""
    if made.origin is None:
        _set_origin(made, origin)
    if _derived is not None and made is not node:
        _derived.setdefault(made, node)


def _check(op: Op, dtype: DType, src: tuple[Node, ...], arg: object) -> None:
    if src and src[0].dtype.kind == "complex":
        check_complex(op, dtype, src, arg)


def _const_key(value: object) -> bytes | tuple[type, object]:
    if type(value) is complex:
        return struct.pack("dd", value.real, value.imag)
    return struct.pack("d", value) if type(value) is float else (type(value), value)


def as_index(value: int | Node) -> Node:
    """`value` as an index Node."""
    return value if isinstance(value, Node) else Node.index(value)


def alu_dtype(op: Op, src: tuple[Node, ...]) -> DType:
    """The dtype of an elementwise op on `src`, CAST and BITCAST apart."""
    if op is Op.WHERE:
        return src[1].dtype
    if op in COMPARE:
        return dtypes.bool.vec(src[0].dtype.count) if src[0].dtype.count > 1 else dtypes.bool
    if op in (Op.REAL, Op.IMAG):
        return src[0].dtype.real
    return complex_of(src[0].dtype) if op is Op.COMPLEX else src[0].dtype


def alu(op: Op, *src: Node, arg: bool | None = None) -> Node:
    """An elementwise node, canonical and folded.

    All-constant sources become a constant, unless a formula of the target's decides its value; a
    constant of a commutative op goes to the right; the identities that are exact for every dtype
    (x + 0 of integers, WHERE of equals, ...) are applied.
    """
    dtype = alu_dtype(op, src)
    if op is Op.SUB and dtype.kind == "index":
        return alu(Op.ADD, src[0], alu(Op.MUL, src[1], src[1].like(-1)))
    if src[-1].op is Op.CONST and all(s.op is Op.CONST for s in src) and can_fold(op, dtype):
        _check(op, dtype, src, None)
        folded = fold_scalar(op, dtype, tuple(s.dtype for s in src), tuple(s.arg for s in src))
        return Node(Op.CONST, dtype, (), folded)
    if op in COMMUTATIVE and src[0].op is Op.CONST and not (dtype.is_float and op in _ORDERED):
        src = (src[1], src[0])
    simpler = _identity(op, dtype, src)
    if simpler is not None and simpler.shape == infer_shape(op, src, None):
        return simpler
    return Node(op, dtype, src, arg)


_ORDERED = (Op.MAX, Op.MIN)  # of 0.0 and -0.0 the first
_NEUTRAL_RIGHT = {
    Op.ADD: 0, Op.SUB: 0, Op.MUL: 1, Op.IDIV: 1, Op.OR: 0, Op.XOR: 0, Op.SHL: 0, Op.SHR: 0,
}  # fmt: skip


def _identity(op: Op, dtype: DType, src: tuple[Node, ...]) -> Node | None:
    if op is Op.WHERE:
        if src[0].op is Op.CONST:
            return src[1] if src[0].arg else src[2]
        return src[1] if src[1] is src[2] else None
    if dtype.is_inexact or len(src) != 2 or src[1].op is not Op.CONST:
        return None
    constant = src[1].arg
    if dtype.is_bool and op in (Op.AND, Op.OR) and src[0].dtype.kind != "float":
        absorbing = op is Op.OR
        return src[1] if constant is absorbing else src[0]
    if dtype.is_bool:
        return None
    if op in _NEUTRAL_RIGHT and constant == _NEUTRAL_RIGHT[op]:
        return src[0]
    if op in (Op.MUL, Op.AND) and constant == 0:
        return src[1]
    if op is Op.MOD and constant == 1:
        return src[1].like(0)
    return None


def item(node: Node, number: int) -> Node:
    """Item `number` of a TUPLE, or of what combines or keeps one."""
    made = node
    while made.op is not Op.TUPLE:
        made = made.src[0]
    found = made.src[number]
    return found if node is made else Node(Op.ITEM, found.dtype, (node,), number)


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """`node` on other sources, folded as if it had been written that way."""
    if node.op is Op.ITEM:
        return item(src[0], node.arg)
    if node.op in ALU and node.shape == ():
        if node.op is Op.CAST:
            return src[0].cast(node.dtype)
        if node.op is Op.BITCAST:
            return src[0].bitcast(node.dtype)
        return alu(node.op, *src, arg=node.arg)
    return Node(node.op, node.dtype, src, node.arg)
