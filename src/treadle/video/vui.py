"""The usability information of an SPS (annex E of H.265): colour, pixel shape and timing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .bits import BitReader

__all__ = ["VUI", "Crop", "frame_rate", "read_crop", "read_vui"]

_EXTENDED_SAR = 255
_UNSPECIFIED = 2
# Table E.1: aspect_ratio_idc 1 to 16.
_ASPECT_RATIOS = (
    (1, 1), (12, 11), (10, 11), (16, 11), (40, 33), (24, 11), (20, 11), (32, 11), (80, 33),
    (18, 11), (15, 11), (64, 33), (160, 99), (4, 3), (3, 2), (2, 1),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Crop:
    """Luma samples that are not shown, on each side."""

    left: int = 0
    right: int = 0
    top: int = 0
    bottom: int = 0


@dataclass(frozen=True, slots=True)
class VUI:
    """What a stream says of its pictures; the defaults are what H.265 infers without a word.

    `colour_primaries`, `transfer_characteristics` and `matrix_coefficients` are the numbers of
    H.273, where 2 is "unspecified". `sample_aspect_ratio` and `frame_rate` are None if not said.
    """

    sample_aspect_ratio: Fraction | None = None
    video_format: int = 5
    full_range: bool = False
    colour_primaries: int = _UNSPECIFIED
    transfer_characteristics: int = _UNSPECIFIED
    matrix_coefficients: int = _UNSPECIFIED
    chroma_location: int = 0
    field_sequence: bool = False
    display_window: Crop = Crop()
    frame_rate: Fraction | None = None


def read_vui(bits: BitReader, units: tuple[int, int]) -> VUI:
    """vui_parameters() (E.2.1) up to the timing; `units` are SubWidthC and SubHeightC."""
    ratio = _aspect_ratio(bits) if bits.flag("aspect_ratio_info_present_flag") else None
    if bits.flag("overscan_info_present_flag"):
        bits.skip(1, "overscan_appropriate_flag")
    video_format, full_range = 5, False
    primaries = transfer = matrix = _UNSPECIFIED
    if bits.flag("video_signal_type_present_flag"):
        video_format = bits.u(3, "video_format")
        full_range = bits.flag("video_full_range_flag")
        if bits.flag("colour_description_present_flag"):
            primaries = bits.u(8, "colour_primaries")
            transfer = bits.u(8, "transfer_characteristics")
            matrix = bits.u(8, "matrix_coeffs")
    location = 0
    if bits.flag("chroma_loc_info_present_flag"):
        location = bits.ue("chroma_sample_loc_type_top_field", 5)
        bits.ue("chroma_sample_loc_type_bottom_field", 5)
    bits.skip(1, "neutral_chroma_indication_flag")
    fields = bits.flag("field_seq_flag")
    bits.skip(1, "frame_field_info_present_flag")
    window = Crop()
    if bits.flag("default_display_window_flag"):
        window = read_crop(bits, "def_disp_win", units)
    rate = frame_rate(bits, "vui") if bits.flag("vui_timing_info_present_flag") else None
    return VUI(
        ratio, video_format, full_range, primaries, transfer, matrix, location, fields, window, rate
    )


def _aspect_ratio(bits: BitReader) -> Fraction | None:
    kind = bits.u(8, "aspect_ratio_idc")
    width, height = 0, 0
    if kind == _EXTENDED_SAR:
        width, height = bits.u(16, "sar_width"), bits.u(16, "sar_height")
    elif 1 <= kind <= len(_ASPECT_RATIOS):
        width, height = _ASPECT_RATIOS[kind - 1]
    return Fraction(width, height) if width and height else None


def read_crop(bits: BitReader, prefix: str, units: tuple[int, int]) -> Crop:
    """Four offsets in units of chroma samples, as luma samples."""
    across, down = units
    left, right, top, bottom = (
        bits.ue(f"{prefix}_{side}_offset", 0xFFFF) for side in ("left", "right", "top", "bottom")
    )
    return Crop(left * across, right * across, top * down, bottom * down)


def frame_rate(bits: BitReader, prefix: str) -> Fraction | None:
    """Pictures a second; None where a part is 0, which says nothing."""
    tick = bits.u(32, f"{prefix}_num_units_in_tick")
    scale = bits.u(32, f"{prefix}_time_scale")
    return Fraction(scale, tick) if tick and scale else None
