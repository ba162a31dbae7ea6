"""Reductions of rows that go through the keys together, as the AST of a kernel.

    m[i]      = max over j of s[i, j]
    l[i]      = sum over j of exp(s[i, j] - m[i])
    out[i, c] = sum over j of exp(s[i, j] - m[i]) / l[i] * y[j, c]

Here s is elementwise in products of a row and a key, such as the sum over d of q[i, d] * k[j, d].
What is a reduction of what another one ends with has to wait for its end, and goes through the keys
in a second pass. Three rules let it go along in the same one:

* A sum times what is the same for all keys: sum(x * a) = sum(x) * a. It divides out by l.
* A carried sum of exponentials: exp(s - b) * exp(b - b') = exp(s - b'). A sum of exp(s - b) times
  anything, where b comes of the maximum of s, goes on with the maximum so far. Where that grows
  from b to b', the sum so far shrinks by exp(b - b'). As b is the maximum or more, no power is
  above 1.
* Sums that change places: the sum over j of w[j] * (the sum over c of g[c] * y[j, c]) is the sum
  over c of g[c] * out[c], where out[c], the sum over j of w[j] * y[j, c], is computed anyway.

They know no operator. Softmax in attention is one use, a sigmoid in its place needs none of them;
gradients have two passes if statistics of rows are their own to compute, or one if they read them.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..dtype import DType
from .accumulators import is_tuple
from .loops import Ranges, closed_ranges, free_ranges, has_fixed_size, loop_size, ranges_of
from .node import Node, changed
from .op import Op
from .rules.index import simplify
from .views import Stage, bound_of, operand

__all__ = [
    "Dot", "Product", "Reduction", "Rows", "factors_of", "is_kept", "is_of_product", "reads",
    "rows_of", "unrounded", "without_guard", "without_rows",
]  # fmt: skip


@dataclass(frozen=True)
class Product:
    """`sums` over `depth` of a factor of the row and one of the key."""

    sums: Node
    depth: Node
    of_row: Node
    of_key: Node


@dataclass(frozen=True)
class Reduction:
    """A REDUCE over the keys, `total`: `factor` times what `op` makes of `term` for each key.

    With a `value` of each key and column, the term is what weighs it. The exponent of a term that
    is carried subtracts `base`, which comes of `most`, the total of a maximum of the same pass.
    """

    total: Node
    op: Op
    term: Node
    factor: Node
    value: Node | None = None
    base: Node | None = None
    most: Node | None = None


@dataclass(frozen=True)
class Dot:
    """`total` is `factor` times the sum over `depth` of `of_row` and the sum of products `by`."""

    total: Node
    factor: Node
    depth: Node
    of_row: Node
    by: Reduction


@dataclass(frozen=True)
class Rows:
    """What a kernel stores of rows.

    Of the loops, `row` is i, `column` is c if there is one, `batch` are the rest, and `key` is j in
    all reductions. `passes` are these in order. `dots` come of them.
    """

    stores: tuple[Node, ...]
    products: tuple[Product, ...]
    passes: tuple[tuple[Reduction, ...], ...]
    dots: tuple[Dot, ...]
    row: Node
    key: Node
    column: Node | None
    batch: tuple[Node, ...]


def rows_of(end: Node) -> Rows | None:
    """What the kernel whose stores are `end` is of that, if it is nothing else."""
    if end.op is not Op.END or any(s.op is not Op.STORE for s in end.src[: end.arg]):
        return None
    stores = tuple(without_rows(s) for s in end.src[: end.arg])
    found = _over_one_key(_normal(Node.sink(stores)))
    if found is None:
        return None
    root, key = found
    loops, free = closed_ranges(end), free_ranges(root)
    products = _products(root, key, free)
    places = None if products is None else _places(loops, products.values(), free)
    if products is None or places is None:
        return None
    row, column = places
    batch = tuple(r for r in loops if r not in places)
    order = [n for n in root.toposort() if n.op is Op.REDUCE and n not in products]
    made = _Reductions(row, key, column, products, free)
    # Sums of products come as early as they can: others may come of them.
    while order:
        ready = [n for n in order if made.is_ready(n)]
        now = next((n for n in ready if column in free[n]), ready[0])
        order.remove(now)
        if not made.add(now):
            return None
    sums = {r.total for r in made.found if r.value is not None}
    if any(reads(store, sums) and column not in free[store] for store in root.src):
        return None
    return Rows(
        root.src, tuple(products.values()), made.passes(), tuple(made.dots), row, key, column, batch
    )


def reads(root: Node, those: set[Node]) -> bool:
    """Whether `root` is computed from one of `those` REDUCEs without another in between."""
    return any(n in those for n in root.toposort(lambda n: n.op is not Op.REDUCE))


# -- rows that a kernel keeps ---------------------------------------------------------------------


def is_kept(node: Node) -> bool:
    """Whether a node is a row that a kernel keeps: a STAGE (schedule/local_intermediates.py)."""
    return node.op is Op.STAGE and node.arg.scope == "shared" and len(node.arg.sizes) == 1


def is_of_product(node: Node) -> bool:
    """Whether a row or a total is computed from a reduction, and not of what is in memory alone."""
    return not _is_plain(operand(node))


def without_rows(root: Node, those: Callable[[Node], bool] = is_kept) -> Node:
    """`root` with what is kept, those of the rows, computed where it is read.

    But for the counters of a TICKET, which are memory that changes.
    """
    counters = {operand(node) for node in root.toposort() if node.op is Op.TICKET}

    def computed(node: Node, now: Node) -> Node:
        if not is_kept(node) or node in counters or not those(node):
            return now
        value, _, (place,), (read,), *_ = Stage.of(now)
        return value.substitute({place: read})

    return changed((root,), computed)[0]


# -- loops ----------------------------------------------------------------------------------------


def _over_one_key(root: Node) -> tuple[Node, Node] | None:
    """`root` with one loop for all that goes over keys, and that: reductions of products."""
    totals = [n for n in root.toposort() if n.op is Op.REDUCE and is_of_product(n)]
    keys = [loop for n in totals for loop in closed_ranges(n)]
    if not keys or len(keys) > len(totals) or len(set(map(bound_of, keys))) > 1:
        return None
    key = keys[0]
    return (root.substitute(dict.fromkeys(keys, key)), key) if has_fixed_size(key) else None


def _products(root: Node, key: Node, free: dict[Node, Ranges]) -> dict[Node, Product] | None:
    """All reductions that are of no others, by the REDUCE; None if one is no product of a key."""
    found = {}
    for node in root.toposort():
        if node.op is not Op.REDUCE or is_of_product(node):
            continue
        product = operand(node)
        if node.arg.op is not Op.ADD or len(node.src) != 2 or product.op is not Op.MUL:
            return None
        of_key = [n for n in product.src if key in free[n]]
        of_row = [n for n in product.src if key not in free[n]]
        if len(of_key) != 1:
            return None
        found[node] = Product(node, node.src[1], *of_row, *of_key)
    return found


def _places(
    loops: tuple[Node, ...], products: Iterable[Product], free: dict[Node, Ranges]
) -> tuple[Node, Node | None] | None:
    """The loop of rows and that of columns: what products go along alone, and what they do not.

    The longest of several is that of rows. None where there are several of columns.
    """
    columns, rows = frozenset(loops), frozenset(loops)
    for p in products:
        rows &= free[p.of_row] - free[p.of_key]
        columns -= free[p.of_row] | free[p.of_key]
    if not rows or len(columns) > 1 or not all(map(has_fixed_size, loops)):
        return None
    return max(rows, key=lambda r: (loop_size(r), -r.arg.number)), next(iter(columns), None)


# -- rules ----------------------------------------------------------------------------------------


class Factors(NamedTuple):
    """A product and a quotient as `over`, each multiplied, and `under`, each divided by."""

    over: list[Node]
    under: list[Node]

    def node(self, dtype: DType) -> Node:
        """What they are together, which is 1 without any."""
        over = functools.reduce(operator.mul, self.over or [Node.const(dtype, 1)])
        return functools.reduce(operator.truediv, self.under, over)

    def split(self, loop: Node) -> tuple[Factors, Factors]:
        """Those that depend on a loop, and the others."""
        parts = Factors([], []), Factors([], [])
        for mine, *both in zip(self, *parts, strict=True):
            for factor in mine:
                both[loop not in ranges_of(factor)].append(factor)
        return parts


def unrounded(node: Node) -> Node:
    """A computed float that is rounded to a narrower type and widened again, as it was before."""
    while node.op is Op.CAST and node.src[0].op is Op.CAST and node.dtype.is_float:
        before = node.src[0].src[0]
        if before.dtype is not node.dtype or _is_plain(before):
            break
        node = before
    return node


def factors_of(node: Node) -> Factors:
    """What a node is the product and quotient of, whatever is rounded on the way."""
    node = unrounded(node)
    if node.op is Op.NEG:
        over, under = factors_of(node.src[0])
        return Factors([Node.const(node.dtype, -1), *over], under)
    if node.op is Op.MUL:
        (over, under), (more, less) = map(factors_of, node.src)
        return Factors([*over, *more], [*under, *less])
    if node.op is Op.FDIV:
        over, under = factors_of(node.src[0])
        return Factors(over, [*under, node.src[1]])
    return Factors([node], [])


def _is_mask(node: Node) -> bool:
    """Whether a node is 0 or -inf, as a condition says."""
    return node.op is Op.WHERE and {n.value for n in node.src[1:]} == {0, -math.inf}


def _normal(root: Node) -> Node:
    """`root` with masks that are added as choices between a value and -inf.

    And what is computed is multiplied by a constant's inverse in place of divided.
    """

    def change(_: Node, node: Node) -> Node:
        if node.op is Op.ADD and any(map(_is_mask, node.src)):
            value, mask = node.src if _is_mask(node.src[1]) else node.src[::-1]
            condition, yes, _ = mask.src
            least = Node.const(value.dtype, -math.inf)
            return condition.where(*((value, least) if yes.arg == 0 else (least, value)))
        if node.op is Op.FDIV and is_of_product(node) and node.src[1].value:
            return operand(node) * (1 / node.src[1].arg)
        return node

    return changed((root,), change)[0]


def _without_scale(term: Node) -> tuple[float, Node]:
    """A number above 0 and what it multiplies: its maximum is as many times as large."""
    if term.op is Op.MUL:
        value, by = term.src
        if by.op is Op.CONST and 0 < by.arg < math.inf:
            return by.arg, value
    if term.op is Op.WHERE and term.src[2].value == -math.inf:
        scale, value = _without_scale(term.src[1])
        return scale, term.src[0].where(value, term.src[2])
    return 1.0, term


class _Reductions:
    """What the reductions of a kernel are, in which passes."""

    def __init__(
        self, row: Node, key: Node, column: Node | None, products: dict[Node, Product],
        free: dict[Node, frozenset[Node]],
    ) -> None:  # fmt: skip
        self.row, self.key, self.column, self.products, self.free = (
            row, key, column, products, free
        )  # fmt: skip
        self.found: list[Reduction] = []
        self.dots: list[Dot] = []
        self.level: dict[Node, int] = {}  # the pass that computes a total
        self.known: dict[Node, int] = {}  # the pass after which its value is known

    def passes(self) -> tuple[tuple[Reduction, ...], ...]:
        last = max(self.level.values())
        return tuple(
            tuple(r for r in self.found if self.level[r.total] == n) for n in range(last + 1)
        )

    def is_ready(self, reduce: Node) -> bool:
        """Whether all totals that a REDUCE is of are there."""
        return all(n in self.known for n in self._totals_in(operand(reduce)))

    def add(self, reduce: Node) -> bool:
        """Take in the next REDUCE; False if it is none of a row."""
        if reduce.src[1:] != (self.key,) or reduce.arg.op not in (Op.ADD, Op.MAX, Op.MIN):
            return False
        if is_tuple(operand(reduce)):  # an extreme and its place
            return False
        if reduce.arg.op is not Op.ADD:
            return self._add_extreme(reduce)
        mine, others = factors_of(reduce.src[0]).split(self.key)
        factor = others.node(reduce.dtype)
        values = [n for n in mine.over if self.column in ranges_of(n)]
        if len(values) > 1 or any(self.column in ranges_of(n) for n in (*mine.under, factor)):
            return False
        value = values[0] if values else None
        weights = Factors([n for n in mine.over if n is not value], mine.under)
        if value is not None and (self.row in ranges_of(value) or not _is_plain(value)):
            return False
        if value is None and self._is_dot(reduce, weights, factor):
            return True
        base, most, rest = self._base_of(weights)
        if most is not None and self.known[most] >= self._pass_of(*rest.over, *rest.under):
            level = self.level[most]
        else:
            level, base, most = self._pass_of(*weights.over, *weights.under), None, None
        term = weights.node(reduce.dtype)
        self._note(Reduction(reduce, Op.ADD, term, factor, value, base, most), level)
        return True

    def _add_extreme(self, reduce: Node) -> bool:
        term = reduce.src[0]
        if self.column in self.free[reduce]:
            return False
        scale, plain = _without_scale(term) if reduce.arg.op is Op.MAX else (1.0, term)
        factor = Node.const(reduce.dtype, scale)
        self._note(Reduction(reduce, reduce.arg.op, plain, factor), self._pass_of(term))
        return True

    def _note(self, one: Reduction, level: int) -> None:
        self.found.append(one)
        self.level[one.total] = level
        self._know(one.total, one.factor, level)

    def _know(self, total: Node, factor: Node, level: int) -> None:
        """Note after which pass a total is known that is a factor times what pass `level` gives."""
        self.known[total] = max([level, *(self.known[n] for n in self._totals_in(factor))])

    def _pass_of(self, *parts: Node) -> int:
        """The first pass that knows what parts of a term are computed from."""
        return max((self.known[n] + 1 for one in parts for n in self._totals_in(one)), default=0)

    def _totals_in(self, root: Node) -> list[Node]:
        order = root.toposort(lambda n: n.op is not Op.REDUCE)
        return [n for n in order if n.op is Op.REDUCE and n not in self.products]

    def _base_of(self, weights: Factors) -> tuple[Node | None, Node | None, Factors]:
        """What an exponential subtracts that can be carried, of which maximum, and the rest."""
        for power in weights.over:
            if power.op is Op.EXP and power.src[0].op is Op.SUB:
                score, base = power.src[0].src
                for most in self._totals_in(base):
                    is_of_it = most.arg.op is Op.MAX and most.src[0] is score
                    if is_of_it and self._totals_in(base) == [most] and _is_at_least(base, most):
                        rest = [n for n in weights.over if n is not power]
                        return base, most, Factors([score, *rest], weights.under)
        return None, None, weights

    def _is_dot(self, reduce: Node, weights: Factors, factor: Node) -> bool:
        """Take in a sum that comes of a sum of products with the same weights."""
        for power in weights.over:
            product = self.products.get(unrounded(power))
            if product is None or self.column is None:
                continue
            rest = Factors([n for n in weights.over if n is not power], weights.under)
            mine = simplify(product.of_key.substitute({product.depth: self.column}))
            for one in self.found:
                is_same = one.value is not None and simplify(one.value) is mine
                if is_same and one.term is rest.node(reduce.dtype):
                    self.dots.append(Dot(reduce, factor, product.depth, product.of_row, one))
                    self._know(reduce, factor, self.level[one.total])
                    return True
        return False


def _is_plain(value: Node) -> bool:
    return not any(n.op is Op.REDUCE for n in value.toposort())


def _is_at_least(base: Node, most: Node) -> bool:
    """Whether `base` is `most` or more, but for 0 in place of -inf."""
    is_most = without_guard(base, most) is most
    return is_most or (base.op is Op.MAX and any(_is_at_least(n, most) for n in base.src))


def without_guard(base: Node, most: Node) -> Node:
    """`base` with the maximum itself where it says `0 where that is -inf`."""
    guards = {}
    for node in base.toposort(lambda n: n is not most):
        if node.op is Op.WHERE and node.src[2] is most and node.src[1].value == 0:
            condition = node.src[0]
            if condition.op is Op.CMPEQ and most in condition.src:
                if any(s.value == -math.inf for s in condition.src):
                    guards[node] = most
    return base.substitute(guards)
