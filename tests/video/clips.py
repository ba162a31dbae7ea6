"""HEVC streams with known pixels, encoded here, and what they should decode to."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import av
import numpy as np

__all__ = ["Clip", "encode", "reference_rgb"]

COEFFICIENTS = {  # Kr, Kb
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
}
_MATRIX_NAMES = {"bt601": "smpte170m", "bt709": "bt709", "bt2020": "bt2020nc", None: "undef"}


class Clip(NamedTuple):
    """A stream, and the planes Y, U, V of each of its frames in the order of display."""

    data: bytes
    frames: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    depth: int
    full_range: bool


def encode(
    width=128, height=64, count=8, *, depth=8, matrix="bt709", full_range=False, bframes=2,
    options="", seed=0, is_lossless=True,
):  # fmt: skip
    """A clip whose pixels survive: blobs of colour that move, all of the range's values."""
    rng = np.random.default_rng(seed)
    top = (1 << depth) - 1
    low, high = (0, top) if full_range else (16 << (depth - 8), 235 << (depth - 8))
    kind, dtype = ("yuv420p", np.uint8) if depth == 8 else ("yuv420p10le", np.uint16)
    params = f"log-level=none:pools=1:frame-threads=1:bframes={bframes}:lossless={int(is_lossless)}"
    params += f":colormatrix={_MATRIX_NAMES[matrix]}:range={'full' if full_range else 'limited'}"
    context = av.CodecContext.create("libx265", "w")
    context.width, context.height, context.pix_fmt = width, height, kind
    context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
    context.options = {"preset": "ultrafast", "x265-params": params + options}
    base = [
        rng.integers(low, high + 1, (height // s // 8 + 2, width // s // 8 + 2)) for s in (1, 2, 2)
    ]
    frames, data = [], b""
    for number in range(count):
        planes = []
        for scale, coarse in zip((1, 2, 2), base, strict=True):
            large = np.roll(np.kron(coarse, np.ones((8, 8), int)), number, axis=1)
            planes.append(large[: height // scale, : width // scale].astype(dtype))
        frames.append(tuple(planes))
        frame = av.VideoFrame(width, height, kind)
        for plane, values in zip(frame.planes, planes, strict=True):
            rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
            rows[: values.shape[0], : values.shape[1] * values.itemsize] = values.view(np.uint8)
        frame.pts, frame.time_base = number, Fraction(1, 25)
        data += b"".join(bytes(packet) for packet in context.encode(frame))
    data += b"".join(bytes(packet) for packet in context.encode(None))
    return Clip(data, frames, depth, full_range)


def reference_rgb(planes, depth, matrix, full_range):
    """float64 RGB, 0..1, by the definition of H.273: normalised values, chroma of the nearest."""
    y, u, v = (plane.astype(np.float64) for plane in planes)
    step = 1 << (depth - 8)
    if full_range:
        y, spread = y / (256 * step - 1), 256 * step - 1
    else:
        y, spread = (y - 16 * step) / (219 * step), 224 * step
    u, v = (np.kron((c - 128 * step) / spread, np.ones((2, 2))) for c in (u, v))
    u, v = (c[: y.shape[0], : y.shape[1]] for c in (u, v))
    kr, kb = COEFFICIENTS[matrix]
    red, blue = y + 2 * (1 - kr) * v, y + 2 * (1 - kb) * u
    green = (y - kr * red - kb * blue) / (1 - kr - kb)
    return np.stack([red, green, blue], -1).clip(0, 1)
