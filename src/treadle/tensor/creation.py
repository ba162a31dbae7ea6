r"""New tensors: from host data, constants, ranges.

Tensor([[1, 2], [3, 4]])              -> int32 (2, 2), copied at once
Tensor(numpy_array), Tensor(b"\x01")  -> the array's dtype; bytes are uint8
Tensor.zeros(2, 3), Tensor.arange(5)  -> constants: no memory until they are needed
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeGuard

from ..dtype import DType, _from_np_dtype, _to_np_dtype, complex_of, dtypes, to_dtype
from ..engine.devices import Device
from ..engine.memory import from_host
from ..errors import DTypeError, ShapeError
from ..ir.args import ConstantName
from ..ir.node import Node, as_index
from ..ir.op import Op
from ..ir.origin import mark
from ..ir.shape import Shape, simple_size
from ..schedule.shard import axis_of, sharded
from .conv import Convolution
from .core import Core
from .files import disk_path, of_disk, of_path
from .operands import Operand, is_scalar, plain, scalar_node
from .shapes import expand, flatten_args, reshape
from .types import DeviceLike, DTypeLike, Real, Sizes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["Creation"]


# What a tensor is made of; nested sequences have the same length at each depth.
Data: TypeAlias = "npt.ArrayLike | Operand | os.PathLike[str] | Sequence[Data] | None"


class Creation(Convolution):
    """Constructors."""

    __slots__ = ()

    def __init__(
        self, data: Data = None, device: DeviceLike = None, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:  # fmt: skip
        """`data`: a scalar, nested lists, a NumPy array, bytes, another tensor, a `pathlib.Path`
        (the file's bytes as uint8, or as `dtype`); None is empty.

        Without `dtype`, Python floats take `dtypes.default_float`, ints `dtypes.default_int`.
        Raises DTypeError for what has no element type and integers that do not fit theirs,
        ShapeError for ragged lists.
        """
        if dtype is not None:
            dtype = _known_dtype(dtype)
        if isinstance(data, os.PathLike):
            data, dtype = of_path(type(self), data, dtype), None
        path = disk_path(device)
        if path is not None:
            source = type(self)(data, dtype=dtype)
            data = of_disk(type(self), path, source.shape, source.dtype, source.numpy())
            device, dtype = None, None
        name = Device.ready(device)
        if isinstance(data, Core):
            source = data if device is None else data.to(device)
            name, node = source.device, source.node
            node = node if dtype is None else node.cast(dtype)
        elif isinstance(data, Node):
            node = data.cast(dtypes.default_int if dtype is None else dtype)
        elif is_scalar(data) and not hasattr(data, "dtype"):  # NumPy's float64 is a float, too
            kind = dtypes.from_py(plain(data)) if dtype is None else dtype
            node = _scalar(data, kind, is_default=dtype is None)
        elif _holds_tensors(data):
            parts: list[Any] = [
                item if isinstance(item, Core) else type(self)(item, name) for item in data
            ]
            stacked = parts[0].stack(*parts[1:])
            node = stacked.node if dtype is None else stacked.node.cast(dtype)
        else:
            array, kind = _host_array(data, dtype)
            node = reshape(from_host(name, kind, array), array.shape)
        mark(node)
        self._set(node, name, None)
        if requires_grad is not None:
            self.requires_grad_(requires_grad)

    @classmethod
    def _new(cls, node: Node, device: DeviceLike, requires_grad: bool | None = None) -> Self:
        result = cls._of(node, Device.ready(device))
        return result if requires_grad is None else result.requires_grad_(requires_grad)

    @classmethod
    def _constant(cls, node: Node, device: DeviceLike, requires_grad: bool | None) -> Self:
        """`_new` of a constant: one that can have a gradient gets a name of its own."""
        path = disk_path(device)
        if path is not None:
            made = of_disk(cls, path, node.shape, node.dtype, cls._of(node, "CPU").numpy())
            return made if requires_grad is None else made.requires_grad_(requires_grad)
        if node.dtype.is_inexact:
            node = Node(Op.ALIAS, node.dtype, (node,), ConstantName())
        return cls._new(node, device, requires_grad)

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
            return of_disk(cls, path, _shape_of("empty", shape), _float_or(dtype))
        return cls.full(_shape_of("empty", shape), 0.0, device, _float_or(dtype), requires_grad)

    @classmethod
    def full(
        cls, shape: Sizes, fill_value: Operand, device: DeviceLike = None,
        dtype: DTypeLike | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """`fill_value`, a number, everywhere in `shape`: bool, int32, float32 or complex64, as it
        is.

        `dtype` says otherwise. Raises ShapeError for a negative size, DTypeError for an integer
        that does not fit.
        """
        sizes = _shape_of("full", (shape,))
        number = fill_value if is_scalar(fill_value) else _one_number(fill_value)
        kind = dtypes.from_py(plain(number)) if dtype is None else _known_dtype(dtype)
        node = _scalar(number, kind, is_default=dtype is None)
        return cls._constant(expand(node, sizes), device, requires_grad)

    @classmethod
    def zeros(
        cls, *shape: Sizes, device: DeviceLike = None, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """0 everywhere in `shape`, `dtypes.default_float` unless a dtype is given. Raises
        ShapeError.
        """
        return cls.full(_shape_of("zeros", shape), 0.0, device, _float_or(dtype), requires_grad)

    @classmethod
    def ones(
        cls, *shape: Sizes, device: DeviceLike = None, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """1 everywhere in `shape`, `dtypes.default_float` unless a dtype is given. Raises
        ShapeError.
        """
        return cls.full(_shape_of("ones", shape), 1.0, device, _float_or(dtype), requires_grad)

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
            kind = dtypes.default_int if dtype is None else _known_dtype(dtype)
            return cls._new(_symbolic_range(start, stop, step).cast(kind), device, requires_grad)
        if step == 0:
            raise ShapeError("[arange] a step of 0 never arrives")
        if not all(map(math.isfinite, (start, stop, step))):
            raise ShapeError(f"[arange] {start}, {stop} and {step} must be finite")
        floats = any(isinstance(n, float) for n in (start, stop, step))
        default = dtypes.default_float if floats else dtypes.default_int
        kind = default if dtype is None else _known_dtype(dtype)
        count = max(math.ceil((stop - start) / step), 0)
        whole = kind if kind.is_int and kind.bits >= 32 else dtypes.int32
        for end in (start, start + (count - 1) * step) if count and not floats else ():
            if kind.is_float and not whole.min <= end <= whole.max:
                whole = dtypes.int64
            _check_fits(end, whole, is_default=dtype is None)
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
        if not isinstance(steps, int) or steps < 0:
            raise ShapeError(f"[linspace] steps is a whole number of 0 or more, not {steps!r}")
        kind = _float_or(dtype)
        if kind.is_bool:
            raise DTypeError("[linspace] gives numbers, not bool; compare them with a threshold")
        wide = kind.real if kind.is_inexact and kind.real.bits >= 32 else dtypes.float32
        place = Node(Op.IOTA, dtypes.int32, (), steps)
        gap = (stop - start) / (steps - 1) if steps > 1 else 0.0
        # counted from the nearer end, so that both ends are exact
        up = place.cast(wide) * gap + float(start)
        down = (place - (steps - 1)).cast(wide) * gap + float(stop)
        node = (place < (steps + 1) // 2).where(up, down)
        return cls._constant(node.cast(kind), device, requires_grad)

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
        rows = expand(reshape(Node(Op.IOTA, dtypes.int32, (), n), (n, 1)), (n, columns))
        across = expand(Node(Op.IOTA, dtypes.int32, (), columns), (n, columns))
        at = across if not diagonal else across - diagonal
        return cls._constant(rows.eq(at).cast(_float_or(dtype)), device, requires_grad)

    def full_like(self, fill_value: Operand, **kwargs: Any) -> Self:
        """`fill_value` in this tensor's shape, dtype and device; `kwargs` (dtype, device) say
        otherwise.

        Raises DTypeError for an integer that does not fit.
        """
        settings = {"dtype": self.dtype, "device": self.device, **_given(kwargs)}
        result = type(self).full(self.shape, fill_value, **settings)
        if isinstance(self.device, tuple) and result.device == self.device:
            axis = axis_of(self.node)  # the same pieces, so that nothing has to move later
            result.node = sharded(result.node, self.device, axis)
        return result

    def zeros_like(self, **kwargs: Any) -> Self:
        """Zeros of this shape, dtype and device, unless `kwargs` say otherwise."""
        return self.full_like(0, **kwargs)

    def ones_like(self, **kwargs: Any) -> Self:
        """Ones of this shape, dtype and device, unless `kwargs` say otherwise."""
        return self.full_like(1, **kwargs)


def _symbolic_range(start: Any, stop: Any, step: Any) -> Node:
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


def _given(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in kwargs.items() if value is not None}


def _shape_of(name: str, shape: tuple[Sizes, ...]) -> Shape:
    """The sizes of a new tensor. Raises ShapeError for what is none."""
    if len(shape) > 1 and isinstance(shape[0], (tuple, list)):
        raise ShapeError(
            f"[{name}] the shape is {tuple(shape[0])} or {tuple(shape[1:])}, not both: give one "
            "tuple, or each size as an argument of its own"
        )
    sizes = flatten_args(shape[0], shape[1:]) if shape else ()
    for size in sizes:
        if not isinstance(size, (int, Node)):
            raise ShapeError(f"[{name}] a size is an integer, not {size!r}")
        if isinstance(size, int) and size < 0:
            raise ShapeError(f"[{name}] sizes must not be negative: {sizes}")
    return sizes


def _float_or(dtype: DTypeLike | None) -> DType:
    return dtypes.default_float if dtype is None else _known_dtype(dtype)


def _known_dtype(dtype: DTypeLike | None) -> DType:
    try:
        return to_dtype(dtype)
    except DTypeError:
        raise
    except TypeError as error:
        raise DTypeError(f"[dtype] {error}") from None


def _one_number(value: object) -> complex:
    """What an array or a tensor of one element holds. Raises DTypeError for anything else."""
    if not hasattr(value, "item"):
        raise DTypeError(f"[full] fill_value is one number, not {value!r}; Tensor takes lists")
    return getattr(value, "item")()  # noqa: B009 (arrays of any library)


def _scalar(value: complex, dtype: DType, is_default: bool) -> Node:
    if dtype.is_int and isinstance(value, int):
        _check_fits(value, dtype, is_default)
    return scalar_node("Tensor", value, dtype)


def _holds_tensors(data: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(data, (list, tuple)) and any(isinstance(item, Core) for item in data)


def _host_array(data: Any, dtype: DType | None) -> tuple[np.ndarray, DType]:
    """`data` as an array, and the dtype that its tensor has."""
    import numpy as np

    if data is None:
        data = []
    if _is_raw(data, dtype):
        return _from_bytes(bytes(data), dtype)
    listed = isinstance(data, (list, tuple))
    try:
        array = np.asarray(data)
    except ValueError:
        raise ShapeError("[Tensor] nested lists must all have the same length") from None
    if listed and _may_hold_large_integers(array):
        exact = np.asarray(data, object)
        if all(isinstance(value, int) for value in exact.flat):
            return _large_integers(exact, dtype)
    if array.dtype.kind == "O":
        raise DTypeError(f"[Tensor] no element type for the values of a {type(data).__name__}")
    if array.dtype.kind == "c" and dtype is not None and not dtype.is_complex:
        raise DTypeError(
            f"[Tensor] complex numbers as {dtype.name} would lose their imaginary parts; give "
            ".real of them, or dtype=dtypes.complex64"
        )
    if listed:
        return array, _checked_list(array, dtype)
    try:
        return array, _from_np_dtype(array.dtype) if dtype is None else dtype
    except TypeError as error:
        raise DTypeError(f"[Tensor] {error}") from None


def _may_hold_large_integers(array: np.ndarray) -> bool:
    """Whether NumPy may have made floats or objects of integers that int64 does not hold."""
    if array.dtype.kind == "f" and array.size:
        return bool((abs(array) >= 2.0**63).any())
    return array.dtype.kind == "O"


def _large_integers(exact: np.ndarray, dtype: DType | None) -> tuple[np.ndarray, DType]:
    """An array of Python's integers in `dtype`, exactly where that is an integer type."""
    import numpy as np

    kind = dtypes.default_int if dtype is None else dtype
    if kind.is_int:
        for value in (min(exact.flat), max(exact.flat)):
            _check_fits(value, kind, is_default=dtype is None)
        wrapped = [value & (1 << 64) - 1 for value in exact.flat]
        return np.array(wrapped, np.uint64).reshape(exact.shape), kind
    try:
        return exact.astype(np.float64), kind
    except OverflowError:
        raise DTypeError(f"[Tensor] an integer is too large for {kind.name}") from None


def _check_fits(value: float, kind: DType, is_default: bool) -> None:
    """Raises DTypeError where no bits of `kind` hold `value`, or `kind` was not asked for and
    would show another number.
    """
    held = -(1 << (kind.bits - 1)) <= value < 1 << kind.bits
    if held and not (is_default and not kind.min <= value <= kind.max):
        return
    wider = next((d for d in (dtypes.int64, dtypes.uint64) if d.min <= value <= d.max), None)
    hint = "no integer type holds it; a float does, as in dtype=dtypes.float64"
    if wider is not None:
        hint = f"give a wider one, such as dtype=dtypes.{wider.name}"
    raise DTypeError(f"[Tensor] the integer {value} does not fit {kind.name}; {hint}")


def _is_raw(data: object, dtype: DType | None) -> bool:
    """Whether `data` is bytes that hold numbers; other memory says itself of what type it is."""
    if isinstance(data, memoryview):
        return dtype is not None and data.format == "B"
    return isinstance(data, (bytes, bytearray))


def _from_bytes(data: bytes, dtype: DType | None) -> tuple[np.ndarray, DType]:

    import numpy as np

    kind = dtypes.uint8 if dtype is None else dtype
    if len(data) % kind.itemsize:
        raise ShapeError(f"[Tensor] {len(data)} bytes are no multiple of {kind.itemsize}")
    return np.frombuffer(data, _to_np_dtype(kind)), kind


def _checked_list(array: np.ndarray, dtype: DType | None) -> DType:
    """The dtype of a list of Python numbers. Raises DTypeError for integers too large for it."""
    defaults = {
        "b": dtypes.bool, "i": dtypes.default_int, "u": dtypes.default_int,
        "c": complex_of(dtypes.default_float),
    }  # fmt: skip
    kind = defaults.get(array.dtype.kind, dtypes.default_float) if dtype is None else dtype
    if array.dtype.kind not in "biufc":
        raise DTypeError(f"[Tensor] no element type for values of NumPy type {array.dtype}")
    if kind.is_int and array.dtype.kind in "iu" and array.size:
        for value in (int(array.min()), int(array.max())):
            _check_fits(value, kind, is_default=dtype is None)
    return kind
