"""The Array API standard, 2024.12, over `Tensor`: what generic array code calls `xp`.

    x.__array_namespace__()            -> this module
    xp.mean(x, axis=0), xp.linalg.svd(x), xp.astype(x, xp.float64)

Each name has the signature and the meaning that the standard gives it, and is one call of the
`Tensor` method that does it: what differs between the two (names of arguments, defaults, dtypes of
results) is all that stands here. A module for each chapter of the standard. They raise what the
methods do: ShapeError for shapes and sizes that do not fit, IndexOutOfRange for an axis that is not
there, DTypeError for what is no tensor or has no such element type, DeviceError for tensors on
different devices, ArgumentError for an argument of another kind.

One surprise: `int32` is the default integer, and the dtype of places and counts, as `info` says.
The standard allows it and recommends `int64`. Where values decide a shape (`nonzero`, `unique_all`,
boolean masks, `repeat` by an array) the call computes them.
"""

from __future__ import annotations

from math import e, inf, nan, pi

from ..dtype import DType, dtypes
from . import creation, data_types, elementwise, fft, linalg, manipulation, searching, statistics
from .creation import *
from .data_types import *
from .elementwise import *
from .info import VERSION as __array_api_version__
from .info import VERSIONS, Info
from .linalg import matmul, matrix_transpose, tensordot, vecdot
from .manipulation import *
from .searching import *
from .statistics import *

__all__ = ["VERSIONS", "__array_api_version__", "__array_namespace_info__", "fft", "linalg"]
__all__ += ["e", "inf", "nan", "newaxis", "pi"]
__all__ += ["bool", "complex64", "complex128", "float32", "float64"]
__all__ += ["int8", "int16", "int32", "int64"]
__all__ += ["uint8", "uint16", "uint32", "uint64"]
__all__ += ["matmul", "matrix_transpose", "tensordot", "vecdot"]
__all__ += creation.__all__
__all__ += data_types.__all__
__all__ += elementwise.__all__
__all__ += manipulation.__all__
__all__ += searching.__all__
__all__ += statistics.__all__

__array_namespace_info__ = Info
newaxis = None

bool: DType = dtypes.bool
int8: DType = dtypes.int8
int16: DType = dtypes.int16
int32: DType = dtypes.int32
int64: DType = dtypes.int64
uint8: DType = dtypes.uint8
uint16: DType = dtypes.uint16
uint32: DType = dtypes.uint32
uint64: DType = dtypes.uint64
float32: DType = dtypes.float32
float64: DType = dtypes.float64
complex64: DType = dtypes.complex64
complex128: DType = dtypes.complex128
