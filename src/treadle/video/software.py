"""Pictures decoded by the processor: FFmpeg's HEVC decoder, through PyAV.

    for unit, picture in decode_pictures(access_units(stream)):
        print(unit.poc, picture.width, picture.height)

What comes out has the form of NVDEC's surfaces, NV12 or P016 in host memory, so that everything
behind it is the same. The 8-bit luma plane is FFmpeg's own memory; chroma planes are interleaved,
deeper samples moved to the high bits of their words. The decoder is told to stop at errors, among
them pictures that differ from the MD5 hash which some encoders put beside each; without one, bits
that were flipped inside of a slice are mostly found by nobody.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .errors import BitstreamError, DecoderUnavailable, UnsupportedStream
from .frames import NV12Plane, Picture
from .rescue import History
from .stream import AccessUnit, SequenceInfo

if TYPE_CHECKING:
    from av import Packet, VideoFrame

__all__ = ["decode_pictures"]

_DEPTHS = (8, 9, 10, 12)
_MOST_SAMPLES = 142_606_336  # of luma: level 7.2
_OPTIONS = {"err_detect": "explode+crccheck", "apply_cropping": "0"}
_MOST_THREADS = 16
_SUFFIX_SEI, _HASH = 40, bytes([132])  # types of the unit and of its message
_MOST_WAITING = 64  # pictures: 16 that are reordered, and one a thread


def decode_pictures(units: Iterable[AccessUnit]) -> Iterator[tuple[AccessUnit, Picture]]:
    """Each shown picture of `units`, in display order, with the access unit it was coded in.

    A picture's memory is valid as long as its `owner`. Raises DecoderUnavailable at once if PyAV
    is missing; then, while decoding, UnsupportedStream for chroma formats and depths that are not
    decoded, and BitstreamError for what FFmpeg refuses or leaves out.
    """
    return _decode(_load_av(), units)


def _load_av() -> ModuleType:
    try:
        av = importlib.import_module("av")
        av.Codec("hevc", "r")
    except ImportError as error:
        raise DecoderUnavailable(
            f"the software decoder needs PyAV, which cannot be imported ({error}); "
            "run: pip install 'treadle[video]'"
        ) from None
    except ValueError as error:  # UnknownCodecError
        raise DecoderUnavailable(f"PyAV is here without a decoder of HEVC: {error}") from None
    return av


def _decode(av: ModuleType, units: Iterable[AccessUnit]) -> Iterator[tuple[AccessUnit, Picture]]:
    decoder = _Decoder(av)
    try:
        yield from _all_of(decoder, units)
    finally:
        decoder.close()


def _all_of(decoder: _Decoder, units: Iterable[AccessUnit]) -> Iterator[tuple[AccessUnit, Picture]]:
    """Where all pictures have hashes but the last one, that one is cut off."""
    all_hashed = False
    bare: AccessUnit | None = None  # the first one without a hash, while nothing follows it
    for number, unit in enumerate(units):
        if bare is not None:
            yield from decoder.send(bare)
            bare, all_hashed = None, False
        is_hashed = _has_hash(unit)
        if all_hashed and not is_hashed:
            bare = unit
            continue
        all_hashed = is_hashed and (all_hashed or number == 0)
        yield from decoder.send(unit)
    yield from decoder.finish()
    if bare is not None:
        raise BitstreamError(
            "the stream ends within a picture: those before it carry hashes, and it has none",
            offset=bare.offset,
            nal_type=bare.nal_type,
        )


def _has_hash(unit: AccessUnit) -> bool:
    """Whether there is a decoded picture hash, which comes behind a picture's slices (D.2.19)."""
    return any(one.data[0] >> 1 == _SUFFIX_SEI and one.data[2:3] == _HASH for one in unit.units)


class _Decoder:
    """FFmpeg's decoder, and the access units that it has not given a picture for."""

    _open: ClassVar[weakref.WeakSet[_Decoder]] = weakref.WeakSet()

    def __init__(self, av: ModuleType) -> None:
        threads = min(os.cpu_count() or 1, _MOST_THREADS)
        self._open.add(self)
        self._av = av
        self._context = _context(av, threads)
        self._waiting: dict[int, AccessUnit] = {}
        self._required: set[int] = set()  # those that no later picture asks to drop
        self._recent: deque[int] = deque(maxlen=threads + 1)  # where an error may come from
        self._history = History()
        self._checked: SequenceInfo | None = None

    def send(self, unit: AccessUnit) -> Iterator[tuple[AccessUnit, Picture]]:
        if unit.sequence is not self._checked:
            _check_supported(unit)
            self._checked = unit.sequence
        self._recent.append(unit.offset)
        self._history.add(unit, self._waiting)
        if unit.drops_earlier:
            self._required.clear()
        if unit.shown:
            self._waiting[unit.index] = unit
            self._required.add(unit.index)
        if len(self._waiting) > _MOST_WAITING:
            self._drop_oldest()
        yield from self._take(_packet(self._av, unit.annexb(), unit.index))

    def finish(self) -> Iterator[tuple[AccessUnit, Picture]]:
        if self._checked is None:
            return
        yield from self._take(None)
        while self._waiting:
            self._drop_oldest()

    def close(self) -> None:
        """Waits for FFmpeg's threads to end what they do.

        PyAV frees the decoder with Python's lock, for which threads wait that report something
        where PyAV hands reports on (`av.logging.set_level`): neither would ever go on.
        """
        with contextlib.suppress(self._av.error.FFmpegError):
            self._context.flush_buffers()  # without that lock
        self._open.discard(self)

    @classmethod
    def close_all(cls) -> None:
        """Closes what a program leaves open at its end.

        Later, while Python is torn down, a thread of FFmpeg's that reports something is ended by
        Python in the middle of its picture, and who closes its decoder waits for that forever.
        """
        for decoder in [*cls._open]:
            decoder.close()

    def _take(self, packet: object) -> Iterator[tuple[AccessUnit, Picture]]:
        try:
            frames = self._context.decode(packet)
        except self._av.error.FFmpegError as error:
            found, refused = self._anew()
            yield from found
            if refused is None:
                where = f"{self._recent[-1]}, or one of the {len(self._recent) - 1} before it"
            else:
                where = str(refused.offset)
            raise BitstreamError(
                f"the software decoder refuses a picture ({error.strerror}): the one that begins "
                f"at byte {where}",
                offset=self._recent[0] if refused is None else refused.offset,
            ) from error
        for frame in frames:
            unit = self._waiting.pop(frame.pts, None)
            self._required.discard(frame.pts)
            if unit is not None:  # what is not to be shown, some damaged headers bring out
                _check_frame(frame, unit)
                yield unit, _picture(frame, unit.sequence)

    def _anew(self) -> tuple[list[tuple[AccessUnit, Picture]], AccessUnit | None]:
        """The sound pictures that were in flight at an error, and the unit that is refused."""
        context = _context(self._av, 1)

        def decode(data: bytes | None, index: int) -> list[VideoFrame]:
            return context.decode(None if data is None else _packet(self._av, data, index))

        found, refused = self._history.sound(decode, self._av.error.FFmpegError)
        pictures = []
        for unit, frame in found:
            if self._waiting.pop(unit.index, None) is not None:
                _check_frame(frame, unit)
                pictures.append((unit, _picture(frame, unit.sequence)))
        return pictures, refused

    def _drop_oldest(self) -> None:
        index = next(iter(self._waiting))
        unit = self._waiting.pop(index)
        if index in self._required:
            raise BitstreamError(
                f"the software decoder gives no picture for access unit {index}",
                offset=unit.offset,
                nal_type=unit.nal_type,
            )


atexit.register(_Decoder.close_all)


def _context(av: ModuleType, threads: int) -> Any:
    context = av.CodecContext.create("hevc", "r")
    context.thread_type, context.thread_count = "AUTO", threads
    context.options = _OPTIONS
    return context


def _packet(av: ModuleType, data: bytes, index: int) -> Packet:
    # Memory of FFmpeg's own: a thread of its that frees a packet of ours waits for Python's lock,
    # which is held where the decoder waits for that thread to end.
    packet = av.Packet(len(data))
    packet.update(data)
    packet.pts = index
    return packet


def _check_supported(unit: AccessUnit) -> None:
    said = unit.sequence
    if said.chroma_format > 1:
        name = {2: "4:2:2", 3: "4:4:4"}[said.chroma_format]
        problem = f"its chroma format is {name}, and 4:2:0 and monochrome are decoded"
    elif said.bit_depth_luma != said.bit_depth_chroma and said.chroma_format:
        problem = f"luma has {said.bit_depth_luma} bits and chroma {said.bit_depth_chroma}"
    elif said.bit_depth_luma not in _DEPTHS:
        depths = ", ".join(map(str, _DEPTHS))
        problem = f"its samples have {said.bit_depth_luma} bits, and {depths} are decoded"
    elif said.coded_width * said.coded_height > _MOST_SAMPLES:
        problem = f"{said.coded_width} x {said.coded_height} samples are more than any level allows"
    else:
        return
    raise UnsupportedStream(
        f"the stream ({said.profile}) cannot be decoded: {problem} (at byte {unit.offset})"
    )


def _check_frame(frame: VideoFrame, unit: AccessUnit) -> None:
    """The headers, as they are read here, and FFmpeg have to agree about where samples lie."""
    said = unit.sequence
    found = frame.width, frame.height, frame.format.components[0].bits
    if found != (said.coded_width, said.coded_height, said.bit_depth_luma):
        width, height, bits = found
        raise BitstreamError(
            f"the software decoder gives {width} x {height} samples of {bits} bits, where the "
            f"stream says {said.coded_width} x {said.coded_height} of {said.bit_depth_luma}",
            offset=unit.offset,
            nal_type=unit.nal_type,
        )


def _picture(frame: VideoFrame, said: SequenceInfo) -> Picture:
    """NV12 or P016 without the crop: FFmpeg would shift the left edge for aligned rows."""
    depth = said.bit_depth_luma
    kind = np.dtype(np.uint8 if depth == 8 else "<u2")
    crop, shift = said.crop, 8 * kind.itemsize - depth
    coded = [_samples(plane, kind) for plane in frame.planes]
    luma = coded[0][crop.top : crop.top + said.height, crop.left : crop.left + said.width]
    luma = _paired(luma << shift if shift else luma)
    rows, columns = -(-said.height // 2), -(-said.width // 2)
    chroma = np.empty((rows, columns, 2), kind)
    if said.chroma_format:
        top, left = crop.top // 2, crop.left // 2
        for channel, samples in enumerate(coded[1:]):
            shown = samples[top : top + rows, left : left + columns]
            np.left_shift(shown, shift, out=chroma[:, :, channel])
    else:
        chroma.fill(1 << (8 * kind.itemsize - 1))
    return Picture(
        _plane(luma), _plane(chroma), bit_depth=depth, device="CPU", owner=(luma, chroma),
        matrix=said.matrix_coefficients, full_range=said.full_range,
    )  # fmt: skip


def _paired(samples: np.ndarray) -> np.ndarray:
    """Samples whose rows are whole aligned pairs, as they are converted; copied where needed."""
    pair = 2 * samples.itemsize
    if samples.ctypes.data % pair == 0 and samples.strides[0] % pair == 0:
        return samples
    rows, columns = samples.shape
    wide = np.zeros((rows, columns + columns % 2), samples.dtype)
    wide[:, :columns] = samples
    return wide[:, :columns]


def _samples(plane: Any, kind: np.dtype) -> np.ndarray:
    """FFmpeg's plane as rows of samples; keeps the frame's memory."""
    rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)
    return rows.view(kind)[: plane.height, : plane.width]


def _plane(samples: np.ndarray) -> NV12Plane:
    return NV12Plane(
        pointer=samples.ctypes.data,
        pitch=samples.strides[0],
        width=samples.shape[1],
        height=samples.shape[0],
        channels=2 if samples.ndim == 3 else 1,
        bytes_per_value=samples.itemsize,
    )
