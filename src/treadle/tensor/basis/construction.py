r"""What a tensor is made of: host data, other tensors, files, one number.

Tensor([[1, 2], [3, 4]])              -> int32 (2, 2), copied at once
Tensor(numpy_array), Tensor(b"\x01")  -> the array's dtype; bytes are uint8
Tensor.full((2, 3), 1.0)              -> a constant: no memory until it is needed
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self, TypeAlias, TypeGuard, cast

from ...dtype import DType, _from_np_dtype, _to_np_dtype, complex_of, dtypes, to_dtype
from ...engine.devices import Device
from ...engine.memory import from_host
from ...errors import DTypeError, ShapeError
from ...ir.args import ConstantName
from ...ir.node import Node
from ...ir.op import Op
from ...ir.origin import mark
from ...ir.shape import Shape
from ..files import disk_path, of_disk, of_path
from ..operands import Operand, is_scalar, plain, scalar_node
from ..shapes import expand, flatten_args, reshape
from ..types import DeviceLike, DTypeLike, Sizes
from .core import Core
from .joining import Joining

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

__all__ = ["Construction", "Data", "check_integer", "known_dtype", "sizes_of"]


# What a tensor is made of; nested sequences have the same length at each depth.
Data: TypeAlias = "npt.ArrayLike | Operand | os.PathLike[str] | Sequence[Data] | None"


class Construction(Joining):
    """The constructor, and constants."""

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
            dtype = known_dtype(dtype)
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
            parts = [
                cast("Self", item) if isinstance(item, Core) else type(self)(item, name)
                for item in data
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
    def full(
        cls, shape: Sizes, fill_value: Operand, device: DeviceLike = None,
        dtype: DTypeLike | None = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """`fill_value`, a number, everywhere in `shape`: bool, int32, float32 or complex64, as it
        is.

        `dtype` says otherwise. Raises ShapeError for a negative size, DTypeError for an integer
        that does not fit.
        """
        sizes = sizes_of("full", (shape,))
        number = fill_value if is_scalar(fill_value) else _one_number(fill_value)
        kind = dtypes.from_py(plain(number)) if dtype is None else known_dtype(dtype)
        node = _scalar(number, kind, is_default=dtype is None)
        return cls._constant(expand(node, sizes), device, requires_grad)


def sizes_of(name: str, shape: tuple[Sizes, ...]) -> Shape:
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


def known_dtype(dtype: DTypeLike | None) -> DType:
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
        check_integer(value, dtype, is_default)
    return scalar_node("Tensor", value, dtype)


def _holds_tensors(data: object) -> TypeGuard[Sequence[Data]]:
    return isinstance(data, (list, tuple)) and any(isinstance(item, Core) for item in data)


def _host_array(data: object, dtype: DType | None) -> tuple[np.ndarray, DType]:
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
            check_integer(value, kind, is_default=dtype is None)
        wrapped = [value & (1 << 64) - 1 for value in exact.flat]
        return np.array(wrapped, np.uint64).reshape(exact.shape), kind
    try:
        return exact.astype(np.float64), kind
    except OverflowError:
        raise DTypeError(f"[Tensor] an integer is too large for {kind.name}") from None


def check_integer(value: float, kind: DType, is_default: bool) -> None:
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


def _is_raw(data: object, dtype: DType | None) -> TypeGuard[bytes | bytearray | memoryview]:
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
            check_integer(value, kind, is_default=dtype is None)
    return kind
