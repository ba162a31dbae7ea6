"""Images in memory: what their descriptors of 16 words say.

    image_of(words).pitch

Lines follow each other at a pitch; tiled and compressed images are not emulated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from treadle.emulate.kgsl import tables
from treadle.emulate.kgsl.faults import KernelFault

__all__ = ["DESCRIPTOR_WORDS", "Format", "Image", "image_of"]

DESCRIPTOR_WORDS = 16
_TWO_DIMENSIONS = 1
_PITCH_UNIT = 64
_MOST_TEXELS = 16384
_PLAIN = (0, 1, 2, 3)  # components in their order
_UNTOLD = (0, 0, 0, 0)


@dataclass(frozen=True)
class Format:
    """So many components of floats with so many bits."""

    bits: int
    count: int

    @property
    def nbytes(self) -> int:
        return self.bits * self.count // 8


@dataclass(frozen=True)
class Image:
    """`pitch` is how many bytes a line is behind the one before."""

    address: int
    width: int
    height: int
    pitch: int
    format: Format


def image_of(words: Sequence[int], is_texture: bool = True) -> Image:
    """The image of a descriptor. Only one of a texture tells an order of its components.

    Raises KernelFault for what is not emulated.
    """
    given = tables.packet("A6XX_TEX_CONST", words)
    format_ = _format(given["FMT"])
    order = _PLAIN if is_texture else _UNTOLD
    swizzle = tuple(given[f"SWIZ_{letter}"] for letter in "XYZW")
    for wrong, what in (
        (given["TILE_MODE"], "tiles"), (given["SRGB"], "sRGB"), (given["SWAP"], "a swap"),
        (given["MIPLVLS"], "smaller levels"), (given["FLAG"], "compression"),
        (given["TYPE"] != _TWO_DIMENSIONS, "other than two dimensions"),
        (swizzle[: format_.count] != order[: format_.count], "components in another order"),
    ):  # fmt: skip
        if wrong:
            raise KernelFault(f"an image with {what} is not emulated")
    pitch, width = given["PITCH"], given["WIDTH"]
    if pitch % _PITCH_UNIT or pitch < width * format_.nbytes:
        raise KernelFault(f"lines of {width} times {format_.nbytes} bytes at a pitch of {pitch}")
    address = given["BASE_LO"] | given["BASE_HI"] << 32
    if address % _PITCH_UNIT:
        raise KernelFault(f"an image at {address:#x}, which is no multiple of {_PITCH_UNIT}")
    if not 0 < width <= _MOST_TEXELS or not 0 < given["HEIGHT"] <= _MOST_TEXELS:
        raise KernelFault(f"an image of {given['HEIGHT']} lines of {width} texels")
    return Image(address, width, given["HEIGHT"], pitch, format_)


def _format(number: int) -> Format:
    name = tables.image_format(number)
    found = re.fullmatch(r"FMT6_((?:16_|32_)+)FLOAT", name or "")
    if found is None:
        raise KernelFault(f"an image of format {number:#x} ({name}) is not emulated")
    parts = found[1].rstrip("_").split("_")
    if len({*parts}) > 1 or len(parts) == 3:
        raise KernelFault(f"an image of format {name} is not emulated")
    return Format(int(parts[0]), len(parts))
