"""Headers of slices written bit by bit: dependent ones, hidden pictures, counts that wrap."""

import pytest

from treadle.video.errors import BitstreamError
from treadle.video.slices import SliceType
from treadle.video.stream import access_units

from .streams import BitWriter

IDR, CRA, TRAIL, RADL = 19, 21, 1, 7


def sps(*, chroma=1, poc_bits=4) -> bytes:
    """256 x 128 samples in 32 coding tree blocks."""
    writer = BitWriter().u(4).u(3).u(1, 1).u(8, 1).u(32).u(48).u(8, 90).ue(0, chroma)
    writer.u(int(chroma == 3), chroma // 3).ue(256, 128).u(1).ue(0, 0, poc_bits - 4)
    writer.u(1, 1).ue(4, 2, 0).ue(0, 2, 0, 3, 0, 0)
    return writer.u(1).u(2).u(1).ue(0).u(1).u(2).u(1).u(1).nalu(33)


def pps(*, dependent=0, output=0, extra=0) -> bytes:
    return BitWriter().ue(0, 0).u(1, dependent).u(1, output).u(3, extra).u(8).nalu(34)


def slice_unit(
    kind, lsb=0, *, first=1, type=SliceType.P, dependent=None, address=None, flags=(), poc_bits=4,
    temporal_id=0, planes=None, drops=0,
) -> bytes:  # fmt: skip
    """`flags` are the pairs (bits, value) between the address and the type, and behind it."""
    writer = BitWriter().u(1, first)
    if 16 <= kind <= 23:
        writer.u(1, drops)
    writer.ue(0)
    if dependent is not None:
        writer.u(1, dependent)
    if address is not None:
        writer.u(5, address)
    if dependent:
        return writer.u(16).nalu(kind, temporal_id)
    extra, output = flags or ((0, 0), (0, 0))
    writer.u(*extra).ue(type).u(*output)
    if planes is not None:
        writer.u(2, planes)
    if kind not in (19, 20):
        writer.u(poc_bits, lsb)
    return writer.u(16, 0xABCD).nalu(kind, temporal_id)


def pictures(*units, sets=None):
    return list(access_units([*(sets or (sps(), pps())), *units]))


def test_counts_wrap_in_both_directions():
    lsbs = [4, 12, 8, 3, 15, 11, 2]
    found = pictures(slice_unit(IDR), *(slice_unit(TRAIL, lsb) for lsb in lsbs))
    assert [p.poc for p in found] == [0, 4, 12, 8, 3, -1, -5, 2]


def test_leading_unreferred_and_higher_pictures_are_not_counted_from():
    def last(*units):
        return pictures(slice_unit(IDR), slice_unit(TRAIL, 6), *units, slice_unit(TRAIL, 13))[
            -1
        ].poc

    assert last() == 13
    assert last(slice_unit(TRAIL, 3)) == -3  # 13 is further from 3 than -3 is
    assert last(slice_unit(RADL, 3)) == 13
    assert last(slice_unit(0, 3)) == 13
    assert last(slice_unit(TRAIL, 3, temporal_id=1)) == 13


def test_a_cra_picture_goes_on_counting_and_an_idr_picture_begins_anew():
    found = pictures(slice_unit(CRA, 7), slice_unit(TRAIL, 14), slice_unit(CRA, 2), slice_unit(IDR))
    assert [(p.sequence_index, p.poc) for p in found] == [(0, 7), (0, 14), (0, 18), (1, 0)]
    assert [p.drops_earlier for p in found] == [True, False, False, False]
    assert pictures(slice_unit(IDR, drops=1))[0].drops_earlier


def test_dependent_slices_and_extra_bits_are_passed():
    sets = sps(), pps(dependent=1, output=1, extra=3)
    flags = (3, 7), (1, 1)
    first = slice_unit(TRAIL, 5, flags=flags)
    found = pictures(
        slice_unit(IDR, type=SliceType.I, flags=flags),
        slice_unit(IDR, first=0, dependent=1, address=9),
        first,
        slice_unit(TRAIL, 5, first=0, dependent=1, address=1),
        slice_unit(TRAIL, 5, first=0, dependent=0, address=31, type=SliceType.B, flags=flags),
        sets=sets,
    )
    assert [(p.poc, p.type, len(p.units)) for p in found] == [
        (0, SliceType.I, 4),
        (5, SliceType.B, 3),
    ]


def test_hidden_pictures_are_not_shown():
    sets = sps(), pps(output=1)
    hidden = slice_unit(TRAIL, 1, flags=((0, 0), (1, 0)))
    found = pictures(slice_unit(IDR, flags=((0, 0), (1, 1))), hidden, sets=sets)
    assert [p.shown for p in found] == [True, False]


def test_planes_of_their_own_have_a_number_each():
    sets = sps(chroma=3, poc_bits=16), pps()
    found = pictures(
        slice_unit(IDR, planes=0), slice_unit(TRAIL, 40_000, planes=1, poc_bits=16), sets=sets
    )
    assert [p.poc for p in found] == [0, 40_000 - 65_536]


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        (slice_unit(IDR, first=0, address=0), "slice_segment_address is 0, and must be 1 to 31"),
        (slice_unit(IDR, type=3), "slice_type is 3, and must be 0 to 2"),
        (BitWriter().u(2, 2).ue(64).nalu(IDR), "slice_pic_parameter_set_id is 64"),
        (BitWriter().u(2, 2).ue(5).nalu(IDR), "needs PPS 5"),
        (b"\x26\x01", "the unit ends within first_slice_segment_in_pic_flag"),
        (b"\x26\x01\x80", "ends within slice_pic_parameter_set_id"),
        (slice_unit(TRAIL), "decoding cannot begin with this picture"),
    ],
)
def test_headers_that_h265_forbids_are_named(unit, message):
    with pytest.raises(BitstreamError, match=message) as caught:
        pictures(unit)
    begin = len(sps()) + len(pps())
    assert begin <= caught.value.offset <= begin + len(unit)


def test_a_change_of_size_without_a_random_access_point_is_refused():
    with pytest.raises(BitstreamError, match="SPS 0 changes within a coded video sequence"):
        pictures(slice_unit(IDR), sps(poc_bits=8), slice_unit(TRAIL, 1, poc_bits=8))


def test_a_repeated_set_changes_nothing():
    found = pictures(slice_unit(IDR), sps(), pps(), slice_unit(TRAIL, 1))
    assert [p.poc for p in found] == [0, 1]
    assert found[0].sequence is found[1].sequence


def test_sets_of_later_pictures_do_not_belong_to_earlier_ones():
    found = pictures(
        slice_unit(IDR), sps(poc_bits=8), slice_unit(IDR), slice_unit(TRAIL, 200, poc_bits=8)
    )
    assert [(p.sequence_index, p.poc, len(p.units)) for p in found] == [
        (0, 0, 3),
        (1, 0, 2),
        (1, -56, 1),
    ]
