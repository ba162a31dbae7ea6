"""A stream of HEVC as tensors: NVDEC where it is, another decoder only if one was asked for.

    for timestamp, tensor in decode_annexb_iter(stream, dtype=dtypes.float16, color_space="auto"):
        ...                                            # (height, width, 3), in display order
    frames = decode_annexb_to_tensors_auto(stream, fallback="software")

What was sound before an error comes out first. NVDEC gets the stream unit by unit and judges it by
itself: headers are read beside it, for what frames say of themselves and to name the place of what
is wrong when pictures are missing.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

from ..engine.devices import Device
from ..errors import DeviceError
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .annexb import Source, Unit, iter_units, parse_nal_header, with_annexb_start_code
from .colour import ColorSpace, Conversion, Output, to_rgb
from .cuvid import CuvidUnavailable
from .decoder import NVVideoDecoder
from .errors import AnnexBParserError, BitstreamError
from .software import decode_pictures
from .stream import AccessUnit, PictureReader, SequenceInfo, access_units, is_left_out
from .timestamps import Timestamps

__all__ = ["Color", "Frame", "decode_annexb_iter", "decode_annexb_to_tensors_auto"]

_MOST_FLYING = 64  # pictures in a decoder: H.265 allows 16, NVDEC 32 surfaces

Decoded: TypeAlias = Generator["_Shown"]


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

    What the stream itself says (poc, keyframe, color) is None where NVDEC has decoded a picture
    whose headers are not understood here.
    """

    index: int
    poc: int | None
    keyframe: bool | None
    color: Color | None
    backend: str
    fallback_reason: str | None
    timestamp_source: str

    @property
    def timestamp(self) -> Any:
        """The first of the two."""
        return self[0]

    @property
    def tensor(self) -> Tensor:
        """The second of the two: (height, width, 3), in the dtype that was asked for."""
        return self[1]


def decode_annexb_iter(
    source: Source,
    *,
    device: str = "CUDA",
    dtype: DTypeLike | None = None,
    normalize: bool = True,
    include_timestamps: bool = True,
    chunk_size: int = 65536,
    timestamps: Iterable[Any] | None = None,
    long_start_code: bool = False,
    end_of_stream: bool = True,
    color_space: ColorSpace = "bt709",
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
    units = iter_units(source, chunk_size=chunk_size)
    origin = "fps" if fps is not None else "index" if timestamps is None else "user"
    try:
        decoder = NVVideoDecoder(**{"device": name, **(decoder_kwargs or {})})
    except CuvidUnavailable as error:
        if fallback is None:
            raise
        if callable(fallback):
            return fallback(error)
        pictures, home = access_units(source, chunk_size=chunk_size), _there_or_cpu(name)
        decoded = _by_software(pictures, timestamps, output, conversion, home)
        return _frames(decoded, origin, str(error), fps, include_timestamps)
    decoded = _by_nvdec(
        decoder, units, timestamps, output, conversion, long_start_code, end_of_stream
    )
    return _frames(decoded, origin, None, fps, include_timestamps)


def decode_annexb_to_tensors_auto(source: Source, **options: Any) -> Any:
    """A list of all that `decode_annexb_iter` yields, which takes the same options.

    What a `fallback` returns is passed through as it is.
    """
    fallback, returned = options.get("fallback"), []
    if callable(fallback):

        def noted(error: CuvidUnavailable) -> Any:
            returned.append(fallback(error))
            return returned[0]

        options["fallback"] = noted
    found = decode_annexb_iter(source, **options)
    return returned[0] if returned else list(found)


class _Shown(NamedTuple):
    """A frame as a decoder gives it; `unit` is None where the headers were not understood."""

    timestamp: Any
    unit: AccessUnit | None
    tensor: Tensor


class _Headers:
    """What the headers say of the pictures that are in NVDEC, as far as they are sound.

    NVDEC has a parser of its own and may make more of a stream than this one: `error`, the first
    thing that is wrong with the headers, is for those whose pictures do not come out, and for
    units of which nobody can say whether they are pictures.
    """

    def __init__(self) -> None:
        self._pictures = PictureReader()
        self._begun: deque[int] = deque(maxlen=_MOST_FLYING)  # timestamps
        self._known: deque[tuple[int, AccessUnit]] = deque(maxlen=_MOST_FLYING)
        self.error: BitstreamError | None = None

    def take(self, unit: Unit | None, begins: int | None) -> None:
        """Reads a unit, None at the end; `begins` is the timestamp if it begins a picture."""
        if self.error is not None:
            return
        try:
            done = self._pictures.finish() if unit is None else self._pictures.take(unit)
        except BitstreamError as error:
            self.error = error
            return
        if done is not None:
            self._known.append((self._begun.popleft(), done._replace(units=[])))
        if begins is not None and unit and not is_left_out(parse_nal_header(unit.data)):
            self._begun.append(begins)

    @property
    def breaks_units(self) -> bool:
        """Whether the error is in the header of a unit."""
        return isinstance(self.error, AnnexBParserError)

    def of(self, timestamp: int) -> AccessUnit | None:
        """The picture that has `timestamp`; the first, where several do."""
        for place, (own, unit) in enumerate(self._known):
            if own == timestamp:
                del self._known[place]
                return unit
        return None


def _by_nvdec(
    decoder: NVVideoDecoder,
    units: Iterator[Unit],
    timestamps: Iterable[int] | None,
    output: Output,
    conversion: Conversion,
    long_start_code: bool,
    end_of_stream: bool,
) -> Decoded:
    stamps, headers, count = Timestamps(timestamps), _Headers(), 0

    def shown() -> Decoded:
        nonlocal count
        for frame in decoder.drain_frames():
            with frame:
                count += 1
                unit = headers.of(frame.timestamp)
                if unit is None or unit.shown:
                    yield _Shown(frame.timestamp, unit, frame.converted(output, conversion))

    with decoder:
        error = None
        try:
            for unit in units:
                before = stamps.used
                stamp = stamps.stamp(unit.data)
                headers.take(unit, stamp if stamps.used > before else None)
                packet = with_annexb_start_code(unit.data, long_start_code=long_start_code)
                decoder.feed_packet(packet, timestamp=stamp)
                yield from shown()
        except BitstreamError as found:  # what came before it is sound
            error = found
        headers.take(None, None)
        if end_of_stream or error is not None:
            decoder.feed_end_of_stream()
            yield from shown()
    if error is None and (headers.breaks_units or count < stamps.used):
        error = headers.error
    if error is not None:
        raise error


def _by_software(
    units: Iterator[AccessUnit],
    timestamps: Iterable[Any] | None,
    output: Output,
    conversion: Conversion,
    device: str,
) -> Decoded:
    user, stamps = iter(() if timestamps is None else timestamps), {}
    error = None

    def sound() -> Iterator[AccessUnit]:
        nonlocal error
        try:
            for unit in units:
                stamps[unit.index] = next(user, unit.index)
                stamps.pop(unit.index - 2 * _MOST_FLYING, None)
                yield unit
        except BitstreamError as found:  # what came before it is sound
            error = found

    pictures = decode_pictures(sound())

    def shown() -> Decoded:
        for unit, picture in pictures:
            tensor = to_rgb(picture, conversion, output, device)
            yield _Shown(stamps.pop(unit.index), unit, tensor)
        if error is not None:
            raise error

    return shown()


def _there_or_cpu(device: str) -> str:
    """`device`, or the CPU where it cannot be opened."""
    try:
        return Device[device].name
    except DeviceError:
        return "CPU"


def _frames(
    decoded: Decoded,
    source: str,
    reason: str | None,
    fps: float | Fraction | None,
    include_timestamps: bool,
) -> Iterator[Any]:
    with contextlib.closing(decoded):
        for index, shown in enumerate(decoded):
            if not include_timestamps:
                yield shown.tensor
                continue
            frame = Frame((shown.timestamp if fps is None else index / fps, shown.tensor))
            frame.index, frame.timestamp_source = index, source
            frame.backend = "nvdec" if reason is None else "software"
            frame.fallback_reason = reason
            frame.poc = frame.keyframe = frame.color = None
            if (unit := shown.unit) is not None:
                frame.poc, frame.keyframe = unit.poc, unit.keyframe
                frame.color = Color.of(unit.sequence)
            yield frame
