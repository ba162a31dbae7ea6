"""Reverse-mode differentiation: a graph becomes the graph of its gradients.

    gradient(x * x, [x], seed)  ->  [seed * x + seed * x]

A rule for each op says what arrives at its sources, as ordinary nodes: so gradients have gradients.
Where a function has a corner, PyTorch's choice is taken: equal elements share the gradient of a
maximum, and against a constant (`relu`) a tie gets none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..errors import UserError
from ..ir.builders import constant
from ..ir.node import Node, alu, toposort
from ..ir.op import Op
from ..ir.origin import pass_on
from ..ir.views import operand
from .grad_collective import collective_rule
from .grad_complex import conj, converted, from_parts, imaginary_part, real_part
from .grad_linalg import host_rule
from .grad_memory import after, assign, copy, gather, multi, part_of, scatter
from .grad_movement import MOVEMENT_RULES
from .grad_reduce import reduce_rule, scan_rule
from .recurrence import recur_rule

__all__ = ["derivative", "gradient", "gradients"]

Rule = Callable[[Node, Node], "tuple[Node | None, ...]"]


def gradient(root: Node, targets: Sequence[Node], seed: Node) -> list[Node | None]:
    """The gradient of `root` for each of `targets`, given the one that arrives at `root`.

    `seed` has the shape and dtype of `root`. None where `root` does not depend on a target.
    Raises UserError for an op without derivative.
    """
    return gradients({root: seed}, targets)


def gradients(seeds: Mapping[Node, Node], targets: Sequence[Node]) -> list[Node | None]:
    """As `gradient`, of several roots at once, each with what arrives there: their sum."""
    order = toposort(seeds)
    wanted = _leading_to(order, set(targets))
    found = {root: seed for root, seed in seeds.items() if root in wanted}
    loops = _loops(order)
    for node in reversed(order):
        together = loops.get(node, ()) if node.op is Op.RECUR else (node,)
        arriving = [found.get(one) for one in together]
        if all(g is None for g in arriving) or not any(source in wanted for source in node.src):
            continue
        parts = _parts(together, arriving)
        pass_on(node, parts)
        for source, part in zip(node.src, parts, strict=True):
            if part is not None and source in wanted:
                old = found.get(source)
                found[source] = part if old is None else old + part
    return [found.get(target) for target in targets]


def _loops(order: list[Node]) -> dict[Node, list[Node]]:
    """The states of each loop, by the first of them: by then, all has arrived at the others."""
    loops: dict[object, list[Node]] = {}
    for node in order:
        if node.op is Op.RECUR:
            loops.setdefault((node.src, replace(node.arg, number=0)), []).append(node)
    return {states[0]: states for states in loops.values()}


def _parts(together: Sequence[Node], arriving: Sequence[Node | None]) -> tuple[Node | None, ...]:
    """The derivative of a node, or of several states of one loop at once."""
    if together[0].op is not Op.RECUR:
        assert arriving[0] is not None
        return derivative(together[0], arriving[0])
    pairs = zip(together, arriving, strict=True)
    return _of_loop(together[0], {one.arg.number: g for one, g in pairs if g is not None})


def _of_loop(node: Node, arriving: Mapping[int, Node]) -> tuple[Node | None, ...]:
    from .batch import batch  # loops alone need it

    return recur_rule(node, arriving, gradients, batch)


def _leading_to(order: list[Node], targets: set[Node]) -> set[Node]:
    """The nodes through which gradients reach a target."""
    wanted: set[Node] = set()
    for node in order:
        passes = node.op is not Op.DETACH and any(source in wanted for source in node.src)
        if node in targets or (passes and node.dtype.is_inexact):
            wanted.add(node)
    return wanted


def derivative(node: Node, g: Node) -> tuple[Node | None, ...]:
    """What arrives at each source of `node` where `g` arrives at it; None for what is no float.

    Raises UserError for an op without derivative.
    """
    rule = RULES.get(node.op)
    if rule is None:
        raise UserError(f"[{node.op.name.lower()}] has no derivative; detach() what leads to it")
    return rule(node, g)


def _nothing(node: Node, g: Node) -> tuple[Node | None, ...]:
    """Steps: their derivative is 0 wherever it exists."""
    return (constant(node.dtype, 0, node.shape),) * len(node.src)


def _product(node: Node, g: Node) -> tuple[Node | None, ...]:
    left, right = node.src
    return g * conj(right), g * conj(left)


def _product_and_sum(node: Node, g: Node) -> tuple[Node | None, ...]:
    left, right, _ = node.src
    return g * right, g * left, g


def _quotient(node: Node, g: Node) -> tuple[Node | None, ...]:
    _, below = node.src
    divisor = conj(below)
    return g / divisor, -(g * conj(node) / divisor)


def _power(node: Node, g: Node) -> tuple[Node | None, ...]:
    base, exponent = node.src
    slope = exponent * alu(Op.POW, base, exponent - 1.0)
    of_base = (exponent.eq(0.0)).where(0.0, g * slope)
    # 0 ** y is flat in y; log(0) must not reach the product
    zero = base.eq(0.0) & (exponent >= 0.0)
    safe = zero.where(1.0, base)
    of_exponent = zero.where(0.0, g * node * alu(Op.LOG, safe))
    return of_base, of_exponent


def _extreme(node: Node, g: Node) -> tuple[Node | None, ...]:
    a, b = node.src
    first, second = (b < a, a < b) if node.op is Op.MAX else (a < b, b < a)
    tie = 0.0 if Op.CONST in (a.op, b.op) else g * 0.5
    shared = (a.eq(b)).where(tie, 0.0) if isinstance(tie, Node) else tie
    unordered = a.ne(a) | b.ne(b)
    rest = unordered.where(g, shared)
    return first.where(g, rest), second.where(g, rest)


def _where(node: Node, g: Node) -> tuple[Node | None, ...]:
    condition, _, _ = node.src
    return None, condition.where(g, 0.0), condition.where(0.0, g)


def _unwindow(node: Node, g: Node) -> tuple[Node | None, ...]:
    seen = Node(Op.WINDOW, g.dtype, (g,), node.arg)
    shape = operand(node).shape
    bounds = tuple((0, n) for n in shape)
    return (seen if seen.shape == shape else Node(Op.SHRINK, g.dtype, (seen,), bounds),)


def _erf(node: Node, g: Node) -> tuple[Node]:
    x = operand(node)
    return (g * (2 / math.sqrt(math.pi)) * alu(Op.EXP, -(x * x)),)


def _asinh(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = operand(node)
    size = alu(Op.MAX, x, -x)
    far = x.like(1e9) < size  # there the square, which may overflow, is all of the sum
    near = far.where(1.0, x)
    return (g / far.where(size, alu(Op.SQRT, near * near + 1.0)),)


def _acosh(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = operand(node)
    return (g / (alu(Op.SQRT, x - 1.0) * alu(Op.SQRT, x + 1.0)),)


def _atanh(node: Node, g: Node) -> tuple[Node | None, ...]:
    x = operand(node)
    return (g / ((1.0 - x) * (x + 1.0)),)


def _erfc(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (-_erf(node, g)[0],)


def _erfinv(node: Node, g: Node) -> tuple[Node | None, ...]:
    return (g * (math.sqrt(math.pi) / 2) * alu(Op.EXP, node * node),)


def _modulo(node: Node, g: Node) -> tuple[Node | None, ...]:
    a, b = node.src
    return g, -(g * alu(Op.FLOOR, a / b))


RULES: dict[Op, Rule] = {
    Op.NEG: lambda n, g: (-g,),
    Op.RECIP: lambda n, g: (-(g * conj(n) * conj(n)),),
    Op.SQRT: lambda n, g: (g * 0.5 / n,),
    Op.EXP2: lambda n, g: (g * n * math.log(2),),
    Op.EXP: lambda n, g: (g * n,),
    Op.LOG2: lambda n, g: (g / (operand(n) * math.log(2)),),
    Op.LOG: lambda n, g: (g / operand(n),),
    Op.LOG10: lambda n, g: (g / (operand(n) * math.log(10)),),
    Op.LOG1P: lambda n, g: (g / (operand(n) + 1.0),),
    Op.SIN: lambda n, g: (g * alu(Op.COS, operand(n)),),
    Op.COS: lambda n, g: (-(g * alu(Op.SIN, operand(n))),),
    Op.TAN: lambda n, g: (g * (n * n + 1.0),),
    Op.TANH: lambda n, g: (g * (1.0 - n * n),),
    Op.ASINH: _asinh,
    Op.ACOSH: _acosh,
    Op.ATANH: _atanh,
    Op.ERF: _erf,
    Op.ERFC: _erfc,
    Op.ERFINV: _erfinv,
    Op.TRUNC: _nothing,
    Op.FLOOR: _nothing,
    Op.CEIL: _nothing,
    Op.ROUND: _nothing,
    Op.REAL: real_part,
    Op.IMAG: imaginary_part,
    Op.CAST: converted,
    Op.ADD: lambda n, g: (g, g),
    Op.SUB: lambda n, g: (g, -g),
    Op.MUL: _product,
    Op.FDIV: _quotient,
    Op.COMPLEX: from_parts,
    Op.MOD: _modulo,
    Op.POW: _power,
    Op.MAX: _extreme,
    Op.MIN: _extreme,
    Op.WHERE: _where,
    Op.FMA: _product_and_sum,
    Op.REDUCE: reduce_rule,
    Op.SCAN: scan_rule,
    **MOVEMENT_RULES,
    Op.UNWINDOW: _unwindow,
    Op.CONTIGUOUS: lambda n, g: (g,),
    Op.ALIAS: lambda n, g: (g,),
    Op.CONTIGUOUS_BACKWARD: lambda n, g: (Node(Op.CONTIGUOUS, g.dtype, (g,)),),
    Op.COPY: copy,
    Op.HOST: host_rule,
    Op.COLLECTIVE: collective_rule,
    Op.RECUR: lambda n, g: _of_loop(n, {n.arg.number: g}),
    Op.MULTI: multi,
    Op.PART: part_of,
    Op.GATHER: gather,
    Op.SCATTER: scatter,
    Op.ASSIGN: assign,
    Op.AFTER: after,
}
