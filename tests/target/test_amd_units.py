"""AMD's matrix units against the layouts that AMD publishes, and what holds of them besides."""

import tomllib
from pathlib import Path

import pytest

from treadle.target import CDNA2, CDNA3, CDNA4, RDNA3, RDNA4

LAYOUTS = tomllib.loads((Path(__file__).parent / "amd_layouts.toml").read_text())["layouts"]
UNITS = {"rdna3": RDNA3, "rdna4": RDNA4, "cdna2": CDNA2, "cdna3": CDNA3, "cdna4": CDNA4}
PUBLISHED = {
    (layout["architecture"], instruction): layout
    for layout in LAYOUTS
    for instruction in layout["instructions"]
}
ALL = [(chip, unit) for chip, units in UNITS.items() for unit in units.values()]


def each(pairs):
    names = [f"{chip} {unit.name} {unit.instruction}" for chip, unit in pairs]
    return pytest.mark.parametrize(("chip", "unit"), pairs, ids=names)


EACH = each(ALL)
TABULATED = [(chip, unit) for chip, unit in ALL if chip != "cdna4"]  # whose tables are published


def places(text):
    return [tuple(map(int, word.split(","))) for word in text.split()]


@each(TABULATED)
def test_lanes_hold_what_is_published(chip, unit):
    layout = PUBLISHED[chip, unit.instruction]
    for matrix, held in (("A", unit.x), ("B", unit.y), ("D", unit.out)):
        for lane, text in layout[matrix].items():
            mine = [held.place(int(lane), element) for element in range(held.count)]
            # B is published by steps and columns, the map is to columns and steps.
            assert [p[::-1] if matrix == "B" else p for p in mine] == places(text)
        assert held.width == max(map(int, layout[matrix])) + 1


@EACH
def test_every_place_is_held_once_and_factors_of_rdna3_in_both_halves(chip, unit):
    copies = 2 if chip == "rdna3" else 1
    for held in (unit.x, unit.y):
        rows, steps = held.shape
        for row in range(rows):
            for step in range(steps):
                assert len(held.holders(row, step)) == copies
    rows, columns = unit.out.shape
    seen = {
        (row, column): holder
        for row in range(rows)
        for column in range(columns)
        for holder in unit.out.holders(row, column)
    }
    assert len(set(seen.values())) == rows * columns == unit.out.width * unit.out.count


@EACH
def test_registers_are_whole(chip, unit):
    of_x, of_y, out = unit.held
    assert of_x.shape[1] == of_y.shape[1]
    assert of_x.count * 4 == unit.x.count * unit.dtype.itemsize
    assert of_x.shape == (unit.rows, unit.steps * unit.dtype.itemsize // 4)
    assert out.width == (64 if chip.startswith("cdna") else 32)


def test_lanes_of_cdna4_hold_twice_as_many_neighbours_as_those_of_cdna3():
    for kind, size in (
        (kind, size) for kind in ("float16", "bfloat16", "int8") for size in (16, 32)
    ):
        old, new = CDNA3[kind, size], CDNA4[kind, size]
        assert new.out == old.out
        for lane in range(64):
            (line, first), (other, begin) = old.x.place(lane, 0), new.x.place(lane, 0)
            assert (other, begin) == (line, 2 * first)
            assert new.x.place(lane, new.x.count - 1) == (line, begin + 2 * old.x.count - 1)


def test_every_published_layout_belongs_to_a_unit():
    assert set(PUBLISHED) == {(chip, unit.instruction) for chip, unit in TABULATED}
