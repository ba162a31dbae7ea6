"""Names of the numbers that describe colour (H.273, tables 2 to 4; H.265, annex E)."""

from __future__ import annotations

__all__ = ["MATRICES", "PRIMARIES", "TRANSFERS"]

PRIMARIES = {
    1: "BT.709", 2: "unspecified", 4: "BT.470 M", 5: "BT.601 625", 6: "BT.601 525",
    7: "SMPTE 240M", 8: "film", 9: "BT.2020", 10: "XYZ", 11: "DCI-P3", 12: "Display P3",
    22: "EBU 3213",
}  # fmt: skip
TRANSFERS = {
    1: "BT.709", 2: "unspecified", 4: "gamma 2.2", 5: "gamma 2.8", 6: "BT.601", 7: "SMPTE 240M",
    8: "linear", 9: "logarithmic 100:1", 10: "logarithmic 316:1", 11: "IEC 61966-2-4",
    12: "BT.1361", 13: "sRGB", 14: "BT.2020 10 bit", 15: "BT.2020 12 bit", 16: "PQ",
    17: "SMPTE 428", 18: "HLG",
}  # fmt: skip
MATRICES = {
    0: "RGB", 1: "BT.709", 2: "unspecified", 4: "FCC", 5: "BT.601 625", 6: "BT.601 525",
    7: "SMPTE 240M", 8: "YCgCo", 9: "BT.2020", 10: "BT.2020 constant luminance", 11: "SMPTE 2085",
    12: "derived", 13: "derived constant luminance", 14: "ICtCp",
}  # fmt: skip
