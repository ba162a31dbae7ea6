"""Programs whose kernels every GPU's renderer prints: all dtypes, and all kinds of nests."""

import math
from contextvars import ContextVar

import numpy as np

from treadle import Tensor, dtypes

DEVICE = ContextVar("DEVICE", default="CPU")  # where the programs' operands are
SCALARS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
           "float16", "bfloat16", "fp8e4m3", "fp8e5m2", "float32", "float64"]  # fmt: skip


def floats(*shape, dtype=dtypes.float32):
    values = np.linspace(-3, 3, math.prod(shape), dtype=np.float32).reshape(shape)
    return Tensor(values, device=DEVICE.get()).cast(dtype).realize()


def whole(*shape, dtype=dtypes.int32):
    values = (np.arange(math.prod(shape)) * 7919 % 101).reshape(shape)
    return Tensor(values, device=DEVICE.get()).cast(dtype).realize()


def arithmetic(dtype):
    """A few operations of everything that a dtype has."""
    x, y = whole(40, dtype=dtype), whole(40, dtype=dtype).flip(0).contiguous().realize()
    result = (x + y).maximum(x) * y
    if dtype.is_int:
        result = (result // 3 + x % (y + 1)) ^ (x << 2) & (y >> 1)
    if dtype.is_float:
        result = result / (x.abs() + 1) + x.sqrt().floor()
    return (x < y).where(result, y)


def image(dtype):
    return floats(1, 8, 12, 12, dtype=dtype).conv2d(floats(16, 8, 3, 3, dtype=dtype), padding=1)


CORPUS = {
    **{f"arithmetic {n}": (lambda n=n: arithmetic(getattr(dtypes, n))) for n in SCALARS},
    **{f"sums {n}": (lambda n=n: whole(6, 300, dtype=getattr(dtypes, n)).sum(1)) for n in SCALARS},
    "casts": lambda: floats(64).cast(dtypes.int8).cast(dtypes.int64).cast(dtypes.uint64),
    "doubles to integers": lambda: floats(64, dtype=dtypes.float64).cast(dtypes.int64),
    "shifted": lambda: floats(65)[1:] + floats(65)[:-1],
    "formulas": lambda: floats(100).sin() + floats(100).exp() + floats(100).erf().tanh(),
    "softmax": lambda: floats(30, 500).softmax(1),
    "layer norm": lambda: floats(30, 256).layernorm(),
    "column maxima": lambda: floats(100, 64).max(0),
    "any": lambda: (floats(60, 90) > 2).any(1),
    "argmax": lambda: floats(60, 90).argmax(1),
    "prefix sums": lambda: floats(20, 300).cumsum(1),
    "sort": lambda: floats(10, 300).sort(1)[0],
    "sort float16": lambda: floats(10, 16, dtype=dtypes.float16).sort(1)[0],
    "short sort": lambda: whole(10, 16).sort(1)[1],
    "scatter": lambda: floats(50).scatter_reduce(0, whole(40).cast(dtypes.int64) % 50,
                                                 floats(40), "sum"),
    "gather": lambda: floats(50, 7)[whole(30) % 50],
    "matmul": lambda: floats(130, 70) @ floats(70, 100),
    "large matmul": lambda: floats(2048, 32) @ floats(32, 2048),
    "matmul float16": lambda: floats(128, 64, dtype=dtypes.float16)
    @ floats(64, 128, dtype=dtypes.float16),
    "matmul int8": lambda: whole(64, 64, dtype=dtypes.int8) @ whole(64, 64, dtype=dtypes.int8),
    "matmul float64": lambda: floats(64, 64, dtype=dtypes.float64)
    @ floats(64, 64, dtype=dtypes.float64),
    "convolution": lambda: image(dtypes.float32),
    "convolution bfloat16": lambda: image(dtypes.bfloat16),
}  # fmt: skip
