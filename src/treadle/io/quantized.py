"""Quantised blocks as floats, by tensor operations: uint8 (blocks, bytes) to float32 (blocks, n).

    FORMATS[2].decode(blocks)          # Q4_0: 18 bytes -> 32 floats

A block has one or two scales (half floats d and m) and small integers q. x = d q + m for the
formats of 32 elements; those of 256, the K ones, scale their scales once more for each sub-block.
The layouts are those of ggml (github.com/ggml-org/ggml/blob/master/src/ggml-quants.c), where low
halves of bytes come first: byte i holds elements i and i + n / 2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dtype import dtypes
from ..tensor import Tensor

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """`elements` values in `nbytes` bytes; `decode` takes uint8 (blocks, nbytes)."""

    name: str
    elements: int
    nbytes: int
    decode: Callable[[Tensor], Tensor]


def _half(blocks: Tensor, begin: int) -> Tensor:
    """The half float at byte `begin` of each block: float32 (blocks, 1)."""
    return blocks[:, begin : begin + 2].bitcast(dtypes.float16).float()


def _fields(packed: Tensor, bits: int) -> Tensor:
    """Bit fields of bytes (.., n), lowest first: (.., 8 / bits * n), all first fields, then on."""
    shifts = Tensor.arange(0, 8, bits, dtype=dtypes.uint8, device=packed.device).unsqueeze(-1)
    return ((packed.unsqueeze(-2) >> shifts) & ((1 << bits) - 1)).flatten(-2)


def _fifth_bits(blocks: Tensor, begin: int) -> Tensor:
    """The 32 bits at byte `begin`, as 16 where they are set: uint8 (blocks, 32)."""
    shifts = Tensor.arange(8, dtype=dtypes.uint8, device=blocks.device)
    packed = blocks[:, begin : begin + 4].unsqueeze(-1)
    return (((packed >> shifts) & 1) << 4).flatten(1)


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_fields(blocks[:, 2:], 4).float() - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _fields(blocks[:, 4:], 4).float() + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    codes = _fields(blocks[:, 6:], 4) | _fifth_bits(blocks, 2)
    return _half(blocks, 0) * (codes.float() - 16)


def _q5_1(blocks: Tensor) -> Tensor:
    codes = _fields(blocks[:, 8:], 4) | _fifth_bits(blocks, 4)
    return _half(blocks, 0) * codes.float() + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].bitcast(dtypes.int8).float()


def _k_scales(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Scale and offset of the 8 sub-blocks: float32 (blocks, 8, 1), from 12 bytes of 6 bits each.

    The first four have six bits of a byte to themselves, whose two upper ones serve the others.
    """
    low, mid, high = blocks[:, 4:16].unflatten(1, (3, 4)).permute(1, 0, 2)
    scales = (low & 63).cat((high & 15) | ((low >> 6) << 4), dim=1)
    offsets = (mid & 63).cat((high >> 4) | ((mid >> 6) << 4), dim=1)
    d, least = _half(blocks, 0), _half(blocks, 2)
    return (d * scales.float()).unsqueeze(-1), (least * offsets.float()).unsqueeze(-1)


def _k_nibbles(blocks: Tensor, begin: int) -> Tensor:
    """128 bytes as 8 sub-blocks (blocks, 8, 32): 32 bytes hold two, low halves first."""
    return _fields(blocks[:, begin:].unflatten(1, (4, 32)), 4).reshape(-1, 8, 32)


def _q4_k(blocks: Tensor) -> Tensor:
    scales, offsets = _k_scales(blocks)
    return (scales * _k_nibbles(blocks, 16).float() - offsets).flatten(1)


def _q5_k(blocks: Tensor) -> Tensor:
    scales, offsets = _k_scales(blocks)
    fifth = _fields(blocks[:, 16:48], 1).unflatten(1, (8, 32)) << 4
    return (scales * (_k_nibbles(blocks, 48) | fifth).float() - offsets).flatten(1)


def _q6_k(blocks: Tensor) -> Tensor:
    low = _fields(blocks[:, :128].unflatten(1, (2, 64)), 4)
    high = _fields(blocks[:, 128:192].unflatten(1, (2, 32)), 2) << 4
    codes = (low | high).float() - 32
    scales = _half(blocks, 208) * blocks[:, 192:208].bitcast(dtypes.int8).float()
    return (codes.reshape(-1, 16, 16) * scales.unsqueeze(-1)).flatten(1)


# The sixteen floats of 4 bits (one sign, two exponent, one mantissa bit), doubled.
_FP4_DOUBLED = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)


def _mxfp4(blocks: Tensor) -> Tensor:
    """2 ** (e - 127) times floats of 4 bits (OCP Microscaling Formats 1.0)."""
    exponent = blocks[:, :1].cast(dtypes.uint32)
    # half of the scale, by its bits: below 2 ** -126 it is denormal
    bits = (exponent < 2).where(exponent.full_like(0x00200000) << exponent, (exponent - 1) << 23)
    values = Tensor(list(_FP4_DOUBLED), dtype=dtypes.float32, device=blocks.device)
    return values[_fields(blocks[:, 1:], 4).cast(dtypes.int32)] * bits.bitcast(dtypes.float32)


# By the numbers of ggml.
FORMATS = {
    2: Format("Q4_0", 32, 18, _q4_0),
    3: Format("Q4_1", 32, 20, _q4_1),
    6: Format("Q5_0", 32, 22, _q5_0),
    7: Format("Q5_1", 32, 24, _q5_1),
    8: Format("Q8_0", 32, 34, _q8_0),
    12: Format("Q4_K", 256, 144, _q4_k),
    13: Format("Q5_K", 256, 176, _q5_k),
    14: Format("Q6_K", 256, 210, _q6_k),
    39: Format("MXFP4", 32, 17, _mxfp4),
}
