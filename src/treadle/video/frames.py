"""Decoded pictures in memory, as both decoders hand them to the conversion: NV12 or P016.

    Picture(luma, chroma, bit_depth=8, device="CUDA", owner=surface)
    picture.luma      -> NV12Plane(pointer=0x7f.., pitch=2048, width=1920, height=1080, channels=1)

The luma plane has a sample for each pixel, the chroma plane a pair (U, V) for each 2 x 2 pixels.
Samples are bytes, or from 9 bits on little-endian words with the value in their high bits.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UNSPECIFIED", "NV12Plane", "Picture"]

UNSPECIFIED = 2  # H.265's number for colours that the stream does not describe


@dataclass(frozen=True)
class NV12Plane:
    """`height` rows of `width` samples of `channels` values, `pitch` bytes from row to row."""

    pointer: int
    pitch: int
    width: int
    height: int
    channels: int
    bytes_per_value: int = 1

    @property
    def row_bytes(self) -> int:
        """Bytes of a row without what fills it up to the pitch."""
        return self.width * self.channels * self.bytes_per_value

    @property
    def size_bytes(self) -> int:
        """Bytes of all rows, from the first to the end of the last one's pitch."""
        return self.pitch * self.height


@dataclass(frozen=True)
class Picture:
    """One picture: its planes in the memory of `device`, which `owner` keeps.

    Addresses and pitches are multiples of two values, so that rows are whole pairs of samples.
    `matrix` is H.265's matrix_coefficients; `full_range` its video_full_range_flag, or None where
    nobody knows.
    """

    luma: NV12Plane
    chroma: NV12Plane
    bit_depth: int
    device: str
    owner: object
    matrix: int = UNSPECIFIED
    full_range: bool | None = None

    def __post_init__(self) -> None:
        for plane in (self.luma, self.chroma):
            if plane.pitch % (2 * plane.bytes_per_value):
                raise ValueError(f"a pitch of {plane.pitch} bytes holds no whole pairs of samples")

    @property
    def width(self) -> int:
        """Pixels in a row."""
        return self.luma.width

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return self.luma.height
