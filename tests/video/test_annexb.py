"""The splitter finds the same units however a stream is cut; headers and names by table 7-1."""

import io
import itertools
import random

import pytest

from treadle.errors import UserError
from treadle.runtime import hevc_annexb
from treadle.video import annexb
from treadle.video.annexb import (
    AnnexBParserError,
    iter_annexb_nalus,
    iter_units,
    nal_unit_type_name,
    parse_nal_header,
    with_annexb_start_code,
)

UNITS = [b"\x40\x01\x0c", b"\x42\x01\x00\x00\x03\x01", b"\x26", b"\x02\x01\x01\x00\x02\x80"]
STREAM = (
    b"\x00" * 3 + b"\x01" + UNITS[0] + b"\x00\x00\x01" + UNITS[1]
    + b"\x00" * 5 + b"\x01" + UNITS[2] + b"\x00\x00\x01\x00\x00\x01" + UNITS[3] + b"\x00\x00"
)  # fmt: skip


def by_definition(data: bytes) -> list[bytes]:
    """B.3 of H.265 by the regular tools of bytes: all there is between start codes."""
    return [u for part in data.split(b"\x00\x00\x01")[1:] if (u := part.rstrip(b"\x00"))]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO, lambda d: [d], iter])
def test_every_kind_of_source_gives_the_same_units(kind):
    source = STREAM if kind is not iter else iter([STREAM[:9], STREAM[9:]])
    assert list(iter_annexb_nalus(kind(source))) == UNITS


@pytest.mark.parametrize("size", range(1, len(STREAM) + 1))
def test_codes_cut_by_chunks_of_any_size_are_found(size):
    assert list(iter_annexb_nalus(io.BytesIO(STREAM), chunk_size=size)) == UNITS
    pieces = [STREAM[i : i + size] for i in range(0, len(STREAM), size)]
    assert list(iter_annexb_nalus(pieces)) == UNITS


def test_random_bytes_with_many_zeros_are_cut_as_the_definition_says():
    rng = random.Random(7)
    for length in range(3, 400):
        data = b"\x00\x00\x01" + bytes(rng.choices([0, 1, 2, 3], [6, 3, 1, 1], k=length))
        cuts = sorted(rng.choices(range(len(data)), k=4))
        pieces = [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]
        assert list(iter_annexb_nalus(data)) == by_definition(data)
        assert list(iter_annexb_nalus(pieces)) == by_definition(data)


def test_units_over_several_blocks_of_the_search_are_whole(monkeypatch):
    monkeypatch.setattr(annexb, "_BLOCK", 16)
    for length in range(60):
        data = b"\x00\x00\x01" + b"ab" * length + b"\x00\x00\x00\x01cd\x00\x00\x01" + b"e" * length
        assert list(iter_annexb_nalus(data)) == by_definition(data)


def test_offsets_are_those_of_the_first_byte_of_each_unit():
    for source in (STREAM, io.BytesIO(STREAM), [STREAM[:7], STREAM[7:]]):
        for offset, data in iter_units(source, chunk_size=3):
            assert STREAM[offset : offset + len(data)] == data
    assert [u.offset for u in iter_units(UNITS)] == [0, 3, 9, 10]


def test_an_iterable_without_start_codes_holds_one_unit_an_item():
    assert list(iter_annexb_nalus(iter([*UNITS, b"", memoryview(b"\x02\x01\x00")]))) == [
        *UNITS,
        b"\x02\x01",
    ]
    assert list(iter_annexb_nalus([])) == []


def test_a_file_is_read_by_chunks_and_not_by_lines(tmp_path):
    data = b"\x00\x00\x01a\nb\x00\x00\x01\nc"
    path = tmp_path / "clip.hevc"
    path.write_bytes(data)
    with path.open("rb") as file:
        assert list(iter_annexb_nalus(file)) == [b"a\nb", b"\nc"]


def test_strided_views_and_views_of_wider_items_are_read_as_bytes():
    import numpy as np

    wide = memoryview(np.frombuffer(STREAM + bytes(-len(STREAM) % 2), np.uint16))
    assert list(iter_annexb_nalus(wide)) == UNITS
    spread = np.zeros(2 * len(STREAM), np.uint8)
    spread[::2] = np.frombuffer(STREAM, np.uint8)
    assert list(iter_annexb_nalus(memoryview(spread)[::2])) == UNITS


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x00\x02\x01", bytes(100_000)])
@pytest.mark.parametrize("kind", [bytes, io.BytesIO])
def test_a_stream_without_a_start_code_is_an_error(kind, data):
    with pytest.raises(AnnexBParserError, match=r"no start code 00 00 01 \(at byte 0\)") as caught:
        list(iter_annexb_nalus(kind(data)))
    assert caught.value.offset == 0
    assert isinstance(caught.value, UserError)


@pytest.mark.parametrize("size", [0, -1])
def test_a_chunk_size_below_one_is_refused_at_the_call(size):
    with pytest.raises(ValueError, match="chunk_size"):
        iter_annexb_nalus(STREAM, chunk_size=size)


@pytest.mark.parametrize("source", [None, 5, "clip.hevc", object()])
def test_what_is_no_stream_is_refused_at_the_call(source):
    with pytest.raises(TypeError, match="an HEVC stream is bytes"):
        iter_annexb_nalus(source)


def test_items_and_reads_that_are_no_bytes_are_named():
    with pytest.raises(TypeError, match="item 1 is a str"):
        list(iter_annexb_nalus([b"\x40\x01", "x"]))
    with pytest.raises(TypeError, match="binary mode"):
        list(iter_annexb_nalus(io.StringIO("text")))


def test_an_endless_stream_ends_in_an_error_and_bounded_memory(monkeypatch):
    monkeypatch.setattr(annexb, "MOST_UNIT_BYTES", 1 << 20)
    for begin in (b"\x00\x00\x01\x40", b"\x00\x00"):
        pieces = itertools.chain([begin], itertools.repeat(b"\xff" * 65536))
        with pytest.raises(AnnexBParserError, match="within 1 MiB"):
            list(iter_annexb_nalus(pieces))
    endless = itertools.chain([b"\x00\x00\x01\x40"], itertools.repeat(bytes(65536)))
    with pytest.raises(AnnexBParserError, match="at byte 3"):
        list(iter_annexb_nalus(endless))


def test_the_first_unit_is_there_before_the_rest_is_read():
    def pieces():
        yield b"\x00\x00\x01\x40\x01\x00\x00\x01\x42\x01"
        raise AssertionError("read too far")

    assert next(iter_annexb_nalus(pieces())) == b"\x40\x01"


def test_headers_have_the_fields_of_the_standard():
    header = parse_nal_header(b"\x43\x0a")
    assert (header.forbidden_zero_bit, header.nal_unit_type) == (0, 33)
    assert (header.nuh_layer_id, header.nuh_temporal_id_plus1, header.temporal_id) == (33, 2, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "this one 0"),
        (b"\x40", "this one 1"),
        (b"\xc0\x01", "forbidden_zero_bit"),
        (b"\x40\x00", "nuh_temporal_id_plus1"),
    ],
)
def test_headers_that_h265_forbids_are_errors(data, message):
    with pytest.raises(AnnexBParserError, match=message):
        parse_nal_header(data)


def test_names_of_types():
    names = {t: nal_unit_type_name(t) for t in (0, 1, 19, 20, 21, 32, 33, 34, 39, 63)}
    assert names == {
        0: "TRAIL_N", 1: "TRAIL_R", 19: "IDR_W_RADL", 20: "IDR_N_LP", 21: "CRA_NUT",
        32: "VPS_NUT", 33: "SPS_NUT", 34: "PPS_NUT", 39: "PREFIX_SEI_NUT", 63: "TYPE_63",
    }  # fmt: skip


def test_start_codes_are_put_before_units():
    assert with_annexb_start_code(b"ab") == b"\x00\x00\x01ab"
    assert with_annexb_start_code(memoryview(b"ab"), long_start_code=True) == b"\x00\x00\x00\x01ab"
    with pytest.raises(ValueError, match="empty"):
        with_annexb_start_code(b"")


def test_the_name_of_the_specification_is_the_same_code():
    assert hevc_annexb.iter_annexb_nalus is iter_annexb_nalus
    assert set(hevc_annexb.__all__) <= set(annexb.__all__)
