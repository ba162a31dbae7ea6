"""Narrow floats as float32 arithmetic on values that are stored as integers.

    STORE(p, i, ADD(LOAD(p, i), c))  in bfloat16, p a PARAM of bfloat16
    ->  STORE(p, i, narrow(ADD(widen(LOAD(p, i)), c)))  with p a PARAM of uint16, the rest float32

Every value of an emulated dtype is carried as the float32 that equals it; after each op that may
leave the dtype it is narrowed and widened again, so results are those of the dtype. A REDUCE,
HREDUCE or SUBGROUP accumulates in float32 and rounds once. A float16 or bfloat16 that the target
converts itself keeps its memory and its casts. What it does not convert is converted by integers:

    widen(dtypes.bfloat16, bits)  -> float32: BITCAST(bits << 16)
    narrow(dtypes.fp8e4m3, value) -> uint8: rounded to nearest even; too large becomes NaN

fp8e4m3 is the variant without infinities: its one NaN is 0x7f, its largest number 448. NaNs lose
their payload. No float32 subnormal is ever made, so targets that flush them convert rightly too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dtype import DType, dtypes
from ..ir.choices import take
from ..ir.fold import round_to
from ..ir.node import Node, rebuild
from ..ir.op import ALU, TRANSCENDENTAL, Op
from ..ir.views import After, Store, operand
from .floats import of_bits, signed_bits

__all__ = ["emulate_dtypes"]

_ROUNDS = TRANSCENDENTAL | {
    Op.RECIP, Op.SQRT, Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.MOD, Op.FMA, Op.REDUCE, Op.HREDUCE,
    Op.SUBGROUP,
}  # fmt: skip

_INFINITY = 0x7F800000  # the bits of float32's
_NAN = 0x7FC00000


@dataclass(frozen=True)
class _Format:
    """A narrow float of `exponent` and `fraction` bits and the exponent's `bias`.

    `over` codes the first value beyond the largest finite one (infinity or NaN), `nan` codes NaN.
    """

    exponent: int
    fraction: int
    bias: int
    over: int
    nan: int
    storage: DType

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.fraction)

    @property
    def drop(self) -> int:
        """How many fraction bits float32 has beyond this format."""
        return 23 - self.fraction

    @property
    def rebias(self) -> int:
        return 127 - self.bias


_FORMATS: dict[DType, _Format] = {
    dtypes.bfloat16: _Format(8, 7, 127, 0x7F80, 0x7FC0, dtypes.uint16),
    dtypes.float16: _Format(5, 10, 15, 0x7C00, 0x7E00, dtypes.uint16),
    dtypes.fp8e5m2: _Format(5, 2, 15, 0x7C, 0x7E, dtypes.uint8),
    dtypes.fp8e4m3: _Format(4, 3, 7, 0x7F, 0x7F, dtypes.uint8),
}


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
    return dtype.scalar in _FORMATS


class _Emulation:
    def __init__(self, native: frozenset[DType]) -> None:
        self.converted = native & {dtypes.float16, dtypes.bfloat16}
        self.new: dict[Node, Node] = {}
        self.stored_as: dict[tuple[Node, DType], Node] = {}  # what widening gave, and from what

    def storage(self, dtype: DType) -> DType:
        """The dtype in memory of a narrow float."""
        if dtype.scalar in self.converted:
            return dtype
        return _FORMATS[dtype.scalar].storage.vec(dtype.count)

    def decode(self, stored: Node, dtype: DType) -> Node:
        """The float32 that equals `stored`."""
        value = stored.cast(_wide(dtype)) if stored.dtype.is_float else _widen(dtype.scalar, stored)
        self.stored_as[value, dtype.scalar] = stored
        return value

    def encode(self, value: Node, dtype: DType) -> Node:
        """The float32 `value` rounded to `dtype`, as it is stored."""
        known = self.stored_as.get((value, dtype.scalar))
        if known is not None:
            return known
        storage = self.storage(dtype)
        return value.cast(storage) if storage.is_float else _narrow(dtype.scalar, value)

    def rounded(self, value: Node, dtype: DType) -> Node:
        return self.decode(self.encode(value, dtype), dtype)

    def convert(self, node: Node) -> Node:
        src = tuple(self.new[s] for s in node.src)
        if not _is_narrow(node.dtype) and node.op not in (Op.STORE, Op.BITCAST):
            return node if src == node.src else rebuild(node, src)
        special = _SPECIAL.get(node.op)
        if special is not None:
            return special(self, node, src)
        value = Node(node.op, _wide(node.dtype), src, node.arg)
        if node.op in ALU:
            value = rebuild(value, src)
        return self.rounded(value, node.dtype) if node.op in _ROUNDS else value

    def constant(self, node: Node, src: tuple[Node, ...]) -> Node:
        return Node.const(_wide(node.dtype), round_to(node.dtype, node.arg))

    def memory(self, node: Node, src: tuple[Node, ...]) -> Node:
        return node.replace(dtype=self.storage(node.dtype))

    def after(self, node: Node, src: tuple[Node, ...]) -> Node:
        value, *effects = src
        return After(value, tuple(effects)).node()

    def read(self, node: Node, src: tuple[Node, ...]) -> Node:
        """A LOAD, or a BOX that is copied as it is."""
        *place, last = src
        if node.op is Op.LOAD and len(src) > 2:  # it has a gate, and another value
            src = (*place, self.encode(last, node.dtype))
        return self.decode(Node(node.op, self.storage(node.dtype), src, node.arg), node.dtype)

    def store(self, node: Node, src: tuple[Node, ...]) -> Node:
        kind = Store.of(node).value.dtype
        if _is_narrow(kind):
            memory, index, value, *gate = src
            src = (memory, index, self.encode(value, kind), *gate)
        return node if src == node.src else node.replace(src=src)

    def cast(self, node: Node, src: tuple[Node, ...]) -> Node:
        (value,) = src
        if value.dtype.scalar is dtypes.float64:
            value = _round_to_odd(value)
        return self.rounded(value.cast(_wide(node.dtype)), node.dtype)

    def lane(self, node: Node, src: tuple[Node, ...]) -> Node:
        vector, *_ = src
        value = Node(Op.EXTRACT, vector.dtype.scalar, src, node.arg)
        stored = self.stored_as.get((vector, node.dtype))
        if stored is not None:
            one = Node(Op.EXTRACT, stored.dtype.scalar, (stored,), node.arg)
            self.stored_as[value, node.dtype] = one
        return value

    def stack(self, node: Node, src: tuple[Node, ...]) -> Node:
        """Lanes that are as they are stored are widened together."""
        kind = node.dtype.scalar
        if all(n.op is Op.CONST or (n, kind) in self.stored_as for n in src):
            lanes = tuple(self.encode(n, kind) for n in src)
            return self.decode(Node(Op.STACK, self.storage(node.dtype), lanes), node.dtype)
        return Node(Op.STACK, _wide(node.dtype), src)

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
    Op.AFTER: _Emulation.after,
    Op.LOAD: _Emulation.read,
    Op.BOX: _Emulation.read,
    Op.STORE: _Emulation.store,
    Op.EXTRACT: _Emulation.lane,
    Op.STACK: _Emulation.stack,
    Op.CAST: _Emulation.cast,
    Op.BITCAST: _Emulation.bitcast,
}


# -- conversions ----------------------------------------------------------------------------------


def _widen(dtype: DType, bits: Node) -> Node:
    """The float32 that equals the number of type `dtype` stored in `bits` (uint8 or uint16)."""
    form = _FORMATS[dtype]
    wide = bits.cast(dtypes.int32.vec(bits.dtype.count))
    if form.rebias == 0:
        return of_bits(wide << form.drop)
    size = wide & (form.sign - 1)
    sign = (wide & form.sign) << (31 - form.exponent - form.fraction)
    normal = (size << form.drop) + (form.rebias << 23)
    subnormal = size.cast(_wide(size.dtype)) * 2.0 ** (1 - form.bias - form.fraction)
    value = (size < (1 << form.fraction)).where(signed_bits(subnormal), normal)
    value = (size < form.over).where(value, size.like(_INFINITY))
    value = size.eq(form.nan).where(size.like(_NAN), value)
    if form.over != form.nan:
        value = (size > form.over).where(size.like(_NAN), value)
    return of_bits(value | sign)


def _narrow(dtype: DType, value: Node) -> Node:
    """The float32 `value` rounded to nearest even in `dtype`, as its bits (uint8 or uint16)."""
    form, bits = _FORMATS[dtype], signed_bits(value)
    size = bits & 0x7FFFFFFF
    half_less_one = (1 << (form.drop - 1)) - 1
    rounded = size + ((size >> form.drop) & 1) + half_less_one
    result = (rounded >> form.drop) - (form.rebias << form.fraction)
    if form.rebias:
        result = (result > form.over).where(result.like(form.over), result)
        least_normal = (form.rebias + 1) << 23
        result = (size < least_normal).where(_subnormal(form, size), result)
    result = (size > _INFINITY).where(result.like(form.nan), result)
    sign = (bits >> (31 - form.exponent - form.fraction)) & form.sign
    return (result | sign).cast(form.storage.vec(value.dtype.count))


def _subnormal(form: _Format, size: Node) -> Node:
    """Adding a number whose last place is the format's smallest step rounds to that step."""
    anchor = (form.rebias + form.drop + 1) << 23
    return signed_bits(of_bits(size) + of_bits(size.like(anchor))) - anchor


def _round_to_odd(value: Node) -> Node:
    """A float64 as float32, rounded to odd: rounding that once more to nearest is right."""
    single = value.cast(_wide(value.dtype))
    back, bits = single.cast(value.dtype), signed_bits(single)
    outward = ((value < back) & (back > 0.0)) | ((back < value) & (back < 0.0))
    bits = bits - outward.where(bits.like(1), bits.like(0))
    inexact = (back < value) | (value < back)
    return of_bits(bits | inexact.where(bits.like(1), bits.like(0)))
