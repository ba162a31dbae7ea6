"""Annex B of H.265: a stream of bytes cut into NAL units at its start codes 00 00 01.

    for nalu in iter_annexb_nalus(open("clip.hevc", "rb")):
        print(nal_unit_type_name(parse_nal_header(nalu).nal_unit_type))

A stream is bytes, an object with `read()`, or an iterable. What an iterable means is decided by its
first two bytes: 00 00 begins a start code, so its items are pieces of one stream, cut anywhere; no
NAL unit may begin so, and otherwise each item is one unit without a start code.

Codes are searched in blocks, two bytes at a time: of the three bytes of a code, wherever it lies,
one aligned pair is 00 00 or 00 01. A unit is copied once, when its end is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from .errors import AnnexBParserError, UnsupportedStream
from .others import H264, HEAD_BYTES, is_h264, what_else

__all__ = [
    "AnnexBParserError",
    "HEVCNalHeader",
    "Source",
    "Unit",
    "iter_annexb_nalus",
    "iter_units",
    "nal_unit_type_name",
    "parse_nal_header",
    "with_annexb_start_code",
]

Bytes: TypeAlias = bytes | bytearray | memoryview


class Readable(Protocol):
    """A binary file, or what is read like one."""

    def read(self, size: int, /) -> Bytes: ...


Source: TypeAlias = Bytes | Readable | Iterable[Bytes]

START_CODE = b"\x00\x00\x01"
MOST_UNIT_BYTES = 1 << 27  # level 6.2 allows 110 MB for all the pictures that a decoder buffers
_BLOCK = 1 << 18  # bytes of memory that are searched at once: they stay in the cache


class Unit(NamedTuple):
    """A NAL unit without its start code, and the place of its first byte in the stream."""

    offset: int
    data: bytes


def iter_annexb_nalus(source: Source, *, chunk_size: int = 65536) -> Iterator[bytes]:
    """The NAL units of a stream, without start codes and without zero bytes behind them.

    Units that are empty are left out, and so is what precedes the first start code. `chunk_size`
    is the number of bytes that are asked of `source.read` at a time. Raises ValueError for a
    `chunk_size` below 1, TypeError for a source that is no stream, and AnnexBParserError for a
    file of another format (MP4, Matroska, ...), where no start code is found, or a unit has more
    than 128 MiB.
    """
    units = iter_units(source, chunk_size=chunk_size, is_hevc=False)
    return (unit.data for unit in units)


def iter_units(source: Source, *, chunk_size: int = 65536, is_hevc: bool = True) -> Iterator[Unit]:
    """As `iter_annexb_nalus`, with the offset of each unit.

    The offset of an item of an iterable of units is the number of bytes in the items before it.
    With `is_hevc`, raises UnsupportedStream for a stream of H.264.
    """
    if chunk_size <= 0:
        raise ValueError(f"chunk_size must be 1 or more, not {chunk_size}")
    if isinstance(source, bytes | bytearray | memoryview):
        return _split(_looked_at(_blocks(_flat(cast("Bytes", source))), is_hevc))
    # Before "iterable": binary files are iterable too, by what they take for lines.
    if callable(getattr(source, "read", None)):
        return _split(_looked_at(_chunks(cast("Readable", source), chunk_size), is_hevc))
    if isinstance(source, Iterable) and not isinstance(source, str):
        return _of_iterable(source, is_hevc)
    raise TypeError(
        "an HEVC stream is bytes, an object with read(), or an iterable of NAL units, "
        f"not {type(source).__name__}"
    )


def _flat(data: Bytes) -> memoryview:
    view = memoryview(data)
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def _blocks(data: memoryview) -> Iterator[memoryview]:
    return (data[begin : begin + _BLOCK] for begin in range(0, len(data), _BLOCK))


def _chunks(source: Readable, chunk_size: int) -> Iterator[memoryview]:
    while True:
        chunk = source.read(chunk_size)
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise TypeError(
                f"read() of a stream must give bytes, not {type(chunk).__name__}: "
                "open files in binary mode"
            )
        if not len(chunk):
            return
        yield from _blocks(_flat(chunk))


def _of_iterable(source: Iterable[Bytes], is_hevc: bool) -> Iterator[Unit]:
    items, begin, read = _items(source), b"", []
    for item in items:
        read.append(item)
        begin += item[: 2 - len(begin)]
        if len(begin) == 2:
            break
    everything = itertools.chain(read, items)
    if begin and b"\x00\x00".startswith(begin):
        blocks = itertools.chain.from_iterable(map(_blocks, everything))
        yield from _split(_looked_at(blocks, is_hevc))
        return
    if read and (problem := what_else(bytes(read[0][:HEAD_BYTES]))):
        raise AnnexBParserError(problem, offset=0)
    offset = 0
    for item in everything:
        if data := bytes(item).rstrip(b"\x00"):
            _check_size(len(data), offset)
            yield Unit(offset, data)
        offset += len(item)


def _looked_at(blocks: Iterable[memoryview], is_hevc: bool) -> Iterator[memoryview]:
    """`blocks`, as they come. Raises an error that says what they are if they are no HEVC."""
    head = b""
    for block in blocks:
        if len(head) < HEAD_BYTES:
            head += bytes(block[: HEAD_BYTES - len(head)])
            if (problem := what_else(head)) is not None:
                raise AnnexBParserError(problem, offset=0)
            if is_hevc and is_h264(head):
                raise UnsupportedStream(H264)
        yield block


def _items(source: Iterable[Bytes]) -> Iterator[memoryview]:
    for index, item in enumerate(source):
        if not isinstance(item, bytes | bytearray | memoryview):
            raise TypeError(
                f"the items of an HEVC stream must be bytes; item {index} is a "
                f"{type(item).__name__}"
            )
        if len(item):
            yield _flat(item)


def _split(blocks: Iterable[memoryview]) -> Iterator[Unit]:
    """The units in `blocks`, one after the other.

    The last two bytes of a block may begin a start code: they are searched again with the next.
    """
    base = 0  # the place of `block` in the stream
    begin: int | None = None  # where the current unit begins in the stream
    earlier = bytearray()  # what the blocks before `block` hold of it
    tail = b""
    for fresh in blocks:
        block = memoryview(tail + fresh) if tail else fresh
        at = 0
        for code in _codes(block):
            if begin is not None and (unit := _unit(begin, earlier, block[at:code])):
                yield unit
            earlier.clear()
            at = code + len(START_CODE)
            begin = base + at
        held = max(len(block) - 2, at)
        if begin is not None:
            earlier += block[at:held]
        tail, base = bytes(block[held:]), base + held
        _check_size(base - (begin or 0), begin or 0)
    if begin is None:
        raise AnnexBParserError("the stream has no start code 00 00 01", offset=0)
    if unit := _unit(begin, earlier, memoryview(tail)):
        yield unit


def _unit(begin: int, earlier: bytearray, last: memoryview) -> Unit | None:
    data = b"".join((earlier, last)) if earlier else bytes(last)
    data = data.rstrip(b"\x00")
    return Unit(begin, data) if data else None


def _check_size(size: int, offset: int) -> None:
    if size > MOST_UNIT_BYTES:
        raise AnnexBParserError(
            f"no start code within {MOST_UNIT_BYTES >> 20} MiB: no level of H.265 allows a unit "
            "of that size",
            offset=offset,
        )


def _codes(block: memoryview) -> list[int]:
    """Where start codes begin in `block`."""
    octets = np.frombuffer(block, np.uint8)
    pairs = octets[: len(octets) & ~1].view("<u2")
    likely = np.flatnonzero((pairs & np.uint16(0xFEFF)) == 0) * 2
    # 00 00 [01] begins at its pair; [00] 00 01 begins a byte before it.
    begins = likely - octets[likely + 1]
    begins = begins[(begins >= 0) & (begins < len(octets) - 2)]
    found = (octets[begins] == 0) & (octets[begins + 1] == 0) & (octets[begins + 2] == 1)
    return begins[found].tolist()


class HEVCNalHeader(NamedTuple):
    """The two bytes that begin every NAL unit."""

    forbidden_zero_bit: int
    nal_unit_type: int
    nuh_layer_id: int
    nuh_temporal_id_plus1: int

    @property
    def temporal_id(self) -> int:
        """The sub-layer of the unit, from 0."""
        return self.nuh_temporal_id_plus1 - 1


def parse_nal_header(nalu: Bytes, *, offset: int | None = None) -> HEVCNalHeader:
    """The header of a NAL unit without start code, which lies at byte `offset` of its stream.

    Raises AnnexBParserError for fewer than 2 bytes, and for values that H.265 forbids.
    """
    if len(nalu) < 2:
        raise AnnexBParserError(
            f"a NAL unit has a header of 2 bytes, and this one {len(nalu)}", offset=offset
        )
    high, low = nalu[0], nalu[1]
    kind = high >> 1 & 0x3F
    if high >> 7:
        raise AnnexBParserError(
            "forbidden_zero_bit of a NAL unit is 1", offset=offset, nal_type=kind
        )
    if not low & 7:
        raise AnnexBParserError(
            "nuh_temporal_id_plus1 of a NAL unit is 0, and 1 is the least",
            offset=offset,
            nal_type=kind,
        )
    return HEVCNalHeader(high >> 7, kind, (high & 1) << 5 | low >> 3, low & 7)


# Table 7-1 of H.265.
_TYPE_NAMES = {
    0: "TRAIL_N", 1: "TRAIL_R", 2: "TSA_N", 3: "TSA_R", 4: "STSA_N", 5: "STSA_R", 6: "RADL_N",
    7: "RADL_R", 8: "RASL_N", 9: "RASL_R", 16: "BLA_W_LP", 17: "BLA_W_RADL", 18: "BLA_N_LP",
    19: "IDR_W_RADL", 20: "IDR_N_LP", 21: "CRA_NUT", 32: "VPS_NUT", 33: "SPS_NUT", 34: "PPS_NUT",
    35: "AUD_NUT", 36: "EOS_NUT", 37: "EOB_NUT", 38: "FD_NUT", 39: "PREFIX_SEI_NUT",
    40: "SUFFIX_SEI_NUT",
}  # fmt: skip


def nal_unit_type_name(nal_unit_type: int) -> str:
    """The name of a type in table 7-1 of H.265; `TYPE_<number>` for those without one."""
    return _TYPE_NAMES.get(nal_unit_type, f"TYPE_{nal_unit_type}")


def with_annexb_start_code(nalu: Bytes, *, long_start_code: bool = False) -> bytes:
    """The unit behind a start code of 3 bytes, or of 4. Raises ValueError for an empty unit."""
    if not len(nalu):
        raise ValueError("an empty NAL unit has no place in a stream")
    return (b"\x00" if long_start_code else b"") + START_CODE + nalu
