"""NVDEC through cuvid: a parser that calls back, a decoder for each format, and frames in order.

    with NVVideoDecoder() as decoder:
        for timestamp, frame in decoder.decode_annexb_stream(open("clip.hevc", "rb")):
            ...                                   # tensors of (height, width, 3), float32, 0..1

The library's parser calls three functions before `feed_packet` returns: a sequence has begun, a
picture is to be decoded, a picture's turn to be shown has come. The last one only queues it: it is
mapped when somebody acquires it. Two things keep that right:

* a decode surface is written again by our own call alone, so a picture that still waits in it is
  copied out just before;
* another format gets a decoder of its own, and the earlier one lives until its last frame is gone.

Python's exceptions do not pass through the library: callbacks keep them, and `feed_packet` raises.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from ..errors import DeviceError
from ..forks import fork_safe
from ..tensor import Tensor
from ..tensor.types import DTypeLike
from .annexb import Bytes, Source, iter_annexb_nalus, with_annexb_start_code
from .colour import ColorSpace, Conversion, Output
from .cuvid import CuvidError, CuvidLibrary, CuvidUnavailable, load_cuvid
from .cuvid_abi import (
    CUVID_PKT_ENDOFSTREAM,
    CUVID_PKT_TIMESTAMP,
    CUVIDEOFORMAT,
    CUVIDPARSERDISPINFO,
    CUVIDPARSERPARAMS,
    CUVIDPICPARAMS,
    CUVIDSOURCEDATAPACKET,
    DECODE_CALLBACK,
    DISPLAY_CALLBACK,
    SEQUENCE_CALLBACK,
    cudaVideoCodec_HEVC,
)
from .frame import DecodedFrame, check_device, nv12_frames_to_tensors
from .session import Session, Shown
from .surfaces import SurfaceMemory
from .timestamps import Timestamps

__all__ = ["NVVideoDecoder"]

_DISPLAY_DELAY = 4  # pictures that the parser holds back, so that NVDEC works ahead of `map`


class NVVideoDecoder:
    """Decodes one stream; any thread may call, one at a time does.

    `max_decode_surfaces` is the least number of pictures that NVDEC holds; streams that need more
    get more. `cuvid` is any object with the methods of CuvidLibrary; `device` names the memory in
    which its surfaces are. Raises CuvidUnavailable where libnvcuvid or the GPU is missing.
    """

    codec: int
    max_decode_surfaces: int

    def __init__(
        self,
        *,
        codec: int = cudaVideoCodec_HEVC,
        max_decode_surfaces: int = 8,
        cuvid: CuvidLibrary | None = None,
        device: str = "CUDA",
    ) -> None:
        self._parser = 0  # first, for the finaliser
        self._session: Session | None = None
        self._sessions: list[Session] = []
        self._queue: deque[Shown] = deque()
        if max_decode_surfaces < 1:
            raise ValueError(f"max_decode_surfaces must be 1 or more, not {max_decode_surfaces}")
        self.codec, self.max_decode_surfaces = codec, max_decode_surfaces
        self._lock = fork_safe(threading.RLock(), 0)
        self._error: BaseException | None = None
        self._cuvid = load_cuvid() if cuvid is None else cuvid
        try:
            self._memory = SurfaceMemory(device, is_needed=cuvid is None)
        except DeviceError as error:
            raise CuvidUnavailable(f"NVDEC needs the device {device}: {error}") from error
        if cuvid is None and self._memory.is_software:
            raise CuvidUnavailable(f"there is no NVDEC on {device}: it is no GPU of NVIDIA's")
        self._callbacks = (
            SEQUENCE_CALLBACK(_guarded(weakref.ref(self), NVVideoDecoder._begin_sequence)),
            DECODE_CALLBACK(_guarded(weakref.ref(self), NVVideoDecoder._decode)),
            DISPLAY_CALLBACK(_guarded(weakref.ref(self), NVVideoDecoder._show)),
        )
        sequence, decode, display = self._callbacks
        params = CUVIDPARSERPARAMS(
            CodecType=codec,
            ulMaxNumDecodeSurfaces=max_decode_surfaces,
            ulMaxDisplayDelay=_DISPLAY_DELAY,
            pfnSequenceCallback=sequence,
            pfnDecodePicture=decode,
            pfnDisplayPicture=display,
        )
        with self._memory.current():
            self._parser = self._cuvid.create_video_parser(params)

    # -- what goes in -----------------------------------------------------------------------------

    def feed_packet(self, payload: Bytes, *, timestamp: int = 0, flags: int = 0) -> None:
        """Hands a piece of the stream, with start codes, to the parser.

        `timestamp` is the one of the picture that begins in it. Raises CuvidError, what the
        stream's format is refused with, and ValueError for a decoder that is closed.
        """
        data = bytes(payload)
        held = ctypes.create_string_buffer(data, len(data)) if data else None
        packet = CUVIDSOURCEDATAPACKET(
            flags=flags | (CUVID_PKT_TIMESTAMP if data else 0),
            payload_size=len(data),
            payload=None if held is None else ctypes.addressof(held),
            timestamp=timestamp,
        )
        with self._working():
            self._error = None
            try:
                self._cuvid.parse_video_data(self._parser, packet)
            except CuvidError as error:
                raise self._taken_error() or error from error
            if (kept := self._taken_error()) is not None:
                raise kept

    def _taken_error(self) -> BaseException | None:
        """What a callback has kept; it is not kept here, too, since it refers to its callers."""
        kept, self._error = self._error, None
        return kept

    def feed_end_of_stream(self) -> None:
        """Nothing follows: every picture that is still held is queued."""
        self.feed_packet(b"", flags=CUVID_PKT_ENDOFSTREAM)

    def feed_annexb_stream(
        self,
        source: Source,
        *,
        chunk_size: int = 65536,
        timestamps: Iterable[int] | None = None,
        long_start_code: bool = False,
        end_of_stream: bool = True,
    ) -> int:
        """Feeds all of `source`, which may be what `iter_annexb_nalus` takes.

        Pictures take the `timestamps` in the order in which they are decoded; where those run out,
        the n-th gets n, from 0. Returns how many were taken.
        """
        stamps = Timestamps(timestamps)
        for _ in self._fed(source, chunk_size, stamps, long_start_code, end_of_stream):
            pass
        return stamps.used

    def _fed(
        self,
        source: Source,
        chunk_size: int,
        stamps: Timestamps,
        long_start_code: bool,
        end_of_stream: bool,
    ) -> Iterator[None]:
        """Feeds one unit at a step."""
        for nalu in iter_annexb_nalus(source, chunk_size=chunk_size):
            packet = with_annexb_start_code(nalu, long_start_code=long_start_code)
            self.feed_packet(packet, timestamp=stamps.stamp(nalu))
            yield
        if end_of_stream:
            self.feed_end_of_stream()
            yield

    # -- what comes out ---------------------------------------------------------------------------

    def pending_frames(self) -> int:
        """How many frames can be acquired."""
        return len(self._queue)

    def acquire_frame(self) -> DecodedFrame | None:
        """The next frame in the order of display, mapped until it is released; None for now."""
        with self._working():
            if not self._queue:
                return None
            shown = self._queue.popleft()
            try:
                return DecodedFrame.of(shown, self._lock)
            finally:
                self._sweep()

    def acquire_rgb_tensor(
        self,
        *,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        normalize: bool = True,
        color_space: ColorSpace = "bt709",
        color_range: str = "auto",
    ) -> tuple[int, Tensor] | None:
        """The next frame as (timestamp, tensor in `dtype`), or None; the dtype None is float32.

        The options are those of `DecodedFrame.to_rgb_tensor`; one that is not allowed raises
        before a frame is taken, ValueError for another `device` than the decoder's.
        """
        check_device(device, self._memory.device)
        Output.of(dtype, normalize)
        Conversion.of(color_space, color_range)
        frame = self.acquire_frame()
        if frame is None:
            return None
        with frame:
            return frame.timestamp, frame.to_rgb_tensor(
                dtype=dtype, normalize=normalize, color_space=color_space, color_range=color_range
            )

    def drain_frames(self) -> Iterator[DecodedFrame]:
        """The frames that are queued. Each is its taker's to release."""
        while (frame := self.acquire_frame()) is not None:
            yield frame

    def frames_to_tensors(self, **options: Any) -> list[Any]:
        """The frames that are queued, as `nv12_frames_to_tensors` makes them with `options`."""
        return nv12_frames_to_tensors(self.drain_frames(), **options)

    def decode_annexb_stream(
        self,
        source: Source,
        *,
        chunk_size: int = 65536,
        timestamps: Iterable[int] | None = None,
        long_start_code: bool = False,
        end_of_stream: bool = True,
        include_timestamps: bool = True,
        device: str | None = None,
        dtype: DTypeLike | None = None,
        normalize: bool = True,
        color_space: ColorSpace = "bt709",
        color_range: str = "auto",
    ) -> Iterator[Any]:
        """Yields (timestamp, tensor), or tensors alone, as soon as each frame's turn has come.

        Raises ValueError for another `device` than the decoder's.
        """
        check_device(device, self._memory.device)
        output, conversion = Output.of(dtype, normalize), Conversion.of(color_space, color_range)
        steps = self._fed(
            source, chunk_size, Timestamps(timestamps), long_start_code, end_of_stream
        )

        def results() -> Iterator[Any]:
            for _ in steps:
                for frame in self.drain_frames():
                    with frame:
                        tensor = frame.converted(output, conversion)
                    yield (frame.timestamp, tensor) if include_timestamps else tensor

        return results()

    def decode_annexb_to_tensors(self, source: Source, **options: Any) -> list[Any]:
        """All that `decode_annexb_stream` yields."""
        return list(self.decode_annexb_stream(source, **options))

    # -- the parser's callbacks -------------------------------------------------------------------

    def _begin_sequence(self, form: CUVIDEOFORMAT) -> int:
        """The number of surfaces by which the parser names pictures."""
        current = self._session
        if current is None or not current.serves(form):
            extra = form.min_num_decode_surfaces + _DISPLAY_DELAY
            count = min(max(self.max_decode_surfaces, extra), 32)
            current = Session(self._cuvid, self._memory, form, count)
            self._session = current
            self._sessions.append(current)
            self._sweep()
        current.describe(form)
        return current.surfaces

    def _decode(self, picture: CUVIDPICPARAMS) -> int:
        session = self._session
        if session is None:
            raise CuvidError("a picture came before its sequence was described")
        for shown in self._queue:
            if shown.session is session and shown.picture_index == picture.CurrPicIdx:
                shown.keep()
        session.decode(picture)
        return 1

    def _show(self, info: CUVIDPARSERDISPINFO | None) -> int:
        if info is None:  # the end of the stream
            return 1
        if self._session is None:
            raise CuvidError("a picture was shown before its sequence was described")
        self._queue.append(Shown(self._session, info))
        return 1

    # -- the end ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        with self._lock:
            if not self._parser:
                raise ValueError("the decoder is closed")
            with self._memory.current():
                yield

    def _sweep(self) -> None:
        """Lets go of earlier formats' decoders that no frame needs."""
        waiting = {id(shown.session) for shown in self._queue}
        for session in list(self._sessions):
            if session is not self._session and id(session) not in waiting:
                session.retire()
                self._sessions.remove(session)

    def close(self) -> None:
        """Releases queued frames, decoders and parser. Frames that are acquired stay valid."""
        with self._lock:
            parser, self._parser = self._parser, 0
            if not parser:
                return
            self._queue.clear()
            with self._memory.current():
                self._cuvid.destroy_video_parser(parser)
                self._session = None
                self._sweep()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, exiting: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._parser and not exiting():
            self.close()


def _guarded(
    owner: weakref.ref[NVVideoDecoder], answer: Callable[[NVVideoDecoder, Any], int]
) -> Callable[[object, Any], int]:
    """A callback that keeps what is raised, and then says that it has failed."""

    def called(_: object, found: Any) -> int:
        decoder = owner()
        if decoder is None or decoder._error is not None:
            return 0
        try:
            return answer(decoder, found.contents if found else None)
        except BaseException as error:  # the library is between us and the caller
            decoder._error = error
            return 0

    return called
