"""Hints for the next panel of a matrix: all of its lines, and no others."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit
from treadle.dtype import dtypes
from treadle.engine.run import scheduled
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.lower.passes import lower
from treadle.lower.prefetch import AHEAD, AHEAD_IN_EACH
from treadle.lower.streams import CACHE_LINE, split_index
from treadle.optimize.heuristic import optimize
from treadle.optimize.tile_reduction import TileReduction
from treadle.render.c import CRenderer
from treadle.render.llvm import LLVMRenderer
from treadle.render.opencl import OpenCLRenderer
from treadle.target import parse_target

TARGET = replace(parse_target("x86-64-v4"), l1=16 << 10, l2=1 << 20)
NARROW = replace(parse_target("x86-64-v3"), l1=16 << 10, l2=1 << 20)
STEPS, COLUMNS = 512, 320
LLVM = LLVMRenderer(triple="x86_64-unknown-linux-gnu", vector_bits=512)
RANDOM = np.random.default_rng(11)


def values(*shape):
    return Tensor(RANDOM.standard_normal(shape).astype(np.float32), device="CPU").realize()


def product_of(rows, target=TARGET, steps=STEPS, lasts=True, turned=False):
    """The phase that multiplies by a matrix; one that `lasts` is packed once."""
    x, w = values(rows, steps), values(COLUMNS, steps) if turned else values(steps, COLUMNS)
    (kernel,) = scheduled([((x @ (w.T if turned else w)).node, "CPU")])
    params = [n for n in kernel.ast.toposort() if n.op is Op.PARAM]
    (weight,) = (n for n in params if n.arg.size == steps * COLUMNS and not n.arg.is_new)
    kept = weight.replace(arg=replace(weight.arg, lasts=lasts))
    ast, log = optimize(kernel.ast.substitute({weight: kept}), target)
    (tiled,) = log.of_kind(TileReduction)
    assert tiled.columns == ("all workers" if lasts else "each worker")
    return lower(ast, len(kernel.buffers), target).phases[-1]


def hints(phase):
    return [node for node in phase.program.src if node.op is Op.PREFETCH]


def lines(phase, index):
    """The lines of memory at an index in all steps of the loops around it, panel by panel."""
    used = [n for n in index.toposort() if n.op is Op.RANGE]
    ranges = [phase.grid[-1], *(r for r in used if r is not phase.grid[-1])]
    grid = np.meshgrid(*(np.arange(loop_size(r)) for r in ranges), indexing="ij")
    known = dict(zip(ranges, grid, strict=True))
    for node in index.toposort():
        if node.op is Op.CONST:
            known[node] = np.array(node.arg)
        elif node not in known:
            known[node] = MEANING[node.op](*(known[s] for s in node.src))
    return [
        set((panel * 4 // CACHE_LINE).flat)
        for panel in np.broadcast_to(known[index], grid[0].shape)
    ]


MEANING = {
    Op.ADD: np.add, Op.MUL: np.multiply, Op.IDIV: np.floor_divide, Op.MOD: np.mod,
    Op.CMPLT: np.less, Op.WHERE: np.where, Op.AND: np.bitwise_and, Op.SHR: np.right_shift,
}  # fmt: skip


@pytest.mark.parametrize("target", [TARGET, NARROW], ids=["a line each", "two to a line"])
@pytest.mark.parametrize(
    "how",
    [
        pytest.param({"lasts": True}, id="packed once"),
        pytest.param({"lasts": False}, id="rows of columns"),
        pytest.param({"lasts": False, "turned": True}, id="rows of steps"),
    ],
)
def test_each_panel_asks_for_all_lines_of_the_next_one(how, target):
    phase = product_of(48, target, **how)
    verify_linear(phase.program)
    (hint,) = hints(phase)
    memory = hint.src[0]
    loads = [n for n in phase.program.src if n.op is Op.LOAD and n.src[0] is memory]
    read = [lines(phase, load.src[1]) for load in loads]
    asked = lines(phase, hint.src[1])
    assert len(asked) > 1
    for panel, mine in enumerate(asked[:-1]):
        assert mine == set().union(*(one[panel + 1] for one in read))


@pytest.mark.parametrize("lasts", [True, False], ids=["packed once", "packed by each worker"])
def test_tiles_ask_for_equally_many_lines_of_the_next_panel(lasts):
    phase = product_of(96, lasts=lasts)
    (hint,) = hints(phase)
    index = hint.src[1]
    used = [n for n in index.toposort() if n.op is Op.RANGE]
    tile = next(n for n in phase.program.src if n in used and n not in phase.grid)
    tiles = loop_size(tile)
    assert tiles == 8
    of_tiles = [lines(phase, index.substitute({tile: tile.like(n)}))[0] for n in range(tiles)]
    assert {len(asked) for asked in of_tiles} == {STEPS * 4 // tiles}
    assert len(set().union(*of_tiles)) == STEPS * 4


@pytest.mark.parametrize(
    ("rows", "target", "steps"),
    [
        pytest.param(6, TARGET, STEPS, id="fewer tiles than vectors of a step"),
        pytest.param(48, TARGET, 48, id="panels that the first-level cache holds"),
        pytest.param(48, replace(TARGET, l2=1 << 17), STEPS, id="no room for two panels"),
    ],
)
def test_nothing_is_asked_for_that_would_not_help(rows, target, steps):
    assert not hints(product_of(rows, target, steps))


def phase_over_rows(function, columns, target=TARGET):
    """The phase of a kernel over seven rows."""
    (kernel,) = scheduled([(function(values(7, columns)).node, "CPU")])
    ast, _ = optimize(kernel.ast, target)
    (phase,) = lower(ast, len(kernel.buffers), target).phases
    return phase


ROWS = {
    "softmax": lambda x: x.softmax(1),
    "layer norm": lambda x: x.layernorm(),
    "RMS norm": lambda x: x * x.square().mean(1, keepdim=True).rsqrt(),
}
KNOWN = {*MEANING, Op.CONST, Op.RANGE}


@pytest.mark.parametrize("target", [TARGET, NARROW], ids=["a line each", "two to a line"])
@pytest.mark.parametrize("columns", [1024, 1000])
@pytest.mark.parametrize("name", ROWS)
def test_a_row_that_is_read_twice_asks_for_the_next_one_once(name, columns, target):
    phase = phase_over_rows(ROWS[name], columns, target)
    verify_linear(phase.program)
    asked = [lines(phase, hint.src[1]) for hint in hints(phase)]
    for row in range(6):
        whole = set(
            range((row + 1) * columns * 4 // CACHE_LINE, (row + 2) * columns * 4 // CACHE_LINE)
        )
        mine = [line for hint in asked for line in hint[row]]
        assert len(mine) == len(set(mine))
        assert len(whole - set(mine)) <= 6  # what is left of a row after its last whole step
    loops = [n for n in phase.program.src if n.op is Op.RANGE]
    steps = {n for hint in hints(phase) for n in hint.src[1].toposort() if n in loops}
    assert loops.index((steps - set(phase.grid)).pop()) > 0, "the first loop has to wait itself"


@pytest.mark.parametrize("name", ["softmax", "RMS norm"])
def test_a_row_that_is_read_twice_is_not_asked_for_while_it_is_read_first(name):
    """Not even where it is of large memory, as in the test of what is read once."""
    large = phase_over_rows(ROWS[name], 1024, replace(TARGET, l3=1 << 10))
    assert len(hints(large)) == len(hints(phase_over_rows(ROWS[name], 1024))) > 0


@pytest.mark.parametrize(
    ("function", "target"),
    [
        pytest.param(lambda x: x.sum(1), TARGET, id="read once"),
        pytest.param(lambda x: x.softmax(1), replace(TARGET, l2=1 << 12), id="no room for two"),
        pytest.param(lambda x: x.softmax(0), TARGET, id="columns"),
    ],
)
def test_no_row_is_asked_for_that_would_not_help(function, target):
    assert not hints(phase_over_rows(function, 1024, target))


SMALL_CACHES = replace(TARGET, l3=1 << 20)


def test_rows_behind_the_first_ones_are_asked_for_ahead_too():
    x = Tensor.ones(301, 1024, device="CPU").realize()[1:]
    (kernel,) = scheduled([(x.sum(1).node, "CPU")])
    ast, _ = optimize(kernel.ast, SMALL_CACHES)
    (phase,) = lower(ast, len(kernel.buffers), SMALL_CACHES).phases
    asked = {line for hint in hints(phase) for row in lines(phase, hint.src[1]) for line in row}
    first = (AHEAD + 1024 * 4) // CACHE_LINE
    assert asked == set(range(first, first + 300 * 64))


@pytest.mark.parametrize("name", ["sum", "max", "argmax"])
def test_rows_of_large_memory_are_asked_for_ahead_line_by_line(name):
    """Once each, and none in front of what was asked for before."""
    x = Tensor.ones(300, 1024, device="CPU").realize()
    (kernel,) = scheduled([(getattr(x, name)(1).node, "CPU")])
    ast, _ = optimize(kernel.ast, SMALL_CACHES)
    (phase,) = lower(ast, len(kernel.buffers), SMALL_CACHES).phases
    verify_linear(phase.program)
    asked = [lines(phase, hint.src[1]) for hint in hints(phase)]
    places = [n.src[1] for n in phase.program.src if n.op is Op.LOAD]
    # The block that an extreme is in is read again, wherever it is.
    loads = [lines(phase, at) for at in places if {n.op for n in at.toposort()} <= KNOWN]
    for row in (0, 299):
        wanted = [line for hint in asked for line in hint[row]]
        read = {line + AHEAD // CACHE_LINE for load in loads for line in load[row]}
        assert len(wanted) == len(read)
        assert set(wanted) == read


def test_several_rows_that_are_added_to_totals_are_asked_for_a_little_ahead_each():
    x = Tensor.ones(600, 1024, device="CPU").realize()
    (kernel,) = scheduled([(x.sum(0).node, "CPU")])
    ast, _ = optimize(kernel.ast, SMALL_CACHES)
    phase, *_ = lower(ast, len(kernel.buffers), SMALL_CACHES).phases
    verify_linear(phase.program)
    read = {split_index(n.src[1]) for n in phase.program.src if n.op is Op.LOAD}
    ahead = [split_index(hint.src[1]) for hint in hints(phase)]
    assert len(ahead) == 8 * 4  # rows at a time, lines of each
    assert all((base, shift - AHEAD_IN_EACH // 4) in read for base, shift in ahead)


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        pytest.param(lambda x: x.cast(dtypes.int8), 300, id="stored in caches"),
        pytest.param(lambda x: x.cast(dtypes.float16), 300, id="half as much stored"),
        pytest.param(lambda x: x.reshape(-1, 4096).sum(1), 1024, id="rows in pairs"),
        pytest.param(lambda x: x.sum(), 8192, id="halves of rows"),
        pytest.param(lambda x: x[:, :64].sum(1), 300, id="rows apart"),
        pytest.param(lambda x: x.sum(0), 200, id="columns that a cache holds"),
        pytest.param(lambda x: x.sum(1), 200, id="a cache holds all of it"),
    ],
)
def test_nothing_is_asked_for_ahead_where_it_would_not_help(function, rows):
    x = Tensor.ones(rows, 1024, device="CPU").realize()
    (kernel,) = scheduled([(function(x).node, "CPU")])
    ast, _ = optimize(kernel.ast, SMALL_CACHES)
    for phase in lower(ast, len(kernel.buffers), SMALL_CACHES).phases:
        assert not hints(phase)


@pytest.mark.parametrize(
    ("renderer", "text"),
    [
        (LLVM, r"call void @llvm\.prefetch\.p0\(ptr %\w+, i32 0, i32 2"),
        (CRenderer(), r"__builtin_prefetch\(\w+ \+ \w+, 0, 2\);"),
        (OpenCLRenderer(TARGET), r" prefetch\(\w+ \+ \w+, 1\);"),
    ],
)
def test_every_language_of_processors_has_the_hint(renderer, text):
    assert re.search(text, renderer.render("product", [product_of(48)], ()))


def test_places_that_are_read_from_memory_are_not_asked_for():
    """The next panel's would have to be read first."""
    table, x = values(1000, 64), values(48, 256)
    places = Tensor(RANDOM.integers(0, 1000, 256).astype(np.int32), device="CPU").realize()
    for kernel in scheduled([((x @ table[places]).node, "CPU")]):
        ast, _ = optimize(kernel.ast, TARGET)
        for phase in lower(ast, len(kernel.buffers), TARGET).phases:
            for hint in hints(phase):
                assert not any(n.op is Op.LOAD for n in hint.src[1].toposort())


@pytest.mark.parametrize("room", [0, 48], ids=["packed in each call", "packed once"])
def test_products_with_hints_are_what_they_were(room):
    """The last panel's hint is beyond the memory."""
    x, w = values(64, 1024), values(512, 1024)
    product = TinyJit(lambda x: (x @ w.T).realize())
    with Context(KEEP_PACKED=room):
        for _ in range(3):
            found = product(x).numpy()
    np.testing.assert_allclose(found, x.numpy() @ w.numpy().T, rtol=1e-4, atol=1e-3)


def pairs_of_rows(x):
    """Sums and differences of two neighbouring rows, side by side."""
    rows = x.reshape(-1, 2, x.shape[1])
    return Tensor.stack(rows[:, 0] + rows[:, 1], rows[:, 0] - rows[:, 1], dim=-1)


def phase_that_streams(function, target=TARGET, l3=1 << 20):
    """The phase of a kernel over 256 rows of 8 KiB, whose results do not fit the caches."""
    (kernel,) = scheduled([(function(values(256, 2048)).node, "CPU")])
    target = replace(target, l3=l3)
    ast, _ = optimize(kernel.ast, target)
    (phase,) = lower(ast, len(kernel.buffers), target).phases
    return phase


@pytest.mark.parametrize("target", [TARGET, NARROW], ids=["a line each", "two to a line"])
def test_rows_side_by_side_ask_for_those_of_the_next_step(target):
    phase = phase_that_streams(pairs_of_rows, target)
    verify_linear(phase.program)
    asked = [lines(phase, hint.src[1]) for hint in hints(phase)]
    for pair in range(127):
        mine = [line for hint in asked for line in hint[pair]]
        assert sorted(mine) == list(range((pair + 1) * 256, (pair + 2) * 256))


def test_a_row_that_is_read_now_is_not_asked_for():
    """The second of two rows is the first one in the next step."""

    def halves_of_neighbours(x):
        x = x[:, :1024]
        return Tensor.stack(x[:-1] + x[1:], x[:-1] - x[1:], dim=-1)

    phase = phase_that_streams(halves_of_neighbours)
    asked = [lines(phase, hint.src[1]) for hint in hints(phase)]
    for row in range(254):
        mine = [line for hint in asked for line in hint[row]]
        assert sorted(mine) == list(range((row + 2) * 128, (row + 2) * 128 + 64))


@pytest.mark.parametrize("target", [TARGET, NARROW], ids=["a line each", "two to a line"])
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x * 2, id="as much as is read"),
        pytest.param(lambda x: Tensor.stack(x + 1, x * 2, dim=-1), id="twice as much"),
        pytest.param(lambda x: Tensor.cat(x + 1, x * 2, dim=0), id="in loops within rows"),
    ],
)
def test_what_leaves_around_the_caches_asks_ahead_for_what_it_reads(function, target):
    """Once for each line, in the grid's own loop, too."""
    phase = phase_that_streams(function, target)
    verify_linear(phase.program)
    asked = [line for hint in hints(phase) for step in lines(phase, hint.src[1]) for line in step]
    assert sorted(set(asked)) == list(range(AHEAD // CACHE_LINE, AHEAD // CACHE_LINE + 256 * 128))


@pytest.mark.parametrize(
    ("function", "l2", "l3"),
    [
        pytest.param(pairs_of_rows, 1 << 12, 1 << 20, id="no room for two steps"),
        pytest.param(pairs_of_rows, 1 << 20, 1 << 24, id="results that stay in a cache"),
    ],
)
def test_rows_are_not_asked_for_where_that_would_not_help(function, l2, l3):
    assert not hints(phase_that_streams(function, replace(TARGET, l2=l2), l3))
