"""Derivatives of dense decompositions, as products and solves of their own results.

Each result of a call has a rule of its own: what arrives at several of them adds up. The rules are
ordinary nodes, so that second derivatives need nothing more. As everywhere, they hold where the
decomposition is differentiable: equal singular values or eigenvalues give infinities in the
gradients of their vectors. Complex gradients are those of grad_complex, so conjugate transposes
stand where real formulas have transposes. Vectors of complex matrices are determined but for a
phase: a loss that depends on it has no gradient, and what comes out then is any.

After Giles, "An extended collection of matrix derivative results" (2008), and Walter and Lehmann,
"Algorithmic differentiation of linear algebra functions" (2010). Hermitian operands get
gradients as PyTorch gives them: Hermitian ones from cholesky, those of all elements from eigh.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import UserError
from ..ir.builders import constant, expand
from ..ir.node import Node, alu
from ..ir.op import Op
from ..ir.views import operand
from .grad_complex import conj
from .grad_factors import exponential_rule, lu_rule
from .matrices import (
    adjoint,
    beside,
    cofactors,
    eig,
    eigh,
    inv,
    mask_diagonal,
    matmul,
    narrow,
    of_columns,
    of_rows,
    pinv,
    scaled,
    siblings,
    solve,
    solve_triangular,
    svd,
    svdvals,
    total,
    tril,
    triu,
)
from .shapes import reduce

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


def _cholesky(node: Node, g: Node) -> Gradients:
    """L^-H halved(tril(L.H gL)) L^-1, and its Hermitian part."""
    inner = _halved(tril(matmul(adjoint(node), g)))
    left = solve_triangular(node, inner, upper=False, adjoint=True)
    found = adjoint(solve_triangular(node, adjoint(left), upper=False, adjoint=True))
    return ((found + adjoint(found)) * 0.5,)


def _qr(node: Node, g: Node) -> Gradients:
    a, (complete,) = operand(node), node.arg.options
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
    # a = [a1, a2] and r = [r1, r2]: a1 = q @ r1 is square, and r2 = q.H @ a2
    rest = constant(a.dtype, 0, (*a.shape[:-1], n - m))
    if of_r is not None:
        of_rest, of_r = narrow(of_r, -1, m, n), narrow(of_r, -1, 0, m)
        of_q = matmul(narrow(a, -1, m, n), adjoint(of_rest))
        rest = matmul(q, of_rest)
    return (beside(_tall_qr(q, narrow(r, -1, 0, m), of_q, of_r), rest),)


def _tall_qr(q: Node, r: Node, of_q: Node | None, of_r: Node | None) -> Node:
    """[gQ + Q sym(triu(gR R.H - Q.H gQ))] R^-H, where sym mirrors the upper triangle."""
    parts = []
    if of_r is not None:
        parts.append(matmul(of_r, adjoint(r)))
    if of_q is not None:
        parts.append(-matmul(adjoint(q), of_q))
    upper = triu(sum(parts[1:], parts[0]))
    right = matmul(q, _halved(upper + adjoint(upper)))
    total_of_q = right if of_q is None else right + of_q
    return adjoint(solve_triangular(r, adjoint(total_of_q), upper=True))


# -- spectral decompositions -----------------------------------------------------------------------


def _svd(node: Node, g: Node) -> Gradients:
    """What completes U and V.H to square matrices is any: its gradient is ignored."""
    u, s, vh = siblings(node)
    k, number = s.shape[-1], node.arg.number
    u, vh = narrow(u, -1, 0, k), narrow(vh, -2, 0, k)
    if number == 1:
        return (_from_values(g, u, vh),)
    rule = _svd_left if number == 0 else _svd_right
    return (rule(narrow(g, -1 if number == 0 else -2, 0, k), u, s, vh),)


def _from_values(g: Node, u: Node, vh: Node) -> Node:
    return matmul(u * of_columns(g.cast(u.dtype), u.shape), vh)


def _rotation(product: Node, s: Node, turn: float) -> Node:
    """The antihermitian part of U.H gU or V.H gV over the differences of squared values.

    On the diagonal, 0 for reals, are phases. U and V turn by opposite ones: `turn` is 1 or -1.
    """
    shape = product.shape
    sums = of_columns(s, shape) + of_rows(s, shape)
    phases = sums * sums * turn if product.dtype.is_complex else 1.0
    below = mask_diagonal(_gaps(s, shape) * sums, phases)
    return (product - adjoint(product)) / below.cast(product.dtype)


def _svd_left(g: Node, u: Node, s: Node, vh: Node) -> Node:
    product = matmul(adjoint(u), g)
    inner, s = _rotation(product, s, 1.0), s.cast(u.dtype)
    found = matmul(u, inner * of_columns(s, inner.shape))
    if u.shape[-2] > u.shape[-1]:
        found = found + (g - matmul(u, product)) / of_columns(s, g.shape)
    return matmul(found, vh)


def _svd_right(g: Node, u: Node, s: Node, vh: Node) -> Node:
    product = matmul(vh, adjoint(g))
    inner, s = _rotation(product, s, -1.0), s.cast(vh.dtype)
    found = matmul(inner * of_rows(s, inner.shape), vh)
    if vh.shape[-1] > vh.shape[-2]:
        found = found + (g - matmul(adjoint(product), vh)) / of_rows(s, g.shape)
    return matmul(u, found)


def _svdvals(node: Node, g: Node) -> Gradients:
    u, _, vh = svd(operand(node), False)
    return (_from_values(g, u, vh),)


def _eigh(node: Node, g: Node) -> Gradients:
    w, v = siblings(node)
    if node.arg.number == 0:
        return (_from_values(g, v, adjoint(v)),)
    product = matmul(adjoint(v), g)
    turn = (product - adjoint(product)) * 0.5  # what is Hermitian in it turns no eigenvector
    inner = mask_diagonal(turn / _gaps(w, product.shape).cast(turn.dtype), 0.0)
    return (matmul(matmul(v, inner), adjoint(v)),)


def _eigvalsh(node: Node, g: Node) -> Gradients:
    _, v = eigh(operand(node))
    return (_from_values(g, v, adjoint(v)),)


def _eig(node: Node, g: Node) -> Gradients:
    a, (w, v) = operand(node), siblings(node)
    vh = adjoint(v)
    if node.arg.number == 0:
        return (_in_basis(of_rows(g, v.shape) * vh, vh, a),)
    # vectors keep their length: what would change it is taken out
    longer = reduce(alu(Op.REAL, conj(v) * g), Op.ADD, (len(v.shape) - 2,))
    product = matmul(vh, g - v * expand(longer.cast(v.dtype), v.shape))
    inner = mask_diagonal(product / conj(_gaps(w, v.shape)), 0.0)
    return (_in_basis(matmul(inner, vh), vh, a),)


def _in_basis(product: Node, vh: Node, a: Node) -> Node:
    """V.H^-1 times a product, the gradient of `a`; real if that is."""
    found = solve(vh, product)
    return found if a.dtype.is_complex else alu(Op.REAL, found)


def _eigvals(node: Node, g: Node) -> Gradients:
    return _eig(eig(operand(node))[0], g)


# -- inverses and determinants ---------------------------------------------------------------------


def _solve(node: Node, g: Node) -> Gradients:
    of_b = solve(adjoint(operand(node)), g)
    return -matmul(of_b, adjoint(node)), of_b


def _solve_triangular(node: Node, g: Node) -> Gradients:
    a, (upper, turned, unit) = operand(node), node.arg.options
    of_b = solve_triangular(a, g, upper, not turned, unit)
    of_a = -matmul(*((node, adjoint(of_b)) if turned else (of_b, adjoint(node))))
    of_a = triu(of_a) if upper else tril(of_a)
    return mask_diagonal(of_a, 0.0) if unit else of_a, of_b


def _lstsq(node: Node, g: Node) -> Gradients:
    """The solution is pinv(a) @ b; what is left of b is orthogonal to what moves the solution."""
    a, b = node.src
    solution = siblings(node)[0]
    if node.arg.number == 0:
        inverse = pinv(a, node.arg.options[0], 0.0)
        return _pinv(inverse, matmul(g, adjoint(b)))[0], matmul(adjoint(inverse), g)
    nothing = constant(b.dtype, 0, b.shape)
    if node.arg.number == 3:
        return _svdvals(svdvals(a), g)[0], nothing
    if not g.shape[-1]:
        return constant(a.dtype, 0, a.shape), nothing
    rest = matmul(a, solution) - b
    along = rest * of_columns(g.cast(b.dtype), b.shape) * 2.0
    return matmul(along, adjoint(solution)), -along


def _inv(node: Node, g: Node) -> Gradients:
    turned = adjoint(node)
    return (-matmul(matmul(turned, g), turned),)


def _pinv(node: Node, g: Node) -> Gradients:
    """Golub and Pereyra (1973), for matrices around which the rank does not change."""
    a, p = operand(node), node
    ph = adjoint(p)
    from_left, from_right = matmul(p, matmul(ph, g)), matmul(matmul(g, ph), p)
    rows = adjoint(from_left - matmul(matmul(from_left, a), p))
    columns = adjoint(from_right - matmul(p, matmul(a, from_right)))
    return (rows + columns - matmul(ph, matmul(g, ph)),)


def _det(node: Node, g: Node) -> Gradients:
    return (scaled(cofactors(operand(node)), g),)


def _cofactors(node: Node, g: Node) -> Gradients:
    """Of (det(a) inv(a)).H, for matrices that have an inverse."""
    turned = adjoint(inv(operand(node)))
    along = scaled(node, total(conj(g) * turned))
    return (along - matmul(matmul(node, adjoint(g)), turned),)


def _slogdet(node: Node, g: Node) -> Gradients:
    a = operand(node)
    if node.arg.number == 1:
        return (scaled(adjoint(inv(a)), g.cast(a.dtype)),)
    if not a.dtype.is_complex:
        return (constant(a.dtype, 0, a.shape),)
    turning = alu(Op.IMAG, g * conj(node))
    turned = alu(Op.COMPLEX, turning.like(0.0), turning)
    return (scaled(adjoint(inv(a)), turned),)


_RULES: dict[str, Callable[[Node, Node], Gradients]] = {
    "cholesky": _cholesky, "qr": _qr, "svd": _svd, "svdvals": _svdvals, "eigh": _eigh,
    "eigvalsh": _eigvalsh, "eig": _eig, "eigvals": _eigvals, "solve": _solve, "inv": _inv,
    "pinv": _pinv, "det": _det, "cofactors": _cofactors, "slogdet": _slogdet, "lu": lu_rule,
    "matrix_exp": exponential_rule, "solve_triangular": _solve_triangular, "lstsq": _lstsq,
}  # fmt: skip
