"""Layouts: every element of a slice has a place of its own, and is copied there once."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import dtypes
from treadle.ir.args import ParamRef, StageArg
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import TRUE, Split, loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.views import Load, Stage
from treadle.optimize.layout import Layout, Slices, copied, kept, packed, turned
from treadle.optimize.moves import Moves
from treadle.target import parse_target

F16 = dtypes.float16
X = Node(Op.PARAM, F16, (), ParamRef(0, 1 << 16))
LINE, STEP = Node.range(128, 0), Node.range(32, 1)
LAYOUTS = {
    "lines": Layout(128, 32, is_swizzled=True),
    "steps": Layout(128, 32, of_lines=True),
    "padded": Layout(128, 32, of_lines=True, pad=8),
    "panels": Layout(128, 32, of_lines=True, wide=64, is_swizzled=True),
    "one panel": Layout(128, 32, of_lines=True, wide=128),
}


def over(loops):
    """Each loop's step at each step of all of them."""
    grid = np.meshgrid(*(np.arange(loop_size(r)) for r in loops), indexing="ij")
    return dict(zip(loops, grid, strict=True))


def numbers(places, known):
    shape = next(iter(known.values())).shape
    return [np.broadcast_to(evaluate(place, known), shape) for place in places]


def moves_of(monkeypatch):
    moves = Moves(Node.sink([]), parse_target("sm_80"))
    monkeypatch.setattr(moves, "_is_making", True)
    moves._next = 10
    return moves


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_step_of_each_line_has_a_place_of_its_own(name):
    layout, known = LAYOUTS[name], over((LINE, STEP))
    places = numbers(layout.place(LINE, STEP), known)
    for at, size in zip(places, layout.sizes, strict=True):
        assert 0 <= at.min() <= at.max() < size
    assert len(set(zip(*(at.flat for at in places), strict=True))) == 128 * 32
    inner = LINE if layout.of_lines else STEP
    zero = {LINE: np.asarray(0), STEP: np.asarray(0)}
    neighbour = [
        int(evaluate(at, zero | {inner: np.asarray(1)})) for at in layout.place(LINE, STEP)
    ]
    assert neighbour == [*[0] * (len(neighbour) - 1), 1]


@pytest.mark.parametrize("work_items", [128, 96, 1024])
@pytest.mark.parametrize("order", ["steps", "lines", "panels", "across"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_slice_is_copied_once_whoever_copies_what(name, order, work_items, monkeypatch):
    layout, moves = LAYOUTS[name], moves_of(monkeypatch)
    tile = Node.range(4, 2, "grid")
    factor = Node(Op.LOAD, F16, (X, (tile * 128 + LINE) * 32 + STEP))
    split = Split(tile * 128 + LINE, (tile, LINE), TRUE)
    slices = Slices(moves, STEP, 32, work_items, 2)
    stage = Stage.of(copied(slices, factor, split, layout, 8, order).stage)
    assert (stage.arg.sizes, stage.arg.fill) == (layout.sizes, "copies")
    assert stage.arg.swizzle == (layout.sizes[-1] * 2 if layout.is_swizzled else 0)
    known = over(stage.loops) | {tile: np.asarray(1)}
    done, *places = numbers((stage.gate, *stage.filled, Load.of(stage.value).index), known)
    stored = list(zip(*(one[done].tolist() for one in places), strict=True))
    wanted = over((LINE, STEP))
    there = numbers(layout.place(LINE, STEP), wanted)
    index = (128 + wanted[LINE]) * 32 + wanted[STEP]
    assert sorted(stored) == sorted(
        zip(*(one.ravel().tolist() for one in (*there, index)), strict=True)
    )


@pytest.mark.parametrize(
    ("factor", "buffers", "fill"),
    [
        (Node(Op.LOAD, F16, (X, LINE * 32 + STEP)), 2, "copies"),
        (Node(Op.LOAD, F16, (X, LINE * 32 + STEP)), 1, "stores"),
        (Node(Op.LOAD, F16, (X, LINE * 32 + STEP, STEP < 9, Node.const(F16, 1))), 2, "stores"),
        (Node(Op.LOAD, F16, (X, LINE * 32 + STEP)) * 2, 2, "stores"),
    ],
    ids=["memory", "one buffer", "one elsewhere", "computed"],
)
def test_what_memory_holds_is_copied_and_the_rest_is_stored(factor, buffers, fill, monkeypatch):
    split, layout = Split(LINE, (LINE,), TRUE), LAYOUTS["lines"]
    slices = Slices(moves_of(monkeypatch), STEP, 32, 128, buffers)
    made = copied(slices, factor, split, layout, 8, "steps")
    assert made.stage.arg.fill == fill


def test_a_kept_value_is_read_where_it_is_stored():
    """In loops that reach further together, with a guard."""
    outer, inner = Node.range(9, 3), Node.range(4, 4)
    value = Node(Op.LOAD, F16, (X, STEP * 128 + LINE))
    fill = {STEP: Split(outer * 4 + inner, (outer, inner), outer * 4 + inner < 32)}
    stage = Stage.of(kept(value, StageArg("shared", (32,)), (31 - STEP,), fill))
    known = over((outer, inner)) | {LINE: np.asarray(5)}
    done = evaluate(stage.gate, known)
    places, stored = (
        evaluate(stage.filled[0], known)[done],
        evaluate(Load.of(stage.value).index, known)[done],
    )
    assert dict(zip(places.tolist(), stored.tolist(), strict=True)) == {
        31 - n: n * 128 + 5 for n in range(32)
    }
    assert evaluate(stage.read[0], {STEP: np.asarray(3)}) == 28


def source_of(value, index, gate, loops):
    """What is read for each place of a STAGE, where `gate` holds."""
    known = over(loops)
    load = Load.of(value)
    *places, at, held, inside = numbers((*index, load.index, load.gate, gate), known)
    keys = zip(*(place.flat for place in places), strict=True)
    found = zip(keys, np.where(held, at, -1).flat, inside.flat, strict=True)
    return {key: source for key, source, is_filled in found if is_filled}


@pytest.mark.parametrize("lanes", [0, 4, 8])
@pytest.mark.parametrize("scope", ["grid", "shared"])
@pytest.mark.parametrize("contiguous", range(4))
def test_workers_pack_each_element_once(monkeypatch, lanes, scope, contiguous):
    """Whichever loop memory is contiguous in, and whatever a condition is about."""
    moves = moves_of(monkeypatch)
    tile, step, part, line = loops = tuple(Node.range(n, at) for at, n in enumerate((3, 5, 12, 7)))
    order = [*loops[:contiguous], *loops[contiguous + 1 :], loops[contiguous]]
    index = Node.index(0)
    for loop in order:
        index = index * 200 + loop
    gate = [TRUE, part < 9, tile * 7 + line < 19, step + part < 14][contiguous]
    value = Load(X, index, gate, Node.const(F16, 0), F16).node()
    around = (tile,) if scope == "grid" else ()
    stage = Stage.of(packed(moves, value, scope, around, (step, part), (line,), lanes))
    closed = (*stage.loops, *(() if around else (tile,)))
    filled = source_of(stage.value, stage.filled, stage.gate, closed)
    wanted = source_of(value, stage.read, TRUE, loops)
    assert filled == wanted
    assert stage.arg.sizes == (*(() if scope == "shared" else (3,)), 60, 7)


@pytest.mark.parametrize("is_crossed", [False, True])
def test_workgroups_turn_each_element_once(monkeypatch, is_crossed):
    """Squares go past the end of both loops, and stop there."""
    moves = moves_of(monkeypatch)
    batch, line, step = loops = tuple(Node.range(n, at) for at, n in enumerate((2, 45, 37)))
    index = batch * 5000 + (step * 64 + line if is_crossed else line * 64 + step)
    value = Node(Op.LOAD, F16, (X, index))
    stage = Stage.of(turned(moves, value, (batch,), line, step, 128, 8))
    assert stage.arg.sizes == (2, 45, 40)
    inner = stage.value
    if is_crossed:
        square = Stage.of(inner)
        assert square.arg.sizes == (32, 33)
        grid = {r for r in stage.loops if r.arg.kind == "grid"}
        at = {r: np.asarray(loop_size(r) - 1) for r in grid}
        known = over(square.loops) | at
        there = numbers((*square.filled, Load.of(square.value).index, square.gate), known)
        rows, columns, read, inside = (each.reshape(-1) for each in there)
        held = {(a, b): c for a, b, c, d in zip(rows, columns, read, inside, strict=True) if d}
        assert len(held) == (45 - 32) * (37 - 32)
        return
    filled = source_of(inner, stage.filled, stage.gate, stage.loops)
    assert filled == source_of(value, (batch, line, step), TRUE, loops)
