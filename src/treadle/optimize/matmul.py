"""Matmul-like nests: register tiles over packed operands.

    out[i, j] = epilogue(sum over k of x[i, k] * y[k, j])

y is the factor whose loop the output is contiguous in: its panels of a few vectors' width are
packed by each worker into memory that stays in cache (a shared STAGE). x is packed once for all
workers (a grid STAGE), so that each step of k reads one short contiguous row; a few rows are read
where they are. A tile of accumulators stays in registers for the whole of k. Convolutions fit the
same form: j are the pixels, i the output channels, k the window and the input channels. Images of
few pixels do not fill panels: then the channels are the columns, results are stored one by one, and
the image is read where it is (windows.py). A factor that lasts from launch to launch is packed by
all workers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.loops import TRUE, Split, free_ranges, number_of, steps_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.rules.index import simplify
from ..target import Target
from .knobs import Knobs
from .moves import Moves
from .nest import Nest, reads_of, stride
from .products import distribute_over_product
from .windows import Windows, find_windows, keep_image

__all__ = [
    "Problem", "Tile", "choose_tile", "factors_of", "pack_columns", "recognise", "tile_matmul",
]  # fmt: skip

MIN_WORK = 1 << 15
MIN_ITEMS = 8
PACK_REUSE = 2
PACK = 3.0  # instructions to pack a vector that is read as one
CLEARLY_LESS, ABOUT_AS_MUCH = 0.93, 1.05
SPARED = 1 << 23  # bytes of packed rows that swapping makes less, to be worth it by itself
MAX_INTERLEAVED = 4
FAR = 1 << 9  # bytes from step to step
MIN_RUN = 32  # steps along which a row is read in place
STRIPE = 8  # steps that all tiles are packed for before the next ones


@dataclass(frozen=True)
class Problem:
    """A matmul-like nest: its reduction, its factors, and whose loops are whose."""

    reduce: Node
    x: Node
    y: Node
    batch: tuple[Node, ...]
    rows: tuple[Node, ...]
    columns: tuple[Node, ...]
    windows: Windows | None = None

    @property
    def steps(self) -> tuple[Node, ...]:
        return self.reduce.src[1:]


@dataclass(frozen=True)
class Tile:
    """`rows` x `vectors` accumulators of `lanes` each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_matmul(moves: Moves, nest: Nest, target: Target, knobs: Knobs) -> bool:
    """Tile `nest` if it is matmul-like and large enough, or cut it; says whether it did.

    What it is cut into are nests of their own, as yet without tiles.
    """
    problem = recognise(nest)
    if problem is None:
        return False
    rows, columns, steps = (steps_of(*r) for r in (problem.rows, problem.columns, problem.steps))
    if rows * columns * steps * steps_of(*problem.batch) < MIN_WORK or rows < 2 or columns < 4:
        return False
    problem = _with_contiguous_steps(moves, problem)
    problem, tile = _best_way(moves, nest, problem, target, knobs)
    limit = max(256, knobs.panel_bytes // (tile.columns * problem.reduce.dtype.itemsize))
    if steps > limit and _cut_reduction(moves, problem, -(-steps // limit)):
        return True
    _apply(moves, problem, tile, target)
    return True


def _with_contiguous_steps(moves: Moves, problem: Problem) -> Problem:
    """The problem with the step innermost in which the larger factor to pack is contiguous."""
    rows, columns = steps_of(*problem.rows), steps_of(*problem.columns)
    by_size = [problem.y, problem.x] if columns >= rows else [problem.x, problem.y]
    factor = next((f for f in by_size if not lasts(f)), None)
    if factor is None or len(problem.steps) == 1:
        return problem
    contiguous = lambda r: all(stride(index, r) == 1 for index in reads_of(factor))
    steps = tuple(sorted(problem.steps, key=contiguous))
    if steps == problem.steps:
        return problem
    old = problem.reduce
    reduce = Node(Op.REDUCE, old.dtype, (old.src[0], *steps), old.arg)
    moves.root = moves.root.substitute({old: reduce})
    return replace(problem, reduce=reduce)


def _best_way(
    moves: Moves, nest: Nest, problem: Problem, target: Target, knobs: Knobs
) -> tuple[Problem, Tile]:
    """The problem as it is or, where that takes clearly less, with its rows as columns."""
    tile = _tile_for(problem, target, knobs)
    swapped = replace(problem, x=problem.y, y=problem.x, rows=problem.columns, columns=problem.rows)
    problem, swapped = _with_windows(moves, problem), _with_windows(moves, swapped)
    if steps_of(*swapped.rows) < 2 or steps_of(*swapped.columns) < 4:
        return problem, tile
    other = _tile_for(swapped, target, knobs)
    # Results that lie apart are stored one by one, and what is added to them is read so.
    apart = steps_of(*problem.rows) * steps_of(*problem.columns) / steps_of(*problem.steps)
    apart *= 1 + _matrices_added(nest, problem)
    most = ABOUT_AS_MUCH if _packed(swapped) + SPARED < _packed(problem) else CLEARLY_LESS
    if _cost(swapped, other) + apart < most * _cost(problem, tile):
        moves.log.append("swap rows and columns")
        return swapped, other
    return problem, tile


def _packed(problem: Problem) -> int:
    """The bytes of memory that packed rows take."""
    if problem.windows is not None or lasts(problem.x):
        return 0
    loops = (*problem.batch, *problem.rows, *problem.steps)
    return steps_of(*loops) * problem.reduce.dtype.itemsize


def _matrices_added(nest: Nest, problem: Problem) -> int:
    """How many elements are read for each result beside those of the product."""
    outside = nest.node.toposort(lambda n: n is not problem.reduce and n.op is not Op.STAGE)
    reads = [n for n in outside if n.op is Op.LOAD]
    rows, columns = frozenset(problem.rows), frozenset(problem.columns)
    free = free_ranges(nest.node)
    return sum(bool(free[n] & rows and free[n] & columns) for n in reads)


def _with_windows(moves: Moves, problem: Problem) -> Problem:
    if lasts(problem.x):
        return problem
    windows = find_windows(moves, problem.x, problem.rows, problem.steps, problem.batch)
    return replace(problem, windows=windows)


def _tile_for(problem: Problem, target: Target, knobs: Knobs) -> Tile:
    rows, columns = steps_of(*problem.rows), steps_of(*problem.columns)
    return choose_tile(rows, columns, problem.reduce.dtype.itemsize, target, knobs)


def _cost(problem: Problem, tile: Tile) -> float:
    """About how many vector instructions each step takes, packing included."""
    rows, columns = steps_of(*problem.rows), steps_of(*problem.columns)
    vectors = -(-columns // tile.columns) * tile.vectors
    row_tiles = -(-rows // tile.rows)
    products = row_tiles * tile.rows * vectors
    loads = row_tiles * vectors / tile.vectors * (tile.rows + tile.vectors)
    packing = 0.0
    if not lasts(problem.y):
        packing += vectors * _packing(problem.y, problem.columns, problem.steps, tile)
    # Rows of plain matrices count as packed: nothing is swapped to read those in place.
    is_free = lasts(problem.x) or (len(problem.steps) > 1 and _is_in_place(problem, tile))
    if problem.windows is None and not is_free:
        packing += rows / tile.lanes * _packing(problem.x, problem.rows, problem.steps, tile)
    return max(products, loads) + packing


def _packing(factor: Node, along: tuple[Node, ...], steps: tuple[Node, ...], tile: Tile) -> float:
    """About how many instructions it takes to pack a vector of a factor."""
    reads = reads_of(factor)
    is_long = steps_of(along[-1]) >= tile.lanes or len(along) == 1
    if is_long and all(stride(index, along[-1]) == 1 for index in reads):
        return PACK if len(along) == 1 else 2 * PACK  # as a rule, several loops mean masks
    is_turned = all(stride(index, steps[-1]) == 1 for index in reads)
    return 2 * PACK if is_turned else 2 * tile.lanes  # else element by element


def _is_in_place(problem: Problem, tile: Tile) -> bool:
    """Whether rows are read where they are: too few panels use them for packing to be worth it.

    Where that is in several loops, rows lie along the steps, so that each is read line by line.
    """
    if -(-steps_of(*problem.columns) // tile.columns) >= PACK_REUSE:
        return False
    if len(problem.steps) == 1:
        return True
    last = problem.steps[-1]
    is_row = all(stride(index, last) == 1 for index in reads_of(problem.x))
    return is_row and steps_of(last) >= MIN_RUN and not _gating(problem.x)


def _is_at_hand(problem: Problem, target: Target) -> bool:
    """Whether a few rows of memory, each contiguous, are read as quickly where they are.

    They stay in the first-level cache, and a phase and its barrier are saved.
    """
    x, steps = problem.x, problem.steps
    if len(steps) != 1 or x.op is not Op.LOAD or stride(x.src[1], steps[0]) != 1 or lasts(x):
        return False
    return steps_of(*problem.rows, *steps) * x.dtype.itemsize <= target.l1


# -- recognising --------------------------------------------------------------------------------


def recognise(nest: Nest) -> Problem | None:
    """The matmul-like problem that a nest is, or None."""
    reduces = nest.reduces()
    if len(reduces) != 1 or len(nest.stores()) != 1:
        return None
    reduce = reduces[0]
    if any(n.op in (Op.REGISTER, Op.UPDATE) for n in nest.nodes()):
        return None
    factors = factors_of(reduce.src[0])
    if reduce.arg.op is not Op.ADD or factors is None:
        return None
    free = free_ranges(reduce)
    loops = frozenset(nest.loops)
    if free[reduce] != loops:
        return None
    column = _column(nest, factors)
    for x, y in (factors, factors[::-1]):
        of_x, of_y = free[x] & loops, free[y] & loops
        if of_x | of_y == loops and of_x - of_y and column in of_y - of_x:
            pick = lambda wanted: tuple(r for r in nest.loops if r in wanted)
            return Problem(reduce, x, y, pick(of_x & of_y), pick(of_x - of_y), pick(of_y - of_x))
    return None


def _column(nest: Nest, factors: tuple[Node, Node]) -> Node | None:
    """The loop that lanes run over: the one that the result is contiguous in.

    A few steps of another one may lie between, such as the places between two strides of a
    convolution, where only the other factor depends on them.
    """
    steps = {stride(nest.stores()[0], r): r for r in nest.loops}
    inner = steps.get(1)
    if inner is None or steps_of(inner) > MAX_INTERLEAVED:
        return inner
    outer = steps.get(steps_of(inner))
    if outer is None:
        return inner
    for x, y in (factors, factors[::-1]):
        apart = not _uses(y, (inner,)) and not _uses(x, (outer,))
        if apart and any(stride(index, outer) == 1 for index in reads_of(y)):
            return outer
    return inner


def factors_of(value: Node) -> tuple[Node, Node] | None:
    """The two factors of a product; a mask or a cast around it moves onto them."""
    if value.op is Op.MUL and value.dtype.kind in ("float", "int", "uint"):
        return value.src[0], value.src[1]
    return None


# -- choosing -----------------------------------------------------------------------------------


def choose_tile(rows: int, columns: int, itemsize: int, target: Target, knobs: Knobs) -> Tile:
    """The tile with the least padding and the most work for each load, if `knobs` name none."""
    lanes = min(max(2, target.vector_bytes // itemsize), target.max_lanes)
    if knobs.tile is not None:
        height, vectors = knobs.tile
        return Tile(min(height, rows), min(vectors, -(-columns // lanes)), lanes)
    registers = target.vector_registers - 4
    best: tuple[float, Tile] | None = None
    for vectors in (1, 2, 3, 4):
        if vectors > 1 and (vectors - 1) * lanes >= columns:
            continue
        # One register for each accumulator, for each vector of y, and for one element of x.
        fits = min(registers // vectors, (target.vector_registers - vectors - 1) // vectors)
        for height in range(1, min(rows, 16, fits) + 1):
            padded = (
                -(-rows // height) * height * -(-columns // (vectors * lanes)) * vectors * lanes
            )
            waste = padded / (rows * columns)
            # Each step loads `vectors` registers and `height` scalars for height * vectors FMAs.
            loads = (vectors + height) / (height * vectors)
            idle = max(1.0, 8 / (height * vectors))
            cost = waste * idle * (1 + loads)
            if best is None or cost < best[0] - 1e-9:
                best = (cost, Tile(height, vectors, lanes))
    assert best is not None
    return best[1]


def _cut_reduction(moves: Moves, problem: Problem, chunks: int) -> bool:
    """Cut the longest loop of the reduction into chunks, each a matmul of its own."""
    loop = max(problem.steps, key=lambda r: r.src[0].arg)
    size = loop.src[0].arg
    chunks = min(chunks, size)
    if chunks < 2:
        return False
    even = next(n for n in range(chunks, size + 1) if size % n == 0)
    # Partial results lie as tiles hold them, and are turned once, where they are combined.
    axes = tuple(axis for axis in (problem.batch, problem.rows, problem.columns) if axis)
    moves.group(problem.reduce, loop, even if even <= 2 * chunks else chunks, axes)
    moves.root = distribute_over_product(moves.root)
    moves.merge_all()
    return True


# -- the moves ----------------------------------------------------------------------------------


def _apply(moves: Moves, problem: Problem, tile: Tile, target: Target) -> None:
    packing_order = problem.steps
    if problem.windows is not None:
        problem = _with_image(moves, problem, problem.windows, tile, target)
        if lasts(problem.y):  # packed once, however far apart its elements are in this order
            packing_order = problem.steps
    rows, columns, steps = problem.rows, problem.columns, problem.steps
    outer_columns, columns = _panel_loops(columns, tile)
    row_tiles = -(-steps_of(*rows) // tile.rows)
    panels = -(-steps_of(*columns) // tile.columns)
    items = steps_of(*problem.batch) * steps_of(*outer_columns) * panels
    blocks = min(row_tiles, -(-MIN_ITEMS // items))

    splits: dict[Node, Split] = {}
    for r in (*problem.batch, *outer_columns):
        new = moves.loop(r.src[0].arg, "grid")
        splits[r] = Split(new, (new,))
    column = moves.loop(panels, "grid") if panels > 1 else None
    column_split = _tiled(
        moves, steps_of(*columns), column, ((tile.vectors, "unroll"), (tile.lanes, "vector"))
    )
    splits.update(moves.flatten(columns, column_split))
    row_split, row_loops = _row_split(moves, steps_of(*rows), tile, blocks)
    splits.update(moves.flatten(rows, row_split))
    in_place = _is_in_place(problem, tile) or _is_at_hand(problem, target)
    is_packed = problem.windows is None and not in_place
    flat = moves.loop(steps_of(*steps)) if len(steps) > 1 and is_packed else None
    moves.apply(splits, f"tile {tile.rows} x {tile.vectors} vectors")
    made = {r for split in splits.values() for r in split.ranges}
    nest = next(n for n in moves.nests() if made & set(n.loops))
    # Each panel is packed once: what runs over its rows stands inside. In a tile the products of a
    # row stand together: then its few vectors stay in registers, and one element of x at a time.
    order = lambda r: (r.arg.kind != "grid", r in column_split.ranges)
    moves.reorder(nest, tuple(sorted(nest.loops, key=order)))

    reduce = next(
        n for n in moves.root.toposort() if n.op is Op.REDUCE and n.src[1:] == steps
    )  # loops of the reduction itself are still as they were
    factors = factors_of(reduce.src[0])
    assert factors is not None
    x, y = factors if _uses(factors[0], row_split.ranges) else factors[::-1]
    position = _flat_position(packing_order)
    around = _panel_numbers(y, steps, column_split) if lasts(y) else None
    packed_y = pack_columns(moves, y, packing_order, position, column_split, tile, around)
    if is_packed:
        x = _pack_rows(moves, x, steps, position, row_split, row_loops, tile, target)
    if flat is None:
        new = Node(Op.REDUCE, reduce.dtype, (x * packed_y, *steps), reduce.arg)
        moves.root = moves.root.substitute({reduce: new})
        return
    digits = moves.flatten(steps, Split(flat, (flat,)))
    body = simplify((x * packed_y).substitute({r: s.expr for r, s in digits.items()}))
    new = Node(Op.REDUCE, reduce.dtype, (body, flat), reduce.arg)
    moves.root = moves.root.substitute({reduce: new})


def _with_image(
    moves: Moves, problem: Problem, windows: Windows, tile: Tile, target: Target
) -> Problem:
    """The problem with its rows read from the image, or from one copy of it."""
    x = problem.x
    if not (windows.is_in_place and target.chooses_addresses):
        x = keep_image(moves, windows, problem.rows, tile.rows - 1, tile.lanes)
    old = problem.reduce
    reduce = Node(Op.REDUCE, old.dtype, (x * problem.y, *windows.steps), old.arg)
    moves.root = moves.root.substitute({old: reduce})
    return replace(problem, reduce=reduce, x=x)


def _panel_loops(
    columns: tuple[Node, ...], tile: Tile
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """(loops outside, innermost loops that are cut into panels): the fewest that fill panels."""
    for start in range(len(columns) - 1, -1, -1):
        inner = columns[start:]
        if steps_of(*inner) % tile.columns == 0 or steps_of(*inner) >= 16 * tile.columns:
            return columns[:start], inner
    return (), columns


def _tiled(
    moves: Moves, size: int, outer: Node | None, inner: tuple[tuple[int, str], ...]
) -> Split:
    loops = [] if outer is None else [outer]
    expr = Node.index(0) if outer is None else outer
    tile = 1
    for extent, kind in inner:
        tile *= extent
        expr = expr * extent
        if extent > 1:
            loops.append(moves.loop(extent, kind))
            expr = expr + loops[-1]
    expr = simplify(expr)
    count = 1 if outer is None else outer.src[0].arg
    guard = expr < size
    return Split(expr, tuple(loops), simplify(guard) if count * tile != size else TRUE)


def _row_split(moves: Moves, size: int, tile: Tile, blocks: int) -> tuple[Split, tuple[Node, ...]]:
    """Rows as (block, tile, row of the tile); the second result is (block, tile) as made."""
    tiles = -(-size // tile.rows)
    per_block = -(-tiles // blocks)
    blocks = -(-tiles // per_block)
    loops: list[Node] = []
    expr = Node.index(0)
    for extent, kind in ((blocks, "grid"), (per_block, "loop"), (tile.rows, "unroll")):
        expr = expr * extent
        if extent > 1:
            loops.append(moves.loop(extent, kind))
            expr = expr + loops[-1]
    expr = simplify(expr)
    covered = blocks * per_block * tile.rows
    guard = TRUE if covered == size else simplify(expr < size)
    return Split(expr, tuple(loops), guard), tuple(r for r in loops if r.arg.kind != "unroll")


def _lies_across(x: Node, steps: tuple[Node, ...]) -> bool:
    """Whether the rows of `x` lie side by side, each step far from the one before.

    Tile by tile a line would be fetched for a few elements, and be gone when the next tile wants
    the others: all lines a page apart share one place of the cache. So all tiles are packed for a
    few steps, then for the next ones.
    """
    places = [stride(index, steps[-1]) for index in reads_of(x)]
    is_far = all(s is not None and s * x.dtype.itemsize >= FAR for s in places)
    return is_far and steps_of(*steps) > STRIPE


def _uses(node: Node, loops: tuple[Node, ...]) -> bool:
    return bool(free_ranges(node)[node] & frozenset(loops))


def lasts(factor: Node) -> bool:
    """Whether most launches find the same values in `factor`: then packing it is done once."""
    memory = [n.src[0] for n in factor.toposort() if n.op is Op.LOAD]
    return bool(memory) and all(m.op is Op.PARAM and m.arg.lasts for m in memory)


def _panel_numbers(y: Node, steps: tuple[Node, ...], columns: Split) -> tuple[Node, ...]:
    """The loops that number the panels of y."""
    inside = {*steps, *(r for r in columns.ranges if r.arg.kind != "grid")}
    return tuple(sorted(free_ranges(y)[y] - inside, key=lambda r: r.arg.number))


def _flat_position(steps: tuple[Node, ...]) -> Node:
    position = Node.index(0)
    for r in steps:
        position = position * r.src[0].arg + r
    return simplify(position)


def pack_columns(
    moves: Moves,
    y: Node,
    steps: tuple[Node, ...],
    position: Node,
    columns: Split,
    tile: Tile,
    around: tuple[Node, ...] | None = None,
) -> Node:
    """A panel of y, [step][column of the panel], in memory of each worker.

    With `around`: the panels of all steps of these loops, if any, in memory that workers share.
    """
    lane_loops = tuple(r for r in columns.ranges if r.arg.kind in ("unroll", "vector"))
    order = sorted(steps, key=lambda r: r not in _gating(y))  # conditions are computed outside
    fill = {r: Split(n, (n,)) for r, n in moves.copies((*order, *lane_loops)).items()}
    if any(stride(index, steps[-1]) == 1 for index in reads_of(y)):
        # Rows that lie along steps are transposed, a square at a time.
        fill |= _in_squares(moves, y, steps, tile.lanes)
    scope, around = ("shared", ()) if around is None else ("grid", around)
    copies = moves.copies(around, dict.fromkeys(around, "grid"))
    fill = {r: Split(n, (n,)) for r, n in copies.items()} | fill
    moves.log.append(f"pack columns ({scope})")
    sizes = (*(r.src[0].arg for r in around), steps_of(*steps), tile.columns)
    return moves.staged(y, scope, sizes, (*around, position, number_of(lane_loops)), fill)


def _in_squares(moves: Moves, value: Node, steps: tuple[Node, ...], side: int) -> dict[Node, Split]:
    """The innermost steps, as many as `value` is contiguous in, `side` unrolled ones at a time."""
    run: tuple[Node, ...] = ()
    for r in reversed(steps):
        if any(stride(index, r) != steps_of(*run) for index in reads_of(value)):
            break
        run = (r, *run)
    if len(run) < 2:
        return {steps[-1]: moves.tiled(steps[-1], (side, "unroll"))}
    return moves.flatten(run, moves.tiled(moves.loop(steps_of(*run)), (side, "unroll")))


def _gating(value: Node) -> frozenset[Node]:
    """The loops that conditions under `value` depend on."""
    gates = [n.src[2] for n in value.toposort() if n.op is Op.LOAD and len(n.src) > 2]
    gates += [n.src[0] for n in value.toposort() if n.op is Op.WHERE]
    return frozenset().union(*(free_ranges(gate)[gate] for gate in gates))


def _pack_rows(
    moves: Moves,
    x: Node,
    steps: tuple[Node, ...],
    position: Node,
    rows: Split,
    row_loops: tuple[Node, ...],
    tile: Tile,
    target: Target,
) -> Node:
    """All of x, [batch..][tile][step][row of the tile], in memory that workers share."""
    free = free_ranges(x)[x]
    inner = tuple(r for r in rows.ranges if r.arg.kind == "unroll")
    batch = tuple(sorted(free - frozenset((*steps, *rows.ranges)), key=lambda r: r.arg.number))
    around = (*batch, *row_loops)
    sizes = (*(r.src[0].arg for r in around), steps_of(*steps), steps_of(*inner))
    index = (*around, position, number_of(inner))
    fill: dict[Node, Split] = {}
    lies_across = _lies_across(x, steps)
    if lies_across:
        for r, n in moves.copies(steps[:-1], dict.fromkeys(steps, "grid")).items():
            fill[r] = Split(n, (n,))
        fill[steps[-1]] = moves.tiled(steps[-1], (STRIPE, "loop"), outer="grid")
    copies = moves.copies(around, dict.fromkeys(around, "grid"))
    fill |= {r: Split(n, (n,)) for r, n in copies.items()}
    rest = [r for r in (*steps, *inner) if r not in fill]
    fill |= {r: Split(n, (n,)) for r, n in moves.copies(rest).items()}
    side = 1 << (tile.rows - 1).bit_length()
    if side <= target.max_lanes and (side == tile.rows or target.has_masked_memory):
        # A square of steps and rows at a time, so that rows which lie along steps are transposed.
        if not lies_across:
            fill |= _in_squares(moves, x, steps, side)
        fill |= {r: moves.tiled(r, (side, "vector")) for r in inner}
    moves.log.append(f"pack rows (grid){f', {STRIPE} steps at a time' * lies_across}")
    return moves.staged(x, "grid", sizes, index, fill)
