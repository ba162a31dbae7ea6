"""Scaling lists and sets of reference pictures: what lies in an SPS before its colour.

Decoders read them for themselves. Here they are gone through, because nothing says how long they
are.
"""

from __future__ import annotations

from .bits import BitReader

__all__ = ["skip_reference_sets", "skip_scaling_lists"]

_MOST_REFERENCES = 16  # MaxDpbSize (A.4.2)


def skip_scaling_lists(bits: BitReader) -> None:
    """scaling_list_data() (7.3.4)."""
    for size in range(4):
        for matrix in range(0, 6, 3 if size == 3 else 1):
            if not bits.flag("scaling_list_pred_mode_flag"):
                step = 3 if size == 3 else 1
                bits.ue("scaling_list_pred_matrix_id_delta", matrix // step)
                continue
            if size > 1:
                bits.se("scaling_list_dc_coef_minus8", -7, 247)
            for _ in range(min(64, 16 << 2 * size)):
                bits.se("scaling_list_delta_coef", -128, 127)


def skip_reference_sets(bits: BitReader) -> None:
    """num_short_term_ref_pic_sets, and each st_ref_pic_set() (7.3.7).

    A set may be told as a change of the one before it, whose differences must so be known.
    """
    differences: list[int] = []
    for index in range(bits.ue("num_short_term_ref_pic_sets", 64)):
        if index and bits.flag("inter_ref_pic_set_prediction_flag"):
            differences = _predicted(bits, differences)
        else:
            differences = _explicit(bits)


def _explicit(bits: BitReader) -> list[int]:
    negative = bits.ue("num_negative_pics", _MOST_REFERENCES)
    positive = bits.ue("num_positive_pics", _MOST_REFERENCES - negative)
    before = _steps(bits, negative, "delta_poc_s0_minus1")
    return [-d for d in before] + _steps(bits, positive, "delta_poc_s1_minus1")


def _steps(bits: BitReader, count: int, name: str) -> list[int]:
    reached, found = 0, []
    for _ in range(count):
        reached += bits.ue(name, 32767) + 1
        bits.skip(1, "used_by_curr_pic_flag")
        found.append(reached)
    return found


def _predicted(bits: BitReader, reference: list[int]) -> list[int]:
    """Equations 7-61 and 7-62: what is moved to 0 drops out, the nearest pictures come first."""
    sign = -1 if bits.flag("delta_rps_sign") else 1
    shift = sign * (bits.ue("abs_delta_rps_minus1", 32767) + 1)
    moved = []
    for difference in (*reference, 0):
        used = bits.flag("used_by_curr_pic_flag")
        if used or bits.flag("use_delta_flag"):
            moved.append(difference + shift)
    if len(moved) > _MOST_REFERENCES:
        bits.fail(f"a reference picture set has {len(moved)} pictures, and 16 are the most")
    before = sorted((d for d in moved if d < 0), reverse=True)
    return before + sorted(d for d in moved if d > 0)
