"""New tensors of constants: filled ones, ranges.

Tensor.zeros(2, 3), Tensor.arange(5)  -> constants: no memory until they are needed
"""

from __future__ import annotations

import math
from typing import Self, Unpack, cast

from ...dtype import DType, dtypes
from ...errors import ShapeError
from ...ir.node import Node, as_index
from ...ir.op import Op
from ...ir.shape import simple_size
from ...schedule.shard import sharded_as, spread_of
from ..basis import Basis
from ..basis.construction import check_integer, known_dtype, sizes_of
from ..constants import evenly_spaced, identity
from ..files import disk_path, of_disk
from ..operands import Operand
from ..shapes import expand, reshape
from ..types import DeviceLike, DTypeLike, Extent, Made, Real, Sizes

__all__ = ["Ranges"]


class Ranges(Basis):
    """Constants and ranges."""

    __slots__ = ()

    @classmethod
    def empty(
        cls, *shape: Sizes, device: DeviceLike = None, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Values that are not defined (here zeros), in `shape`, `dtypes.default_float` unless a
        dtype is given.

        On "disk:path" they are what the file holds. Raises ShapeError for a negative size.
        """
        path = disk_path(device)
        if path is not None:
            return of_disk(cls, path, sizes_of("empty", shape), _float_or(dtype))
        return cls.full(sizes_of("empty", shape), 0.0, device, _float_or(dtype), requires_grad)

    @classmethod
    def zeros(
        cls, *shape: Sizes, device: DeviceLike = None, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """0 everywhere in `shape`, `dtypes.default_float` unless a dtype is given. Raises
        ShapeError.
        """
        return cls.full(sizes_of("zeros", shape), 0.0, device, _float_or(dtype), requires_grad)

    @classmethod
    def ones(
        cls, *shape: Sizes, device: DeviceLike = None, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """1 everywhere in `shape`, `dtypes.default_float` unless a dtype is given. Raises
        ShapeError.
        """
        return cls.full(sizes_of("ones", shape), 1.0, device, _float_or(dtype), requires_grad)

    @classmethod
    def arange(
        cls, start: Real, stop: Real | None = None, step: Real = 1, device: DeviceLike = None,
        dtype: DTypeLike | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """A vector: start, start + step, ... before `stop`; of floats if any of the three is one,
        else int32.

        `dtype` says otherwise. `start` and `stop` may be Variables. Raises ShapeError for a step of
        0, DTypeError for integers that do not fit.
        """
        if stop is None:
            start, stop = 0, start
        if isinstance(start, Node) or isinstance(stop, Node) or isinstance(step, Node):
            kind = dtypes.default_int if dtype is None else known_dtype(dtype)
            first, last = cast("Extent", start), cast("Extent", stop)
            node = _symbolic_range(first, last, step).cast(kind)
            return cls._new(node, device, requires_grad)
        if step == 0:
            raise ShapeError("[arange] a step of 0 never arrives")
        if not all(map(math.isfinite, (start, stop, step))):
            raise ShapeError(f"[arange] {start}, {stop} and {step} must be finite")
        floats = any(isinstance(n, float) for n in (start, stop, step))
        default = dtypes.default_float if floats else dtypes.default_int
        kind = default if dtype is None else known_dtype(dtype)
        count = max(math.ceil((stop - start) / step), 0)
        whole = kind if kind.is_int and kind.bits >= 32 else dtypes.int32
        for end in (start, start + (count - 1) * step) if count and not floats else ():
            if kind.is_float and not whole.min <= end <= whole.max:
                whole = dtypes.int64
            check_integer(end, whole, is_default=dtype is None)
        if kind.is_float and floats:
            # in the float type that the host counts in, or neighbours would round together
            whole = kind if kind.bits >= 32 else dtypes.float32
        node = Node(Op.IOTA, dtypes.int32 if whole.is_float else whole, (), count).cast(whole)
        first, stride = Node.const(whole, start), Node.const(whole, step)
        return cls._constant((node * stride + first).cast(kind), device, requires_grad)

    @classmethod
    def linspace(
        cls, start: float, stop: float, steps: int, device: DeviceLike = None,
        dtype: DTypeLike | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """`steps` numbers from `start` to `stop` inclusive, evenly apart: (steps,).

        `dtypes.default_float` unless a dtype is given; integers are cut off. Raises ShapeError,
        and DTypeError for bools.
        """
        node = evenly_spaced(start, stop, steps, _float_or(dtype))
        return cls._constant(node, device, requires_grad)

    @classmethod
    def logspace(
        cls, start: float, stop: float, steps: int, base: float = 10.0, device: DeviceLike = None,
        dtype: DTypeLike | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """`base` to the powers of `linspace`: (steps,), `dtypes.default_float` unless a dtype is
        given.

        Raises ShapeError.
        """
        kind = _float_or(dtype)
        powers = cls.linspace(start, stop, steps, device, kind if kind.is_float else None)
        result = cls._of(powers.pow(base, reverse=True).node.cast(kind), powers.device)
        return result if requires_grad is None else result.requires_grad_(requires_grad)

    @classmethod
    def eye(
        cls, n: int, m: int | None = None, device: DeviceLike = None,
        dtype: DTypeLike | None = None, requires_grad: bool | None = None, diagonal: int = 0,
    ) -> Self:  # fmt: skip
        """(n, m), or (n, n), with ones on a diagonal, counted upwards from the main one.

        `dtypes.default_float` unless a dtype is given. Raises ShapeError.
        """
        columns = n if m is None else m
        if n < 0 or columns < 0:
            raise ShapeError(f"[eye] sizes must not be negative: {(n, columns)}")
        node = identity(n, columns, _float_or(dtype), diagonal)
        return cls._constant(node, device, requires_grad)

    def full_like(self, fill_value: Operand, **kwargs: Unpack[Made]) -> Self:
        """`fill_value` in this tensor's shape, dtype and device; `kwargs` (dtype, device) say
        otherwise.

        Raises DTypeError for an integer that does not fit.
        """
        given = {key: value for key, value in kwargs.items() if value is not None}
        own = cast("Made", {"dtype": self.dtype, "device": self.device, **given})
        result = type(self).full(self.shape, fill_value, **own)
        if isinstance(self.device, tuple) and result.device == self.device:
            # the same pieces, so that nothing has to move later
            result.node = sharded_as(result.node, spread_of(self.node, self.device))
        return result

    def zeros_like(self, **kwargs: Unpack[Made]) -> Self:
        """Zeros of this shape, dtype and device, unless `kwargs` say otherwise."""
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs: Unpack[Made]) -> Self:
        """Ones of this shape, dtype and device, unless `kwargs` say otherwise."""
        return self.full_like(1, **kwargs)


def _symbolic_range(start: Extent, stop: Extent, step: object) -> Node:
    """start, start + step, ... before `stop`, where the first two may depend on Variables."""
    if not isinstance(step, int) or step < 1:
        raise ShapeError(
            f"[arange] between Variables the step is a number of 1 or more, not {step}"
        )
    span = stop - start
    count = span if step == 1 else (span + (step - 1)) // step
    places = Node(Op.IOTA, dtypes.int32, (), simple_size(count))
    first = as_index(start).cast(dtypes.int32)
    return places * step + expand(reshape(first, (1,)), places.shape)


def _float_or(dtype: DTypeLike | None) -> DType:
    return dtypes.default_float if dtype is None else known_dtype(dtype)
