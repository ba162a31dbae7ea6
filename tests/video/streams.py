"""Streams for the tests: real ones by libx265, and bits written by hand."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

# Pictures I, B and P of 64 x 64 samples, two slices each. libx265 wrote it; asked for slices, it
# writes past the ends of its own memory, too, so that no test asks it.
SLICED = base64.b64decode(
    "AAAAAUABDAH//wFgAAADAJAAAAMAAAMAHpEwJAAAAAFCAQEBYAAAAwCQAAADAAADAB6gIIEFlkTW8LmgIAAAAwAgAAADAyEA"
    "AAABRAHAc8EJAAABKAGscnoPH/nC/2kgEVsjoAAAASgBMMci0gwrGfUF/NUa+wuqDBjZFMqN0KWDoBJM3osAAAABAgHQEVYg"
    "5EeAqSK9VHalktCh6hHsaAAAAQIBYQEVYg5FlEkAQkDvsQcoBTWQme5gt01FrBrIKAAAAAEAAeAkvggUSYC5UD/AAAABAAFi"
    "AkvggUSY8iYzIA=="
)

Planes = Sequence[np.ndarray]  # Y, U and V; uint8, or uint16 for deeper samples


def encode(frames: Sequence[Planes], pixels: str = "yuv420p", **parameters: object) -> bytes:
    """An Annex-B stream of `frames` with `x265-params`: underscores stand for dashes."""
    import av

    context = av.CodecContext.create("libx265", "w")
    context.height, context.width = frames[0][0].shape
    context.pix_fmt = pixels
    context.time_base, context.framerate = Fraction(1, 25), Fraction(25)
    given = {"log_level": "none", "frame_threads": 1, **parameters}
    text = ":".join(f"{name.replace('_', '-')}={value}" for name, value in given.items())
    context.options = {"x265-params": text, "preset": "ultrafast"}
    packets = []
    for index, planes in enumerate(frames):
        frame = av.VideoFrame(context.width, context.height, pixels)
        for plane, values in zip(frame.planes, planes, strict=True):
            rows = np.zeros((plane.height, plane.line_size), np.uint8)
            raw = np.ascontiguousarray(values).view(np.uint8)
            rows[:, : raw.shape[1]] = raw
            plane.update(rows.tobytes())
        frame.pts = index
        packets += context.encode(frame)
    return b"".join(bytes(packet) for packet in (*packets, *context.encode(None)))


def noise(count: int, width: int, height: int, pixels: str = "yuv420p", seed: int = 0):
    """`count` frames of random planes for `pixels`."""
    rng = np.random.default_rng(seed)
    deep = pixels.endswith(("10le", "12le"))
    most, dtype = (1 << int(pixels[-4:-2]), np.uint16) if deep else (256, np.uint8)
    across, down = {"420": (2, 2), "422": (2, 1), "444": (1, 1)}.get(pixels[3:6], (0, 0))
    shapes = [(height, width)]
    if across:
        shapes += [(-(-height // down), -(-width // across))] * 2
    return [[rng.integers(0, most, shape, dtype) for shape in shapes] for _ in range(count)]


def clip(
    count: int = 10, width: int = 64, height: int = 64, pixels: str = "yuv420p", *, seed: int = 0,
    **parameters,
) -> bytes:  # fmt: skip
    """A stream of noise, whose pixels do not matter."""
    return encode(noise(count, width, height, pixels, seed), pixels, **parameters)


class BitWriter:
    """Bits of a NAL unit, for streams that no encoder at hand writes."""

    def __init__(self) -> None:
        self.bits: list[str] = []

    def u(self, count: int, value: int = 0) -> BitWriter:
        assert 0 <= value < 1 << count
        self.bits.append(format(value, f"0{count}b") if count else "")
        return self

    def ue(self, *values: int) -> BitWriter:
        for value in values:
            code = format(value + 1, "b")
            self.bits.append("0" * (len(code) - 1) + code)
        return self

    def se(self, *values: int) -> BitWriter:
        return self.ue(*(2 * v - 1 if v > 0 else -2 * v for v in values))

    def nalu(self, kind: int, temporal_id: int = 0, layer: int = 0) -> bytes:
        """The unit with header, stop bit and emulation prevention, without start code."""
        text = "".join(self.bits) + "1"
        text += "0" * (-len(text) % 8)
        data = bytearray([kind << 1 | layer >> 5, (layer & 31) << 3 | temporal_id + 1])
        zeros = 0
        for octet in int(text, 2).to_bytes(len(text) // 8, "big"):
            if zeros >= 2 and octet <= 3:
                data.append(3)
                zeros = 0
            data.append(octet)
            zeros = zeros + 1 if octet == 0 else 0
        return bytes(data)
