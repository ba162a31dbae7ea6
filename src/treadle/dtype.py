"""Element types: what a tensor holds, how types promote, and their NumPy and PyTorch counterparts.

    dtypes.float32.itemsize            -> 4
    least_upper_dtype(dtypes.int32, dtypes.float16) -> dtypes.float16

Complex numbers are pairs of floats, side by side in memory. No kernel sees them
(transforms/complex_to_real), so `dtypes.all` are the types that kernels compute with.

One surprise: `dtypes.index` is no storage type. Index arithmetic is done in it, over the unbounded
integers, until the compiler knows the bounds and picks a machine width.
"""

from __future__ import annotations

import builtins
import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from .config import settings
from .errors import DTypeError

if TYPE_CHECKING:
    import numpy as np
    import torch

__all__ = ["DType", "ImageDType", "dtypes", "finfo", "iinfo", "least_upper_dtype"]

Kind = Literal["bool", "int", "uint", "float", "complex", "index", "void"]


@dataclass(frozen=True, eq=False, repr=False)
class DType:
    """An element type, `count` lanes wide (`count` > 1 only inside kernels).

    `itemsize` is in bytes for all lanes. Compares equal to anything that names the same type:
    another DType, its name, a NumPy dtype or scalar type, a PyTorch dtype.
    """

    name: str
    kind: Kind
    bits: int
    count: int = 1

    @property
    def itemsize(self) -> int:
        """Bytes of one element, all lanes together; a bool takes one."""
        return max(1, self.bits // 8) * self.count

    @property
    def is_float(self) -> bool:
        """Whether it is a float of any width."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """Whether it is a pair of floats."""
        return self.kind == "complex"

    @property
    def is_inexact(self) -> bool:
        """True for floats and complex numbers: what is rounded, and has gradients."""
        return self.kind in ("float", "complex")

    @property
    def real(self) -> DType:
        """The type of the real and the imaginary part; any other type itself."""
        return _REAL_PARTS.get(self.name, self)

    @property
    def is_int(self) -> bool:
        """True for signed and unsigned integers, not for bool or index."""
        return self.kind in ("int", "uint")

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an integer without a sign."""
        return self.kind == "uint"

    @property
    def is_bool(self) -> bool:
        """Whether it is the type of truth values."""
        return self.kind == "bool"

    @property
    def scalar(self) -> DType:
        """The type of one lane."""
        return self if self.count == 1 else _vector(_BASE[self.name], 1)

    def __call__(self) -> DType:
        """Itself: `dtype.scalar()`, as the specification writes it, means `dtype.scalar`."""
        return self

    def vec(self, count: int) -> DType:
        """The type of `count` lanes of this scalar type."""
        return _vector(_BASE[self.name], count)

    @property
    def min(self) -> Any:
        """The smallest value: an int, -inf for floats, but -448 for fp8e4m3, False for bool."""
        if self.kind == "bool":
            return False
        if self.kind == "float":
            return -self.max
        return 0 if self.kind == "uint" else -(1 << (self.bits - 1))

    @property
    def max(self) -> Any:
        """The largest value: an int, +inf for floats, but 448 for fp8e4m3, True for bool."""
        if self.kind == "bool":
            return True
        if self.kind == "float":  # fp8e4m3 has no infinities
            return 448.0 if self.name == "fp8e4m3" else math.inf
        return (1 << self.bits) - 1 if self.kind == "uint" else (1 << (self.bits - 1)) - 1

    def as_const(self, value: Any) -> Any:
        """`value` as the Python scalar of this type; integers wrap as in two's complement."""
        if self.kind == "bool":
            return bool(value)
        if self.kind == "float":
            return float(value)
        if self.kind == "complex":
            return complex(value)
        number = int(value)
        if self.kind == "index" or self.min <= number <= self.max:
            return number
        number &= (1 << self.bits) - 1
        return number if self.kind == "uint" or number <= self.max else number - (1 << self.bits)

    def __repr__(self) -> str:
        return f"dtypes.{self.name}" if self.count == 1 else f"dtypes.{self.name}.vec({self.count})"

    if TYPE_CHECKING:

        def __hash__(self) -> int: ...  # fmt: skip
    else:
        __hash__ = object.__hash__  # at C's speed: nodes are looked up by their dtypes

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType) or other is None:
            return False
        try:
            return self is to_dtype(other)
        except (TypeError, ValueError):
            return False

    def __reduce__(self) -> tuple[object, ...]:
        return (_vector_by_name, (self.name, self.count))


@dataclass(frozen=True, eq=False, repr=False)
class ImageDType(DType):
    """A 2-D texture of `shape` (height, width) texels, four channels each.

    A format of memory rather than a type of values: what it holds is computed with as float32.
    """

    image_shape: tuple[int, int] = (0, 0)

    @property
    def channels(self) -> int:
        """How many numbers the texture holds."""
        return 4 * self.image_shape[0] * self.image_shape[1]

    def __repr__(self) -> str:
        return f"dtypes.{self.name}({self.image_shape})"

    def __reduce__(self) -> tuple[object, ...]:
        return (_image, (self.name, self.image_shape))


_BASE: dict[str, DType] = {}


@functools.cache
def _vector(base: DType, count: int) -> DType:
    return base if count == 1 else DType(base.name, base.kind, base.bits, count)


def _vector_by_name(name: str, count: int) -> DType:
    return _vector(_BASE[name], count)


def _texture_shape(name: str, shape: object) -> tuple[int, int]:
    sizes = shape if isinstance(shape, tuple) else tuple(shape) if isinstance(shape, list) else ()
    if len(sizes) != 2 or any(not isinstance(size, int) or size < 1 for size in sizes):
        raise DTypeError(
            f"[{name}] a texture has a height and a width in texels of four numbers, each 1 or "
            f"more, not {shape!r}"
        )
    return sizes[0], sizes[1]


@functools.cache
def _image(name: str, shape: tuple[int, int]) -> ImageDType:
    return ImageDType(name, "float", 16 if name == "imageh" else 32, 1, shape)


def _new(name: str, kind: Kind, bits: int) -> DType:
    _BASE[name] = DType(name, kind, bits)
    return _BASE[name]


class _Defaults(type):
    """The default float is the setting DEFAULT_FLOAT, so that `Context` scopes it."""

    @property
    def default_float(cls) -> DType:
        return _BASE[settings.DEFAULT_FLOAT]

    @default_float.setter
    def default_float(cls, dtype: DType) -> None:
        settings.DEFAULT_FLOAT = dtype.name


class dtypes(metaclass=_Defaults):
    """Every element type, by name, and the two defaults that Python scalars take."""

    void: ClassVar[DType] = _new("void", "void", 0)
    index: ClassVar[DType] = _new("index", "index", 64)
    bool: ClassVar[DType] = _new("bool", "bool", 1)
    int8: ClassVar[DType] = _new("int8", "int", 8)
    uint8: ClassVar[DType] = _new("uint8", "uint", 8)
    int16: ClassVar[DType] = _new("int16", "int", 16)
    uint16: ClassVar[DType] = _new("uint16", "uint", 16)
    int32: ClassVar[DType] = _new("int32", "int", 32)
    uint32: ClassVar[DType] = _new("uint32", "uint", 32)
    int64: ClassVar[DType] = _new("int64", "int", 64)
    uint64: ClassVar[DType] = _new("uint64", "uint", 64)
    fp8e4m3: ClassVar[DType] = _new("fp8e4m3", "float", 8)
    fp8e5m2: ClassVar[DType] = _new("fp8e5m2", "float", 8)
    float16: ClassVar[DType] = _new("float16", "float", 16)
    bfloat16: ClassVar[DType] = _new("bfloat16", "float", 16)
    float32: ClassVar[DType] = _new("float32", "float", 32)
    float64: ClassVar[DType] = _new("float64", "float", 64)
    complex64: ClassVar[DType] = _new("complex64", "complex", 64)
    complex128: ClassVar[DType] = _new("complex128", "complex", 128)

    half: ClassVar[DType] = float16
    float: ClassVar[DType] = float32
    double: ClassVar[DType] = float64
    cfloat: ClassVar[DType] = complex64
    cdouble: ClassVar[DType] = complex128
    char: ClassVar[DType] = int8
    short: ClassVar[DType] = int16
    int: ClassVar[DType] = int32
    long: ClassVar[DType] = int64
    uchar: ClassVar[DType] = uint8
    ushort: ClassVar[DType] = uint16
    uint: ClassVar[DType] = uint32
    ulong: ClassVar[DType] = uint64

    default_int: ClassVar[DType] = int32

    fp8s: ClassVar[tuple[DType, ...]] = (fp8e4m3, fp8e5m2)
    floats: ClassVar[tuple[DType, ...]] = (fp8e4m3, fp8e5m2, float16, bfloat16, float32, float64)
    uints: ClassVar[tuple[DType, ...]] = (uint8, uint16, uint32, uint64)
    sints: ClassVar[tuple[DType, ...]] = (int8, int16, int32, int64)
    ints: ClassVar[tuple[DType, ...]] = uints + sints
    complexes: ClassVar[tuple[DType, ...]] = (complex64, complex128)
    all: ClassVar[tuple[DType, ...]] = (bool, *ints, *floats)

    @staticmethod
    def imageh(shape: tuple[builtins.int, builtins.int]) -> ImageDType:
        """A half-precision texture of `shape` (height, width). Raises DTypeError for any other."""
        return _image("imageh", _texture_shape("imageh", shape))

    @staticmethod
    def imagef(shape: tuple[builtins.int, builtins.int]) -> ImageDType:
        """A single-precision texture of `shape` (height, width). Raises DTypeError otherwise."""
        return _image("imagef", _texture_shape("imagef", shape))

    @staticmethod
    def is_float(dtype: DType) -> builtins.bool:
        """The same as `dtype.is_float`."""
        return to_dtype(dtype).is_float

    @staticmethod
    def is_complex(dtype: DType) -> builtins.bool:
        """The same as `dtype.is_complex`."""
        return to_dtype(dtype).is_complex

    @staticmethod
    def is_int(dtype: DType) -> builtins.bool:
        """The same as `dtype.is_int`."""
        return to_dtype(dtype).is_int

    @staticmethod
    def is_unsigned(dtype: DType) -> builtins.bool:
        """The same as `dtype.is_unsigned`."""
        return to_dtype(dtype).is_unsigned

    @staticmethod
    def min(dtype: object) -> Any:
        """The smallest value of a type: an integer, -inf, False; -448 of fp8e4m3.

        Raises DTypeError.
        """
        return _ordered("min", dtype).min

    @staticmethod
    def max(dtype: object) -> Any:
        """The largest value of a type: an integer, +inf, True; 448 of fp8e4m3.

        Raises DTypeError.
        """
        return _ordered("max", dtype).max

    @staticmethod
    def finfo(dtype: object) -> tuple[builtins.int, builtins.int]:
        """How many bits of a float type are (exponent, mantissa): float32 is (8, 23).

        `treadle.dtype.finfo` gives limits. Raises DTypeError for what is no float type.
        """
        kind = to_dtype(dtype)
        if kind not in _MANTISSA_BITS:
            raise DTypeError(f"[finfo] needs a float type, not {kind.name}")
        mantissa = _MANTISSA_BITS[kind]
        return kind.bits - 1 - mantissa, mantissa

    @staticmethod
    def fields() -> dict[str, DType]:
        """Every name of an element type, such as "float32" and "half", with its type."""
        own = (*dtypes.all, *dtypes.complexes)
        return {kind.name: kind for kind in own} | {
            name: _BASE[meant] for name, meant in _ALIASES.items()
        }

    @staticmethod
    def from_py(value: object) -> DType:
        """The type a Python scalar, or a nested list of them, takes when nothing else decides.

        Raises DTypeError.
        """
        if type(value) is float:
            return dtypes.default_float
        if type(value) is int:
            return dtypes.default_int
        if type(value) is _PY_BOOL:
            return dtypes.bool
        if type(value) is complex:
            return complex_of(dtypes.default_float)
        if isinstance(value, (list, tuple)):
            kinds = {dtypes.from_py(item) for item in value}
            return least_upper_dtype(*kinds) if kinds else dtypes.default_float
        raise DTypeError(
            f"[dtype] there is no element type for a {type(value).__name__}: {value!r}"
        )


def _ordered(name: str, dtype: object) -> DType:
    """A type whose values have an order. Raises DTypeError for a complex one."""
    kind = to_dtype(dtype)
    if kind.is_complex:
        raise DTypeError(f"[{name}] complex numbers have no order; .real names their parts")
    return kind


_PY_BOOL = bool
_MANTISSA_BITS = {
    dtypes.fp8e4m3: 3, dtypes.fp8e5m2: 2, dtypes.float16: 10, dtypes.bfloat16: 7,
    dtypes.float32: 23, dtypes.float64: 52,
}  # fmt: skip
_REAL_PARTS = {"complex64": dtypes.float32, "complex128": dtypes.float64}

_PROMOTIONS: dict[DType, tuple[DType, ...]] = {
    dtypes.bool: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.int16: (dtypes.int32,),
    dtypes.int32: (dtypes.int64,),
    dtypes.int64: (dtypes.fp8e4m3, dtypes.fp8e5m2),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.uint64: (dtypes.fp8e4m3, dtypes.fp8e5m2),
    dtypes.fp8e4m3: (dtypes.float16, dtypes.bfloat16),
    dtypes.fp8e5m2: (dtypes.float16, dtypes.bfloat16),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64, dtypes.complex64),
    dtypes.float64: (dtypes.complex128,),
    dtypes.complex64: (dtypes.complex128,),
    dtypes.complex128: (),
}
# The lattice from narrow to wide: the first common upper bound in this order is the least one.
_LATTICE_ORDER = (
    dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.int32,
    dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.fp8e4m3, dtypes.fp8e5m2, dtypes.float16,
    dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128,
)  # fmt: skip


@functools.cache
def _upper_set(dtype: DType) -> frozenset[DType]:
    return frozenset((dtype,)).union(*(_upper_set(up) for up in _PROMOTIONS[dtype]))


@functools.cache
def least_upper_dtype(*types: DType) -> DType:
    """The narrowest type that holds all of `types`, by the specification's promotion lattice.

    Raises DTypeError for what is no dtype.
    """
    if not types or not all(isinstance(t, DType) for t in types):
        raise DTypeError(f"[least_upper_dtype] takes dtypes, at least one, not {types!r}")
    if len(types) == 1:
        return types[0]
    common = frozenset.intersection(*(_upper_set(t) for t in types))
    return next(t for t in _LATTICE_ORDER if t in common)


def promoted(*types: DType) -> DType:
    """The type of what tensors of `types` give together: float64 for integers that no integer type
    holds, where the specification's lattice has a float of 8 bits.
    """
    least = least_upper_dtype(*types)
    return least if any(t.is_inexact for t in types) or not least.is_float else dtypes.float64


def complex_of(dtype: DType) -> DType:
    """The complex type that holds all values of `dtype`, a float or complex one."""
    return least_upper_dtype(dtype, dtypes.complex64)


def least_upper_float(dtype: DType) -> DType:
    """`dtype` if it is a float or complex, else the float that arithmetic on it takes."""
    return dtype if dtype.is_inexact else least_upper_dtype(dtype, dtypes.default_float)


def sum_acc_dtype(dtype: DType) -> DType:
    """The type in which a sum of `dtype` accumulates and, for integers, is returned."""
    if dtype.is_unsigned:
        return least_upper_dtype(dtype, dtypes.uint32)
    if dtype.is_int or dtype.is_bool:
        return least_upper_dtype(dtype, dtypes.int32)
    return least_upper_dtype(dtype, dtypes.float32)


@functools.cache
def numpy_names() -> dict[DType, np.dtype]:
    """NumPy's dtype for each type (ml_dtypes supplies bfloat16 and the two fp8 types)."""
    import ml_dtypes
    import numpy as np

    table: dict[DType, np.dtype] = {
        t: np.dtype(t.name)
        for t in (*dtypes.all, *dtypes.complexes)
        if t.name in np.sctypeDict or t.is_bool
    }
    table[dtypes.bfloat16] = np.dtype(ml_dtypes.bfloat16)
    table[dtypes.fp8e4m3] = np.dtype(ml_dtypes.float8_e4m3fn)
    table[dtypes.fp8e5m2] = np.dtype(ml_dtypes.float8_e5m2)
    return table


def _to_np_dtype(dtype: DType) -> np.dtype:
    """The NumPy dtype that stores `dtype`."""
    return numpy_names()[dtype.scalar]


def _from_np_dtype(np_dtype: Any) -> DType:
    """The treadle dtype of a NumPy dtype or scalar type. Raises DTypeError if there is none."""
    import numpy as np

    try:
        wanted = np.dtype(np_dtype)
    except (TypeError, ValueError):
        raise DTypeError(
            f"[dtype] an element type is one of treadle's, NumPy's or PyTorch's, or a name such as "
            f"'float32', not a {type(np_dtype).__name__}: {np_dtype!r}"
        ) from None
    for dtype, candidate in numpy_names().items():
        if candidate == wanted.newbyteorder("="):
            return dtype
    raise DTypeError(f"[dtype] NumPy's {wanted} has no counterpart")


_TORCH_NAMES = {dtypes.fp8e4m3: "float8_e4m3fn", dtypes.fp8e5m2: "float8_e5m2"}


def _to_torch_dtype(dtype: DType) -> torch.dtype:
    """The PyTorch dtype of `dtype`. Imports PyTorch."""
    import torch

    return getattr(torch, _TORCH_NAMES.get(dtype, dtype.name))


def _from_torch_dtype(torch_dtype: object) -> DType:
    """The treadle dtype of a PyTorch dtype. Raises DTypeError if there is none."""
    name = str(torch_dtype).removeprefix("torch.")
    by_name = {torch_name: dtype for dtype, torch_name in _TORCH_NAMES.items()}
    dtype = by_name.get(name) or _BASE.get(name)
    if dtype is None or dtype not in (*dtypes.all, *dtypes.complexes):
        raise DTypeError(f"[dtype] PyTorch's {torch_dtype} has no counterpart")
    return dtype


_ALIASES = {
    "half": "float16", "float": "float32", "double": "float64", "char": "int8", "short": "int16",
    "int": "int32", "long": "int64", "uchar": "uint8", "ushort": "uint16", "uint": "uint32",
    "ulong": "uint64", "cfloat": "complex64", "cdouble": "complex128",
}  # fmt: skip


def to_dtype(value: object) -> DType:
    """A DType from a DType, a name ("float32", "half"), a NumPy or a PyTorch dtype.

    Raises DTypeError for anything else, vectors included: those are of kernels.
    """
    if isinstance(value, DType):
        if value.count > 1:
            raise DTypeError(
                f"[dtype] elements are scalars, not {value!r}: give {value.scalar!r} and one more "
                f"axis of {value.count}"
            )
        return value
    if isinstance(value, str):
        name = _ALIASES.get(value.lower(), value.lower())
        if name in _BASE and name not in ("void", "index"):
            return _BASE[name]
        known = ", ".join(t.name for t in (*dtypes.all, *dtypes.complexes))
        raise DTypeError(f"[dtype] unknown dtype {value!r}; known: {known}")
    if type(value).__module__ == "torch":
        return _from_torch_dtype(value)
    if isinstance(value, type) and value in (bool, int, float, complex):
        return dtypes.from_py(value())
    return _from_np_dtype(value)


@dataclass(frozen=True)
class finfo:
    """Limits of a float type: `bits`, `eps`, `max`, `min`, `smallest_normal` (or `tiny`).

    Of a complex type those of its parts, as in NumPy.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """The smallest normal number, by NumPy's older name."""
        return self.smallest_normal

    def __init__(self, dtype: object) -> None:
        import ml_dtypes

        kind = to_dtype(dtype).real
        if not kind.is_float:
            raise DTypeError(f"[finfo] needs a float type, not {kind.name}")
        limits = ml_dtypes.finfo(_to_np_dtype(kind))
        object.__setattr__(self, "bits", kind.bits)
        object.__setattr__(self, "dtype", kind)
        for field in ("eps", "max", "min", "smallest_normal"):
            object.__setattr__(self, field, float(getattr(limits, field)))


@dataclass(frozen=True)
class iinfo:
    """Limits of an integer type: `bits`, `max`, `min`."""

    bits: int
    max: int
    min: int
    dtype: DType

    def __init__(self, dtype: object) -> None:
        kind = to_dtype(dtype)
        if not kind.is_int:
            raise DTypeError(f"[iinfo] needs an integer type, not {kind.name}")
        limits = {"bits": kind.bits, "max": kind.max, "min": kind.min, "dtype": kind}
        for field, value in limits.items():
            object.__setattr__(self, field, value)
