"""Derivatives of dense decompositions, as products and solves of their own results.

Each result of a call has a rule of its own: what arrives at several of them adds up. The rules are
ordinary nodes, so that second derivatives need nothing more. As everywhere, they hold where the
decomposition is differentiable: equal singular values or eigenvalues give infinities in the
gradients of their vectors.

After Giles, "An extended collection of matrix derivative results" (2008), and Walter and Lehmann,
"Algorithmic differentiation of linear algebra functions" (2010). Symmetric operands get
gradients as PyTorch gives them: symmetric ones from cholesky, those of all elements from eigh.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UserError
from ..ir.node import Node
from .grad_factors import exponential_rule, lu_rule, permutation_rule
from .matrices import (
    beside,
    cofactors,
    eigh,
    inv,
    mask_diagonal,
    matmul,
    narrow,
    of_columns,
    of_rows,
    scaled,
    siblings,
    solve,
    solve_upper,
    svd,
    total,
    transpose,
    tril,
    triu,
)
from .shapes import constant

__all__ = ["host_rule"]

Gradients = tuple[Node, ...]


def host_rule(node: Node, g: Node) -> Gradients:
    """The gradients of a HOST node's operands."""
    return _RULES[node.arg.name](node, g)


def _gaps(values: Node, matrix: tuple[int, ...]) -> Node:
    """values[j] - values[i] at row i, column j; 1 on the diagonal."""
    gaps = of_columns(values, matrix) - of_rows(values, matrix)
    return mask_diagonal(gaps, 1.0)


# -- triangular factors ----------------------------------------------------------------------------


def _halved(a: Node) -> Node:
    """`a` with half its diagonal."""
    return mask_diagonal(a, a * 0.5)


def _solve_right(b: Node, upper: Node) -> Node:
    """The x of x @ upper.T = b."""
    return transpose(solve_upper(upper, transpose(b)))


def _cholesky(node: Node, g: Node) -> Gradients:
    upper = transpose(node)
    inner = _halved(tril(matmul(upper, g)))
    found = _solve_right(solve_upper(upper, inner), upper)
    return ((found + transpose(found)) * 0.5,)


def _qr(node: Node, g: Node) -> Gradients:
    a, (complete,) = node.src[0], node.arg.options
    q, r = siblings(node)
    m, n = a.shape[-2:]
    if complete and m > n:
        raise UserError(
            f"[qr] mode='complete' of shape {a.shape}, with more rows than columns, has no "
            "derivative: the columns that complete Q are any; use mode='reduced'"
        )
    of_q, of_r = (g, None) if node.arg.number == 0 else (None, g)
    if m >= n:
        return (_tall_qr(q, r, of_q, of_r),)
    # a = [a1, a2] and r = [r1, r2]: a1 = q @ r1 is square, and r2 = q.T @ a2
    rest = constant(a.dtype, 0, (*a.shape[:-1], n - m))
    if of_r is not None:
        of_rest, of_r = narrow(of_r, -1, m, n), narrow(of_r, -1, 0, m)
        of_q = matmul(narrow(a, -1, m, n), transpose(of_rest))
        rest = matmul(q, of_rest)
    return (beside(_tall_qr(q, narrow(r, -1, 0, m), of_q, of_r), rest),)


def _tall_qr(q: Node, r: Node, of_q: Node | None, of_r: Node | None) -> Node:
    """[gQ + Q sym(triu(gR R.T - Q.T gQ))] R^-T, where sym mirrors the upper triangle."""
    parts = []
    if of_r is not None:
        parts.append(matmul(of_r, transpose(r)))
    if of_q is not None:
        parts.append(-matmul(transpose(q), of_q))
    upper = triu(sum(parts[1:], parts[0]))
    right = matmul(q, _halved(upper + transpose(upper)))
    return _solve_right(right if of_q is None else right + of_q, r)


# -- spectral decompositions -----------------------------------------------------------------------


def _svd(node: Node, g: Node) -> Gradients:
    """What completes U and V.T to square matrices is any: its gradient is ignored."""
    u, s, vh = siblings(node)
    k, number = s.shape[-1], node.arg.number
    u, vh = narrow(u, -1, 0, k), narrow(vh, -2, 0, k)
    if number == 1:
        return (_from_values(g, u, vh),)
    rule = _svd_left if number == 0 else _svd_right
    return (rule(narrow(g, -1 if number == 0 else -2, 0, k), u, s, vh),)


def _from_values(g: Node, u: Node, vh: Node) -> Node:
    return matmul(u * of_columns(g, u.shape), vh)


def _rotation(product: Node, s: Node) -> Node:
    """The antisymmetric part of U.T gU or V.T gV over the differences of squared values."""
    shape = product.shape
    sums = of_columns(s, shape) + of_rows(s, shape)
    return (product - transpose(product)) / mask_diagonal(_gaps(s, shape) * sums, 1.0)


def _svd_left(g: Node, u: Node, s: Node, vh: Node) -> Node:
    product = matmul(transpose(u), g)
    inner = _rotation(product, s)
    found = matmul(u, inner * of_columns(s, inner.shape))
    if u.shape[-2] > u.shape[-1]:
        found = found + (g - matmul(u, product)) / of_columns(s, g.shape)
    return matmul(found, vh)


def _svd_right(g: Node, u: Node, s: Node, vh: Node) -> Node:
    product = matmul(vh, transpose(g))
    inner = _rotation(product, s)
    found = matmul(inner * of_rows(s, inner.shape), vh)
    if vh.shape[-1] > vh.shape[-2]:
        found = found + (g - matmul(transpose(product), vh)) / of_rows(s, g.shape)
    return matmul(u, found)


def _svdvals(node: Node, g: Node) -> Gradients:
    u, _, vh = svd(node.src[0], False)
    return (_from_values(g, u, vh),)


def _eigh(node: Node, g: Node) -> Gradients:
    w, v = siblings(node)
    if node.arg.number == 0:
        return (_from_values(g, v, transpose(v)),)
    product = matmul(transpose(v), g)
    turn = (product - transpose(product)) * 0.5  # what is symmetric in it turns no eigenvector
    inner = mask_diagonal(turn / _gaps(w, product.shape), 0.0)
    return (matmul(matmul(v, inner), transpose(v)),)


def _eigvalsh(node: Node, g: Node) -> Gradients:
    _, v = eigh(node.src[0])
    return (_from_values(g, v, transpose(v)),)


# -- inverses and determinants ---------------------------------------------------------------------


def _solve(node: Node, g: Node) -> Gradients:
    of_b = solve(transpose(node.src[0]), g)
    return -matmul(of_b, transpose(node)), of_b


def _inv(node: Node, g: Node) -> Gradients:
    turned = transpose(node)
    return (-matmul(matmul(turned, g), turned),)


def _pinv(node: Node, g: Node) -> Gradients:
    """Golub and Pereyra (1973), for matrices around which the rank does not change."""
    a, p = node.src[0], node
    pt = transpose(p)
    from_left, from_right = matmul(p, matmul(pt, g)), matmul(matmul(g, pt), p)
    rows = transpose(from_left - matmul(matmul(from_left, a), p))
    columns = transpose(from_right - matmul(p, matmul(a, from_right)))
    return (rows + columns - matmul(pt, matmul(g, pt)),)


def _det(node: Node, g: Node) -> Gradients:
    return (scaled(cofactors(node.src[0]), g),)


def _cofactors(node: Node, g: Node) -> Gradients:
    """Of det(a) inv(a).T, for matrices that have an inverse."""
    turned = transpose(inv(node.src[0]))
    along = scaled(node, total(g * turned))
    return (along - matmul(matmul(node, transpose(g)), turned),)


def _slogdet(node: Node, g: Node) -> Gradients:
    a = node.src[0]
    if node.arg.number == 0:  # the sign
        return (constant(a.dtype, 0, a.shape),)
    return (scaled(transpose(inv(a)), g),)


_RULES: dict[str, Callable[[Node, Node], Gradients]] = {
    "cholesky": _cholesky, "qr": _qr, "svd": _svd, "svdvals": _svdvals, "eigh": _eigh,
    "eigvalsh": _eigvalsh, "solve": _solve, "inv": _inv, "pinv": _pinv, "det": _det,
    "cofactors": _cofactors, "slogdet": _slogdet, "lu": lu_rule, "matrix_exp": exponential_rule,
    "permutation": permutation_rule,
}  # fmt: skip
