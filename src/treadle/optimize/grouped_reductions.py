"""Several reductions over the same rows and columns, computed in one register tile.

    i, f, g, o = h @ w_i, h @ w_f, h @ w_g, h @ w_o; c = f * c + i * g   in one nest of loops

Those that read the same rows share the loop of their steps: an element of a row is loaded once for
all, and each has results of its own in registers. Those of other rows come after them, and sums add
to what is in registers, so that what is computed from all of them never leaves those. The scheduler
makes such nests of the gates of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.choices import take
from ..ir.loops import closed_ranges
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce
from ..target import Target
from .choose_tile import Tile
from .moves import Move, Moves
from .nest import Nest, stride
from .parameters import Parameters
from .tile_cost import is_at_hand, is_in_place, tile_of_vectors
from .tile_loops import pack, tile_loops
from .tile_problem import TileProblem, lasts, operands_by_rows, problem_of

__all__ = ["TileGroup", "tile_group"]


def tile_group(moves: Moves, nest: Nest, target: Target, parameters: Parameters) -> bool:
    """Tile `nest` if several reductions share its rows and columns; says whether it did."""
    problems = _problems(nest)
    if len(problems) < 2:
        return False
    continued = len(_products_first(moves.root, problems))
    beside = max(sum(p.steps == q.steps for q in problems) for p in problems)
    passing = max(problem.sizes.passing for problem in problems)
    sums = len(problems) - continued
    sizes = problems[0].sizes._replace(beside=beside, sums=sums, passing=passing)
    dtype = max((p.dtype for p in problems), key=lambda each: each.itemsize)
    tile = tile_of_vectors(sizes, dtype, target, parameters.tile)
    moves.make(TileGroup(moves.number_of(nest), tile))
    return True


@dataclass(frozen=True)
class TileGroup(Move):
    """The reductions of a nest are computed in register tiles of the same rows and columns.

    Then it is scheduled.
    """

    word = "grouped_tile"

    nest: int
    tile: Tile

    def apply(self, moves: Moves) -> None:
        problems = _problems(moves.nest_of(self.nest))
        if len(problems) < 2:
            raise ValueError(f"{self}: the nest has no reductions of the same rows and columns")
        names = {moves.name_of(problem.reduce) for problem in problems}  # by loops, which stay
        moves.root = moves.root.substitute(_products_first(moves.root, problems))
        kept = {p.steps: is_in_place(p, self.tile) or is_at_hand(p, moves.target) for p in problems}
        tiling = tile_loops(moves, problems[0], self.tile)
        new: dict[Node, Node] = {}
        packed: dict[Node, Node] = {}
        for reduce in [n for name, n in moves.reductions().items() if name in names]:
            value, steps, arg = Reduce.of(reduce)
            x, y = operands_by_rows(reduce, tiling.rows)
            if x not in packed and not kept[steps]:
                packed[x] = pack(moves, x, steps, tiling.rows, True)
                take("packed_rows")
            panel = pack(moves, y, steps, tiling.columns, lasts(y))
            take("packed_columns_for_all" if lasts(y) else "packed_columns")
            value = value.substitute({x: packed.get(x, x), y: panel})
            new[reduce] = Reduce(value, steps, arg).node()
        moves.root = moves.root.substitute(new)


def _problems(nest: Nest) -> list[TileProblem]:
    """The problems of a nest, if all its reductions are such of one loop each."""
    inner = [r for r in nest.loops if all(stride(index, r) == 1 for index in nest.stores())]
    if len(inner) != 1 or len(nest.loops) < 2:
        return []
    problems = []
    for reduce in nest.reduces:
        problem = problem_of(nest, reduce, *inner)
        if problem is None or problem.batch or problem.columns != (*inner,):
            return []
        if len(problem.steps) != 1:
            return []
        problems.append(problem)
    return problems


def _products_first(root: Node, problems: list[TileProblem]) -> dict[Node, Node]:
    """Sums of several terms, with two products first: the second then goes on from the first."""
    products = {p.reduce for p in problems if p.reduce.arg.op is Op.ADD}
    order = root.toposort()
    inner = {s for n in order if n.op is Op.ADD for s in n.src if s.op is Op.ADD}
    number = lambda product: closed_ranges(product)[0].arg.number
    mapping: dict[Node, Node] = {}
    for node in order:
        if node.op is Op.ADD and node not in inner and node.dtype.is_float:
            terms = _terms(node)
            first = sorted(products.intersection(terms), key=number)
            if len(first) == 2 and closed_ranges(first[0]) != closed_ranges(first[1]):
                total = first[0] + first[1]
                rest = [term.substitute(mapping) for term in terms if term not in products]
                mapping[node] = total + sum(rest[1:], rest[0]) if rest else total
    return mapping


def _terms(node: Node) -> list[Node]:
    return [t for s in node.src for t in _terms(s)] if node.op is Op.ADD else [node]
