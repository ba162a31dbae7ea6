"""Headers of slice segments (7.3.6.1), and the order of pictures that they tell (8.3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from .annexb import HEVCNalHeader, Unit
from .bits import BitReader
from .parameter_sets import PPS, SPS

__all__ = ["PictureOrder", "SliceHeader", "SliceType", "is_idr", "is_irap", "is_rasl", "read_slice"]

_MOST_HEADER = 64  # bytes: what is read of a header has fewer than 32


class SliceType(IntEnum):
    """How a slice may be predicted: from two pictures, from one, from none (table 7-7)."""

    B = 0
    P = 1
    I = 2  # noqa: E741 - the standard's name


class SliceHeader(NamedTuple):
    """The beginning of a slice segment.

    `drops_earlier` is no_output_of_prior_pics_flag, `shown` is pic_output_flag. A dependent
    segment, whose header is the one before it, has the type I: it adds nothing.
    """

    is_first: bool
    drops_earlier: bool
    pps: PPS
    sps: SPS
    type: SliceType
    shown: bool
    poc_lsb: int


def is_irap(kind: int) -> bool:
    """Whether pictures of this type can be decoded without those before them."""
    return 16 <= kind <= 23


def is_idr(kind: int) -> bool:
    """IDR_W_RADL or IDR_N_LP."""
    return kind in (19, 20)


def is_rasl(kind: int) -> bool:
    """RASL_N or RASL_R: leading pictures that refer to what precedes their IRAP picture."""
    return kind in (8, 9)


def read_slice(
    unit: Unit, kind: int, pps_of: Mapping[int, PPS], sps_of: Mapping[int, SPS]
) -> SliceHeader:
    """The header of a unit of type `kind`. Raises BitstreamError, also for missing sets."""
    bits = BitReader(unit, _MOST_HEADER)
    is_first = bits.flag("first_slice_segment_in_pic_flag")
    drops_earlier = is_irap(kind) and bits.flag("no_output_of_prior_pics_flag")
    pps_id = bits.ue("slice_pic_parameter_set_id", 63)
    if (pps := pps_of.get(pps_id)) is None:
        bits.fail(f"the picture needs PPS {pps_id}, which the stream has not sent before it")
    if (sps := sps_of.get(pps.sps_id)) is None:
        bits.fail(f"the picture needs SPS {pps.sps_id}, which the stream has not sent before it")
    dependent = False
    if not is_first:
        dependent = pps.dependent_slices and bits.flag("dependent_slice_segment_flag")
        address = bits.u(sps.slice_address_bits, "slice_segment_address")
        if not 0 < address < sps.ctb_count:
            bits.fail(f"slice_segment_address is {address}, and must be 1 to {sps.ctb_count - 1}")
    if dependent:
        return SliceHeader(is_first, drops_earlier, pps, sps, SliceType.I, True, 0)
    bits.skip(pps.extra_slice_bits, "slice_reserved_flag")
    type = SliceType(bits.ue("slice_type", 2))
    shown = not pps.output_flag_present or bits.flag("pic_output_flag")
    if sps.separate_colour_planes:
        bits.skip(2, "colour_plane_id")
    lsb = 0 if is_idr(kind) else bits.u(sps.poc_lsb_bits, "slice_pic_order_cnt_lsb")
    return SliceHeader(is_first, drops_earlier, pps, sps, type, shown, lsb)


class PictureOrder:
    """Counts pictures in the order in which they are shown (8.3.1), from the low bits in slices."""

    def __init__(self) -> None:
        self._previous = 0  # the count of the latest picture that others count from

    def count(self, header: HEVCNalHeader, slice: SliceHeader, begins_sequence: bool) -> int:
        """PicOrderCntVal of the next picture; `begins_sequence`: an IRAP with NoRaslOutputFlag."""
        kind, size = header.nal_unit_type, 1 << slice.sps.poc_lsb_bits
        high = 0 if begins_sequence else self._previous & -size
        if not begins_sequence:
            step = slice.poc_lsb - (self._previous & (size - 1))
            if step <= -size // 2:
                high += size
            elif step > size // 2:
                high -= size
        poc = high + slice.poc_lsb
        # Leading pictures and those that no other of their sub-layer refers to do not count.
        if header.temporal_id == 0 and not (6 <= kind <= 9 or (kind < 16 and kind % 2 == 0)):
            self._previous = poc
        return poc
