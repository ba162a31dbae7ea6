"""The software decoder gives NV12 and P016 pictures in display order, or says where it cannot."""

import ctypes
import gc
import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from treadle.video.annexb import iter_annexb_nalus
from treadle.video.errors import BitstreamError, DecoderUnavailable, UnsupportedStream
from treadle.video.frames import NV12Plane
from treadle.video.software import decode_pictures
from treadle.video.stream import access_units

from .streams import BitWriter, clip, encode, noise

av = pytest.importorskip("av")


def values(plane: NV12Plane) -> np.ndarray:
    """A copy of a plane, by its pointer alone."""
    text = ctypes.string_at(plane.pointer, (plane.height - 1) * plane.pitch + plane.row_bytes)
    rows = np.frombuffer(text + bytes(plane.pitch - plane.row_bytes), np.uint8)
    kind = np.uint8 if plane.bytes_per_value == 1 else np.dtype("<u2")
    rows = rows.reshape(plane.height, plane.pitch)[:, : plane.row_bytes].copy().view(kind)
    return rows.reshape(plane.height, plane.width, plane.channels)


def decode(data):
    """(access unit, luma, chroma) of each picture."""
    return [
        (unit, values(picture.luma)[..., 0], values(picture.chroma))
        for unit, picture in decode_pictures(access_units(data))
    ]


@pytest.mark.parametrize(
    ("pixels", "shift"), [("yuv420p", 0), ("yuv420p10le", 6), ("yuv420p12le", 4), ("gray", 0)]
)
def test_lossless_streams_come_back_as_they_were(pixels, shift):
    frames = noise(7, 70, 54, pixels)
    for (unit, luma, chroma), planes in zip(
        decode(encode(frames, pixels, lossless=1, bframes=3)), frames, strict=True
    ):
        np.testing.assert_array_equal(luma, planes[0] << shift)
        if pixels == "gray":
            assert (chroma == 128).all()
        else:
            np.testing.assert_array_equal(chroma, np.dstack(planes[1:]) << shift)
        assert unit.sequence.width == 70


def test_pictures_say_their_colour_and_depth():
    data = clip(2, pixels="yuv420p10le", colormatrix="bt2020nc", range="full")
    for _, picture in decode_pictures(access_units(data)):
        assert (picture.matrix, picture.full_range, picture.bit_depth) == (9, True, 10)
        assert (picture.device, picture.width, picture.height) == ("CPU", 64, 64)


def test_pictures_come_in_display_order_over_sequences_of_several_sizes():
    first = clip(9, 64, 64, keyint=4, bframes=3)
    second, third = clip(5, 96, 72, bframes=2), clip(3, 64, 64, "yuv420p10le")
    decoded = decode(first + second + third)
    assert [luma.shape for _, luma, _ in decoded] == [(64, 64)] * 9 + [(72, 96)] * 5 + [
        (64, 64)
    ] * 3
    places = [(unit.sequence_index, unit.poc) for unit, _, _ in decoded]
    assert places == sorted(places)
    assert {unit.index for unit, _, _ in decoded} == set(range(17))


def test_crops_on_each_side_are_exact():
    frames = noise(2, 80, 64)
    units = list(iter_annexb_nalus(encode(frames, lossless=1, vui_timing_info=0)))
    place = next(i for i, unit in enumerate(units) if unit[0] >> 1 == 33)
    units[place] = with_crop(units[place], 80, 64, (3, 2, 5, 1))
    for (_, luma, chroma), (y, u, v) in zip(decode(units), frames, strict=True):
        np.testing.assert_array_equal(luma, y[10:62, 6:76])
        np.testing.assert_array_equal(chroma, np.dstack([u, v])[5:31, 3:38])


def with_crop(sps: bytes, width: int, height: int, crop: tuple[int, int, int, int]) -> bytes:
    """The SPS of an encoder with a conformance window in place of none."""
    text = "".join(format(octet, "08b") for octet in sps[2:].replace(b"\0\0\3", b"\0\0"))
    size = "".join(BitWriter().ue(width, height).bits)
    place = text.index(size) + len(size)
    assert text[place] == "0"
    window = "".join(BitWriter().u(1, 1).ue(*crop).bits)
    writer = BitWriter()
    writer.bits = [text[:place], window, text[place + 1 :].rstrip("0")[:-1]]
    return writer.nalu(33)


def test_leading_pictures_without_references_are_left_out():
    data = clip(16, keyint=5, min_keyint=5, bframes=2, scenecut=0, repeat_headers=1)
    pictures = list(access_units(data))
    cra = next(p.index for p in pictures if p.nal_type == 21)
    late = b"".join(p.annexb() for p in pictures[cra:])
    whole = {p.poc: luma for p, luma, _ in decode(data)}
    for unit, luma, _ in decode(late):
        np.testing.assert_array_equal(luma, whole[unit.poc])


def test_pictures_that_a_later_one_lets_drop_may_be_missing():
    first, second = (list(iter_annexb_nalus(clip(5, seed=seed, bframes=2))) for seed in (1, 2))
    place = next(i for i, unit in enumerate(second) if 16 <= unit[0] >> 1 <= 23)
    second[place] = bytes([*second[place][:2], second[place][2] | 0x40, *second[place][3:]])
    units = list(access_units([*first, *second]))
    assert [unit.drops_earlier for unit in units] == [False] * 5 + [True] + [False] * 4
    shown = [(unit.sequence_index, unit.poc) for unit, _ in decode_pictures(units)]
    assert shown[-5:] == [(1, poc) for poc in range(5)]
    assert len(shown) < 10  # FFmpeg makes use of it


def test_pictures_larger_than_any_level_allows_are_refused():
    unit = next(access_units(clip(1)))
    large = replace(unit.sequence, coded_width=65528, coded_height=65528)
    with pytest.raises(UnsupportedStream, match="65528 x 65528 samples are more than any level"):
        list(decode_pictures([unit._replace(sequence=large)]))


def test_a_decoder_that_finds_other_sizes_than_the_headers_is_an_error():
    unit = next(access_units(clip(1)))
    other = replace(unit.sequence, coded_width=72)
    with pytest.raises(BitstreamError, match="gives 64 x 64 samples of 8 bits"):
        list(decode_pictures([unit._replace(sequence=other)]))


def test_decoders_in_threads_of_their_own_give_the_same():
    clips = [clip(12, seed=seed, bframes=2) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for found, data in zip(pool.map(decode, clips), clips, strict=True):
            for (_, luma, _), (_, alone, _) in zip(found, decode(data), strict=True):
                np.testing.assert_array_equal(luma, alone)


def test_a_missing_picture_is_an_error_with_its_place():
    pictures = list(access_units(clip(20, keyint=20, bframes=0)))
    lost = b"".join(p.annexb() for p in pictures if p.index != 6)
    place = len(b"".join(p.annexb() for p in pictures[:6]))
    with pytest.raises(BitstreamError, match="refuses a picture") as caught:
        decode(lost)
    assert caught.value.offset is not None
    assert pictures[2].offset <= caught.value.offset <= place + 3


def test_a_flipped_bit_is_found_where_pictures_carry_hashes():
    data = clip(6, hash=1, bframes=0)
    third = list(access_units(data))[3]
    slice = next(unit for unit in third.units if unit.data[0] >> 1 < 32)
    damaged = bytearray(data)
    damaged[slice.offset + len(slice.data) // 2] ^= 4
    with pytest.raises(BitstreamError) as caught:
        decode(bytes(damaged))
    assert caught.value.offset is not None
    assert caught.value.offset <= third.offset


def decoded_until_an_error(data):
    found, error = [], None
    try:
        for _, picture in decode_pictures(access_units(data)):
            found.append(values(picture.luma))
    except BitstreamError as raised:
        error = raised
    return found, error


def test_every_cut_of_a_stream_with_hashes_is_an_error_or_between_pictures():
    data = clip(4, hash=1, bframes=2)
    whole, _ = decoded_until_an_error(data)
    begins = [picture.offset for picture in access_units(data)]
    ends = {begin + n for begin in [*begins[1:], len(data) + 4] for n in range(-4, 2)}
    for size in range(begins[1], len(data) + 1):  # of one picture alone nobody knows
        found, error = decoded_until_an_error(data[:size])
        assert size in ends if error is None else 0 <= error.offset <= size
        assert all(any(np.array_equal(luma, one) for one in whole) for luma in found)


def test_pictures_without_hashes_may_follow_ones_with():
    hashed, bare = clip(3, hash=1, bframes=0), clip(3, bframes=0)
    assert len(decode(hashed + bare)) == len(decode(bare + hashed)) == 6


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        ("yuv422p", "4:2:2"), ("yuv422p10le", "4:2:2"), ("yuv444p", "4:4:4"),
        ("yuv444p10le", "chroma format is 4:4:4"),
    ],
)  # fmt: skip
def test_other_chroma_formats_are_refused_by_name(pixels, message):
    with pytest.raises(UnsupportedStream, match=message):
        decode(clip(1, pixels=pixels))


def test_without_pyav_the_call_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(DecoderUnavailable, match=r"pip install 'treadle\[video\]'"):
        decode_pictures([])


def test_no_units_are_no_pictures():
    assert list(decode_pictures([])) == []


def test_pictures_outlive_the_decoder():
    frames = noise(3, 64, 64)
    decoder = decode_pictures(access_units(encode(frames, lossless=1)))
    pictures = [picture for _, picture in decoder]
    del decoder
    gc.collect()
    for picture, (y, _, _) in zip(pictures, frames, strict=True):
        np.testing.assert_array_equal(values(picture.luma)[..., 0], y)


def test_an_early_end_and_two_decoders_at_once():
    first, second = clip(12, bframes=2), clip(12, 96, 64)
    a, b = (decode_pictures(access_units(data)) for data in (first, second))
    sizes = [(x.width, y.width) for (_, x), (_, y) in itertools.islice(zip(a, b, strict=True), 4)]
    assert sizes == [(64, 96)] * 4
    a.close()
    assert [p.width for _, p in b] == [96] * 8


@pytest.mark.skipif(sys.platform != "linux", reason="counts in KiB what others count in bytes")
def test_memory_stays_bounded_over_many_pictures():
    import resource

    data = clip(8, 256, 128, keyint=8)
    for _ in decode_pictures(access_units([*iter_annexb_nalus(data)] * 5)):
        pass
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    units = itertools.chain.from_iterable(itertools.repeat([*iter_annexb_nalus(data)], 60))
    assert sum(1 for _ in decode_pictures(access_units(units))) == 480
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4000  # KiB
