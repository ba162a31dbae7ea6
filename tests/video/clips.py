"""HEVC streams with known pixels, encoded here, and what they should decode to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import streams

__all__ = ["Clip", "encode", "reference_rgb"]

COEFFICIENTS = {  # Kr, Kb
    "bt601": (0.299, 0.114),
    "bt709": (0.2126, 0.0722),
    "bt2020": (0.2627, 0.0593),
}
MATRIX_NAMES = {"bt601": "smpte170m", "bt709": "bt709", "bt2020": "bt2020nc", None: "unknown"}


class Clip(NamedTuple):
    """A stream, and the planes Y, U, V of each of its frames in the order of display."""

    data: bytes
    frames: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    depth: int
    full_range: bool


def encode(
    width=128, height=64, count=8, *, depth=8, matrix="bt709", full_range=False, bframes=2,
    seed=0, **parameters,
):  # fmt: skip
    """A clip of blobs that move, of all of the range's values, coded without loss."""
    rng = np.random.default_rng(seed)
    top = (1 << depth) - 1
    low, high = (0, top) if full_range else (16 << (depth - 8), 235 << (depth - 8))
    kind, dtype = ("yuv420p", np.uint8) if depth == 8 else (f"yuv420p{depth}le", np.uint16)
    base = [
        rng.integers(low, high + 1, (height // scale // 8 + 2, width // scale // 8 + 2))
        for scale in (1, 2, 2)
    ]
    frames = []
    for number in range(count):
        planes = []
        for scale, coarse in zip((1, 2, 2), base, strict=True):
            large = np.roll(np.kron(coarse, np.ones((8, 8), int)), number, axis=1)
            planes.append(large[: height // scale, : width // scale].astype(dtype))
        frames.append(tuple(planes))
    data = streams.encode(
        frames,
        kind,
        lossless=1,
        pools=1,
        bframes=bframes,
        colormatrix=MATRIX_NAMES[matrix],
        range="full" if full_range else "limited",
        **parameters,
    )
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
