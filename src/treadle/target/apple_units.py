"""The matrix unit of Apple GPUs: simdgroup_matrix, 8 x 8, of 32 lanes.

    SIMDGROUP["float16"].out.place(1, 0)     ->  (0, 2): what lane 1 holds as its element 0

Metal's specification leaves open which lane holds which element. The map is the one that MLX,
which Apple publishes, relies on in its kernels: lane l holds two neighbours in a row, at row
(l / 2) % 4 + 4 * (l / 16) and column 2 * (l % 2) + 4 * (l / 8 % 2).

For both factors it is a map to rows and columns, so that of y a lane holds two columns of one step.
Of halves a register holds two steps of one column. So a unit of halves is two multiplications: the
first takes the even steps of 16, the second the odd ones, and registers lie as elsewhere.
"""

from __future__ import annotations

from treadle.dtype import dtypes
from treadle.target.matrix import LINE_PADDING, Levels, MatrixUnit, Tiling, fragment

__all__ = ["SIMDGROUP"]

SIZE = 8
DEEPEST = 64  # bytes of a line of a slice
_WORKERS = (2, 4)  # eight subgroups of 32 lanes
_EACH = ((4, 4), (4, 2), (2, 2), (1, 2), (1, 1))
_OUT = fragment("mn", "n2:2 m4 n2:4 m2:4", "n2")


def _unit(kind: str) -> MatrixUnit:
    dtype = getattr(dtypes, kind)
    each = 4 // dtype.itemsize  # elements of a register
    lanes_of_x = f"k2:{2 * each} m4 k2:{4 * each} m2:4"
    lanes_of_y = f"n2:2 k4:{each} n2:4 k2:{4 * each}"
    x = fragment("mk", lanes_of_x, f"k{2 * each}")
    y = fragment("nk", lanes_of_y, f"k{each} n2")
    steps = SIZE * each
    nbytes = steps * dtype.itemsize
    tiling = Tiling(
        tuple(Levels((SIZE, SIZE), one, _WORKERS) for one in _EACH),
        "workgroups",
        (1, 2, 4),
        least=16,
        turns=tuple(n for n in (1, 2, 4) if n * nbytes <= DEEPEST),
        padding=LINE_PADDING if dtype.itemsize == 4 else 0,
    )
    return MatrixUnit(
        kind, "simdgroup_multiply_accumulate", dtype, dtypes.float32, SIZE, SIZE, steps, x, y, _OUT,
        tiling=tiling,
    )  # fmt: skip


SIMDGROUP = {kind: _unit(kind) for kind in ("float16", "bfloat16", "float32")}
