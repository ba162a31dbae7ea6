"""Y'CbCr to RGB, in tensor operations that become one kernel on every device.

    to_rgb(picture, dtype=dtypes.uint8, normalize=False, color_space="auto")   -> (h, w, 3)

Each pixel is a sum: a weight for luma, one for each chroma value, and an offset, which hold the
matrix, the range, the bit depth and the place of the bits in a word at once. Bytes are summed in
fixed point, so that a few are not the nearest to the exact value but the next: within 0.6 of it.
Chroma is that of the nearest sample, as in NVIDIA's and PyTorch's converters. There is no tone
mapping: PQ and HLG give the values that are coded.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple, TypeAlias

import numpy as np

from ..dtype import DType, dtypes, to_dtype
from ..engine.jit import TinyJit
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .errors import UnsupportedStream
from .fixed_point import FixedPoint
from .frames import UNSPECIFIED, NV12Plane, Picture
from .weights import Weights

__all__ = [
    "COLOR_SPACES",
    "ColorSpace",
    "Conversion",
    "Output",
    "converted",
    "to_rgb",
    "weights_of",
]

Coefficients: TypeAlias = tuple[float, float, float, float]
ColorSpace: TypeAlias = str | Coefficients

# R from V, G from U, G from V, B from U, in full range.
COLOR_SPACES: dict[str, Coefficients] = {
    "bt601": (1.4020, -0.344136, -0.714136, 1.7720),
    "bt709": (1.5748, -0.187324, -0.468124, 1.8556),
    "bt2020": (1.4746, -0.164553, -0.571353, 1.8814),
}
# Kr and Kb of what only a stream can ask for: table E.5 of H.265.
_LUMA_WEIGHTS = {4: (0.30, 0.11), 7: (0.212, 0.087)}
_SPACE_OF_MATRIX = {1: "bt709", 5: "bt601", 6: "bt601", 9: "bt2020"}
_HIGH_DEFINITION = 720  # rows from which streams that do not say are taken for BT.709
_DTYPES = (dtypes.float32, dtypes.float16, dtypes.uint8)


class Output(NamedTuple):
    """The checked type of the results: `normalize` scales to 0..1, else they are 0..255."""

    dtype: DType
    normalize: bool

    @classmethod
    def of(cls, dtype: DTypeLike | None, normalize: bool) -> Output:
        """None is float32. Raises NotImplementedError for other types, ValueError for uint8."""
        kind = dtypes.float32 if dtype is None else to_dtype(dtype)
        if kind not in _DTYPES:
            names = ", ".join(one.name for one in _DTYPES)
            raise NotImplementedError(f"frames are made of {names}, not of {kind.name}")
        if kind is dtypes.uint8 and normalize:
            raise ValueError("uint8 frames hold 0 to 255: pass normalize=False")
        return cls(kind, normalize)


class Conversion(NamedTuple):
    """How colours are read; both parts are checked.

    `color_range` is "limited", "full" or "auto": as the picture says, and limited where it does
    not. A `color_space` of four coefficients asks for full range where nobody says otherwise.
    """

    color_space: ColorSpace = "bt709"
    color_range: str = "auto"

    @classmethod
    def of(cls, color_space: ColorSpace, color_range: str) -> Conversion:
        """Raises TypeError for what is neither name nor 4 numbers, ValueError for unknown names.

        ValueError, too, for coefficients that are not finite.
        """
        if color_range not in ("auto", "limited", "full"):
            raise ValueError(f"color_range is 'auto', 'limited' or 'full', not {color_range!r}")
        if isinstance(color_space, str):
            key = color_space.lower()
            if key != "auto" and key not in COLOR_SPACES:
                names = ", ".join((*COLOR_SPACES, "auto"))
                raise ValueError(f"color_space {color_space!r} is not known; there are {names}")
            return cls(key, color_range)
        is_four = isinstance(color_space, tuple) and len(color_space) == 4
        if not is_four or not all(isinstance(one, Real) for one in color_space):
            raise TypeError(
                "color_space is a name or a tuple of 4 coefficients (R from V, G from U, G from V, "
                f"B from U), not {color_space!r}"
            )
        if not all(map(math.isfinite, color_space)):
            raise ValueError(f"the coefficients of a color_space are finite, not {color_space}")
        red, green_u, green_v, blue = map(float, color_space)
        return cls((red, green_u, green_v, blue), color_range)

    def coefficients(self, picture: Picture) -> Coefficients:
        """The four coefficients. Raises UnsupportedStream for matrices that are no Y'CbCr."""
        if isinstance(self.color_space, tuple):
            return self.color_space
        if self.color_space != "auto":
            return COLOR_SPACES[self.color_space]
        return _signalled(picture)

    def is_full(self, picture: Picture) -> bool:
        """Whether samples use all of their values."""
        if self.color_range != "auto":
            return self.color_range == "full"
        if picture.full_range is not None:
            return picture.full_range
        return isinstance(self.color_space, tuple)


def _signalled(picture: Picture) -> Coefficients:
    if picture.matrix in _LUMA_WEIGHTS:
        red, blue = _LUMA_WEIGHTS[picture.matrix]
        green = 1 - red - blue
        return (
            2 * (1 - red),
            -2 * (1 - blue) * blue / green,
            -2 * (1 - red) * red / green,
            2 * (1 - blue),
        )
    if picture.matrix in _SPACE_OF_MATRIX:
        return COLOR_SPACES[_SPACE_OF_MATRIX[picture.matrix]]
    if picture.matrix != UNSPECIFIED:
        raise UnsupportedStream(
            f"the stream's colours are of matrix_coefficients {picture.matrix}, which is no "
            "Y'CbCr that is converted here: pass a color_space"
        )
    guess = "bt709" if picture.height >= _HIGH_DEFINITION else "bt601"
    warnings.warn(
        f"the stream does not say which matrix its colours are of: {guess} is taken, by its "
        f"{picture.height} rows; pass color_space= to choose",
        stacklevel=2,
    )
    return COLOR_SPACES[guess]


def weights_of(conversion: Conversion, picture: Picture, output: Output) -> Weights:
    """What a conversion means for pictures of this depth, range and matrix."""
    red, green_u, green_v, blue = conversion.coefficients(picture)
    depth = picture.bit_depth
    black, luma_span, chroma_span = 0, (1 << depth) - 1, (1 << depth) - 1
    if not conversion.is_full(picture):
        step = 1 << (depth - 8)
        black, luma_span, chroma_span = 16 * step, 219 * step, 224 * step
    top = 1.0 if output.normalize else 255.0
    word = 1 << (8 * picture.luma.bytes_per_value - depth)  # a step of the value within its word
    middle = (1 << (depth - 1)) * word
    luma, chroma = top / (luma_span * word), top / (chroma_span * word)
    u = (0.0, green_u * chroma, blue * chroma)
    v = (red * chroma, green_v * chroma, 0.0)
    # Casts to integers cut: what is added makes half go up.
    base = -black * word * luma + (0.5 if output.dtype is dtypes.uint8 else 0.0)
    offset = [base - middle * (one + other) for one, other in zip(u, v, strict=True)]
    return Weights(luma, u, v, (offset[0], offset[1], offset[2]), top)


def to_rgb(
    picture: Picture, conversion: Conversion, output: Output, device: str | None = None
) -> Tensor:
    """The picture as (height, width, 3), on `device` (its own), in memory of its own.

    Its memory has to hold the picture until the device has read it.
    """
    luma, chroma = _words(picture, picture.luma), _words(picture, picture.chroma)
    if device is not None and device != picture.device:
        luma, chroma = luma.to(device), chroma.to(device)
    size, weights = (picture.height, picture.width), weights_of(conversion, picture, output)
    kind = luma.shape, chroma.shape, luma.dtype, luma.device
    return _conversion(kind, size, weights, output)(luma, chroma)


def _words(picture: Picture, plane: NV12Plane) -> Tensor:
    """A plane as (height, words from row to row), in place; a word holds two neighbouring values.

    Two pixels share a chroma sample: lanes that take words of both planes take neighbours.
    """
    kind = dtypes.uint16 if plane.bytes_per_value == 1 else dtypes.uint32
    shape = (plane.height, plane.pitch // kind.itemsize)
    return Tensor.from_blob(
        plane.pointer, shape, kind, picture.device, owner=picture.owner, readonly=True
    )


@functools.lru_cache(maxsize=64)
def _conversion(
    planes: tuple[Tensor, ...], size: tuple[int, int], weights: Weights, output: Output
) -> TinyJit[[Tensor, Tensor], Tensor]:
    """What converts two planes like `planes`: the graph of a frame takes longer than its kernel."""

    def convert(luma: Tensor, chroma: Tensor) -> Tensor:
        columns = -(-size[1] // 2)
        value = converted(luma[:, :columns], chroma[:, :columns], weights, output)
        # A tensor of its own: a view would keep the planes, which it was computed from.
        return value[: size[0], : size[1]].contiguous().realize()

    return TinyJit(convert)


def converted(luma: Tensor, chroma: Tensor, weights: Weights, output: Output) -> Tensor:
    """(2 * rows, 2 * columns, 3) of the words of both planes."""
    rows, columns = chroma.shape
    if luma.shape[0] < 2 * rows:  # an odd height ends within a chroma sample
        luma = luma.pad(((0, 2 * rows - luma.shape[0]), (0, 0)))
    words = luma.reshape(rows, 2, columns, 1), chroma.reshape(rows, 1, columns, 1)
    fixed = None
    if output.dtype is dtypes.uint8:
        fixed = FixedPoint.of(weights, 4 * luma.dtype.itemsize)
    if fixed is not None:
        first, second, u, v = (sample for word in words for sample in _samples(word))
        value = fixed.bytes_of(_pixels(fixed.lumas(first, second), fixed.tints(u, v)))
    else:
        first, second, u, v = (half for word in words for half in _halves(word))
        lumas = [half * weights.luma for half in (first, second)]
        value = _cut(_pixels(lumas, _tints(u, v, weights)), weights, output)
    return value.reshape(2 * rows, 2 * columns, 3)


def _tints(u: Tensor, v: Tensor, weights: Weights) -> list[Tensor | float]:
    """What colour adds to R, G and B."""
    return [
        sum((value * by for value, by in ((u, by_u), (v, by_v)) if by), offset)
        for by_u, by_v, offset in zip(weights.u, weights.v, weights.offset, strict=True)
    ]


def _pixels(lumas: list[Tensor], tints: Sequence[Tensor | float]) -> Tensor:
    """Six values side by side: R, G and B of two pixels."""
    place = Tensor.arange(6, device=lumas[0].device)
    tint = tints[-1]
    for turn in reversed(range(5)):
        tint = (place == turn).where(tints[turn % 3], tint)
    return (place < 3).where(*lumas) + tint


def _cut(value: Tensor, weights: Weights, output: Output) -> Tensor:
    """`value` from 0 to the top, in the type of the results."""
    if output.dtype is dtypes.uint8:
        return value.cast(dtypes.int32).maximum(0).minimum(255).cast(dtypes.uint8)
    if output.dtype is dtypes.float16:
        # The bits of numbers from 0 on compare as the numbers do, more of them at once.
        top = int(np.float16(weights.top).view(np.int16))
        bits = value.cast(dtypes.float16).bitcast(dtypes.int16)
        return bits.maximum(0).minimum(top).bitcast(dtypes.float16)
    value = (value > 0).where(value, 0.0)
    return (value < weights.top).where(value, weights.top)


def _halves(words: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second value of each word."""
    bits = 4 * words.dtype.itemsize
    return (words & ((1 << bits) - 1)).float(), (words >> bits).float()


def _samples(words: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second value of each word, in the upper bits of 16."""
    if words.dtype is dtypes.uint16:
        return words << 8, words & 0xFF00
    return (words & 0xFFFF).cast(dtypes.uint16), (words >> 16).cast(dtypes.uint16)
