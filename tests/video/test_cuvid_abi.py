"""Sizes and offsets of cuvid's structures, as a C compiler finds them in NVIDIA's headers."""

import ctypes
import sys

import pytest

from treadle.video import cuvid_abi

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="unsigned long has 4 bytes there")

SIZES = {
    "CUVIDDECODECAPS": 88,
    "CUVIDDECODECREATEINFO": 176,
    "CUVIDPICPARAMS": 4280,
    "CUVIDPROCPARAMS": 264,
    "CUVIDPARSERPARAMS": 136,
    "CUVIDEOFORMAT": 64,
    "CUVIDSOURCEDATAPACKET": 32,
    "CUVIDPARSERDISPINFO": 24,
    "CUVIDGETDECODESTATUS": 192,
}
OFFSETS = {
    "CUVIDGETDECODESTATUS": {"decodeStatus": 0},
    "CUVIDDECODECAPS": {
        "eCodecType": 0,
        "eChromaFormat": 4,
        "nBitDepthMinus8": 8,
        "bIsSupported": 24,
        "nNumNVDECs": 25,
        "nOutputFormatMask": 26,
        "nMaxWidth": 28,
        "nMaxHeight": 32,
        "nMaxMBCount": 36,
        "nMinWidth": 40,
        "nMinHeight": 42,
        "bIsHistogramSupported": 44,
    },
    "CUVIDPARSERPARAMS": {
        "CodecType": 0,
        "ulMaxNumDecodeSurfaces": 4,
        "ulClockRate": 8,
        "ulErrorThreshold": 12,
        "ulMaxDisplayDelay": 16,
        "pUserData": 40,
        "pfnSequenceCallback": 48,
        "pfnDecodePicture": 56,
        "pfnDisplayPicture": 64,
        "pfnGetOperatingPoint": 72,
        "pfnGetSEIMsg": 80,
        "pExtVideoInfo": 128,
    },
    "CUVIDSOURCEDATAPACKET": {"flags": 0, "payload_size": 8, "payload": 16, "timestamp": 24},
    "CUVIDEOFORMAT": {
        "codec": 0,
        "frame_rate": 4,
        "progressive_sequence": 12,
        "bit_depth_luma_minus8": 13,
        "bit_depth_chroma_minus8": 14,
        "min_num_decode_surfaces": 15,
        "coded_width": 16,
        "coded_height": 20,
        "display_area": 24,
        "chroma_format": 40,
        "bitrate": 44,
        "display_aspect_ratio": 48,
        "video_signal_description": 56,
        "seqhdr_data_length": 60,
    },
    "CUVIDDECODECREATEINFO": {
        "ulWidth": 0,
        "ulHeight": 8,
        "ulNumDecodeSurfaces": 16,
        "CodecType": 24,
        "ChromaFormat": 28,
        "ulCreationFlags": 32,
        "bitDepthMinus8": 40,
        "ulIntraDecodeOnly": 48,
        "ulMaxWidth": 56,
        "ulMaxHeight": 64,
        "display_area": 80,
        "OutputFormat": 88,
        "DeinterlaceMode": 92,
        "ulTargetWidth": 96,
        "ulTargetHeight": 104,
        "ulNumOutputSurfaces": 112,
        "vidLock": 120,
        "target_rect": 128,
        "enableHistogram": 136,
    },
    "CUVIDPICPARAMS": {
        "PicWidthInMbs": 0,
        "FrameHeightInMbs": 4,
        "CurrPicIdx": 8,
        "nBitstreamDataLen": 24,
        "pBitstreamData": 32,
        "nNumSlices": 40,
        "pSliceDataOffsets": 48,
        "ref_pic_flag": 56,
        "intra_pic_flag": 60,
        "CodecSpecific": 184,
    },
    "CUVIDPROCPARAMS": {
        "progressive_frame": 0,
        "second_field": 4,
        "top_field_first": 8,
        "unpaired_field": 12,
        "output_stream": 56,
    },
    "CUVIDPARSERDISPINFO": {
        "picture_index": 0,
        "progressive_frame": 4,
        "top_field_first": 8,
        "repeat_first_field": 12,
        "timestamp": 16,
    },
}


@pytest.mark.parametrize("name", SIZES)
def test_a_structure_has_the_headers_size_and_offsets(name):
    structure = getattr(cuvid_abi, name)
    assert ctypes.sizeof(structure) == SIZES[name]
    found = {member: getattr(structure, member).offset for member in OFFSETS[name]}
    assert found == OFFSETS[name]


def test_the_codec_union_has_4096_bytes():
    assert cuvid_abi.CUVIDPICPARAMS.CodecSpecific.size == 4096


def test_the_signal_description_is_read_bit_by_bit():
    data = bytearray(64)
    data[56:60] = bytes([0b1101, 1, 13, 9])  # video_format 5, full range
    signal = cuvid_abi.CUVIDEOFORMAT.from_buffer(data).video_signal_description
    assert (signal.video_format, signal.video_full_range_flag) == (5, 1)
    assert signal.color_primaries == 1
    assert signal.transfer_characteristics == 13
    assert signal.matrix_coefficients == 9


def test_flags_and_codes_are_nvidias():
    assert cuvid_abi.CUVID_PKT_ENDOFSTREAM == 1
    assert cuvid_abi.CUVID_PKT_TIMESTAMP == 2
    assert cuvid_abi.CUVID_PKT_ENDOFPICTURE == 8
    assert cuvid_abi.cudaVideoCodec_HEVC == 8
    assert cuvid_abi.cudaVideoSurfaceFormat_P016 == 1
    assert cuvid_abi.CUVIDPARSERPARAMS().bAnnexb == 0
