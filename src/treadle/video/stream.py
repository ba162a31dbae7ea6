"""A stream of HEVC as access units: pictures with what is said of them, in decoding order.

    for picture in access_units(open("clip.hevc", "rb")):
        print(picture.poc, picture.type.name, picture.sequence.width)

The bytes are read as they come, and one picture at a time is held. What breaks the standard in the
headers is an error with its place in the stream; what slices hold is the decoder's to judge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

from .annexb import (
    MOST_UNIT_BYTES,
    HEVCNalHeader,
    Source,
    Unit,
    iter_units,
    nal_unit_type_name,
    parse_nal_header,
    with_annexb_start_code,
)
from .errors import BitstreamError
from .parameter_sets import PPS, SPS, VPS, Buffering, Profile, read_pps, read_sps, read_vps
from .slices import PictureOrder, SliceHeader, SliceType, is_irap, is_rasl, read_slice
from .vui import Crop

__all__ = ["AccessUnit", "PictureReader", "SequenceInfo", "access_units", "is_left_out"]

MOST_UNITS = 1 << 16  # in one access unit; level 6.2 allows 600 slices
_MOST_KNOWN, _MOST_KNOWN_BYTES = 128, 4096
_CRA, _VPS, _SPS, _PPS, _END_OF_SEQUENCE, _END_OF_STREAM = 21, 32, 33, 34, 36, 37
_READERS: dict[int, Callable[[Unit], VPS | SPS | PPS]] = {
    _VPS: read_vps, _SPS: read_sps, _PPS: read_pps,
}  # fmt: skip
# Behind a picture's slices, these begin the next access unit (7.4.2.4.4).
_BEGINNING = {32, 33, 34, 35, 39, *range(41, 45), *range(48, 56)}
_RESERVED = {*range(10, 16), *range(22, 32), *range(41, 48)}  # "decoders shall ignore" them


@dataclass(frozen=True, slots=True)
class SequenceInfo:
    """What a stream says of a run of pictures.

    `width` and `height` are what is shown: the coded size without `crop`. `chroma_format` is 0 for
    monochrome, 1 for 4:2:0, 2 for 4:2:2, 3 for 4:4:4. Colour is in the numbers of H.273, where 2 is
    "unspecified". `frame_rate` and `sample_aspect_ratio` are None where the stream does not say.
    """

    profile: Profile
    width: int
    height: int
    coded_width: int
    coded_height: int
    crop: Crop
    chroma_format: int
    bit_depth_luma: int
    bit_depth_chroma: int
    colour_primaries: int
    transfer_characteristics: int
    matrix_coefficients: int
    full_range: bool
    field_sequence: bool
    frame_rate: Fraction | None
    sample_aspect_ratio: Fraction | None
    max_sub_layers: int
    buffering: Buffering


class AccessUnit(NamedTuple):
    """One picture, and the NAL units that belong to it.

    `index` counts pictures in decoding order, `sequence_index` the coded video sequences, within
    which `poc` orders pictures for display. `shown` is False for pictures that no decoder puts out:
    those said to be hidden, and leading pictures whose references lie before the beginning.
    `drops_earlier` allows decoders to drop pictures that still wait to be shown.
    """

    index: int
    sequence_index: int
    poc: int
    nal_type: int
    temporal_id: int
    type: SliceType
    shown: bool
    drops_earlier: bool
    sequence: SequenceInfo
    units: list[Unit]

    @property
    def keyframe(self) -> bool:
        """Whether decoding can begin here."""
        return is_irap(self.nal_type)

    @property
    def offset(self) -> int:
        """The byte of the stream where its first unit begins."""
        return self.units[0].offset

    def annexb(self) -> bytes:
        """The units behind start codes, as decoders take them."""
        return b"".join(with_annexb_start_code(unit.data) for unit in self.units)


def access_units(source: Source, *, chunk_size: int = 65536) -> Iterator[AccessUnit]:
    """The pictures of a stream, which may be anything that `iter_annexb_nalus` takes.

    Units of other layers (`nuh_layer_id` above 0) and of reserved types are left out, as decoders
    of version 1 must. Raises ValueError and TypeError at once for what is no stream, and
    BitstreamError, while it is read, for what breaks the standard.
    """
    units = iter_units(source, chunk_size=chunk_size)
    return _pictures(units)


def _pictures(units: Iterator[Unit]) -> Iterator[AccessUnit]:
    reader = PictureReader()
    for unit in units:
        if (done := reader.take(unit)) is not None:
            yield done
    if (done := reader.finish()) is not None:
        yield done


@dataclass(slots=True)
class _Picture:
    """The picture that is being assembled."""

    poc: int
    header: HEVCNalHeader
    type: SliceType
    shown: bool
    drops_earlier: bool


def is_left_out(header: HEVCNalHeader) -> bool:
    """Whether a unit is of another layer or of a reserved type, which belong to no picture here."""
    return header.nuh_layer_id > 0 or header.nal_unit_type in _RESERVED


class PictureReader:
    """Takes units and gives access units; holds the parameter sets and the count of pictures."""

    def __init__(self) -> None:
        self._sets: dict[int, dict[int, Any]] = {kind: {} for kind in _READERS}
        self._known: dict[bytes, VPS | SPS | PPS] = {}  # sets are repeated, often
        self._order = PictureOrder()
        self._units: list[Unit] = []
        self._size = 0
        self._picture: _Picture | None = None
        self._active: SPS | None = None
        self._sequence: SequenceInfo | None = None
        self._at_beginning = True  # of the stream, or of what follows an end of sequence
        self._skips_leading = False
        self._index = 0
        self._sequence_index = -1

    def take(self, unit: Unit) -> AccessUnit | None:
        """Adds a unit; returns the access unit that it ends, if any."""
        header = parse_nal_header(unit.data, offset=unit.offset)
        kind = header.nal_unit_type
        if is_left_out(header):
            return None
        done = None
        if kind < _VPS:
            slice = read_slice(unit, kind, self._sets[_PPS], self._sets[_SPS])
            if slice.is_first:
                done = self.finish()
                self._begin(unit, header, slice)
            else:
                self._continue(unit, header, slice)
        else:
            if kind in _BEGINNING:
                done = self.finish()
            if kind in _READERS:
                self._keep(kind, unit)
            elif kind in (_END_OF_SEQUENCE, _END_OF_STREAM):
                self._at_beginning = True
        self._add(unit)
        return done

    def finish(self) -> AccessUnit | None:
        """The access unit that has been taken so far, if it has a picture."""
        if (picture := self._picture) is None:
            return None
        assert self._sequence is not None
        done = AccessUnit(
            self._index, self._sequence_index, picture.poc, picture.header.nal_unit_type,
            picture.header.temporal_id, picture.type, picture.shown,
            picture.drops_earlier, self._sequence, self._units,
        )  # fmt: skip
        self._picture, self._units, self._size = None, [], 0
        self._index += 1
        return done

    def _keep(self, kind: int, unit: Unit) -> None:
        found = self._known.get(unit.data)
        if found is None:
            found = _READERS[kind](unit)
            if len(self._known) == _MOST_KNOWN:
                self._known.clear()
            if len(unit.data) <= _MOST_KNOWN_BYTES:
                self._known[unit.data] = found
        self._sets[kind][found.id] = found

    def _begin(self, unit: Unit, header: HEVCNalHeader, slice: SliceHeader) -> None:
        kind = header.nal_unit_type
        if self._at_beginning and not is_irap(kind):
            _fail(unit, "decoding cannot begin with this picture: IDR, BLA or CRA must come first")
        # NoRaslOutputFlag of 8.1.3: IDR and BLA pictures have it, a CRA picture at a beginning.
        begins_sequence = is_irap(kind) and (self._at_beginning or kind != _CRA)
        if is_irap(kind):
            self._skips_leading = begins_sequence
        if begins_sequence:
            self._sequence_index += 1
            self._activate(slice.sps)
        elif slice.sps is not self._active and slice.sps != self._active:
            _fail(unit, f"SPS {slice.sps.id} changes within a coded video sequence")
        self._at_beginning = False
        self._picture = _Picture(
            poc=self._order.count(header, slice, begins_sequence),
            header=header,
            type=slice.type,
            shown=slice.shown and not (self._skips_leading and is_rasl(kind)),
            drops_earlier=begins_sequence and (kind == _CRA or slice.drops_earlier),
        )

    def _activate(self, sps: SPS) -> None:
        vps = self._sets[_VPS].get(sps.vps_id)
        self._active, self._sequence = sps, _describe(sps, vps)

    def _continue(self, unit: Unit, header: HEVCNalHeader, slice: SliceHeader) -> None:
        if (picture := self._picture) is None:
            _fail(unit, "a slice without the first slice of its picture")
        if header != picture.header or slice.sps != self._active:
            _fail(unit, "a slice whose header or SPS is not that of its picture's first slice")
        picture.type = min(picture.type, slice.type)

    def _add(self, unit: Unit) -> None:
        self._units.append(unit)
        self._size += len(unit.data)
        if self._size > MOST_UNIT_BYTES or len(self._units) > MOST_UNITS:
            _fail(unit, f"one picture has {len(self._units)} units of {self._size} bytes in all")


def _fail(unit: Unit, message: str) -> NoReturn:
    kind = unit.data[0] >> 1 & 0x3F
    raise BitstreamError(
        f"{nal_unit_type_name(kind)}: {message}", offset=unit.offset, nal_type=kind
    )


def _describe(sps: SPS, vps: VPS | None) -> SequenceInfo:
    crop, vui = sps.crop, sps.vui
    return SequenceInfo(
        profile=sps.profile,
        width=sps.coded_width - crop.left - crop.right,
        height=sps.coded_height - crop.top - crop.bottom,
        coded_width=sps.coded_width,
        coded_height=sps.coded_height,
        crop=crop,
        chroma_format=sps.chroma_format,
        bit_depth_luma=sps.bit_depth_luma,
        bit_depth_chroma=sps.bit_depth_chroma,
        colour_primaries=vui.colour_primaries,
        transfer_characteristics=vui.transfer_characteristics,
        matrix_coefficients=vui.matrix_coefficients,
        full_range=vui.full_range,
        field_sequence=vui.field_sequence,
        frame_rate=vui.frame_rate or (vps.frame_rate if vps else None),
        sample_aspect_ratio=vui.sample_aspect_ratio,
        max_sub_layers=sps.max_sub_layers,
        buffering=sps.buffering,
    )
