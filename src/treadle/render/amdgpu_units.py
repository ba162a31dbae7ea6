"""The intrinsic functions by which LLVM multiplies on AMD's matrix units.

    product_of(RDNA4["float16"])  ->  Product("llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16",
                                              float16 x 8)

LLVM's name is the instruction's. It has the types of operands in it where instructions of one name
differ: WMMA takes each factor twice on RDNA3. In those that CDNA had first there is no point before
the kind of numbers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..dtype import DType, dtypes
from ..target import MatrixUnit

__all__ = ["Product", "product_of"]


class Product(NamedTuple):
    """A function, the type of its factors, what stands before each of them, and behind the sums."""

    function: str
    factor: DType
    before: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()


# By the word for a kind of numbers, and the words of 32 bits of a factor: how a name ends, and the
# type of a factor.
_WMMA = {
    ("f16", 8): ("f16.v8f32.v16f16", dtypes.float16.vec(16)),
    ("f16", 4): ("f16.v8f32.v8f16", dtypes.float16.vec(8)),
    ("bf16", 8): ("bf16.v8f32.v16i16", dtypes.int16.vec(16)),
    ("bf16", 4): ("bf16.v8f32.v8i16", dtypes.int16.vec(8)),
    ("iu8", 4): ("iu8.v8i32.v4i32", dtypes.int32.vec(4)),
    ("iu8", 2): ("iu8.v8i32.v2i32", dtypes.int32.vec(2)),
    ("fp8_fp8", 2): ("fp8.fp8.v8f32.v2i32", dtypes.int32.vec(2)),
    ("bf8_bf8", 2): ("bf8.bf8.v8f32.v2i32", dtypes.int32.vec(2)),
}
_MFMA = {
    ("f16", 2): ("f16", dtypes.float16.vec(4)),
    ("bf16", 2): ("bf16.1k", dtypes.int16.vec(4)),
    ("i8", 1): ("i8", dtypes.int32),
    ("f32", 1): ("f32", dtypes.float32),
    ("i8", 2): (".i8", dtypes.int64),
    ("xf32", 2): (".xf32", dtypes.float32.vec(2)),
    ("fp8_fp8", 2): (".fp8.fp8", dtypes.int64),
    ("bf8_bf8", 2): (".bf8.bf8", dtypes.int64),
    ("f16", 4): (".f16", dtypes.float16.vec(8)),
    ("bf16", 4): (".bf16", dtypes.bfloat16.vec(8)),
    ("i8", 4): (".i8", dtypes.int32.vec(4)),
}
_NO_BROADCASTS = ("i32 0", "i32 0", "i32 0")  # factors could come from other lanes
_WRAPS = ("i1 false",)  # instead of saturating


def product_of(unit: MatrixUnit) -> Product:
    """How a product on a unit of RDNA or CDNA is written."""
    matched = re.fullmatch(r"v_(wmma|mfma)_(\w\d+_\d+x\d+x\d+)_?(.*?)(?:_1k)?", unit.instruction)
    assert matched is not None
    family, shape, word = matched[1], matched[2].replace("_", "."), matched[3]
    of_x, _, _ = unit.held
    if family == "mfma":
        ending, factor = _MFMA[word, of_x.count]
        return Product(f"llvm.amdgcn.mfma.{shape}{ending}", factor, behind=_NO_BROADCASTS)
    ending, factor = _WMMA[word, of_x.count]
    function = f"llvm.amdgcn.wmma.{shape}.{ending}"
    if not unit.dtype.is_int:
        return Product(function, factor)
    has_sign = f"i1 {'false' if unit.dtype.is_unsigned else 'true'}"
    return Product(function, factor, (has_sign,), _WRAPS)
