"""Parameter sets of H.265 (7.3.2): what a stream says of itself before its pictures.

A picture names a PPS, which names an SPS, which names a VPS. They are read as far as sizes, crops,
colour, timing and the headers of slices need, and each value is held to its range.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .annexb import Unit
from .bits import BitReader
from .sps_lists import skip_reference_sets, skip_scaling_lists
from .vui import VUI, Crop, frame_rate, read_crop, read_vui

__all__ = [
    "PPS",
    "SPS",
    "SUBSAMPLING",
    "VPS",
    "Buffering",
    "Profile",
    "read_pps",
    "read_sps",
    "read_vps",
]

_MOST_SIZE = 0xFFFF  # samples: level 7.2 ends at sqrt(8 * 142606336) = 33776
_MOST_UE = (1 << 32) - 2
_MOST_DPB = 15  # MaxDpbSize - 1 (A.4.2)

# Annex A, F, G, H and I.
_PROFILES = {
    1: "Main", 2: "Main 10", 3: "Main Still Picture", 4: "Format Range Extensions",
    5: "High Throughput", 6: "Multiview Main", 7: "Scalable Main", 8: "3D Main",
    9: "Screen-Extended", 10: "Scalable Format Range Extensions",
    11: "High Throughput Screen-Extended",
}  # fmt: skip
SUBSAMPLING = {0: (1, 1), 1: (2, 2), 2: (2, 1), 3: (1, 1)}  # SubWidthC, SubHeightC (table 6-1)


@dataclass(frozen=True, slots=True)
class Profile:
    """general_profile_idc, general_tier_flag and general_level_idc (30 times the level)."""

    idc: int
    high_tier: bool
    level_idc: int

    def __str__(self) -> str:
        name = _PROFILES.get(self.idc, f"profile {self.idc}")
        tier = "High" if self.high_tier else "Main"
        return f"{name}, level {self.level_idc / 30:.2g}, {tier} tier"


@dataclass(frozen=True, slots=True)
class Buffering:
    """What a decoder of all sub-layers must hold: pictures in all, and out of their order."""

    pictures: int
    reorder: int


@dataclass(frozen=True, slots=True)
class VPS:
    """A video parameter set."""

    id: int
    profile: Profile
    max_sub_layers: int
    frame_rate: Fraction | None


@dataclass(frozen=True, slots=True)
class SPS:
    """A sequence parameter set. Sizes are luma samples; `crop` is the conformance window."""

    id: int
    vps_id: int
    max_sub_layers: int
    profile: Profile
    chroma_format: int
    separate_colour_planes: bool
    coded_width: int
    coded_height: int
    crop: Crop
    bit_depth_luma: int
    bit_depth_chroma: int
    poc_lsb_bits: int
    buffering: Buffering
    ctb_size: int
    vui: VUI

    @property
    def slice_address_bits(self) -> int:
        """The length of slice_segment_address."""
        return (self.ctb_count - 1).bit_length()

    @property
    def ctb_count(self) -> int:
        """Coding tree blocks of a picture."""
        return -(-self.coded_width // self.ctb_size) * -(-self.coded_height // self.ctb_size)


@dataclass(frozen=True, slots=True)
class PPS:
    """A picture parameter set, as far as headers of slices depend on it."""

    id: int
    sps_id: int
    dependent_slices: bool
    output_flag_present: bool
    extra_slice_bits: int


def read_vps(unit: Unit) -> VPS:
    """Raises BitstreamError."""
    bits = BitReader(unit)
    id = bits.u(4, "vps_video_parameter_set_id")
    bits.skip(2 + 6, "vps_max_layers_minus1")
    sub_layers = _sub_layers(bits, "vps_max_sub_layers_minus1")
    bits.skip(1 + 16, "vps_reserved_0xffff_16bits")
    profile = _profile(bits, sub_layers)
    _buffering(bits, "vps", sub_layers)
    layers = bits.u(6, "vps_max_layer_id") + 1
    sets = bits.ue("vps_num_layer_sets_minus1", 1023)
    bits.skip(sets * layers, "layer_id_included_flag")
    rate = frame_rate(bits, "vps") if bits.flag("vps_timing_info_present_flag") else None
    return VPS(id, profile, sub_layers, rate)


def _sub_layers(bits: BitReader, name: str) -> int:
    count = bits.u(3, name) + 1
    if count > 7:
        bits.fail(f"{name} is 7, and must be 0 to 6")
    return count


def _profile(bits: BitReader, sub_layers: int) -> Profile:
    """profile_tier_level() (7.3.3): general, then what sub-layers say, which is left."""
    bits.skip(2, "general_profile_space")
    high_tier = bits.flag("general_tier_flag")
    idc = bits.u(5, "general_profile_idc")
    bits.skip(32 + 48, "general_profile_compatibility_flag")
    level = bits.u(8, "general_level_idc")
    lower = sub_layers - 1
    present = [bits.u(2, "sub_layer_profile_present_flag") for _ in range(lower)]
    if lower:
        bits.skip(2 * (8 - lower), "reserved_zero_2bits")
    for flags in present:
        bits.skip(88 * (flags >> 1) + 8 * (flags & 1), "sub_layer_level_idc")
    return Profile(idc, high_tier, level)


def _buffering(bits: BitReader, prefix: str, sub_layers: int) -> Buffering:
    """The numbers of the highest sub-layer, which come last."""
    told = sub_layers if bits.flag(f"{prefix}_sub_layer_ordering_info_present_flag") else 1
    pictures = reorder = 0
    for _ in range(told):
        pictures = bits.ue(f"{prefix}_max_dec_pic_buffering_minus1", _MOST_DPB)
        reorder = bits.ue(f"{prefix}_max_num_reorder_pics", pictures)
        bits.ue(f"{prefix}_max_latency_increase_plus1", _MOST_UE)
    return Buffering(pictures + 1, reorder)


def read_sps(unit: Unit) -> SPS:
    """Raises BitstreamError."""
    bits = BitReader(unit)
    vps_id = bits.u(4, "sps_video_parameter_set_id")
    sub_layers = _sub_layers(bits, "sps_max_sub_layers_minus1")
    bits.skip(1, "sps_temporal_id_nesting_flag")
    profile = _profile(bits, sub_layers)
    id = bits.ue("sps_seq_parameter_set_id", 15)
    chroma = bits.ue("chroma_format_idc", 3)
    separate = chroma == 3 and bits.flag("separate_colour_plane_flag")
    width = bits.ue("pic_width_in_luma_samples", _MOST_SIZE, 1)
    height = bits.ue("pic_height_in_luma_samples", _MOST_SIZE, 1)
    units = SUBSAMPLING[chroma]
    crop = Crop()
    if bits.flag("conformance_window_flag"):
        crop = read_crop(bits, "conf_win", units)
        if crop.left + crop.right >= width or crop.top + crop.bottom >= height:
            bits.fail(f"the conformance window leaves nothing of {width} x {height} samples")
    depth_luma = bits.ue("bit_depth_luma_minus8", 8) + 8
    depth_chroma = bits.ue("bit_depth_chroma_minus8", 8) + 8
    poc_bits = bits.ue("log2_max_pic_order_cnt_lsb_minus4", 12) + 4
    buffering = _buffering(bits, "sps", sub_layers)
    least_block, tree_block = _block_sizes(bits)
    if width % least_block or height % least_block:
        bits.fail(f"{width} x {height} samples are no multiple of blocks of {least_block}")
    _skip_tools(bits)
    skip_reference_sets(bits)
    if bits.flag("long_term_ref_pics_present_flag"):
        count = bits.ue("num_long_term_ref_pics_sps", 32)
        bits.skip(count * (poc_bits + 1), "lt_ref_pic_poc_lsb_sps")
    bits.skip(2, "strong_intra_smoothing_enabled_flag")
    vui = read_vui(bits, units) if bits.flag("vui_parameters_present_flag") else VUI()
    return SPS(
        id, vps_id, sub_layers, profile, chroma, separate, width, height, crop,
        depth_luma, depth_chroma, poc_bits, buffering, tree_block, vui,
    )  # fmt: skip


def _block_sizes(bits: BitReader) -> tuple[int, int]:
    """MinCbSizeY and CtbSizeY; the sizes of transforms are gone through."""
    least = bits.ue("log2_min_luma_coding_block_size_minus3", 3) + 3
    tree = least + bits.ue("log2_diff_max_min_luma_coding_block_size", 6 - least)
    if tree < 4:
        bits.fail("coding tree blocks are 8 x 8, and 16 x 16 are the least")
    transform = bits.ue("log2_min_luma_transform_block_size_minus2", least - 3) + 2
    bits.ue("log2_diff_max_min_luma_transform_block_size", min(tree, 5) - transform)
    bits.ue("max_transform_hierarchy_depth_inter", tree - transform)
    bits.ue("max_transform_hierarchy_depth_intra", tree - transform)
    return 1 << least, 1 << tree


def _skip_tools(bits: BitReader) -> None:
    """Scaling lists, asymmetric partitions, sample adaptive offset and PCM."""
    if bits.flag("scaling_list_enabled_flag") and bits.flag("sps_scaling_list_data_present_flag"):
        skip_scaling_lists(bits)
    bits.skip(2, "sample_adaptive_offset_enabled_flag")
    if bits.flag("pcm_enabled_flag"):
        bits.skip(8, "pcm_sample_bit_depth_chroma_minus1")
        least = bits.ue("log2_min_pcm_luma_coding_block_size_minus3", 2)
        bits.ue("log2_diff_max_min_pcm_luma_coding_block_size", 2 - least)
        bits.skip(1, "pcm_loop_filter_disabled_flag")


def read_pps(unit: Unit) -> PPS:
    """Raises BitstreamError."""
    bits = BitReader(unit)
    return PPS(
        id=bits.ue("pps_pic_parameter_set_id", 63),
        sps_id=bits.ue("pps_seq_parameter_set_id", 15),
        dependent_slices=bits.flag("dependent_slice_segments_enabled_flag"),
        output_flag_present=bits.flag("output_flag_present_flag"),
        extra_slice_bits=bits.u(3, "num_extra_slice_header_bits"),
    )
