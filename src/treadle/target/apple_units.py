"""The matrix unit of Apple GPUs, as the Metal Shading Language states it: simdgroup_matrix.

Metal says that 32 lanes hold a matrix of 8 x 8 together, and leaves open which lane holds which
element. So the units are opaque: matrices are loaded from memory, multiplied, added to and stored.
"""

from __future__ import annotations

from treadle.dtype import dtypes
from treadle.target.matrix import MatrixUnit

__all__ = ["SIMDGROUP"]

SIMDGROUP = {
    dtype.name: MatrixUnit(
        dtype.name, "simdgroup_multiply_accumulate", dtype, dtypes.float32, 8, 8, 8
    )
    for dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32)
}
