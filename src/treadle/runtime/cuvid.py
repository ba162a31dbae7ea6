"""NVDEC through libnvcuvid, by the names of the specification: all of it is in treadle.video.

from treadle.runtime.cuvid import decode_annexb_iter
"""

from treadle.video.cuvid import (
    CuvidError,
    CuvidLibrary,
    CuvidUnavailable,
    DecoderCaps,
    check_cuvid,
    is_available,
    load_cuvid,
    reset_cuvid_cache_for_tests,
)
from treadle.video.cuvid_abi import (
    CUVID_PKT_ENDOFSTREAM,
    CUVIDDECODECAPS,
    CUVIDDECODECREATEINFO,
    CUVIDDISPLAYPARAMS,
    CUVIDEOFORMAT,
    CUVIDPARSERDISPINFO,
    CUVIDPARSERPARAMS,
    CUVIDPICPARAMS,
    CUVIDPROCPARAMS,
    CUVIDSOURCEDATAPACKET,
    DECODE_CALLBACK,
    DISPLAY_CALLBACK,
    SEQUENCE_CALLBACK,
    cudaVideoChromaFormat_420,
    cudaVideoCodec_HEVC,
)
from treadle.video.decode import Frame, decode_annexb_iter, decode_annexb_to_tensors_auto
from treadle.video.decoder import NVVideoDecoder
from treadle.video.frame import DecodedFrame, nv12_frames_to_tensors
from treadle.video.frames import NV12Plane

__all__ = [
    "CUVIDDECODECAPS",
    "CUVIDDECODECREATEINFO",
    "CUVIDDISPLAYPARAMS",
    "CUVIDEOFORMAT",
    "CUVIDPARSERDISPINFO",
    "CUVIDPARSERPARAMS",
    "CUVIDPICPARAMS",
    "CUVIDPROCPARAMS",
    "CUVIDSOURCEDATAPACKET",
    "CUVID_PKT_ENDOFSTREAM",
    "DECODE_CALLBACK",
    "DISPLAY_CALLBACK",
    "SEQUENCE_CALLBACK",
    "CuvidError",
    "CuvidLibrary",
    "CuvidUnavailable",
    "DecodedFrame",
    "DecoderCaps",
    "Frame",
    "NV12Plane",
    "NVVideoDecoder",
    "check_cuvid",
    "cudaVideoChromaFormat_420",
    "cudaVideoCodec_HEVC",
    "decode_annexb_iter",
    "decode_annexb_to_tensors_auto",
    "is_available",
    "load_cuvid",
    "nv12_frames_to_tensors",
    "reset_cuvid_cache_for_tests",
]  # fmt: skip
