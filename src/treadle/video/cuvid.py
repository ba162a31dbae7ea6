"""NVIDIA's libnvcuvid, function by function: what the decoder asks of a library.

    library = load_cuvid()                        # CuvidUnavailable where there is none
    library.get_decoder_caps(8, 1, 0).is_supported
    pointer, pitch = library.map_video_frame(decoder, index, CUVIDPROCPARAMS(...))

`NVVideoDecoder(cuvid=...)` takes any object with these methods. Handles and addresses are
integers. Nothing here makes a CUDA context current: the library works in the calling thread's.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

from .cuvid_abi import (
    CUVIDDECODECAPS,
    CUVIDDECODECREATEINFO,
    CUVIDGETDECODESTATUS,
    CUVIDPARSERPARAMS,
    CUVIDPICPARAMS,
    CUVIDPROCPARAMS,
    CUVIDSOURCEDATAPACKET,
)
from .errors import DecoderUnavailable, VideoError

__all__ = [
    "CuvidError", "CuvidLibrary", "CuvidUnavailable", "DecoderCaps", "check_cuvid", "is_available",
    "load_cuvid", "reset_cuvid_cache_for_tests",
]  # fmt: skip

_LIBRARY_NAMES = ("nvcuvid", "libnvcuvid", "libnvcuvid.so.1", "nvcuvid.dll")
_DRIVER_NAMES = ("libcuda.so.1", "nvcuda.dll")

# For machines without the driver, which has these texts.
_STATUS_TEXTS = {
    1: "invalid argument", 2: "out of memory", 3: "initialization error", 100: "no CUDA device",
    101: "invalid device", 201: "invalid device context", 400: "invalid resource handle",
    700: "an illegal memory access was encountered", 801: "operation not supported",
    999: "unknown error",
}  # fmt: skip


class CuvidUnavailable(DecoderUnavailable):
    """There is no libnvcuvid, or no GPU that it could use (also a RuntimeError)."""


class CuvidError(VideoError, RuntimeError):
    """A call of libnvcuvid failed."""


@dataclass(frozen=True)
class DecoderCaps:
    """What a GPU decodes of a codec, chroma format and bit depth.

    `output_formats` are the numbers of the surface formats. What the library does not tell is 0
    or False: max_slices, max_decode_surfaces, max_output_surfaces, is_partial_supported.
    """

    codec_type: int
    chroma_format: int
    bit_depth_minus8: int
    min_width: int = 0
    min_height: int = 0
    max_width: int = 0
    max_height: int = 0
    max_mb_count: int = 0
    max_slices: int = 0
    max_decode_surfaces: int = 0
    max_output_surfaces: int = 0
    is_supported: bool = False
    is_partial_supported: bool = False
    output_formats: tuple[int, ...] = ()


class CuvidLibrary:
    """The functions of libnvcuvid, which raise CuvidError where they fail.

    `raw` is the loaded library.
    """

    def __init__(self, raw: ctypes.CDLL) -> None:
        self.raw = raw
        for name, arguments in _PROTOTYPES.items():
            function = getattr(raw, name)
            function.argtypes, function.restype = arguments, ctypes.c_int

    def get_decoder_caps(
        self, codec: int, chroma_format: int, bit_depth_minus8: int
    ) -> DecoderCaps:
        """What the GPU of the current context decodes."""
        caps = CUVIDDECODECAPS(
            eCodecType=codec, eChromaFormat=chroma_format, nBitDepthMinus8=bit_depth_minus8
        )
        self._call("cuvidGetDecoderCaps", ctypes.byref(caps))
        mask = caps.nOutputFormatMask
        return DecoderCaps(
            codec,
            chroma_format,
            bit_depth_minus8,
            min_width=caps.nMinWidth,
            min_height=caps.nMinHeight,
            max_width=caps.nMaxWidth,
            max_height=caps.nMaxHeight,
            max_mb_count=caps.nMaxMBCount,
            is_supported=bool(caps.bIsSupported),
            output_formats=tuple(number for number in range(16) if mask >> number & 1),
        )

    def create_video_parser(self, params: CUVIDPARSERPARAMS) -> int:
        """A parser. Whoever makes it keeps the callbacks in `params` alive."""
        return self._new("cuvidCreateVideoParser", params)

    def destroy_video_parser(self, parser: int) -> None:
        """Lets go of a parser."""
        self._call("cuvidDestroyVideoParser", parser)

    def parse_video_data(self, parser: int, packet: CUVIDSOURCEDATAPACKET) -> None:
        """Hands a piece of the stream to the parser, which calls back before this returns."""
        self._call("cuvidParseVideoData", parser, ctypes.byref(packet))

    def create_decoder(self, info: CUVIDDECODECREATEINFO) -> int:
        """A decoder and its surfaces."""
        return self._new("cuvidCreateDecoder", info)

    def destroy_decoder(self, decoder: int) -> None:
        """Lets go of a decoder and all of its surfaces, mapped ones as well."""
        self._call("cuvidDestroyDecoder", decoder)

    def decode_picture(self, decoder: int, picture: CUVIDPICPARAMS) -> None:
        """Starts to decode what the parser handed to the decode callback."""
        self._call("cuvidDecodePicture", decoder, ctypes.byref(picture))

    def map_video_frame(
        self, decoder: int, picture_index: int, params: CUVIDPROCPARAMS
    ) -> tuple[int, int]:
        """(address, bytes from row to row) of a decoded picture, until it is unmapped."""
        pointer, pitch = ctypes.c_uint64(), ctypes.c_uint()
        self._call(
            "cuvidMapVideoFrame64",
            decoder,
            picture_index,
            ctypes.byref(pointer),
            ctypes.byref(pitch),
            ctypes.byref(params),
        )
        return pointer.value, pitch.value

    def unmap_video_frame(self, decoder: int, pointer: int) -> None:
        """Gives a mapped surface back."""
        self._call("cuvidUnmapVideoFrame64", decoder, pointer)

    def decode_status(self, decoder: int, picture_index: int) -> int:
        """One of cuvidDecodeStatus for a picture that was decoded; 0 where that is not told."""
        status = CUVIDGETDECODESTATUS()
        if self.raw.cuvidGetDecodeStatus(decoder, picture_index, ctypes.byref(status)):
            return 0
        return status.decodeStatus

    def create_context_lock(self, context: int) -> int:
        """A lock by which the library's threads share `context`, a CUcontext."""
        handle = ctypes.c_void_p()
        self._call("cuvidCtxLockCreate", ctypes.byref(handle), context)
        return handle.value or 0

    def destroy_context_lock(self, lock: int) -> None:
        """Lets go of a lock."""
        self._call("cuvidCtxLockDestroy", lock)

    def _new(self, name: str, params: ctypes.Structure) -> int:
        handle = ctypes.c_void_p()
        self._call(name, ctypes.byref(handle), ctypes.byref(params))
        return handle.value or 0

    def _call(self, name: str, *arguments: object) -> None:
        check_cuvid(getattr(self.raw, name)(*arguments), name)


_HANDLE, _HANDLE_OUT, _STRUCT = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
_PROTOTYPES = {
    "cuvidGetDecoderCaps": [_STRUCT],
    "cuvidCreateVideoParser": [_HANDLE_OUT, _STRUCT],
    "cuvidDestroyVideoParser": [_HANDLE],
    "cuvidParseVideoData": [_HANDLE, _STRUCT],
    "cuvidCreateDecoder": [_HANDLE_OUT, _STRUCT],
    "cuvidDestroyDecoder": [_HANDLE],
    "cuvidDecodePicture": [_HANDLE, _STRUCT],
    "cuvidMapVideoFrame64": [
        _HANDLE,
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_uint64),
        ctypes.POINTER(ctypes.c_uint),
        _STRUCT,
    ],
    "cuvidUnmapVideoFrame64": [_HANDLE, ctypes.c_uint64],
    "cuvidGetDecodeStatus": [_HANDLE, ctypes.c_int, _STRUCT],
    "cuvidCtxLockCreate": [_HANDLE_OUT, _HANDLE],
    "cuvidCtxLockDestroy": [_HANDLE],
}


def check_cuvid(status: int, call: str = "a call of libnvcuvid") -> None:
    """Raises CuvidError with the driver's text for a `status` that is not 0."""
    if status:
        raise CuvidError(f"{call} failed: {_status_text(status)} (status {status})")


def _status_text(status: int) -> str:
    text, driver = ctypes.c_char_p(), _driver()
    if driver is not None and driver.cuGetErrorString(status, ctypes.byref(text)) == 0:
        return (text.value or b"").decode(errors="replace")
    return _STATUS_TEXTS.get(status, "an error that this machine has no text for")


@functools.cache
def _driver() -> ctypes.CDLL | None:
    for name in _DRIVER_NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


_loaded: CuvidLibrary | CuvidUnavailable | None = None


def load_cuvid() -> CuvidLibrary:
    """This machine's libnvcuvid, loaded at the first call.

    Raises CuvidUnavailable with the names that were tried; later calls raise the same error.
    """
    global _loaded
    if _loaded is None:
        _loaded = _found()
    if isinstance(_loaded, CuvidUnavailable):
        raise _loaded
    return _loaded


def _found() -> CuvidLibrary | CuvidUnavailable:
    for name in _LIBRARY_NAMES:
        try:
            raw = ctypes.CDLL(name)
        except OSError:
            continue
        try:
            return CuvidLibrary(raw)
        except AttributeError as error:
            return CuvidUnavailable(f"{name} is too old: {error}; update NVIDIA's driver")
    return CuvidUnavailable(
        f"NVIDIA's video decoder library was not found (tried {', '.join(_LIBRARY_NAMES)}): it "
        "comes with NVIDIA's driver, in containers with the capability 'video'; "
        "fallback='software' decodes on the processor"
    )


def is_available() -> bool:
    """Whether libnvcuvid can be loaded. Never raises."""
    try:
        load_cuvid()
    except CuvidUnavailable:
        return False
    return True


def reset_cuvid_cache_for_tests() -> None:
    """Forgets what load_cuvid found."""
    global _loaded
    _loaded = None
