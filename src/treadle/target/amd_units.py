"""The matrix units of AMD GPUs: WMMA of RDNA3 and RDNA4 in waves of 32 lanes, MFMA of CDNA in 64.

    RDNA4["float16"].x.place(16, 0)     ->  (0, 4): what lane 16 holds as its element 0

The maps are those that AMD publishes: its instruction set references, and its Matrix Instruction
Calculator (github.com/ROCm/amd_matrix_instruction_calculator), which tests/target compares them
with. RDNA3 wants all lanes of its upper half to hold factors a second time. For signed and unsigned
bytes WMMA has one instruction with a flag for each factor. CDNA3's floats of eight bits have
other infinities and NaNs than `dtype` has, so its instructions for those are not listed. The
calculator does not know CDNA4: its maps are CDNA3's with twice as many neighbours in a lane.
"""

from __future__ import annotations

from treadle.dtype import DType, dtypes
from treadle.target.matrix import LINE_PADDING, Fragment, Levels, MatrixUnit, Tiling, fragment

__all__ = ["CDNA2", "CDNA3", "CDNA4", "RDNA3", "RDNA4"]

DEEPEST = 64  # bytes of a line of a slice
_Maps = tuple[Fragment, Fragment, Fragment]
_HALVES = {"float16": "_f16", "bfloat16": "_bf16"}
_BYTES = {"int8": "_iu8", "uint8": "_iu8"}
_FP8 = {"fp8e4m3": "_fp8_fp8", "fp8e5m2": "_bf8_bf8"}


def _unit(family: str, kind: str, word: str, steps: int, maps: _Maps) -> MatrixUnit:
    dtype: DType = dtypes.float32 if kind == "tf32" else getattr(dtypes, kind)
    sums = dtypes.int32 if dtype.is_int else dtypes.float32
    (rows, columns), total = maps[2].shape, "i32" if dtype.is_int else "f32"
    name = f"v_{family}_{total}_{rows}x{columns}x{steps}{word}"
    tiling = _tiling(rows, maps[2].width, steps * dtype.itemsize, dtype.itemsize)
    return MatrixUnit(kind, name, dtype, sums, rows, columns, steps, *maps, tiling=tiling)


def _tiling(size: int, wave: int, nbytes: int, itemsize: int) -> Tiling:
    """Tiles for four waves of 64 lanes, or eight of 32; each takes `nbytes` of a line at once.

    Sums are 64 registers at most. Which of these tiles is quick has not been measured.
    """
    workers, most = ((2, 2), 4) if wave == 64 else ((2, 4), 2)
    most = max(1, most * 16 // size)
    several = ((4, most), (2, most), (2, 2), (1, 2), (1, 1))
    each = dict.fromkeys((min(m, 64 // size), min(n, most)) for m, n in several)
    turns = tuple(n for n in (1, 2, 4) if n * nbytes <= DEEPEST)
    levels = tuple(Levels((size, size), one, workers) for one in each)
    padding = LINE_PADDING if itemsize == 4 else 0
    return Tiling(levels, "workgroups", (1, 2, 4), least=16, turns=turns, padding=padding)


def _factors(lanes: str, elements: str) -> tuple[Fragment, Fragment]:
    """Maps of x and y, which are alike: rows of x for columns of y."""
    x, y = ((lanes.replace("line", which), f"{which}k") for which in "mn")
    return fragment(x[1], x[0], elements), fragment(y[1], y[0], elements)


# Sums of RDNA: each half of the lanes has every other row, or eight rows.
_RDNA3 = (*_factors("line16 -2", "k16"), fragment("mn", "n16 m2", "m8:2"))
_RDNA4_SUMS = fragment("mn", "n16 m2:8", "m8")
_RDNA4_HALVES = (*_factors("line16 k2:4", "k4 k2:8"), _RDNA4_SUMS)
_RDNA4_BYTES = (*_factors("line16 k2:8", "k8"), _RDNA4_SUMS)

RDNA3 = {kind: _unit("wmma", kind, word, 16, _RDNA3) for kind, word in (_HALVES | _BYTES).items()}
RDNA4 = {
    kind: _unit("wmma", kind, word, 16, _RDNA4_HALVES if kind in _HALVES else _RDNA4_BYTES)
    for kind, word in (_HALVES | _BYTES | _FP8).items()
}


def _mfma(size: int, steps: int) -> _Maps:
    """16 x 16 results, or 32 x 32: lanes run over lines first, then over runs of steps."""
    runs = 64 // size
    each = steps // runs
    x, y = _factors(f"line{size} k{runs}:{each}", f"k{each}")
    return x, y, fragment("mn", f"n{size} m{runs}:4", f"m4 m{size // (4 * runs)}:{4 * runs}")


def _by_size(kinds: tuple[tuple[str, str, int], ...]) -> dict[tuple[str, int], MatrixUnit]:
    """Units by kind and size: 32 x 32 reads less for each product, 16 x 16 wastes less at borders.

    `kinds` have the steps of 16 x 16, of which 32 x 32 takes half as many.
    """
    return {
        (kind, size): _unit("mfma", kind, word, steps * 16 // size, _mfma(size, steps * 16 // size))
        for kind, word, steps in kinds
        for size in (16, 32)
    }


CDNA2 = _by_size(
    (("float16", "f16", 16), ("bfloat16", "bf16_1k", 16), ("int8", "i8", 16), ("float32", "f32", 4))
)
CDNA3 = _by_size((
    ("float16", "_f16", 16), ("bfloat16", "_bf16", 16), ("int8", "_i8", 32), ("float32", "_f32", 4),
    ("tf32", "_xf32", 8),
))  # fmt: skip
CDNA4 = _by_size((
    ("float16", "_f16", 32), ("bfloat16", "_bf16", 32), ("int8", "_i8", 64), ("float32", "_f32", 4),
    ("fp8e4m3", "_fp8_fp8", 32), ("fp8e5m2", "_bf8_bf8", 32),
))  # fmt: skip
