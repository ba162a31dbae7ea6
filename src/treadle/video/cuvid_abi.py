"""The structures of NVIDIA's cuviddec.h and nvcuvid.h (API 13.0), by their names there.

    info = CUVIDDECODECREATEINFO(ulWidth=1920, ulHeight=1088, ...)
    ctypes.sizeof(info)     -> 176 on 64-bit Linux

One surprise: many members are C `unsigned long`, which has 8 bytes on Linux and 4 on Windows, so
they are `c_ulong` here. Members that are not named are reserved and stay zero.
"""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_int64, c_short, c_ubyte, c_uint, c_uint64, c_ulong, c_ushort, c_void_p

__all__ = [
    "CUVIDDECODECAPS", "CUVIDDECODECREATEINFO", "CUVIDDISPLAYPARAMS", "CUVIDEOFORMAT",
    "CUVIDGETDECODESTATUS", "CUVIDPARSERDISPINFO", "CUVIDPARSERPARAMS", "CUVIDPICPARAMS",
    "CUVIDPROCPARAMS",
    "CUVIDSOURCEDATAPACKET", "CUVID_PKT_DISCONTINUITY", "CUVID_PKT_ENDOFPICTURE",
    "CUVID_PKT_ENDOFSTREAM", "CUVID_PKT_NOTIFY_EOS", "CUVID_PKT_TIMESTAMP", "DECODE_CALLBACK",
    "DISPLAY_CALLBACK", "SEQUENCE_CALLBACK", "cudaVideoChromaFormat_420", "cudaVideoCodec_HEVC",
    "cudaVideoCreate_PreferCUVID", "cudaVideoDeinterlaceMode_Weave", "cudaVideoSurfaceFormat_NV12",
    "cudaVideoSurfaceFormat_P016", "cuvidDecodeStatus_Error", "cuvidDecodeStatus_Error_Concealed",
]  # fmt: skip

cudaVideoCodec_HEVC = 8
cudaVideoChromaFormat_420 = 1
cudaVideoSurfaceFormat_NV12 = 0
cudaVideoSurfaceFormat_P016 = 1
cudaVideoCreate_PreferCUVID = 4
cudaVideoDeinterlaceMode_Weave = 0
cuvidDecodeStatus_Error = 8
cuvidDecodeStatus_Error_Concealed = 9

CUVID_PKT_ENDOFSTREAM = 1
CUVID_PKT_TIMESTAMP = 2
CUVID_PKT_DISCONTINUITY = 4
CUVID_PKT_ENDOFPICTURE = 8
CUVID_PKT_NOTIFY_EOS = 16


class CUVIDDECODECAPS(ctypes.Structure):
    """What cuvidGetDecoderCaps is asked (the first three) and answers."""

    _fields_ = [
        ("eCodecType", c_int),
        ("eChromaFormat", c_int),
        ("nBitDepthMinus8", c_uint),
        ("reserved1", c_uint * 3),
        ("bIsSupported", c_ubyte),
        ("nNumNVDECs", c_ubyte),
        ("nOutputFormatMask", c_ushort),
        ("nMaxWidth", c_uint),
        ("nMaxHeight", c_uint),
        ("nMaxMBCount", c_uint),
        ("nMinWidth", c_ushort),
        ("nMinHeight", c_ushort),
        ("bIsHistogramSupported", c_ubyte),
        ("nCounterBitDepth", c_ubyte),
        ("nMaxHistogramBins", c_ushort),
        ("reserved3", c_uint * 10),
    ]


class _IntRect(ctypes.Structure):
    _fields_ = [("left", c_int), ("top", c_int), ("right", c_int), ("bottom", c_int)]


class _ShortRect(ctypes.Structure):
    _fields_ = [("left", c_short), ("top", c_short), ("right", c_short), ("bottom", c_short)]


class _FrameRate(ctypes.Structure):
    _fields_ = [("numerator", c_uint), ("denominator", c_uint)]


class _AspectRatio(ctypes.Structure):
    _fields_ = [("x", c_int), ("y", c_int)]


class _VideoSignalDescription(ctypes.Structure):
    _fields_ = [
        ("video_format", c_ubyte, 3),
        ("video_full_range_flag", c_ubyte, 1),
        ("reserved_zero_bits", c_ubyte, 4),
        ("color_primaries", c_ubyte),
        ("transfer_characteristics", c_ubyte),
        ("matrix_coefficients", c_ubyte),
    ]


class CUVIDEOFORMAT(ctypes.Structure):
    """What the parser knows of a sequence."""

    _fields_ = [
        ("codec", c_int),
        ("frame_rate", _FrameRate),
        ("progressive_sequence", c_ubyte),
        ("bit_depth_luma_minus8", c_ubyte),
        ("bit_depth_chroma_minus8", c_ubyte),
        ("min_num_decode_surfaces", c_ubyte),
        ("coded_width", c_uint),
        ("coded_height", c_uint),
        ("display_area", _IntRect),
        ("chroma_format", c_int),
        ("bitrate", c_uint),
        ("display_aspect_ratio", _AspectRatio),
        ("video_signal_description", _VideoSignalDescription),
        ("seqhdr_data_length", c_uint),
    ]


class CUVIDDECODECREATEINFO(ctypes.Structure):
    """What cuvidCreateDecoder takes."""

    _fields_ = [
        ("ulWidth", c_ulong),
        ("ulHeight", c_ulong),
        ("ulNumDecodeSurfaces", c_ulong),
        ("CodecType", c_int),
        ("ChromaFormat", c_int),
        ("ulCreationFlags", c_ulong),
        ("bitDepthMinus8", c_ulong),
        ("ulIntraDecodeOnly", c_ulong),
        ("ulMaxWidth", c_ulong),
        ("ulMaxHeight", c_ulong),
        ("Reserved1", c_ulong),
        ("display_area", _ShortRect),
        ("OutputFormat", c_int),
        ("DeinterlaceMode", c_int),
        ("ulTargetWidth", c_ulong),
        ("ulTargetHeight", c_ulong),
        ("ulNumOutputSurfaces", c_ulong),
        ("vidLock", c_void_p),
        ("target_rect", _ShortRect),
        ("enableHistogram", c_ulong),
        ("Reserved2", c_ulong * 4),
    ]


class CUVIDPICPARAMS(ctypes.Structure):
    """One picture as the parser hands it to cuvidDecodePicture.

    `CodecSpecific` holds what the parser has read for the codec; only the driver looks at it.
    """

    _fields_ = [
        ("PicWidthInMbs", c_int),
        ("FrameHeightInMbs", c_int),
        ("CurrPicIdx", c_int),
        ("field_pic_flag", c_int),
        ("bottom_field_flag", c_int),
        ("second_field", c_int),
        ("nBitstreamDataLen", c_uint),
        ("pBitstreamData", c_void_p),
        ("nNumSlices", c_uint),
        ("pSliceDataOffsets", c_void_p),
        ("ref_pic_flag", c_int),
        ("intra_pic_flag", c_int),
        ("Reserved", c_uint * 30),
        ("CodecSpecific", c_uint * 1024),
    ]


class CUVIDPROCPARAMS(ctypes.Structure):
    """How cuvidMapVideoFrame64 makes the surface; `output_stream` is the stream it works on."""

    _fields_ = [
        ("progressive_frame", c_int),
        ("second_field", c_int),
        ("top_field_first", c_int),
        ("unpaired_field", c_int),
        ("reserved_flags", c_uint),
        ("reserved_zero", c_uint),
        ("raw_input_dptr", c_uint64),
        ("raw_input_pitch", c_uint),
        ("raw_input_format", c_uint),
        ("raw_output_dptr", c_uint64),
        ("raw_output_pitch", c_uint),
        ("Reserved1", c_uint),
        ("output_stream", c_void_p),
        ("Reserved", c_uint * 46),
        ("histogram_dptr", c_void_p),
        ("Reserved2", c_void_p * 1),
    ]


class CUVIDGETDECODESTATUS(ctypes.Structure):
    """What cuvidGetDecodeStatus answers: one of cuvidDecodeStatus."""

    _fields_ = [
        ("decodeStatus", c_int),
        ("reserved", c_uint * 31),
        ("pReserved", c_void_p * 8),
    ]


class CUVIDPARSERDISPINFO(ctypes.Structure):
    """A picture whose turn to be shown it is. A null pointer in its place means end of stream."""

    _fields_ = [
        ("picture_index", c_int),
        ("progressive_frame", c_int),
        ("top_field_first", c_int),
        ("repeat_first_field", c_int),
        ("timestamp", c_int64),
    ]


CUVIDDISPLAYPARAMS = CUVIDPARSERDISPINFO  # a name that NVIDIA's headers do not have

# Each gives what it has in place of a boolean: 0 is a failure.
SEQUENCE_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(CUVIDEOFORMAT))
DECODE_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(CUVIDPICPARAMS))
DISPLAY_CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(CUVIDPARSERDISPINFO))


class CUVIDPARSERPARAMS(ctypes.Structure):
    """What cuvidCreateVideoParser takes. `bAnnexb` is for AV1 alone: HEVC always is Annex B."""

    _fields_ = [
        ("CodecType", c_int),
        ("ulMaxNumDecodeSurfaces", c_uint),
        ("ulClockRate", c_uint),
        ("ulErrorThreshold", c_uint),
        ("ulMaxDisplayDelay", c_uint),
        ("bAnnexb", c_uint, 1),
        ("bMemoryOptimize", c_uint, 1),
        ("uReserved", c_uint, 30),
        ("uReserved1", c_uint * 4),
        ("pUserData", c_void_p),
        ("pfnSequenceCallback", SEQUENCE_CALLBACK),
        ("pfnDecodePicture", DECODE_CALLBACK),
        ("pfnDisplayPicture", DISPLAY_CALLBACK),
        ("pfnGetOperatingPoint", c_void_p),
        ("pfnGetSEIMsg", c_void_p),
        ("pvReserved2", c_void_p * 5),
        ("pExtVideoInfo", c_void_p),
    ]


class CUVIDSOURCEDATAPACKET(ctypes.Structure):
    """A piece of the stream, with start codes."""

    _fields_ = [
        ("flags", c_ulong),
        ("payload_size", c_ulong),
        ("payload", c_void_p),
        ("timestamp", c_int64),
    ]
