"""Parameter sets written bit by bit: what encoders at hand never write, and what nobody may."""

from fractions import Fraction

import pytest

from treadle.video.annexb import Unit
from treadle.video.bits import BitReader
from treadle.video.errors import BitstreamError
from treadle.video.parameter_sets import read_pps, read_sps, read_vps
from treadle.video.vui import VUI, Crop

from .streams import BitWriter


def profile(writer: BitWriter, sub_layers: int = 1) -> BitWriter:
    """Main 10, High tier, level 5.1; each lower sub-layer says both of its own."""
    writer.u(2).u(1, 1).u(5, 2).u(32, 1 << 29).u(48).u(8, 153)
    if sub_layers > 1:
        writer.u(2 * (sub_layers - 1), 4 ** (sub_layers - 1) - 1).u(2 * (9 - sub_layers))
        writer.u(96 * (sub_layers - 1))
    return writer


def sps_begin(sub_layers: int = 1, id: int = 3) -> BitWriter:
    return profile(BitWriter().u(4, 2).u(3, sub_layers - 1).u(1, 1), sub_layers).ue(id)


def sps(
    *, sub_layers=1, id=3, chroma=1, size=(208, 120), crop=None, depths=(2, 2), poc_bits=4,
    dpb=(4, 2, 0), blocks=(0, 2, 0, 3, 0, 0), lists=None, pcm=False, references=None,
    long_term=None, vui=None,
) -> bytes:  # fmt: skip
    """An SPS; each part is what differs from a common one."""
    writer = sps_begin(sub_layers, id).ue(chroma)
    if chroma == 3:
        writer.u(1)
    writer.ue(*size).u(1, crop is not None).ue(*(crop or ())).ue(*depths).ue(poc_bits)
    writer.u(1, 1)
    for layer in range(sub_layers):
        writer.ue(*((1, 0, 0) if layer < sub_layers - 1 else dpb))
    writer.ue(*blocks).u(1, lists is not None)
    if lists is not None:
        writer.u(1, 1)
        lists(writer)
    writer.u(2, 3).u(1, pcm)
    if pcm:
        writer.u(8, 0x77).ue(0, 2).u(1)
    (references or (lambda w: w.ue(0)))(writer)
    writer.u(1, long_term is not None)
    if long_term is not None:
        writer.ue(len(long_term))
        for lsb in long_term:
            writer.u(poc_bits + 4, lsb).u(1, 1)
    writer.u(2).u(1, vui is not None)
    if vui is not None:
        vui(writer)
    return writer.u(1).nalu(33)


def full_vui(writer: BitWriter) -> None:
    writer.u(1, 1).u(8, 255).u(16, 64).u(16, 45)  # sample aspect ratio
    writer.u(2, 3).u(1, 1).u(3, 1).u(1, 1).u(1, 1).u(8, 9).u(8, 16).u(8, 10)
    writer.u(1, 1).ue(2, 2).u(3, 2)
    writer.u(1, 1).ue(1, 2, 3, 4).u(1, 1).u(32, 1001).u(32, 60000).u(1).u(1)


FULL_VUI = VUI(
    Fraction(64, 45), 1, True, 9, 16, 10, 2, True, Crop(2, 4, 6, 8), Fraction(60000, 1001)
)


def every_list(writer: BitWriter) -> None:
    """Scaling lists of each size: predicted, then explicit, with extreme differences."""
    for size in range(4):
        for matrix in range(0, 6, 3 if size == 3 else 1):
            if matrix % 2 == 0:
                writer.u(1, 0).ue(matrix if size < 3 else matrix // 3)
                continue
            writer.u(1, 1)
            if size > 1:
                writer.se(247 if matrix == 1 else -7)
            writer.se(*([127, -128] * 32)[: min(64, 16 << 2 * size)])


def sets(writer: BitWriter) -> None:
    """Explicit sets, and ones that are moved ones of those before."""
    writer.ue(4)
    writer.ue(2, 1).ue(0).u(1, 1).ue(2).u(1, 0).ue(4).u(1, 1)  # -1, -4 and 5
    # Moved by -5: -6, -9, 0 (drops out), and -5 for the reference itself; the second is not used.
    writer.u(1, 1).u(1, 1).ue(4).u(1, 1).u(2, 0b00).u(1, 1).u(1, 1)
    writer.u(1, 1).u(1, 0).ue(0).u(3, 0b111)  # of -5, -6: moved by 1, and 1
    writer.u(1, 0).ue(0, 0)


def reader(name, data, offset=100):
    return name(Unit(offset, data))


def test_an_sps_with_every_part_is_read_to_its_end():
    found = reader(
        read_sps,
        sps(sub_layers=4, crop=(1, 2, 3, 4), lists=every_list, pcm=True, references=sets,
            long_term=[7, 200], vui=full_vui),
    )  # fmt: skip
    assert (found.id, found.vps_id, found.max_sub_layers) == (3, 2, 4)
    assert (found.coded_width, found.coded_height) == (208, 120)
    assert found.crop == Crop(2, 4, 6, 8)
    assert (found.bit_depth_luma, found.bit_depth_chroma, found.poc_lsb_bits) == (10, 10, 8)
    assert (found.buffering.pictures, found.buffering.reorder) == (5, 2)
    assert (found.ctb_size, found.ctb_count, found.slice_address_bits) == (32, 28, 5)
    assert str(found.profile) == "Main 10, level 5.1, High tier"
    assert found.vui == FULL_VUI


@pytest.mark.parametrize(
    ("chroma", "crop"), [(0, (1, 2, 3, 4)), (1, (2, 4, 6, 8)), (2, (2, 4, 3, 4)), (3, (1, 2, 3, 4))]
)
def test_crops_count_chroma_samples(chroma, crop):
    assert reader(read_sps, sps(chroma=chroma, crop=(1, 2, 3, 4))).crop == Crop(*crop)


def test_what_is_not_said_is_unspecified_and_limited():
    vui = reader(read_sps, sps()).vui
    assert (vui.matrix_coefficients, vui.full_range, vui.frame_rate) == (2, False, None)


def test_a_frame_rate_of_nothing_is_not_said():
    assert (
        reader(read_sps, sps(vui=lambda w: w.u(8).u(1, 1).u(32).u(32, 25))).vui.frame_rate is None
    )


def many(writer):
    writer.ue(1).ue(9).ue(8)


def overfull(writer):
    writer.ue(2).ue(16, 0)
    for _ in range(16):
        writer.ue(0).u(1, 1)
    writer.u(1, 1).u(1, 1).ue(0).u(17, (1 << 17) - 1)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"id": 16}, "sps_seq_parameter_set_id is 16, and must be 0 to 15"),
        ({"chroma": 4}, "chroma_format_idc is 4, and must be 0 to 3"),
        ({"size": (0, 64)}, "pic_width_in_luma_samples is 0, and must be 1 to 65535"),
        ({"size": (64, 65536)}, "pic_height_in_luma_samples is 65536"),
        ({"size": (1 << 32, 64)}, "pic_width_in_luma_samples is 4294967296|more than 32 bits"),
        ({"size": (1 << 40, 64)}, "pic_width_in_luma_samples is a code of more than 32 bits"),
        ({"size": (60, 64)}, "60 x 64 samples are no multiple of blocks of 8"),
        ({"crop": (52, 52, 0, 0)}, "conformance window leaves nothing of 208 x 120"),
        ({"depths": (9, 0)}, "bit_depth_luma_minus8 is 9"),
        ({"depths": (0, 9)}, "bit_depth_chroma_minus8 is 9"),
        ({"poc_bits": 13}, "log2_max_pic_order_cnt_lsb_minus4 is 13"),
        ({"dpb": (16, 0, 0)}, "sps_max_dec_pic_buffering_minus1 is 16"),
        ({"dpb": (3, 4, 0)}, "sps_max_num_reorder_pics is 4, and must be 0 to 3"),
        ({"blocks": (4, 0, 0, 0, 0, 0)}, "log2_min_luma_coding_block_size_minus3 is 4"),
        ({"blocks": (1, 3, 0, 0, 0, 0)}, "log2_diff_max_min_luma_coding_block_size is 3"),
        ({"blocks": (0, 0, 0, 0, 0, 0)}, "coding tree blocks are 8 x 8"),
        ({"blocks": (0, 3, 1, 0, 0, 0)}, "log2_min_luma_transform_block_size_minus2 is 1"),
        ({"blocks": (0, 3, 0, 4, 0, 0)}, "log2_diff_max_min_luma_transform_block_size is 4"),
        ({"blocks": (0, 3, 0, 0, 5, 0)}, "max_transform_hierarchy_depth_inter is 5"),
        ({"lists": lambda w: w.u(1, 0).ue(1)}, "scaling_list_pred_matrix_id_delta is 1"),
        ({"lists": lambda w: w.u(1, 1).se(128)}, "scaling_list_delta_coef is 128"),
        ({"references": lambda w: w.ue(65)}, "num_short_term_ref_pic_sets is 65"),
        ({"references": many}, "num_positive_pics is 8, and must be 0 to 7"),
        ({"references": overfull}, "a reference picture set has 17 pictures"),
        ({"long_term": [0] * 33}, "num_long_term_ref_pics_sps is 33"),
        ({"vui": lambda w: w.u(3).u(1, 1).ue(6)}, "chroma_sample_loc_type_top_field is 6"),
        ({"vui": lambda w: w.u(8).u(1, 1)}, "the unit ends within vui_num_units_in_tick"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(parts, message):
    with pytest.raises(BitstreamError, match=message) as caught:
        reader(read_sps, sps(**parts))
    assert str(caught.value).startswith("SPS_NUT: ")
    assert caught.value.nal_type == 33
    assert 100 < caught.value.offset < 100 + len(sps(**parts)) + 1


def test_every_cut_of_an_sps_ends_in_an_error_or_with_less_to_say():
    data = sps(sub_layers=3, lists=every_list, references=sets, vui=full_vui)
    for end in range(2, len(data) - 6):
        with pytest.raises(BitstreamError, match="the unit ends within"):
            reader(read_sps, data[:end])


def test_a_vps_says_its_rate():
    writer = profile(BitWriter().u(4, 9).u(2, 3).u(6, 0).u(3, 0).u(1, 1).u(16, 0xFFFF))
    writer.u(1, 1).ue(4, 2, 0).u(6, 5).ue(2).u(12).u(1, 1).u(32, 1).u(32, 50).u(1)
    found = reader(read_vps, writer.nalu(32))
    assert (found.id, found.frame_rate, found.max_sub_layers) == (9, 50, 1)


def test_a_pps_says_what_headers_of_slices_hold():
    found = reader(read_pps, BitWriter().ue(63, 15).u(1, 1).u(1, 1).u(3, 5).u(8).nalu(34))
    assert (found.id, found.sps_id, found.dependent_slices) == (63, 15, True)
    assert (found.output_flag_present, found.extra_slice_bits) == (True, 5)
    with pytest.raises(BitstreamError, match="PPS_NUT: pps_pic_parameter_set_id is 64"):
        reader(read_pps, BitWriter().ue(64).nalu(34))


def test_codes_are_those_that_were_written():
    values = [0, 1, 2, 5, 100, 65535, (1 << 32) - 2]
    signed = [0, 1, -1, 7, -128, 32767, -32768]
    bits = BitReader(Unit(0, BitWriter().u(3, 5).ue(*values).se(*signed).u(64, 1 << 63).nalu(33)))
    assert bits.u(3, "x") == 5
    assert [bits.ue("x", (1 << 32) - 2) for _ in values] == values
    assert [bits.se("x", -32768, 32767) for _ in signed] == signed
    assert bits.u(64, "x") == 1 << 63


def test_offsets_count_the_bytes_that_prevent_start_codes():
    data = BitWriter().u(24).u(24).u(8, 255).ue(9).nalu(33)
    assert data[2:] == b"\0\0\3\0\0\3\0\0\xff\x15"
    bits = BitReader(Unit(1000, data))
    bits.skip(56, "zeros")
    with pytest.raises(BitstreamError) as caught:
        bits.ue("x", 8)
    assert caught.value.offset == 1000 + data.index(b"\x15")
