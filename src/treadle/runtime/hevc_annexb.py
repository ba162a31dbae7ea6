"""Streams of HEVC in Annex B, by the names of the specification: they are in treadle.video.annexb.

from treadle.runtime.hevc_annexb import iter_annexb_nalus
"""

from treadle.video.annexb import (
    AnnexBParserError,
    HEVCNalHeader,
    iter_annexb_nalus,
    nal_unit_type_name,
    parse_nal_header,
    with_annexb_start_code,
)

__all__ = [
    "AnnexBParserError", "HEVCNalHeader", "iter_annexb_nalus", "nal_unit_type_name",
    "parse_nal_header", "with_annexb_start_code",
]  # fmt: skip
