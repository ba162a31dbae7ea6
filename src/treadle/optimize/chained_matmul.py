"""Chains of products: the rows between two products stay in a worker's cache.

    out[i, d] = sum over j of x[i, j] * y[j, d]      x[i, :] is a row that the kernel keeps,
    x[i, j] = f(sum over c of p[i, c] * q[j, c])     computed by a product itself (attention)

Here i is cut into blocks: every row that the scheduler keeps (schedule/local_intermediates.py)
becomes a block of rows, every statistic of a row a column, so that each product between them has
rows to reuse its other operand for, and gets a register tile.

    for each block of i (grid):
        x[block, :] = tiles of p @ q.T, then f over it, row by row
        part[chunk of j][block, :] = tiles of x @ y      chunks of j, so that y stays in cache
        out[block, :] = sum of the parts

q is packed once for all workers; y is read as it is where its rows are contiguous. There can be
several such products of the same rows, and statistics that are stored (schedule/multi_output.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..ir.carried import is_kept, is_of_product, without_rows
from ..ir.loops import TRUE, free_ranges, loop_size, ranges_of
from ..ir.node import Node
from ..ir.op import Op
from ..ir.views import Reduce, Stage, operands
from ..target import Target
from .moves import Move, Moves
from .nest import Nest, own_reductions, sequential_loops, stride
from .parameters import Parameters
from .row_blocking import Blocks, Chain, factors_of, rows_of_a_block

__all__ = ["ChainedMatmul", "ComputeRows", "DivideLast", "block_chained_matmul"]

BLOCK_STEPS = 512  # of the last product that are taken at a time


def block_chained_matmul(moves: Moves, target: Target, parameters: Parameters) -> None:
    """Cut the rows of every chain of products into blocks."""
    for nest in moves.nests():
        if nest.node.op is Op.END and moves.has_nest(nest) and not sequential_loops(nest):
            moves.make(DivideLast(moves.number_of(nest)))
            nest = moves.now(nest)
            chain = _recognise(nest)
            if chain is not None:
                rows = rows_of_a_block(nest, chain, target, parameters.tile)
                number = moves.number_of(nest)
                moves.make(ChainedMatmul(number, rows, BLOCK_STEPS, parameters.tile))


@dataclass(frozen=True)
class ComputeRows(Move):
    """Rows that a kernel keeps are computed where they are read, all or all `but_of_products`."""

    word = "compute_rows"

    but_of_products: bool = False

    def apply(self, moves: Moves) -> None:
        stays = lambda row: self.but_of_products and is_of_product(row)
        moves.root = without_rows(moves.root, lambda row: not stays(row))


@dataclass(frozen=True)
class DivideLast(Move):
    """Products of rows that are divided by a number each are divided by it themselves."""

    word = "divide_last"

    nest: int

    def apply(self, moves: Moves) -> None:
        moves.root = moves.root.substitute(_without_factors(moves.nest_of(self.nest)))


@dataclass(frozen=True)
class ChainedMatmul(Move):
    """The rows of a chain of products are cut into blocks of so many `rows`. Then it is scheduled.

    So many `steps` of the last product are taken at a time. Register tiles are of so many (rows,
    vectors) as `tile`, if that is not left to the estimated cost.
    """

    word = "chained_matmul"

    nest: int
    rows: int
    steps: int
    tile: tuple[int, int] | None = None

    def forms(self) -> tuple[ChainedMatmul, ...]:
        """Half and twice as many rows, or steps."""
        found = [replace(self, rows=n) for n in (self.rows // 2, 2 * self.rows) if n]
        return (*found, *(replace(self, steps=n) for n in (self.steps // 2, 2 * self.steps) if n))

    def apply(self, moves: Moves) -> None:
        nest = moves.nest_of(self.nest)
        chain = _recognise(nest)
        if chain is None:
            raise ValueError(f"{self}: the nest is no chain of products")
        Blocks(moves, nest, chain, self.rows, self.steps, self.tile).make()


def _kept_factor(reduce: Node) -> tuple[Node, Node] | None:
    """(the factor that is a kept row, the other) of a sum of products."""
    if reduce.op is not Op.REDUCE or reduce.arg.op is not Op.ADD:
        return None
    value, loops, _ = Reduce.of(reduce)
    factors = factors_of(value)
    if factors is None or len(loops) != 1:
        return None
    for x, y in (factors, factors[::-1]):
        if is_kept(x) and not any(is_kept(n) for n in y.toposort()):
            return x, y
    return None


def _without_factors(nest: Nest) -> dict[Node, Node]:
    """Sums of `(v / w) * y` over rows that share w as `sum(v * y) / w`: one division a row."""
    mapping = {}
    for reduce in nest.nodes:
        factors = _kept_factor(reduce)
        if factors is None:
            continue
        x, y = factors
        quotient = Stage.of(x)
        if quotient.value.op not in (Op.FDIV, Op.MUL) or quotient.gate is not TRUE:
            continue
        row, by = operands(quotient.value)
        varies = not ranges_of(by).isdisjoint(quotient.loops)
        if is_kept(row) and Stage.of(row).read == quotient.filled and not varies:
            kept = Stage.of(row)._replace(read=quotient.read).node()
            total = Reduce.of(reduce)._replace(value=kept * y).node()
            mapping[reduce] = total.alu(quotient.value.op, by)
    return mapping


def _recognise(nest: Nest) -> Chain | None:
    free = free_ranges(nest.node)
    loops = frozenset(nest.loops)
    rows = tuple(n for n in nest.node.toposort() if is_kept(n) and free[n] & loops)
    if not rows:
        return None
    around = frozenset().union(*(free[n] & loops for n in rows))
    columns = tuple(r for r in nest.loops if r not in around)
    products = tuple(n for n in nest.nodes if n.op is Op.REDUCE and free[n] & frozenset(columns))
    others = []
    for product in products:
        factors = _kept_factor(product)
        if factors is None or free[product] != loops:
            return None
        others.append(factors[1])
    # A store has the last of the columns as lanes, or none of them.
    fits = lambda index: stride(index, columns[-1]) == 1 or ranges_of(index).isdisjoint(columns)
    if columns and not (products and all(map(fits, nest.stores()))):
        return None
    operands = [n for stage in rows for n in _operands(stage)] + others
    shared = [r for r in nest.loops if r in around and any(r not in free[n] for n in operands)]
    shared = [r for r in shared if all(r not in free[n] for n in others)]
    if not shared:
        return None
    return Chain(max(shared, key=loop_size), columns, products, rows)


def _operands(stage: Node) -> list[Node]:
    """The factors of the products that a row is filled with."""
    found = [factors_of(Reduce.of(n).value) for n in own_reductions(Stage.of(stage).value)]
    return [factor for factors in found if factors for factor in factors]
