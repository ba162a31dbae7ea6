"""The matrix units of NVIDIA GPUs: mma.sync with ldmatrix, and wgmma, as the PTX ISA states them.

    MMA["float16"].instruction     ->  "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    MMA["float16"].x.place(5, 2)   ->  (9, 2): what lane 5 holds as its element 2

All take 32 bytes of a row of x, or of a column of y, at once.
"""

from __future__ import annotations

from dataclasses import replace

from treadle.dtype import dtypes
from treadle.target.matrix import (
    LINE_PADDING,
    Fragment,
    Levels,
    MatrixLoad,
    MatrixUnit,
    SwizzledRows,
    Tiling,
    fragment,
)

__all__ = ["LDMATRIX", "MMA", "RESERVED", "WGMMA", "WGMMA_ROWS", "mma_fragments"]

BYTES = 32  # of a row of x
RESERVED = 1 << 10  # bytes of shared memory that each workgroup has besides

# ldmatrix: 8 x 8 elements of two bytes, two in a word.
LDMATRIX = MatrixLoad(8, 16, fragment("mk", "k4 m8", ""))

# Shared memory as wgmma reads it. There are narrower rows, too, with more conflicts of banks.
WGMMA_ROWS = SwizzledRows(row=128, together=8, piece=16, turned=2)

# What PTX calls a kind of numbers, what its dtype and that of its sums are.
_KINDS = {
    "float16": ("f16", dtypes.float16, dtypes.float32),
    "bfloat16": ("bf16", dtypes.bfloat16, dtypes.float32),
    "int8": ("s8", dtypes.int8, dtypes.int32), "uint8": ("u8", dtypes.uint8, dtypes.int32),
    "fp8e4m3": ("e4m3", dtypes.fp8e4m3, dtypes.float32),
    "fp8e5m2": ("e5m2", dtypes.fp8e5m2, dtypes.float32),
    "tf32": ("tf32", dtypes.float32, dtypes.float32),
}  # fmt: skip

_MMA_TILES = Tiling(
    tuple(Levels((16, 8), each, (2, 4)) for each in ((4, 4), (2, 4), (1, 4), (1, 2), (1, 1))),
    "workgroups", (1, 2, 4), least=16, turns=(1, 2), buffers=4, reserved=RESERVED,
)  # fmt: skip
# Speeds are estimated from what tiles read: docs/design/nvidia.md. Of four slices one is
# multiplied, three are on their way.
_WGMMA_TILES = Tiling(
    tuple(
        Levels((64, columns), (1, 1), (warpgroups, 1), speed)
        for warpgroups, columns, speed in
        ((2, 256, 1.0), (2, 128, 0.9), (2, 64, 0.6), (1, 128, 0.6), (1, 64, 0.4))
    ),
    "time", least=64, turns=(WGMMA_ROWS.row // BYTES,), buffers=4, workgroups=1, reserved=RESERVED,
    side_by_side=(2, 1),
)  # fmt: skip


def mma_fragments(rows: int, steps: int, bits: int) -> tuple[Fragment, Fragment, Fragment]:
    """x, y and the sums of mma.m<rows>n8k<steps> for elements of so many bits.

    With each = 32 / bits elements in a register, or one of 64 bits in two.
    """
    each = max(1, 32 // bits)
    k, more, upper = f"k{each}", f"k{steps // (4 * each)}:{4 * each}", f"m{rows // 8}:8"
    return (
        fragment("mk", f"k4:{each} m8", f"{k} {upper} {more}"),
        fragment("nk", f"k4:{each} n8", f"{k} {more}"),
        fragment("mn", "n4:2 m8", f"n2 {upper}"),
    )


def _mma(kind: str) -> MatrixUnit:
    word, dtype, sums = _KINDS[kind]
    steps, total = BYTES // dtype.itemsize, "s32" if sums.is_int else "f32"
    name = f"mma.sync.aligned.m16n8k{steps}.row.col.{total}.{word}.{word}.{total}"
    x, y, out = mma_fragments(16, steps, dtype.bits)
    tiling = replace(_MMA_TILES, padding=LINE_PADDING) if dtype.itemsize == 4 else _MMA_TILES
    return MatrixUnit(
        kind, name, dtype, sums, 16, 8, steps, x, y, out, load=LDMATRIX, tiling=tiling
    )


def _wgmma(kind: str) -> MatrixUnit:
    """wgmma.m64n8 to m64n256: four subgroups of 16 rows each. x may be held."""
    word, dtype, sums = _KINDS[kind]
    each, steps = 4 // dtype.itemsize, BYTES // dtype.itemsize
    total = "s32" if sums.is_int else "f32"
    name = f"wgmma.mma_async.sync.aligned.m64n{{columns}}k{steps}.{total}.{word}.{word}"
    x = fragment("mk", f"k4:{each} m8 m4:16", f"k{each} m2:8 k2:{4 * each}")
    out = fragment("mn", "n4:2 m8 m4:16", "n2 m2:8 n32:8")
    tiles = _WGMMA_TILES
    return MatrixUnit(
        kind, name, dtype, sums, 64, 256, steps, x, None, out, WGMMA_ROWS, tiling=tiles
    )


MMA = {kind: _mma(kind) for kind in _KINDS}
WGMMA = {kind: _wgmma(kind) for kind in _KINDS}
