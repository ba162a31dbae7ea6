"""Narrow floats as float32 arithmetic on values that are stored as integers.

    STORE(p, i, ADD(LOAD(p, i), c))  in bfloat16, p a PARAM of bfloat16
    ->  STORE(p, i, narrow(ADD(widen(LOAD(p, i)), c)))  with p a PARAM of uint16, the rest float32

Every value of an emulated dtype is carried as the float32 that equals it; after each op that may
leave the dtype it is narrowed and widened again, so results are those of the dtype. A REDUCE,
HREDUCE or SUBGROUP accumulates in float32 and rounds once. A float16 or bfloat16 that the target
converts itself keeps its memory and its casts.
"""

from __future__ import annotations

from collections.abc import Callable

from ..dtype import DType, dtypes
from ..ir.choices import take
from ..ir.fold import round_to
from ..ir.node import Node, rebuild
from ..ir.op import ALU, TRANSCENDENTAL, Op
from ..ir.views import After, Store, operand
from .narrow_floats import FORMATS, narrow, round_to_odd, widen

__all__ = ["emulate_dtypes"]

_ROUNDS = TRANSCENDENTAL | {
    Op.RECIP, Op.SQRT, Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.MOD, Op.FMA, Op.REDUCE, Op.SCAN,
    Op.HREDUCE, Op.SUBGROUP,
}  # fmt: skip


def emulate_dtypes(root: Node, native: frozenset[DType]) -> Node:
    """A kernel graph without arithmetic on narrow floats, and without those not in `native`.

    fp8 is never native; float16 or bfloat16 in `native` means that the target converts it.
    """
    emulation = _Emulation(native)
    order = root.toposort()
    if any(_is_narrow(node.dtype) for node in order):
        take("emulated_floats")
    for node in order:
        emulation.new[node] = emulation.convert(node)
    return emulation.new[root]


def _wide(dtype: DType) -> DType:
    return dtypes.float32.vec(dtype.count)


def _is_narrow(dtype: DType) -> bool:
    return dtype.scalar in FORMATS


class _Emulation:
    def __init__(self, native: frozenset[DType]) -> None:
        self.converted = native & {dtypes.float16, dtypes.bfloat16}
        self.new: dict[Node, Node] = {}
        self.stored_as: dict[tuple[Node, DType], Node] = {}  # what widening gave, and from what

    def storage(self, dtype: DType) -> DType:
        """The dtype in memory of a narrow float."""
        if dtype.scalar in self.converted:
            return dtype
        return (dtypes.uint16 if dtype.bits == 16 else dtypes.uint8).vec(dtype.count)

    def decode(self, stored: Node, dtype: DType) -> Node:
        """The float32 that equals `stored`."""
        value = stored.cast(_wide(dtype)) if stored.dtype.is_float else widen(dtype.scalar, stored)
        self.stored_as[value, dtype.scalar] = stored
        return value

    def encode(self, value: Node, dtype: DType) -> Node:
        """The float32 `value` rounded to `dtype`, as it is stored."""
        known = self.stored_as.get((value, dtype.scalar))
        if known is not None:
            return known
        storage = self.storage(dtype)
        return value.cast(storage) if storage.is_float else narrow(dtype.scalar, value)

    def rounded(self, value: Node, dtype: DType) -> Node:
        return self.decode(self.encode(value, dtype), dtype)

    def convert(self, node: Node) -> Node:
        src = tuple(self.new[s] for s in node.src)
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node, src)
        if not _is_narrow(node.dtype):
            return node if src == node.src else rebuild(node, src)
        value = Node(node.op, _wide(node.dtype), src, node.arg)
        if node.op in ALU:
            value = rebuild(value, src)
        return self.rounded(value, node.dtype) if node.op in _ROUNDS else value

    def constant(self, node: Node, src: tuple[Node, ...]) -> Node:
        if not _is_narrow(node.dtype):
            return node
        return Node.const(_wide(node.dtype), round_to(node.dtype, node.arg))

    def memory(self, node: Node, src: tuple[Node, ...]) -> Node:
        if not _is_narrow(node.dtype):
            return node if src == node.src else node.replace(src=src)
        if node.op is Op.STAGE:
            value, *more = src
            src = (self.encode(value, node.dtype), *more)
        return Node(node.op, self.storage(node.dtype), src, node.arg)

    def after(self, node: Node, src: tuple[Node, ...]) -> Node:
        value, *effects = src
        return After(value, tuple(effects)).node()

    def load(self, node: Node, src: tuple[Node, ...]) -> Node:
        if not _is_narrow(node.dtype):
            return node if src == node.src else node.replace(src=src)
        memory, index, *gated = src
        if gated:
            gate, other = gated
            gated = [gate, self.encode(other, node.dtype)]
        src = (memory, index, *gated)
        return self.decode(Node(Op.LOAD, self.storage(node.dtype), src, node.arg), node.dtype)

    def box(self, node: Node, src: tuple[Node, ...]) -> Node:
        """What is copied as it is."""
        if not _is_narrow(node.dtype):
            return node if src == node.src else node.replace(src=src)
        return self.decode(Node(Op.BOX, self.storage(node.dtype), src, node.arg), node.dtype)

    def store(self, node: Node, src: tuple[Node, ...]) -> Node:
        kind = Store.of(node).value.dtype
        if _is_narrow(kind):
            memory, index, value, *gate = src
            src = (memory, index, self.encode(value, kind), *gate)
        return node if src == node.src else node.replace(src=src)

    def cast(self, node: Node, src: tuple[Node, ...]) -> Node:
        (value,) = src
        if not _is_narrow(node.dtype):
            return value.cast(node.dtype)
        if value.dtype.scalar is dtypes.float64:
            value = round_to_odd(value)
        return self.rounded(value.cast(_wide(node.dtype)), node.dtype)

    def lane(self, node: Node, src: tuple[Node, ...]) -> Node:
        vector, *_ = src
        value = Node(Op.EXTRACT, vector.dtype.scalar, src, node.arg)
        stored = self.stored_as.get((vector, node.dtype))
        if stored is not None:
            one = Node(Op.EXTRACT, stored.dtype.scalar, (stored,), node.arg)
            self.stored_as[value, node.dtype] = one
        return value

    def bitcast(self, node: Node, src: tuple[Node, ...]) -> Node:
        (bits,), old = src, operand(node).dtype
        if _is_narrow(old):
            bits = self.encode(bits, old)
        if not _is_narrow(node.dtype):
            return bits.bitcast(node.dtype)
        return self.decode(bits.bitcast(self.storage(node.dtype)), node.dtype)


_SPECIAL: dict[Op, Callable[[_Emulation, Node, tuple[Node, ...]], Node]] = {
    Op.CONST: _Emulation.constant,
    Op.PARAM: _Emulation.memory,
    Op.LOCAL: _Emulation.memory,
    Op.STAGE: _Emulation.memory,
    Op.AFTER: _Emulation.after,
    Op.LOAD: _Emulation.load,
    Op.BOX: _Emulation.box,
    Op.STORE: _Emulation.store,
    Op.EXTRACT: _Emulation.lane,
    Op.CAST: _Emulation.cast,
    Op.BITCAST: _Emulation.bitcast,
}
