"""The matrix units of AMD GPUs: WMMA of RDNA3 and RDNA4 in waves of 32 lanes, MFMA of CDNA3 in 64.

    RDNA4["float16"].x.place(16, 0)     ->  (0, 4): what lane 16 holds as its element 0

The maps are those that AMD publishes: its instruction set references, and its Matrix Instruction
Calculator (github.com/ROCm/amd_matrix_instruction_calculator), which tests/target compares them
with. RDNA3 wants all lanes of its upper half to hold factors a second time. For signed and unsigned
bytes WMMA has one instruction with a flag for each factor. CDNA3's floats of eight bits have
other infinities and NaNs than `dtype` has, so its instructions for those are not listed.
"""

from __future__ import annotations

from treadle.dtype import DType, dtypes
from treadle.target.matrix import Fragment, MatrixUnit, fragment

__all__ = ["CDNA3", "RDNA3", "RDNA4"]

_Maps = tuple[Fragment, Fragment, Fragment]
_HALVES = {"float16": "f16", "bfloat16": "bf16"}
_BYTES = {"int8": "iu8", "uint8": "iu8"}
_FP8 = {"fp8e4m3": "fp8_fp8", "fp8e5m2": "bf8_bf8"}


def _unit(family: str, kind: str, word: str, steps: int, maps: _Maps) -> MatrixUnit:
    dtype: DType = dtypes.float32 if kind == "tf32" else getattr(dtypes, kind)
    sums = dtypes.int32 if dtype.is_int else dtypes.float32
    (rows, columns), total = maps[2].shape, "i32" if dtype.is_int else "f32"
    name = f"v_{family}_{total}_{rows}x{columns}x{steps}_{word}"
    return MatrixUnit(kind, name, dtype, sums, rows, columns, steps, *maps)


def _factors(lanes: str, elements: str) -> tuple[Fragment, Fragment]:
    """Maps of x and y, which are alike: rows of x for columns of y."""
    x, y = ((lanes.replace("line", which), f"{which}k") for which in "mn")
    return fragment(x[1], x[0], elements), fragment(y[1], y[0], elements)


# Sums of RDNA: each half of the lanes has every other row, or eight rows.
_RDNA3 = (*_factors("line16 -2", "k16"), fragment("mn", "n16 m2", "m8:2"))
_RDNA4_SUMS = fragment("mn", "n16 m2:8", "m8")
_RDNA4_HALVES = (*_factors("line16 k2:4", "k4 k2:8"), _RDNA4_SUMS)
_RDNA4_BYTES = (*_factors("line16 k2:8", "k8"), _RDNA4_SUMS)


def _mfma(size: int, steps: int) -> _Maps:
    """16 x 16 results, or 32 x 32: lanes run over lines first, then over runs of steps."""
    runs = 64 // size
    each = steps // runs
    x, y = _factors(f"line{size} k{runs}:{each}", f"k{each}")
    return x, y, fragment("mn", f"n{size} m{runs}:4", f"m4 m{size // (4 * runs)}:{4 * runs}")


RDNA3 = {kind: _unit("wmma", kind, word, 16, _RDNA3) for kind, word in (_HALVES | _BYTES).items()}
RDNA4 = {
    kind: _unit("wmma", kind, word, 16, _RDNA4_HALVES if kind in _HALVES else _RDNA4_BYTES)
    for kind, word in (_HALVES | _BYTES | _FP8).items()
}
# By kind and size: 32 x 32 reads less for each product, 16 x 16 wastes less at borders.
CDNA3 = {
    (kind, size): _unit("mfma", kind, word, steps * 16 // size, _mfma(size, steps * 16 // size))
    for kind, word, steps in (
        ("float16", "f16", 16), ("bfloat16", "bf16", 16), ("int8", "i8", 32), ("float32", "f32", 4),
        ("tf32", "xf32", 8),
    )
    for size in (16, 32)
}  # fmt: skip
