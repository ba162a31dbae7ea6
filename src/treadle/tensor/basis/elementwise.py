"""Arithmetic, comparison and selection: methods and operators that work element by element.

    Tensor([1, 2]) / 2        -> float32: true division never stays integer
    Tensor([1, 2]) // 2       -> int32, rounded down
    half_tensor * 2.5         -> float16: Python scalars take the tensor's own kind

Operands broadcast as in NumPy. `==` compares element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NotImplementedType
from typing import Self, cast

from ...dtype import (
    DType,
    ImageDType,
    _from_np_dtype,
    dtypes,
    least_upper_float,
    promoted,
    to_dtype,
)
from ...engine.memory import from_host
from ...errors import DTypeError
from ...ir.node import Node, alu
from ...ir.op import Op
from ...ir.shape import Shape
from ..images import check_image, into_image
from ..operands import (
    Operand,
    check_device,
    is_beyond,
    is_scalar,
    operands,
    scalar_node,
    weak_dtype,
)
from ..shapes import broadcast_shapes, expand, reshape
from ..types import DTypeLike
from .core import Core

__all__ = ["Elementwise"]


class Elementwise(Core):
    """Arithmetic on top of the core."""

    __slots__ = ()

    # -- making operands ----------------------------------------------------------------------

    def _operand(self, name: str, other: Operand) -> Self | complex:
        """`other` as a tensor or Python scalar. Raises DTypeError for anything else."""
        found = self._accept(other)
        if found is NotImplemented:
            raise DTypeError(
                f"[{name}] cannot compute with a {type(other).__name__}; expected a tensor, a "
                "number or a NumPy array"
            )
        return found

    def _accept(self, other: object) -> Self | complex | NotImplementedType:
        if is_scalar(other):
            return other
        if isinstance(other, Core):
            return cast("Self", other)
        if isinstance(other, Node):
            return type(self)._of(other.cast(dtypes.default_int), self.device)
        library = type(other).__module__.partition(".")[0]
        if library == "torch":  # Python's own message would be of a 'Tensor' and a 'Tensor'
            raise DTypeError(
                f"[operand] a torch.{type(other).__name__} beside a treadle.Tensor: "
                "Tensor.from_dlpack(x) shares its memory, Tensor(x) copies it, and "
                "torch.from_dlpack(tensor) goes the other way"
            )
        if library == "numpy":
            import numpy as np

            from_numpy = np.asarray(other)
            node = from_host(self.device, _from_np_dtype(from_numpy.dtype), from_numpy)
            return type(self)._of(reshape(node, from_numpy.shape), self.device)
        return NotImplemented

    def _binary(self, op: Op, name: str, other: Operand, reverse: bool = False) -> Self:
        other = self._operand(name, other)
        a, b = operands(name, self, other)
        node = alu(op, b, a) if reverse else alu(op, a, b)
        return self._result(node, *_tensors(other))

    def _unary(self, op: Op) -> Self:
        return self._result(alu(op, self.node))

    def _float(self) -> Self:
        """This tensor, or for integers the same values as floats."""
        return self.cast(least_upper_float(self.dtype))

    # -- dtypes -------------------------------------------------------------------------------

    def cast(self, dtype: DTypeLike) -> Self:
        """Each element converted: float to integer truncates, anything to bool is `!= 0`.

        `dtypes.imagef((height, width))` and `imageh` give float32 values that are computed once,
        into a texture of so many elements. Raises DTypeError where the device has no such, and for
        complex numbers to real ones.
        """
        wanted = to_dtype(dtype)
        if isinstance(wanted, ImageDType):
            check_image("cast", wanted, self.device, self.numel())
            return self._result(into_image(self.node, wanted))
        return self._result(self.node.cast(wanted))

    def _as(self, dtype: DType) -> Self:
        """`cast` on the way to a result: it may be this very tensor."""
        return self if dtype is self.dtype else self._result(self.node.cast(dtype))

    def float(self) -> Self:
        """The elements as float32, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.float32)

    def half(self) -> Self:
        """The elements as float16, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.float16)

    def bfloat16(self) -> Self:
        """The elements as bfloat16, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.bfloat16)

    def double(self) -> Self:
        """The elements as float64, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.float64)

    def int(self) -> Self:
        """The elements as int32, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.int32)

    def long(self) -> Self:
        """The elements as int64, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.int64)

    def short(self) -> Self:
        """The elements as int16, as by `cast`. Raises DTypeError for complex numbers."""
        return self.cast(dtypes.int16)

    def bool(self) -> Self:
        """Whether each element differs from 0, as bool."""
        return self.cast(dtypes.bool)

    # -- arithmetic ---------------------------------------------------------------------------

    def add(self, x: Operand, reverse: bool = False) -> Self:
        """The sum, elementwise: shapes broadcast, dtypes promote. Raises ShapeError."""
        return self._binary(Op.ADD, "add", x, reverse)

    def sub(self, x: Operand, reverse: bool = False) -> Self:
        """`self - x`, elementwise; shapes broadcast, dtypes promote.

        Raises ShapeError, DTypeError for two bools: use `^`.
        """
        if self.dtype.is_bool and (x is True or x is False or _dtype_of(x) is dtypes.bool):
            raise DTypeError("[sub] bools have no difference; use ^ or logical_not()")
        return self._binary(Op.SUB, "sub", x, reverse)

    def mul(self, x: Operand, reverse: bool = False) -> Self:
        """The product, elementwise: shapes broadcast, dtypes promote. Raises ShapeError."""
        if is_beyond(x, self.dtype):
            return self.float()._binary(Op.MUL, "mul", x, reverse).cast(self.dtype)
        return self._binary(Op.MUL, "mul", x, reverse)

    def div(self, x: Operand, reverse: bool = False, rounding_mode: str | None = None) -> Self:
        """`self / x` of each element; shapes broadcast, dtypes promote, integers give floats.

        `rounding_mode` "trunc" or "floor" rounds the quotient, which stays an integer then; another
        one raises DTypeError. Raises ShapeError.
        """
        if rounding_mode == "floor":
            return self.floor_divide(x, reverse)
        if rounding_mode not in (None, "trunc"):
            raise DTypeError(
                f'[div] rounding_mode is None, "trunc" or "floor", not {rounding_mode!r}'
            )
        if rounding_mode == "trunc":
            return self.idiv(x, reverse)
        if is_beyond(x, self.dtype):
            return self.float().div(x, reverse).cast(self.dtype)
        x = self._operand("div", x)
        a, b = operands("div", self, x)
        first, second = (b, a) if reverse else (a, b)
        kind = least_upper_float(a.dtype)
        return self._result(alu(Op.FDIV, first.cast(kind), second.cast(kind)), *_tensors(x))

    def idiv(self, x: Operand, reverse: bool = False) -> Self:
        """The quotient rounded towards zero, elementwise; an integer over 0 gives 0.

        `//` and `floor_divide` round down. Shapes broadcast, dtypes promote; bools give int32.
        Raises ShapeError, and DTypeError for complex numbers.
        """
        x = self._operand("idiv", x)
        a, b = (_no_bool(node) for node in operands("idiv", self, x))
        first, second = (b, a) if reverse else (a, b)
        if a.dtype.is_inexact:
            wide = a.dtype if a.dtype.bits >= 32 else dtypes.float32
            quotient = alu(Op.FDIV, first.cast(wide), second.cast(wide))
            return self._result(alu(Op.TRUNC, quotient).cast(a.dtype), *_tensors(x))
        return self._result(_truncating(first, second), *_tensors(x))

    def floor_divide(self, x: Operand, reverse: bool = False) -> Self:
        """The exact quotient, rounded down, elementwise: `//`. An integer over 0 gives 0.

        With an infinity it is the quotient itself, as the Array API has it. Shapes broadcast,
        dtypes promote; bools give int32. Raises ShapeError, and DTypeError for complex numbers.
        """
        x = self._operand("floor_divide", x)
        a, b = operands("floor_divide", self, x)
        first, second = (b, a) if reverse else (a, b)
        if a.dtype.is_float:
            wide = a.dtype if a.dtype.bits >= 32 else dtypes.float32
            node = _floored(first.cast(wide), second.cast(wide)).cast(a.dtype)
        else:
            node = alu(Op.IDIV, _no_bool(first), _no_bool(second))
        return self._result(node, *_tensors(x))

    def mod(self, x: Operand, reverse: bool = False) -> Self:
        """`self - x * floor(self / x)`, elementwise: the sign is that of `x`.

        Shapes broadcast, dtypes promote; bools give int32. Raises ShapeError, and DTypeError for
        complex numbers.
        """
        x = self._operand("mod", x)
        a, b = (_no_bool(node) for node in operands("mod", self, x))
        return self._result(alu(Op.MOD, b, a) if reverse else alu(Op.MOD, a, b), *_tensors(x))

    def neg(self) -> Self:
        """-x, elementwise, in its dtype; of bools `logical_not`."""
        return self.logical_not() if self.dtype.is_bool else self._unary(Op.NEG)

    def maximum(self, x: Operand) -> Self:
        """The larger of two elements; NaN if either is. Shapes broadcast, dtypes promote.

        Raises ShapeError, and DTypeError for complex numbers.
        """
        return self._extreme(Op.MAX, "maximum", x)

    def minimum(self, x: Operand) -> Self:
        """The smaller of two elements; NaN if either is. Shapes broadcast, dtypes promote.

        Raises ShapeError, and DTypeError for complex numbers.
        """
        return self._extreme(Op.MIN, "minimum", x)

    def _extreme(self, op: Op, name: str, x: Operand) -> Self:
        """With a constant, too, equals share the gradient: it is put as a value of its own."""
        x = self._operand(name, x)
        a, b = operands(name, self, x)
        if a.dtype.is_float and (a.op is Op.CONST) != (b.op is Op.CONST):
            shape = a.shape if b.op is Op.CONST else b.shape
            a, b = (_value_of_constant(node, shape) for node in (a, b))
        return self._result(alu(op, a, b), *_tensors(x))

    def _at_least(self, name: str, x: Operand) -> Self:
        """The larger of element and `x`; where they are equal the constant takes the gradient."""
        return self._binary(Op.MAX, name, x)

    def _at_most(self, name: str, x: Operand) -> Self:
        """The smaller of element and `x`; where they are equal the constant takes the gradient."""
        return self._binary(Op.MIN, name, x)

    # -- bits ---------------------------------------------------------------------------------

    def _bits(self, op: Op, name: str, x: Operand, reverse: bool, bools: bool = True) -> Self:
        x = self._operand(name, x)
        for dtype in (self.dtype, _dtype_of(x)):
            if dtype.is_float or (dtype.is_bool and not bools):
                raise DTypeError(f"[{name}] needs integers, not {dtype.name}")
        return self._binary(op, name, x, reverse)

    def bitwise_and(self, x: Operand, reverse: bool = False) -> Self:
        """self & x of integers or bools, elementwise; shapes broadcast, dtypes promote.

        Raises DTypeError for others, ShapeError.
        """
        return self._bits(Op.AND, "bitwise_and", x, reverse)

    def bitwise_or(self, x: Operand, reverse: bool = False) -> Self:
        """self | x of integers or bools, elementwise; shapes broadcast, dtypes promote.

        Raises DTypeError for others, ShapeError.
        """
        return self._bits(Op.OR, "bitwise_or", x, reverse)

    def bitwise_xor(self, x: Operand, reverse: bool = False) -> Self:
        """self ^ x of integers or bools, elementwise; shapes broadcast, dtypes promote.

        Raises DTypeError for others, ShapeError.
        """
        return self._bits(Op.XOR, "bitwise_xor", x, reverse)

    def bitwise_not(self) -> Self:
        """~x of integers or bools, elementwise, in their dtype. Raises DTypeError for others."""
        if self.dtype.is_bool:
            return self.logical_not()
        return self._bits(Op.XOR, "bitwise_not", -1, False)

    def lshift(self, x: Operand, reverse: bool = False) -> Self:
        """self << x of integers, elementwise; shapes broadcast, dtypes promote.

        Raises DTypeError for others, ShapeError.
        """
        return self._bits(Op.SHL, "lshift", x, reverse, bools=False)

    def rshift(self, x: Operand, reverse: bool = False) -> Self:
        """self >> x of integers, elementwise; shapes broadcast, dtypes promote.

        Raises DTypeError for others, ShapeError.
        """
        return self._bits(Op.SHR, "rshift", x, reverse, bools=False)

    # -- comparison and selection -------------------------------------------------------------

    def _compared(self, name: str, x: Operand) -> Self:
        x = self._operand(name, x)
        if (known := _known(name, self.dtype, x)) is not None:
            return self._result(expand(Node.const(dtypes.bool, known), self.shape))
        return self._result(_COMPARISONS[name](*operands(name, self, x)), *_tensors(x))

    def lt(self, x: Operand) -> Self:
        """Where self < x, as bool; shapes broadcast.

        Raises ShapeError, and DTypeError for complex numbers.
        """
        return self._compared("lt", x)

    def gt(self, x: Operand) -> Self:
        """Where self > x, as bool; shapes broadcast.

        Raises ShapeError, and DTypeError for complex numbers.
        """
        return self._compared("gt", x)

    def eq(self, x: Operand) -> Self:
        """Where self == x, as bool; shapes broadcast. Raises ShapeError."""
        return self._compared("eq", x)

    def ne(self, x: Operand) -> Self:
        """Where self != x, as bool; shapes broadcast. Raises ShapeError."""
        return self._compared("ne", x)

    def le(self, x: Operand) -> Self:
        """Where self <= x, as bool; shapes broadcast.

        Raises ShapeError, and DTypeError for complex numbers.
        """
        return self._compared("le", x)

    def ge(self, x: Operand) -> Self:
        """Where self >= x, as bool; shapes broadcast.

        Raises ShapeError, and DTypeError for complex numbers.
        """
        return self._compared("ge", x)

    def logical_not(self) -> Self:
        """Where elements are 0 or False, as bool in this shape."""
        return self._result(alu(Op.XOR, self.node.cast(dtypes.bool), Node.const(dtypes.bool, True)))

    def logical_and(self, x: Operand) -> Self:
        """Where both differ from 0, as bool; shapes broadcast. Raises ShapeError."""
        return self.bool().bitwise_and(self._as_tensor("logical_and", x).bool())

    def logical_or(self, x: Operand) -> Self:
        """Where either differs from 0, as bool; shapes broadcast. Raises ShapeError."""
        return self.bool().bitwise_or(self._as_tensor("logical_or", x).bool())

    def _as_tensor(self, name: str, x: Operand) -> Self:
        x = self._operand(name, x)
        if is_scalar(x):
            x = type(self)._of(_node_as(name, x, _common_dtype(self, x)), self.device)
        return x

    def where(self, x: Operand, y: Operand) -> Self:
        """`x` where this tensor is true, else `y`; all three broadcast, dtypes of the two promote.

        Raises ShapeError.
        """
        x, y = self._operand("where", x), self._operand("where", y)
        check_device("where", self, *_tensors(x), *_tensors(y))
        dtype = _common_dtype(x, y)
        parts = [self.node.cast(dtypes.bool)]
        parts += [_node_as("where", value, dtype) for value in (x, y)]
        shape = broadcast_shapes("where", *(part.shape for part in parts))
        aligned = [p if p.op is Op.CONST else expand(p, shape) for p in parts]
        node = alu(Op.WHERE, *aligned)
        return self._result(expand(node, shape), *_tensors(x), *_tensors(y))


def _tensors(value: Core | complex) -> tuple[Core, ...]:
    return (value,) if isinstance(value, Core) else ()


def _dtype_of(value: object) -> DType:
    return value.dtype if isinstance(value, Core) else dtypes.from_py(value)


def _common_dtype(x: Core | complex, y: Core | complex) -> DType:
    if is_scalar(x):
        return _known_common(x, y)
    return weak_dtype(y, x.dtype) if is_scalar(y) else promoted(x.dtype, y.dtype)


def _known_common(x: complex, y: Core | complex) -> DType:
    if is_scalar(y):
        return promoted(dtypes.from_py(x), dtypes.from_py(y))
    return weak_dtype(x, y.dtype)


def _node_as(name: str, value: Core | complex, dtype: DType) -> Node:
    return value.node.cast(dtype) if isinstance(value, Core) else scalar_node(name, value, dtype)


def _value_of_constant(node: Node, shape: Shape) -> Node:
    if node.op is not Op.CONST:
        return node
    return expand(Node(Op.DETACH, node.dtype, (node,)), shape)


def _truncating(a: Node, b: Node) -> Node:
    """The integer quotient rounded towards zero, by way of the one rounded down."""
    down = alu(Op.IDIV, a, b)
    rest = a - down * b
    beyond = rest.ne(a.like(0)) & (a < 0).ne(b < 0)
    return beyond.where(down + 1, down)


def _floored(a: Node, b: Node) -> Node:
    """The quotient of floats rounded down, exactly: a / b alone may round up to a whole number."""
    rest, quotient = alu(Op.MOD, a, b), alu(Op.FDIV, a, b)
    quotient = Node(Op.DETACH, a.dtype, (quotient,))  # where it is taken, only its value is
    half = 2.0 ** (2 ** (dtypes.finfo(a.dtype)[0] - 1) - 2)  # of the largest number, or less
    part = ((a > half) | (a < -half)).where(a.like(0.5), 1.0)  # with it the difference is finite
    whole = alu(Op.ROUND, alu(Op.FDIV, a * part - rest * part, b * part))
    whole = whole.eq(0.0).where(a.eq(0.0).where(quotient, 0.0), whole)  # of 0, its sign
    endless = [x.eq(math.inf) | x.eq(-math.inf) for x in (a, b)]
    return (b.eq(0.0) | endless[0] | endless[1]).where(quotient, whole)


def _no_bool(node: Node) -> Node:
    return node.cast(dtypes.default_int) if node.dtype.is_bool else node


def _known(name: str, dtype: DType, x: Core | complex) -> bool | None:
    """How integers of `dtype` compare with a Python integer beyond all of them."""
    if not isinstance(x, int) or not (kind := weak_dtype(x, dtype)).is_int:
        return None
    above, below = x > kind.max, x < kind.min
    if not above and not below:
        return None
    return {"eq": False, "ne": True, "lt": above, "le": above, "gt": below, "ge": below}[name]


def _not_above(a: Node, b: Node) -> Node:
    """a <= b; with NaN, false."""
    if a.dtype.is_float:
        return alu(Op.OR, alu(Op.CMPLT, a, b), alu(Op.CMPEQ, a, b))
    return alu(Op.XOR, alu(Op.CMPLT, b, a), Node.const(dtypes.bool, True))


_COMPARISONS: dict[str, Callable[[Node, Node], Node]] = {
    "lt": lambda a, b: alu(Op.CMPLT, a, b),
    "gt": lambda a, b: alu(Op.CMPLT, b, a),
    "eq": lambda a, b: alu(Op.CMPEQ, a, b),
    "ne": lambda a, b: alu(Op.CMPNE, a, b),
    "le": _not_above,
    "ge": lambda a, b: _not_above(b, a),
}
