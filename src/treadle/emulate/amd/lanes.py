"""Which lane DPP takes a value from.

    dpp_lanes({"dpp_ctrl": 0x111, "row_mask": 15, "bank_mask": 15}, 32, 11)

A row are 16 lanes and a bank 4 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["dpp_lanes"]

ROW = 16


def dpp_lanes(
    fields: Mapping[str, int], width: int, generation: int
) -> tuple[list[int], list[int], list[int]]:
    """For each lane: its source, whether that is inside its row, and whether it is written."""
    if "dpp8" in fields:
        order = fields["dpp8"]
        lanes = [i & ~7 | order >> 3 * (i & 7) & 7 for i in range(width)]
        return lanes, [1] * width, [1] * width
    move = _move(fields["dpp_ctrl"], width, generation)
    rows, banks = fields.get("row_mask", 15), fields.get("bank_mask", 15)
    written = [rows >> i // ROW & banks >> i // 4 % 4 & 1 for i in range(width)]
    found = [move(i) for i in range(width)]
    inside = [int(lane is not None) for lane in found]
    return [lane or 0 for lane in found], inside, written


def _move(control: int, width: int, generation: int) -> Callable[[int], int | None]:
    """The lane that each lane takes from; None where there is none."""
    n = control & 15
    if control < 0x100:
        return lambda i: i & ~3 | control >> 2 * (i & 3) & 3
    kind = control >> 4
    if kind == 0x10 and n:
        return lambda i: i + n if i % ROW + n < ROW else None
    if kind == 0x11 and n:
        return lambda i: i - n if i % ROW >= n else None
    if kind == 0x12 and n:
        return lambda i: i & ~15 | (i - n) % ROW
    if control == 0x140:
        return lambda i: i ^ 15
    if control == 0x141:
        return lambda i: i ^ 7
    if kind == 0x15:
        return lambda i: i & ~15 | n
    if generation >= 10:
        if kind == 0x16:
            return lambda i: i & ~15 | i % ROW ^ n
        raise ValueError(f"DPP control {control:#x}")
    moves: dict[int, Callable[[int], int | None]] = {
        0x130: lambda i: i + 1 if i + 1 < width else None,
        0x134: lambda i: (i + 1) % width,
        0x138: lambda i: i - 1 if i else None,
        0x13C: lambda i: (i - 1) % width,
        0x142: lambda i: (i & ~15) - 1 if i >= ROW else None,
        0x143: lambda i: 31 if i >= 32 else None,
    }
    if control not in moves:
        raise ValueError(f"DPP control {control:#x}")
    return moves[control]
