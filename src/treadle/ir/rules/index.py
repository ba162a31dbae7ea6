"""Index arithmetic: sums in one canonical form, and division, remainder and comparison pushed in.

    simplify((i * 32 + j) // 32)  ->  i        when 0 <= j < 32

`//` and `%` floor, over the unbounded integers. Template rules are proved by Z3 for all values; the
rules that work on n-ary sums are functions, and the tests prove what they return, expression by
expression.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable

from ...dtype import dtypes
from ..interval import bounds
from ..node import Node
from ..op import Op
from ..remembered import Table, remembered
from ..rewrite import rewrite
from ..rule import RuleSet, anything, constant, rule

__all__ = [
    "INDEX_RULES", "SIMPLER", "Terms", "linear_terms", "simplified_sum", "simplify",
    "size_factors", "sum_terms",
]  # fmt: skip

Terms = dict[Node, int]

_INT32 = 1 << 31

SIMPLER = Table[Node, Node]()  # what nodes are simplified to


def simplify(node: Node) -> Node:
    """`node` with every rule of INDEX_RULES applied to the index and bool arithmetic in it."""
    with remembered():
        return rewrite(node, INDEX_RULES, SIMPLER.here())


# -- sums ---------------------------------------------------------------------------------------


def linear_terms(node: Node) -> tuple[Terms, int]:
    """`node` as (term -> coefficient, constant): node = sum of coefficient * term + constant."""
    terms: Terms = {}
    constant_part = 0
    stack = [(node, 1)]
    while stack:
        item, factor = stack.pop()
        if item.op is Op.CONST:
            constant_part += factor * item.arg
        elif item.op is Op.ADD:
            stack.extend((s, factor) for s in item.src)
        elif item.op is Op.MUL and item.src[1].op is Op.CONST:
            stack.append((item.src[0], factor * item.src[1].arg))
        else:
            terms[item] = terms.get(item, 0) + factor
    return {t: c for t, c in terms.items() if c != 0}, constant_part


def sum_terms(terms: Terms, constant_part: int) -> Node:
    """The canonical Node of such a sum: terms in a fixed order, the constant last."""
    total: Node | None = None
    for term in sorted(terms, key=functools.cmp_to_key(_compare)):
        coefficient = terms[term]
        if coefficient == 0:
            continue
        part = (
            term
            if coefficient == 1
            else Node(Op.MUL, dtypes.index, (term, Node.index(coefficient)))
        )
        total = part if total is None else Node(Op.ADD, dtypes.index, (total, part))
    if total is None:
        return Node.index(constant_part)
    if constant_part == 0:
        return total
    return Node(Op.ADD, dtypes.index, (total, Node.index(constant_part)))


def simplified_sum(parts: Iterable[tuple[Node, int]], constant_part: int) -> Node:
    """The sum of simplified indices, each times a constant, and of a constant: simplified, too."""
    terms: Terms = {}
    rest = constant_part
    for part, factor in parts:
        inner, more = linear_terms(part)
        rest += factor * more
        for term, coefficient in inner.items():
            terms[term] = terms.get(term, 0) + factor * coefficient
    terms = {term: coefficient for term, coefficient in terms.items() if coefficient}
    total = sum_terms(terms, rest)
    if _recombine(dict(terms)):
        return simplify(total)
    SIMPLER.here()[total] = total
    return total


def _compare(a: Node, b: Node) -> int:
    """Below 0 where `a` comes first: by structure alone, so that equal sums are the same Node.

    Nodes that are the same are the same object, so the first sources that differ decide, and what
    they share is never walked: as a tree, a graph may be endless.
    """
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        x, y = _head(a), _head(b)
        if x != y:
            return -1 if x < y else 1
        if len(a.src) != len(b.src):
            return len(a.src) - len(b.src)
        pending += reversed(list(zip(a.src, b.src, strict=True)))
    return 0


def _head(node: Node) -> tuple[int, int, str]:
    if node.op is Op.RANGE:
        return (0, node.arg.number, "")
    if node.op is Op.VARIABLE:
        return (1, 0, node.arg.name)
    return (2, int(node.op), str(node.arg))


def _canonical_sum(x: Node, y: Node) -> Node | None:
    terms, rest = linear_terms(Node(Op.ADD, dtypes.index, (x, y)))
    _recombine(terms)
    return sum_terms(terms, rest)


def _distribute(x: Node, c: Node) -> Node | None:
    if x.op is not Op.ADD and not (x.op is Op.MUL and x.src[1].op is Op.CONST):
        return None
    terms, rest = linear_terms(x)
    return sum_terms({t: k * c.arg for t, k in terms.items()}, rest * c.arg)


def _recombine(terms: Terms) -> bool:
    """(x // c) * c + x % c is x, and (x // a % b) * a + x % a is x % (a * b), at any scale.

    Returns whether `terms` are others now.
    """
    count = 0
    while _recombine_one(terms):
        count += 1
    return count > 0


def _recombine_one(terms: Terms) -> bool:
    """Put one quotient and its remainder together in `terms`, if there are any."""
    for term, scale in terms.items():
        if term.op is not Op.MOD:
            continue
        value, size = term.src
        if size.op is Op.CONST:
            merged = _partner(terms, value, size.arg, scale)
        else:
            merged = _symbolic_partner(terms, value, size, scale)
        if merged is not None:
            partner, whole = merged
            del terms[partner], terms[term]
            inner, rest = linear_terms(whole)
            if rest != 0:
                inner = {whole: 1}
            for part, coefficient in inner.items():
                terms[part] = terms.get(part, 0) + coefficient * scale
            for part in [t for t, c in terms.items() if c == 0]:
                del terms[part]
            return True
    return False


def _partner(terms: Terms, value: Node, size: int, scale: int) -> tuple[Node, Node] | None:
    for other, coefficient in terms.items():
        if coefficient != scale * size:
            continue
        if other is _divided(value, size):
            return other, value
        if (
            other.op is Op.MOD
            and other.src[1].op is Op.CONST
            and other.src[0] is _divided(value, size)
        ):
            return other, Node(Op.MOD, dtypes.index, (value, Node.index(size * other.src[1].arg)))
    return None


def _symbolic_partner(
    terms: Terms, value: Node, size: Node, scale: int
) -> tuple[Node, Node] | None:
    quotient = simplify(Node(Op.IDIV, dtypes.index, (value, size)))
    factor, factors = size_factors(Node(Op.MUL, dtypes.index, (quotient, size)))
    other = _product(factors)
    return (other, value) if terms.get(other) == scale * factor else None


def _divided(value: Node, size: int) -> Node:
    return simplify(Node(Op.IDIV, dtypes.index, (value, Node.index(size))))


# -- products of sizes that are no numbers --------------------------------------------------------


def size_factors(node: Node) -> tuple[int, Counter[Node]]:
    """`node` as a number times other factors, each as often as it is one."""
    number, factors, stack = 1, Counter[Node](), [node]
    while stack:
        item = stack.pop()
        if item.op is Op.MUL:
            stack.extend(item.src)
        elif item.op is Op.CONST:
            number *= item.arg
        else:
            factors[item] += 1
    return number, factors


def _product(factors: Counter[Node]) -> Node:
    """The one Node of such a product: its factors in a fixed order."""
    first, *others = sorted(factors.elements(), key=functools.cmp_to_key(_compare))
    return functools.reduce(lambda x, y: Node(Op.MUL, dtypes.index, (x, y)), others, first)


def _canonical_product(x: Node, y: Node) -> Node | None:
    """A product of several factors that are no numbers, the number last."""
    if y.op is Op.CONST:
        return None
    number, factors = size_factors(Node(Op.MUL, dtypes.index, (x, y)))
    if not factors:
        return None
    return _product(factors) if number == 1 else _product(factors) * number


def _divide_by_size(x: Node, y: Node) -> Node | None:
    found = _quotient_and_rest(x, y)
    return None if found is None else found[0]


def _remainder_by_size(x: Node, y: Node) -> Node | None:
    found = _quotient_and_rest(x, y)
    return None if found is None else found[1]


def _quotient_and_rest(x: Node, size: Node) -> tuple[Node, Node] | None:
    """(a, b) with x = a * size + b and 0 <= b < size; None where that is not seen.

    The terms of `x` that hold all factors of `size` divide evenly.
    """
    if size.op is Op.CONST:
        return None
    number, factors = size_factors(size)
    if number <= 0:
        return None
    terms, rest = linear_terms(x)
    low: Terms = {}
    high, evenly = Counter[Node](), 0
    for term, coefficient in terms.items():
        mine = size_factors(term)[1]
        if coefficient % number or not factors <= mine:
            low[term] = coefficient
        elif left := mine - factors:
            high[_product(left)] += coefficient // number
        else:
            evenly += coefficient // number
    remainder = sum_terms(low, rest)
    if bounds(remainder)[0] < 0 or not _is_below(low, rest, size):
        return None
    return sum_terms(high, evenly), remainder


def _is_below(terms: Terms, rest: int, size: Node) -> bool:
    """Whether such a sum is below `size` wherever its loops are: i * n + j below m * n."""
    difference, left = linear_terms(size)
    left -= rest
    for term, coefficient in terms.items():
        for part, factor in _most(term, coefficient).items():
            if math.isinf(factor):
                return False
            if part.op is Op.CONST:
                left -= factor * part.arg
            else:
                difference[part] = difference.get(part, 0) - factor
    return bounds(sum_terms(difference, left))[0] > 0


def _most(term: Node, coefficient: int) -> Terms:
    """What coefficient * term is at most, as a sum: a loop's last step is below its size."""
    factors = size_factors(term)[1]
    loops = [f for f in factors if f.op is Op.RANGE and f.src[0].op is not Op.CONST]
    others = factors - Counter(loops)
    if coefficient < 0 or len(loops) != 1 or any(bounds(f)[0] < 0 for f in others):
        least, most = bounds(term)
        return {Node.index(1): coefficient * (most if coefficient > 0 else least)}
    scale = _product(others) if others else Node.index(1)
    sizes, one = linear_terms(loops[0].src[0])
    found: Terms = {}
    for part, factor in (*sizes.items(), (Node.index(1), one - 1)):
        number, all_factors = size_factors(Node(Op.MUL, dtypes.index, (part, scale)))
        whole = _product(all_factors) if all_factors else Node.index(1)
        found[whole] = found.get(whole, 0) + coefficient * factor * number
    return found


# -- division, remainder, comparison -------------------------------------------------------------


def _split(node: Node, divisor: int) -> tuple[Node, Node]:
    """`node` as (a, b) with node = a * divisor + b, a taking all that divides evenly."""
    terms, rest = linear_terms(node)
    high = {t: c // divisor for t, c in terms.items() if c % divisor == 0}
    low = {t: c for t, c in terms.items() if c % divisor != 0}
    return sum_terms(high, rest // divisor), sum_terms(low, rest % divisor)


def _common_factor(node: Node, divisor: int) -> tuple[int, Node, Node] | None:
    """(g, a, r) with node = a * g + r, 0 <= r < g and g > 1 dividing `divisor`; or None."""
    terms, rest = linear_terms(node)
    if not terms:
        return None
    for factor in sorted({math.gcd(c, divisor) for c in terms.values()} - {1}, reverse=True):
        high = {t: c // factor for t, c in terms.items() if c % factor == 0}
        low = {t: c for t, c in terms.items() if c % factor != 0}
        remainder = sum_terms(low, rest % factor)
        least, most = bounds(remainder)
        if high and least >= 0 and most < factor:
            return factor, sum_terms(high, rest // factor), remainder
    return None


def _divide(x: Node, c: Node) -> Node | None:
    divisor = c.arg
    if divisor <= 0:
        return None
    least, most = bounds(x)
    if not math.isinf(least) and not math.isinf(most) and least // divisor == most // divisor:
        return Node.index(least // divisor)
    high, low = _split(x, divisor)
    if high.op is not Op.CONST or high.arg != 0:
        return high + Node(Op.IDIV, dtypes.index, (low, c)) if low.value != 0 else high
    found = _common_factor(x, divisor)
    if found is not None:
        factor, scaled, _ = found
        if factor == divisor:
            return scaled
        return Node(Op.IDIV, dtypes.index, (scaled, Node.index(divisor // factor)))
    if x.op is Op.MOD and x.src[1].op is Op.CONST and x.src[1].arg % divisor == 0:
        quotient = Node(Op.IDIV, dtypes.index, (x.src[0], c))
        return Node(Op.MOD, dtypes.index, (quotient, Node.index(x.src[1].arg // divisor)))
    return None


def _remainder(x: Node, c: Node) -> Node | None:
    divisor = c.arg
    if divisor <= 0:
        return None
    least, most = bounds(x)
    if not math.isinf(least) and not math.isinf(most) and least // divisor == most // divisor:
        return x + -(least // divisor) * divisor
    high, low = _split(x, divisor)
    if high.op is not Op.CONST or high.arg != 0:
        return Node(Op.MOD, dtypes.index, (low, c)) if low.value != 0 else low
    found = _common_factor(x, divisor)
    if found is not None:
        factor, scaled, remainder = found
        inner = Node(Op.MOD, dtypes.index, (scaled, Node.index(divisor // factor)))
        return inner * factor + remainder
    if x.op is Op.MOD and x.src[1].op is Op.CONST and x.src[1].arg % divisor == 0:
        return Node(Op.MOD, dtypes.index, (x.src[0], c))
    return None


def _below(x: Node, c: Node) -> Node | None:
    """x < c with the constant moved right and a common factor divided out."""
    decided = _decided(Node(Op.CMPLT, dtypes.bool, (x, c)))
    if decided is not None:
        return decided
    terms, rest = linear_terms(x)
    if rest != 0:
        return Node(Op.CMPLT, dtypes.bool, (sum_terms(terms, 0), Node.index(c.arg - rest)))
    if all(k < 0 for k in terms.values()):
        flipped = sum_terms({t: -k for t, k in terms.items()}, 0)
        return ~(flipped < 1 - c.arg)
    for factor in sorted({abs(k) for k in terms.values()} - {1}, reverse=True):
        high = {t: k // factor for t, k in terms.items() if k % factor == 0}
        low = {t: k for t, k in terms.items() if k % factor != 0}
        least, most = bounds(sum_terms(low, 0))
        if least >= 0 and most < factor and (c.arg % factor == 0 or not low):
            return Node(
                Op.CMPLT, dtypes.bool, (sum_terms(high, 0), Node.index(-(-c.arg // factor)))
            )
    return None


def _less(x: Node, y: Node) -> Node | None:
    if y.op is Op.CONST:
        return None
    return Node(Op.CMPLT, dtypes.bool, (simplify(x - y), Node.index(0)))


def _below_as_index(i: Node, k: Node) -> Node | None:
    """A number of a loop that became an int32: as a number of a loop it is compared alike."""
    index = i.src[0] if i.op is Op.CAST else i
    if index.dtype is not dtypes.index:
        return None
    least, most = bounds(index)
    if not -_INT32 <= least <= most < _INT32:
        return None
    return Node(Op.CMPLT, dtypes.bool, (index, Node.index(k.arg)))


def _decided(node: Node) -> Node | None:
    least, most = bounds(node)
    return Node.const(dtypes.bool, least) if least == most else None


def _decide(op: Op) -> Callable[..., Node | None]:
    def decide(x: Node, y: Node) -> Node | None:
        return _decided(Node(op, dtypes.bool, (x, y)))

    return decide


_x, _y = anything("x"), anything("y")
_c, _d = constant("c"), constant("d")
_i, _k = anything("i", dtypes.int32), constant("k", dtypes.int32)
_p, _q = anything("p", dtypes.bool), anything("q", dtypes.bool)

INDEX_RULES = RuleSet(
    [
        # sums: one canonical order, like terms collected
        rule("sum", _x + _y, _canonical_sum),
        rule("mul-mul", (_x * _c) * _d, _x * (_c * _d)),
        rule("mul-sum", _x * _c, _distribute),
        rule("mul-product", _x * _y, _canonical_product),
        # division and remainder by a positive constant
        rule("div-div", (_x // _c) // _d, _x // (_c * _d), when=(_c > 0) & (_d > 0)),
        rule("div", _x // _c, _divide),
        rule("mod-mod", (_x % _c) % _d, _x % _d, when=(_c > 0) & (_d > 0) & (_c % _d).eq(0)),
        rule("mod", _x % _c, _remainder),
        rule("div-by-one-step", _x // _y, Node.index(0), when=(_x >= 0) & (_x < _y)),
        rule("mod-small", _x % _y, _x, when=(_x >= 0) & (_x < _y)),
        # and by a size that is no number
        rule("div-size", _x // _y, _divide_by_size),
        rule("mod-size", _x % _y, _remainder_by_size),
        # comparison
        rule("less-than-div", (_x // _c) < _d, _x < (_c * _d), when=_c > 0),
        rule("less-than-constant", _x < _c, _below),
        rule("less-than", _x < _y, _less),
        rule("less-than-int32", _i < _k, _below_as_index),
        rule("equal-decided", _x.eq(_y), _decide(Op.CMPEQ)),
        rule("unequal-decided", _x.ne(_y), _decide(Op.CMPNE)),
        # the larger and the smaller
        rule("max-same", _x.maximum(_x), _x),
        rule("min-same", _x.minimum(_x), _x),
        rule("max-left", _x.maximum(_y), _x, when=_y <= _x),
        rule("max-right", _x.maximum(_y), _y, when=_x <= _y),
        rule("min-left", _x.minimum(_y), _x, when=_x <= _y),
        rule("min-right", _x.minimum(_y), _y, when=_y <= _x),
        # conditions
        rule("and-same", _p & _p, _p),
        rule("or-same", _p | _p, _p),
        rule("and-again", (_p & _q) & _q, _p & _q),
        rule("not-not", (_p ^ True) ^ True, _p),
        rule("where-proved", _p.where(_x, _y), _x, when=_p),
        rule("where-disproved", _p.where(_x, _y), _y, when=_p ^ True),
    ]
)
