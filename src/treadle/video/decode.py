"""A stream of HEVC as tensors: NVDEC where it is, another decoder only if one was asked for.

    for timestamp, tensor in decode_annexb_iter(stream, dtype=dtypes.float16, color_space="auto"):
        ...                                            # (height, width, 3), in display order
    frames = decode_annexb_to_tensors_auto(stream, fallback="software")

A stream is read picture by picture, which gives each frame its place, and its errors theirs. What
was sound before an error comes out first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from ..engine.backends import Device
from ..errors import DeviceError
from ..tensor import Tensor
from .colour import Conversion, Output, to_rgb
from .cuvid import CuvidUnavailable
from .cuvid_abi import CUVID_PKT_ENDOFPICTURE
from .decoder import NVVideoDecoder
from .errors import BitstreamError
from .software import decode_pictures
from .stream import AccessUnit, SequenceInfo, access_units

__all__ = ["Color", "Frame", "decode_annexb_iter", "decode_annexb_to_tensors_auto"]

_MOST_FLYING = 64  # pictures in a decoder: H.265 allows 16, NVDEC 32 surfaces

Decoded: TypeAlias = Generator[tuple[AccessUnit, Tensor]]


class Color(NamedTuple):
    """What a stream says of its colours, in the numbers of H.273: 2 is "unspecified"."""

    primaries: int
    transfer: int
    matrix: int
    full_range: bool

    @classmethod
    def of(cls, sequence: SequenceInfo) -> Color:
        """What the parameter sets of a sequence say."""
        return cls(
            sequence.colour_primaries,
            sequence.transfer_characteristics,
            sequence.matrix_coefficients,
            sequence.full_range,
        )


class Frame(tuple[Any, Tensor]):
    """(timestamp, tensor), and what else is known of a frame.

    index             of the frame in the order of display, from 0
    poc, keyframe     the stream's own number for that order; whether decoding can begin here
    color             what the stream says of its colours
    backend           "nvdec" or "software", and fallback_reason why it is not NVDEC
    timestamp_source  "user", "fps", or "index": the number of the picture in the stream
    """

    index: int
    poc: int
    keyframe: bool
    color: Color
    backend: str
    fallback_reason: str | None
    timestamp_source: str

    @property
    def timestamp(self) -> Any:
        """The first of the two."""
        return self[0]

    @property
    def tensor(self) -> Tensor:
        """The second of the two."""
        return self[1]


def decode_annexb_iter(
    source: Any,
    *,
    device: str = "CUDA",
    dtype: Any = None,
    normalize: bool = True,
    include_timestamps: bool = True,
    chunk_size: int = 65536,
    timestamps: Iterable[Any] | None = None,
    long_start_code: bool = False,
    end_of_stream: bool = True,
    color_space: Any = "bt709",
    color_range: str = "auto",
    fps: float | Fraction | None = None,
    fallback: str | Callable[[CuvidUnavailable], Any] | None = None,
    decoder_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """An iterator of `Frame`s (timestamp, tensor), or of tensors, in the order of display.

    `source` is bytes, an object with `read()`, or an iterable. `dtype` is float32 (None), float16
    or uint8; `normalize` scales to 0..1, and has to be False for uint8. `color_space` is "bt601",
    "bt709", "bt2020", four coefficients, or "auto": what the stream says; `color_range` "limited",
    "full" or "auto": limited unless the stream says full. Pictures take `timestamps` in the order
    in which they are decoded, and numbers from 0 where those run out; with `fps`, timestamps are
    seconds in the order of display. `end_of_stream=False` keeps back what a decoder still holds.

    The decoder is made at the call. Without NVDEC that raises CuvidUnavailable; a callable
    `fallback` gets the error instead, and what it returns is returned; "software" decodes on the
    processor, onto `device` if that is there and onto the CPU if not. `decoder_kwargs` go to
    NVVideoDecoder. The decoder is closed when the iterator ends, however it does.

    Raises TypeError and ValueError for wrong arguments, NotImplementedError for other dtypes; and
    BitstreamError, UnsupportedStream or CuvidError while frames are made.
    """
    output, conversion = Output.of(dtype, normalize), Conversion.of(color_space, color_range)
    if fallback not in (None, "software") and not callable(fallback):
        raise ValueError(f"fallback is None, 'software' or a callable, not {fallback!r}")
    if fps is not None and not fps > 0:
        raise ValueError(f"fps is more than 0, not {fps}")
    name = Device.canonicalize(device)
    if not str(name).startswith("CUDA") and fallback != "software":
        raise ValueError(
            f"NVDEC's frames are on CUDA, not on {device}; fallback='software' decodes onto others"
        )
    units = _Units(access_units(source, chunk_size=chunk_size), timestamps)
    try:
        decoder = NVVideoDecoder(**{"device": name, **(decoder_kwargs or {})})
    except CuvidUnavailable as error:
        if fallback is None:
            raise
        if callable(fallback):
            return fallback(error)
        decoded = _by_software(units, _there_or_cpu(name), output, conversion)
        return _frames(decoded, units, "software", str(error), fps, include_timestamps)
    decoded = _by_nvdec(decoder, units, output, conversion, long_start_code, end_of_stream)
    return _frames(decoded, units, "nvdec", None, fps, include_timestamps)


def decode_annexb_to_tensors_auto(source: Any, **options: Any) -> Any:
    """A list of all that `decode_annexb_iter` yields, which takes the same options.

    What a `fallback` returns is passed through; an iterable of frames becomes a list.
    """
    found = decode_annexb_iter(source, **options)
    is_one = isinstance(found, list | str | bytes | bytearray | memoryview | Mapping | Tensor)
    return found if is_one or not isinstance(found, Iterable) else list(found)


class _Units:
    """Access units up to the first that is not sound; `error` is what is wrong with that.

    `stamps` holds (timestamp, source of it) of the pictures that may be in a decoder.
    """

    def __init__(self, found: Iterator[AccessUnit], user: Iterable[Any] | None) -> None:
        self._found, self._user = found, iter(() if user is None else user)
        self.error: BitstreamError | None = None
        self.stamps: dict[int, tuple[Any, str]] = {}

    def __iter__(self) -> Iterator[AccessUnit]:
        try:
            for unit in self._found:
                value = next(self._user, self)
                stamp = (unit.index, "index") if value is self else (value, "user")
                self.stamps[unit.index] = stamp
                self.stamps.pop(unit.index - _MOST_FLYING, None)
                yield unit
        except BitstreamError as error:
            self.error = error


def _by_nvdec(
    decoder: NVVideoDecoder,
    units: Iterable[AccessUnit],
    output: Output,
    conversion: Conversion,
    long_start_code: bool,
    end_of_stream: bool,
) -> Decoded:
    flying: dict[int, AccessUnit] = {}

    def shown() -> Decoded:
        for frame in decoder.drain_frames():
            with frame:
                unit = flying.pop(frame.timestamp, None)
                if unit is not None and unit.shown:
                    yield unit, frame.converted(output, conversion)

    with decoder:
        for unit in units:
            flying[unit.index] = unit._replace(units=[])
            flying.pop(unit.index - _MOST_FLYING, None)
            packet = unit.annexb(long_start_code=long_start_code)
            decoder.feed_packet(packet, timestamp=unit.index, flags=CUVID_PKT_ENDOFPICTURE)
            yield from shown()
        if end_of_stream:
            decoder.feed_end_of_stream()
            yield from shown()


def _by_software(
    units: Iterable[AccessUnit], device: str, output: Output, conversion: Conversion
) -> Decoded:
    pictures = decode_pictures(units)
    return (
        (unit, to_rgb(picture, conversion, output, device).realize()) for unit, picture in pictures
    )


def _there_or_cpu(device: str) -> str:
    """`device`, or the CPU where it cannot be opened."""
    try:
        return Device[device].name
    except DeviceError:
        return "CPU"


def _frames(
    decoded: Decoded,
    units: _Units,
    backend: str,
    reason: str | None,
    fps: float | Fraction | None,
    include_timestamps: bool,
) -> Iterator[Any]:
    with contextlib.closing(decoded):
        for index, (unit, tensor) in enumerate(decoded):
            stamp, source = units.stamps.pop(unit.index)
            if fps is not None:
                stamp, source = index / fps, "fps"
            if not include_timestamps:
                yield tensor
                continue
            frame = Frame((stamp, tensor))
            frame.index, frame.poc, frame.keyframe = index, unit.poc, unit.keyframe
            frame.color = Color.of(unit.sequence)
            frame.backend, frame.fallback_reason = backend, reason
            frame.timestamp_source = source
            yield frame
    if units.error is not None:
        raise units.error
