"""Headers of real streams, as PyAV's decoder sees them: sizes, colour, order, types of pictures."""

import itertools

import pytest

from treadle.video.annexb import iter_annexb_nalus, with_annexb_start_code
from treadle.video.errors import BitstreamError
from treadle.video.stream import access_units

from .streams import SLICED, clip

av = pytest.importorskip("av")


def decoded(units):
    """PyAV's frames of access units, each with its number in decoding order as `pts`."""
    context = av.CodecContext.create("hevc", "r")
    context.thread_count = 1
    frames = []
    for index, unit in enumerate(units):
        packet = av.Packet(len(unit))
        packet.update(unit)
        packet.pts = index
        frames += context.decode(packet)
    return frames + context.decode(None), context


OPTIONS = [
    {},
    {"bframes": 0, "log2_max_poc_lsb": 4},
    {"bframes": 4, "b_pyramid": 1, "keyint": 8, "open_gop": 0},
    {"keyint": 5, "min_keyint": 5, "bframes": 2, "scenecut": 0},  # open: CRA with leading pictures
    {"temporal_layers": 3, "bframes": 4, "b_pyramid": 1},
    {"hrd": 1, "vbv_bufsize": 900, "vbv_maxrate": 900, "bitrate": 500, "aud": 1},
    {"scaling_list": "default", "repeat_headers": 1, "keyint": 4, "ctu": 16},
    {"colorprim": "bt709", "transfer": "bt709", "colormatrix": "bt709", "range": "full"},
    {"colorprim": "bt2020", "transfer": "smpte2084", "colormatrix": "bt2020nc"},
    {"colormatrix": "smpte170m", "videoformat": "pal", "overscan": "show", "chromaloc": 2},
    {"colormatrix": "ycgco", "range": "limited", "sar": 4, "display_window": "2,4,2,4"},
    {"vui_timing_info": 0, "lossless": 1, "hash": 1},
    {"high_tier": 1, "level_idc": 51, "intra_refresh": 1, "keyint": 6, "bframes": 0},
]
SHAPES = [
    ("yuv420p", 96, 64), ("yuv420p10le", 70, 66), ("yuv444p", 66, 70),
    ("yuv422p10le", 72, 66), ("gray", 64, 72), ("yuv420p12le", 66, 66),
]  # fmt: skip
BITS = {"10le": 10, "12le": 12}


@pytest.mark.parametrize(
    ("options", "shape"), list(zip(OPTIONS, itertools.cycle(SHAPES), strict=False)), ids=str
)
def test_what_headers_say_is_what_a_decoder_finds(options, shape):
    pixels, width, height = shape
    pictures = list(access_units(clip(12, width, height, pixels, **options)))
    frames, context = decoded(picture.annexb() for picture in pictures)
    in_order = sorted(pictures, key=lambda p: (p.sequence_index, p.poc))
    assert [frame.pts for frame in frames] == [p.index for p in in_order]
    for frame, picture in zip(frames, in_order, strict=True):
        said = picture.sequence
        assert (frame.width, frame.height) == (said.width, said.height) == (width, height)
        assert frame.key_frame == picture.keyframe
        assert " IPB"[int(frame.pict_type)] == picture.type.name
        assert int(frame.colorspace) == said.matrix_coefficients
        assert (frame.color_range == 2) == said.full_range
        assert frame.color_primaries == said.colour_primaries
        assert frame.color_trc == said.transfer_characteristics
        assert frame.format.components[0].bits == said.bit_depth_luma == BITS.get(pixels[-4:], 8)
    assert (context.coded_width, context.coded_height) == (said.coded_width, said.coded_height)
    assert (context.sample_aspect_ratio or 0) == (said.sample_aspect_ratio or 0)
    if options.get("vui_timing_info") != 0:
        assert said.frame_rate == 25
    assert said.max_sub_layers == (3 if "temporal_layers" in options else 1)
    assert max(p.temporal_id for p in pictures) == said.max_sub_layers - 1


def test_slices_of_a_picture_are_one_access_unit():
    pictures = list(access_units(SLICED))
    assert [(p.poc, p.type.name) for p in pictures] == [(0, "I"), (2, "P"), (1, "B")]
    assert [sum(u.data[0] >> 1 < 32 for u in p.units) for p in pictures] == [2, 2, 2]
    frames, _ = decoded(p.annexb() for p in pictures)
    assert [f.pts for f in frames] == [0, 2, 1]


def test_several_sequences_of_other_sizes_follow_each_other():
    first, second = clip(4, 64, 64, keyint=2), clip(3, 96, 80, "yuv420p10le")
    pictures = list(access_units(first + second))
    sizes = [(p.sequence.width, p.sequence.height, p.sequence.bit_depth_luma) for p in pictures]
    assert sizes == [(64, 64, 8)] * 4 + [(96, 80, 10)] * 3
    assert [p.index for p in pictures] == list(range(7))
    assert pictures[3].sequence_index < pictures[4].sequence_index
    frames, _ = decoded(p.annexb() for p in pictures)
    assert [f.width for f in frames] == [64] * 4 + [96] * 3


def open_clip():
    """Pictures of a stream with CRA pictures that are followed by leading ones."""
    units = clip(16, keyint=5, min_keyint=5, bframes=2, scenecut=0, repeat_headers=1)
    pictures = list(access_units(units))
    return pictures, next(i for i, p in enumerate(pictures) if p.nal_type == 21)


def test_leading_pictures_are_not_shown_where_decoding_begins_behind_their_references():
    pictures, cra = open_clip()
    assert all(picture.shown for picture in pictures)
    late = list(access_units(b"".join(p.annexb() for p in pictures[cra:])))
    assert [p.shown for p in late[:3]] == [True, False, True]
    frames, _ = decoded(p.annexb() for p in late)
    shown = sorted((p for p in late if p.shown), key=lambda p: (p.sequence_index, p.poc))
    assert [f.pts for f in frames] == [p.index for p in shown]


def test_an_end_of_sequence_begins_a_new_one():
    pictures, cra = open_clip()
    end = with_annexb_start_code(b"\x48\x01")
    before, behind = (
        b"".join(p.annexb() for p in part) for part in (pictures[:cra], pictures[cra:])
    )
    joined = list(access_units(before + end + behind))
    assert [p.sequence_index for p in joined] == [0] * cra + [1] * (len(pictures) - cra)
    assert [p.index for p in joined if not p.shown] == [cra + 1]


def test_a_stream_is_read_alike_from_any_source():
    data = clip(6)
    units = list(iter_annexb_nalus(data))
    pieces = [data[i : i + 7] for i in range(0, len(data), 7)]
    for source in (units, pieces, iter(units)):
        read = [(p.index, p.poc, p.annexb()) for p in access_units(source)]
        assert read == [(p.index, p.poc, p.annexb()) for p in access_units(data)]


def test_units_of_other_layers_and_of_reserved_types_are_left_out():
    data = clip(3)
    extra = [b"\x42\x09\x00", b"\x14\x01\xff", b"\x52\x01\xff"]  # an SPS of layer 1; types 10, 41
    mixed = [u for unit in iter_annexb_nalus(data) for u in (*extra, unit)]
    assert [p.annexb() for p in access_units(mixed)] == [p.annexb() for p in access_units(data)]


def without(kind):
    return [unit for unit in iter_annexb_nalus(SLICED) if unit[0] >> 1 != kind]


@pytest.mark.parametrize(
    ("kind", "message"), [(34, "needs PPS 0, which the stream has not"), (33, "needs SPS 0")]
)
def test_missing_parameter_sets_are_named(kind, message):
    with pytest.raises(BitstreamError, match=message) as caught:
        list(access_units(without(kind)))
    assert caught.value.nal_type in (19, 20)
    assert caught.value.offset is not None


def test_a_missing_vps_costs_nothing_that_the_sps_says():
    assert [p.sequence for p in access_units(without(32))] == [
        p.sequence for p in access_units(SLICED)
    ]


def test_a_stream_that_begins_between_random_access_points_is_refused():
    units = list(iter_annexb_nalus(clip(6, bframes=0)))
    del units[next(i for i, u in enumerate(units) if u[0] >> 1 in (19, 20))]
    with pytest.raises(BitstreamError, match="TRAIL_R: decoding cannot begin with this picture"):
        list(access_units(units))


def test_slices_without_the_first_of_their_picture_are_refused():
    units = list(iter_annexb_nalus(SLICED))
    first = next(i for i, u in enumerate(units) if u[0] >> 1 in (19, 20))
    with pytest.raises(BitstreamError, match="without the first slice"):
        list(access_units(units[:first] + units[first + 1 :]))
    units[first + 1] = bytes([38 if units[first][0] >> 1 == 20 else 40]) + units[first + 1][1:]
    with pytest.raises(BitstreamError, match="not that of its picture's first slice"):
        list(access_units(units))


def test_offsets_of_errors_are_places_in_the_stream():
    data = bytearray(clip(3))
    place = bytes(data).index(b"\x00\x00\x01\x42\x01") + 5
    data[place] |= 0x0E  # sps_max_sub_layers_minus1 becomes 7
    with pytest.raises(BitstreamError, match="SPS_NUT: sps_max_sub_layers_minus1 is 7") as caught:
        list(access_units(bytes(data)))
    assert caught.value.offset == place
    assert f"(at byte {place})" in str(caught.value)


def test_an_endless_run_of_units_without_a_picture_ends_in_an_error():
    units = itertools.repeat(b"\x4e\x01\x80")
    with pytest.raises(BitstreamError, match="one picture has 65537 units"):
        list(access_units(units))
