"""One format's decoder and its surfaces, which live as long as a frame in them does.

    session = Session(library, memory, format, surfaces=12)
    session.decode(picture)                  # NVDEC starts
    mapped = session.map(index, info)        # mapped.pointer, mapped.pitch; waits for NVDEC
    mapped.release()

A mapped surface is NVDEC's copy of a picture in the size of display. There are few of them. One is
kept free, so that a picture whose decode surface is about to be written again can be copied out.
A surface that kernels still read goes back later: when its event has come, which nobody waits for
until the surface is needed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .cuvid_abi import (
    CUVIDDECODECREATEINFO,
    CUVIDEOFORMAT,
    CUVIDPARSERDISPINFO,
    CUVIDPICPARAMS,
    CUVIDPROCPARAMS,
    cudaVideoChromaFormat_420,
    cudaVideoCreate_PreferCUVID,
    cudaVideoDeinterlaceMode_Weave,
    cudaVideoSurfaceFormat_NV12,
    cudaVideoSurfaceFormat_P016,
    cuvidDecodeStatus_Error,
    cuvidDecodeStatus_Error_Concealed,
)
from .errors import BitstreamError, UnsupportedStream
from .frames import NV12Plane
from .surfaces import SurfaceMemory

if TYPE_CHECKING:
    from ..runtime.cuda.driver import Event
    from .cuvid import CuvidLibrary

__all__ = ["Session", "Shown", "Surface"]

OUTPUT_SURFACES = 4
_DAMAGED = (cuvidDecodeStatus_Error, cuvidDecodeStatus_Error_Concealed)
_CHROMA_NAMES = {0: "monochrome", 1: "4:2:0", 2: "4:2:2", 3: "4:4:4"}


class Session:
    """A decoder for one size, chroma format and bit depth.

    Raises UnsupportedStream for what the GPU does not decode.
    """

    def __init__(
        self, cuvid: CuvidLibrary, memory: SurfaceMemory, form: CUVIDEOFORMAT, surfaces: int
    ) -> None:
        _check(cuvid, form)
        self.cuvid, self.memory, self.surfaces = cuvid, memory, surfaces
        area = form.display_area
        self.width, self.height = area.right - area.left, area.bottom - area.top
        self._geometry = _geometry(form)
        self.bit_depth = 8 + max(form.bit_depth_luma_minus8, form.bit_depth_chroma_minus8)
        self.describe(form)
        self._mapped, self._is_retired = 0, False
        # those that are given back, and when they have been read
        self._leaving: deque[tuple[int, list[Event | None]]] = deque()
        self._context_lock = self._new_lock()
        info = CUVIDDECODECREATEINFO(
            ulWidth=form.coded_width,
            ulHeight=form.coded_height,
            ulMaxWidth=form.coded_width,
            ulMaxHeight=form.coded_height,
            ulNumDecodeSurfaces=surfaces,
            CodecType=form.codec,
            ChromaFormat=form.chroma_format,
            ulCreationFlags=cudaVideoCreate_PreferCUVID,
            bitDepthMinus8=self.bit_depth - 8,
            OutputFormat=_output_format(self.bit_depth),
            DeinterlaceMode=cudaVideoDeinterlaceMode_Weave,
            ulTargetWidth=_even(self.width),
            ulTargetHeight=_even(self.height),
            ulNumOutputSurfaces=OUTPUT_SURFACES,
            vidLock=self._context_lock or None,
        )
        for side in ("left", "top", "right", "bottom"):
            setattr(info.display_area, side, getattr(area, side))
        try:
            self._decoder = cuvid.create_decoder(info)
        except BaseException:
            self._drop_lock()
            raise

    def serves(self, form: CUVIDEOFORMAT) -> bool:
        """Whether pictures of another sequence fit in."""
        return _geometry(form) == self._geometry and form.min_num_decode_surfaces <= self.surfaces

    def describe(self, form: CUVIDEOFORMAT) -> None:
        """Takes the colours of the sequence that begins."""
        signal = form.video_signal_description
        self.matrix = signal.matrix_coefficients
        self.full_range = bool(signal.video_full_range_flag)

    def decode(self, picture: CUVIDPICPARAMS) -> None:
        """Starts to decode a picture."""
        self.cuvid.decode_picture(self._decoder, picture)

    def map(self, info: CUVIDPARSERDISPINFO) -> Surface:
        """A decoded picture's surface, which waits for NVDEC to be done with it.

        Raises BitstreamError for a picture whose data are damaged: NVDEC makes one all the same.
        """
        self._reclaim()
        params = CUVIDPROCPARAMS(
            progressive_frame=info.progressive_frame,
            top_field_first=info.top_field_first,
            unpaired_field=int(info.repeat_first_field < 0),
            output_stream=self.memory.stream or None,
        )
        pointer, pitch = self.cuvid.map_video_frame(self._decoder, info.picture_index, params)
        self._mapped += 1
        surface = Surface(self, pointer, pitch)
        if self._status(info.picture_index) in _DAMAGED:
            surface.release()
            raise BitstreamError(
                f"NVDEC could not decode all of the picture of timestamp {info.timestamp}: its "
                "data, or those of a picture that it refers to, are damaged or missing"
            )
        return surface

    def _status(self, index: int) -> int:
        """What became of a picture, as far as the library says."""
        ask = getattr(self.cuvid, "decode_status", None)
        return ask(self._decoder, index) if ask else 0

    @property
    def is_full(self) -> bool:
        """Whether no surface is free but the one that copies are made from."""
        self._reclaim()
        return self._mapped + 1 >= OUTPUT_SURFACES

    def _reclaim(self, room: int = 2) -> None:
        """Gives surfaces back until so many are free, as far as others are done with them."""
        while self._leaving and self._mapped + room > OUTPUT_SURFACES:
            pointer, reads = self._leaving.popleft()
            try:
                for moment in reads:
                    self.memory.reach(moment)
            finally:
                self._unmap(pointer)

    def unmap_after(self, pointer: int, reads: list[Event | None]) -> None:
        """Gives a surface back, when the moments of `reads` have come or later."""
        self._leaving.append((pointer, reads))
        # Nobody comes back to a session that is retired; host memory is never read later.
        if self._is_retired or None in reads or not reads:
            self._reclaim(OUTPUT_SURFACES + 1)

    def _unmap(self, pointer: int) -> None:
        with self.memory.current():
            self._mapped -= 1
            try:
                self.cuvid.unmap_video_frame(self._decoder, pointer)
            finally:
                self._destroy_if_idle()

    def retire(self) -> None:
        """Nothing more is decoded or mapped: the decoder goes with its last mapped frame."""
        self._is_retired = True
        self._reclaim(OUTPUT_SURFACES + 1)
        self._destroy_if_idle()

    def _destroy_if_idle(self) -> None:
        if self._is_retired and not self._mapped and self._decoder:
            decoder, self._decoder = self._decoder, 0
            try:
                self.cuvid.destroy_decoder(decoder)
            finally:
                self._drop_lock()

    def _new_lock(self) -> int:
        """In-memory decoders need none, and have no function for one."""
        make = getattr(self.cuvid, "create_context_lock", None)
        return make(self.memory.context) if make and self.memory.context else 0

    def _drop_lock(self) -> None:
        if self._context_lock:
            self.cuvid.destroy_context_lock(self._context_lock)
            self._context_lock = 0


class Surface:
    """NV12 or P016 in device memory: a mapped surface, or a copy of one."""

    waits_for_readers = True  # tensors over it need not, when they go

    def __init__(self, session: Session, pointer: int, pitch: int) -> None:
        self.session, self.pointer, self.pitch = session, pointer, pitch
        self._copy: object = None
        self._reads: list[Event | None] = []  # when each of those who read it is done
        wide = 1 if session.bit_depth == 8 else 2
        rows, columns = (session.height + 1) // 2, (session.width + 1) // 2
        chroma = pointer + pitch * _even(session.height)
        self.luma = NV12Plane(pointer, pitch, session.width, session.height, 1, wide)
        self.chroma = NV12Plane(chroma, pitch, columns, rows, 2, wide)

    @property
    def nbytes(self) -> int:
        """Both planes, with what is between them."""
        return self.chroma.pointer + self.chroma.size_bytes - self.pointer

    def copied(self) -> Surface:
        """The same picture in memory of its own; this one is released."""
        try:
            memory = self.session.memory.copied(self.pointer, self.nbytes)
            self.is_read()
        finally:
            self.release()
        copy = Surface(self.session, memory.argument, self.pitch)
        copy._copy = memory
        return copy

    def is_read(self) -> None:
        """Says that what has been started on the device reads it."""
        if self._copy is None:  # memory of tensors is not used again before that by itself
            self._reads.append(self.session.memory.moment())

    def release(self) -> None:
        """Lets it go as soon as what reads it has finished."""
        if self._copy is None:
            reads, self._reads = self._reads, []
            self.session.unmap_after(self.pointer, reads)
        self._copy = None


class Shown:
    """A picture whose turn has come, in its decode surface until it is mapped."""

    def __init__(self, session: Session, info: CUVIDPARSERDISPINFO) -> None:
        self.session = session
        self.info = CUVIDPARSERDISPINFO.from_buffer_copy(info)  # the parser writes there again
        self.matrix, self.full_range = session.matrix, session.full_range
        self._kept: Surface | BitstreamError | None = None

    @property
    def picture_index(self) -> int:
        """Its decode surface."""
        return -1 if self._kept is not None else self.info.picture_index

    def keep(self) -> None:
        """Copies it out of its decode surface, which is about to be written again."""
        try:
            self._kept = self.session.map(self.info).copied()
        except BitstreamError as damaged:  # who takes it learns of it
            self._kept = damaged

    def surface(self) -> Surface:
        """Its surface, which is the caller's to release. Raises BitstreamError if damaged."""
        if isinstance(self._kept, BitstreamError):
            raise self._kept
        if self._kept is not None:
            return self._kept
        if self.session.is_full:
            return self.session.map(self.info).copied()
        return self.session.map(self.info)


def _geometry(form: CUVIDEOFORMAT) -> tuple[object, ...]:
    """What a decoder is made for."""
    area = form.display_area
    return (
        form.codec,
        form.chroma_format,
        form.bit_depth_luma_minus8,
        form.bit_depth_chroma_minus8,
        form.coded_width,
        form.coded_height,
        (area.left, area.top, area.right, area.bottom),
    )


def _even(size: int) -> int:
    return size + size % 2


def _output_format(bit_depth: int) -> int:
    return cudaVideoSurfaceFormat_NV12 if bit_depth == 8 else cudaVideoSurfaceFormat_P016


def _check(cuvid: CuvidLibrary, form: CUVIDEOFORMAT) -> None:
    """Raises UnsupportedStream with what the stream is and what the GPU decodes."""
    depth = max(form.bit_depth_luma_minus8, form.bit_depth_chroma_minus8)
    chroma = _CHROMA_NAMES.get(form.chroma_format, f"chroma format {form.chroma_format}")
    what = f"{form.coded_width}x{form.coded_height} {chroma} of {depth + 8} bits"
    area = form.display_area
    if not (0 <= area.left < area.right <= form.coded_width) or not (
        0 <= area.top < area.bottom <= form.coded_height
    ):
        shown = f"({area.left}, {area.top}) to ({area.right}, {area.bottom})"
        raise UnsupportedStream(f"{what}: the area to show, {shown}, is not in the picture")
    if form.chroma_format != cudaVideoChromaFormat_420:
        raise UnsupportedStream(f"{what}: frames are made of 4:2:0 alone")
    caps = cuvid.get_decoder_caps(form.codec, form.chroma_format, depth)
    if not caps.is_supported:
        raise UnsupportedStream(f"{what}: this GPU's NVDEC does not decode that format")
    # Fields that an in-memory decoder leaves at 0 set no limit.
    fits = caps.min_width <= form.coded_width <= (
        caps.max_width or form.coded_width
    ) and caps.min_height <= form.coded_height <= (caps.max_height or form.coded_height)
    blocks = -(-form.coded_width // 16) * -(-form.coded_height // 16)
    if not fits or blocks > (caps.max_mb_count or blocks):
        raise UnsupportedStream(
            f"{what}: this GPU's NVDEC takes {caps.min_width}x{caps.min_height} to "
            f"{caps.max_width}x{caps.max_height}, and {caps.max_mb_count} blocks of 16x16"
        )
    if caps.output_formats and _output_format(depth + 8) not in caps.output_formats:
        raise UnsupportedStream(f"{what}: this GPU's NVDEC has no surface format for that")
