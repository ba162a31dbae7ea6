"""Derivatives of LU factors and of the exponential of a matrix, as nodes.

With A = P L U, square: gA = P L^-H [tril(L.H gL, -1) + triu(gU U.H)] U^-H. Further columns of A are
L^-1 times them in U, further rows are them times U^-1 in L: both by the rules of a product. The
derivative of the exponential along G is the upper right block of exp([[A, G], [0, A]]).
"""

from __future__ import annotations

from ..ir.builders import constant, iota_along
from ..ir.node import Node
from ..ir.views import operand
from .matrices import (
    adjoint,
    beside,
    mask_diagonal,
    matmul,
    matrix_exp,
    narrow,
    of_columns,
    siblings,
    solve_triangular,
    transpose,
    tril,
    triu,
)

__all__ = ["exponential_rule", "lu_rule"]

Gradients = tuple[Node, ...]


def lu_rule(node: Node, g: Node) -> Gradients:
    """Of the factors in one matrix; pivots are numbers of rows."""
    a = operand(node)
    factors, _, order = siblings(node)
    m, n = a.shape[-2:]
    k = min(m, n)
    of_low, of_up = mask_diagonal(tril(g), 0.0), triu(g)
    square, of_square = (narrow(narrow(x, -2, 0, k), -1, 0, k) for x in (factors, g))
    left = matmul(adjoint(mask_diagonal(tril(square), 1.0)), mask_diagonal(tril(of_square), 0.0))
    right = matmul(triu(of_square), adjoint(triu(square)))
    if n > k:
        more = narrow(of_up, -1, k, n)
        left = left - matmul(more, adjoint(narrow(factors, -1, k, n)))
    if m > k:
        below = narrow(of_low, -2, k, m)
        right = right - matmul(adjoint(narrow(factors, -2, k, m)), below)
    inner = mask_diagonal(tril(left), 0.0) + triu(right)
    found = _divided_left(square, _divided_right(inner, square))
    if n > k:
        found = beside(found, _divided_left(square, more))
    if m > k:
        found = transpose(beside(transpose(found), transpose(_divided_right(below, square))))
    # row i of P L U is row order[i] of A
    square_of_rows = (*a.shape[:-1], m)
    rows = iota_along(square_of_rows, len(a.shape) - 2).cast(order.dtype)
    exchanged = of_columns(order, square_of_rows).eq(rows).cast(a.dtype)
    return (matmul(exchanged, found),)


def _divided_left(factors: Node, b: Node) -> Node:
    """L^-H b."""
    return solve_triangular(factors, b, upper=False, adjoint=True, unit=True)


def _divided_right(b: Node, factors: Node) -> Node:
    """b U^-H, the adjoint of U^-1 b.H."""
    return adjoint(solve_triangular(factors, adjoint(b), upper=True))


def exponential_rule(node: Node, g: Node) -> Gradients:
    """The derivative of exp(A.H) along what arrives."""
    turned, n = adjoint(operand(node)), node.shape[-1]
    top, bottom = beside(turned, g), beside(constant(g.dtype, 0, g.shape), turned)
    both = matrix_exp(transpose(beside(transpose(top), transpose(bottom))))
    return (narrow(narrow(both, -2, 0, n), -1, n, 2 * n),)
