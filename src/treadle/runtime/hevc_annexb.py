"""Annex-B streams of HEVC, under the name that the specification gives them: see `video.annexb`."""

from ..video.annexb import (
    AnnexBParserError,
    HEVCNalHeader,
    iter_annexb_nalus,
    nal_unit_type_name,
    parse_nal_header,
    with_annexb_start_code,
)

__all__ = [
    "AnnexBParserError",
    "HEVCNalHeader",
    "iter_annexb_nalus",
    "nal_unit_type_name",
    "parse_nal_header",
    "with_annexb_start_code",
]
