"""Several products over the same rows and columns, computed in one register tile.

    i, f, g, o = h @ w_i, h @ w_f, h @ w_g, h @ w_o; c = f * c + i * g   in one nest of loops

Products that read the same rows share the loop of their steps: an element of a row is loaded once
for all, and each product has sums of its own in registers. Those of other rows come after them, and
add to what is in registers, so that what is computed from all products never leaves those. The
scheduler makes such nests of the gates of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loops import closed_ranges, free_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce
from ..target import Target
from .choose_tile import Tile
from .matmul_cost import is_at_hand, is_in_place, tile_of_vectors
from .matmul_packing import pack_columns, pack_rows, panel_numbers
from .matmul_problem import MatmulProblem, factors_of, lasts, uses
from .matmul_tiling import tile_loops
from .moves import Move, Moves
from .nest import Nest, stride
from .parameters import Parameters
from .records import Reduction

__all__ = ["TileGroupedMatmul", "tile_grouped_matmul"]


def tile_grouped_matmul(moves: Moves, nest: Nest, target: Target, parameters: Parameters) -> bool:
    """Tile `nest` if it holds several products of its rows and columns; says whether it did."""
    problems = _problems(nest)
    if len(problems) < 2:
        return False
    continued = len(_products_first(moves.root, problems))
    beside = max(sum(p.steps == q.steps for q in problems) for p in problems)
    product = problems[0].product._replace(beside=beside, sums=len(problems) - continued)
    tile = tile_of_vectors(product, problems[0].reduce.dtype, target, parameters.tile)
    moves.make(TileGroupedMatmul(moves.number_of(nest), tile))
    return True


@dataclass(frozen=True)
class TileGroupedMatmul(Move):
    """The products of a nest are computed in register tiles of the same rows and columns.

    Then it is scheduled.
    """

    word = "grouped_matmul"

    nest: int
    tile: Tile

    def apply(self, moves: Moves) -> None:
        problems = _problems(moves.nest_of(self.nest))
        if len(problems) < 2:
            raise ValueError(f"{self}: the nest has no products of the same rows and columns")
        names = {moves.name_of(problem.reduce) for problem in problems}  # by loops, which stay
        moves.root = moves.root.substitute(_products_first(moves.root, problems))
        _tile(moves, problems, names, self.tile)


def _tile(moves: Moves, problems: list[MatmulProblem], names: set[Reduction], tile: Tile) -> None:
    target = moves.target
    kept = {p.steps: is_in_place(p, tile) or is_at_hand(p, target) for p in problems}
    tiling = tile_loops(moves, problems[0], tile)
    new: dict[Node, Node] = {}
    packed: dict[Node, Node] = {}
    for reduce in [n for name, n in moves.reductions().items() if name in names]:
        value, steps, arg = Reduce.of(reduce)
        factors = factors_of(value)
        assert factors is not None
        x, y = factors if uses(factors[0], tiling.rows.ranges) else factors[::-1]
        (step,) = steps
        if x not in packed and kept[steps]:
            packed[x] = x
        elif x not in packed:
            packed[x] = pack_rows(moves, x, steps, step, tiling.rows, tile, target)
        around = panel_numbers(y, steps, tiling.columns) if lasts(y) else None
        panel = pack_columns(moves, y, steps, step, tiling.columns, tile, around)
        new[reduce] = Reduce(packed[x] * panel, steps, arg).node()
    moves.root = moves.root.substitute(new)


def _problems(nest: Nest) -> list[MatmulProblem]:
    """The products of a nest, if all its reductions are such of one loop each."""
    inner = [r for r in nest.loops if all(stride(index, r) == 1 for index in nest.stores())]
    if len(inner) != 1 or len(nest.loops) < 2:
        return []
    found = [_problem(nest, reduce, inner) for reduce in nest.reduces()]
    problems = [problem for problem in found if problem is not None]
    return problems if len(problems) == len(found) else []


def _problem(nest: Nest, reduce: Node, inner: list[Node]) -> MatmulProblem | None:
    value, steps, arg = Reduce.of(reduce)
    factors, free = factors_of(value), free_ranges(reduce)
    if arg.op is not Op.ADD or factors is None or len(steps) != 1:
        return None
    loops = frozenset(nest.loops)
    for x, y in (factors, factors[::-1]):
        rows, columns = free[x] & loops, free[y] & loops
        if rows | columns == loops and not rows & columns and columns == {*inner}:
            in_order = tuple(r for r in nest.loops if r in rows)
            return MatmulProblem(reduce, x, y, (), in_order, tuple(inner))
    return None


def _products_first(root: Node, problems: list[MatmulProblem]) -> dict[Node, Node]:
    """Sums of several terms, with two products first: the second then goes on from the first."""
    products, order = {problem.reduce for problem in problems}, root.toposort()
    inner = {s for n in order if n.op is Op.ADD for s in n.src if s.op is Op.ADD}
    mapping: dict[Node, Node] = {}
    for node in order:
        if node.op is Op.ADD and node not in inner and node.dtype.is_float:
            terms = _terms(node)
            first = sorted(products.intersection(terms), key=_number_of_loop)
            if len(first) == 2 and closed_ranges(first[0]) != closed_ranges(first[1]):
                rest = [term.substitute(mapping) for term in terms if term not in products]
                mapping[node] = _sum([_sum(first), _sum(rest)] if rest else first)
    return mapping


def _number_of_loop(product: Node) -> int:
    (steps,) = closed_ranges(product)
    return steps.arg.number


def _terms(node: Node) -> list[Node]:
    return [t for s in node.src for t in _terms(s)] if node.op is Op.ADD else [node]


def _sum(terms: list[Node]) -> Node:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
