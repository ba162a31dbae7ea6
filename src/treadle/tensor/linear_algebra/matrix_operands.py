"""Matrices and right sides as operands of LAPACK: what decompositions and factors have in common.

matrix_of(x, "inv", square=True)           the node of (.., n, n), in memory
solved(x, "solve", b, True, matrices.solve)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...dtype import dtypes, promoted
from ...engine.realized import is_backed
from ...errors import DTypeError, ShapeError
from ...ir.args import ShardArg
from ...ir.node import Node
from ...ir.op import Op
from ...transforms import matrices
from ..basis import Basis
from ..checks import check_sides
from ..operands import Operand, check_device, is_scalar
from ..shapes import aligned, broadcast_shapes, expand
from ..types import Placement

__all__ = [
    "check_matrix", "in_memory", "matrix_of", "right_side", "sides_of", "solved",
    "solved_triangular",
]  # fmt: skip

T = TypeVar("T", bound=Basis)


def matrix_of(x: Basis, name: str, square: bool = False) -> Node:
    """A tensor as an operand of LAPACK. Raises ShapeError or DTypeError."""
    check_matrix(x, name, square)
    return in_memory(x.node, x.device)


def check_matrix(x: Basis, name: str, square: bool = False) -> None:
    """Raises DTypeError or ShapeError for what LAPACK does not take."""
    if x.dtype.real not in (dtypes.float32, dtypes.float64):
        raise DTypeError(
            f"[{name}] takes float32, float64 and complex numbers, not {x.dtype.name} "
            f"(shape {x.shape}); cast it first, as with .float()"
        )
    if x.ndim < 2 or not all(isinstance(size, int) for size in x.shape):
        raise ShapeError(
            f"[{name}] takes matrices, (.., rows, columns), of sizes that are known, not shape "
            f"{x.shape}"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise ShapeError(
            f"[{name}] takes square matrices, shape {x.shape} has {x.shape[-2]} rows and "
            f"{x.shape[-1]} columns\n"
            f"{aligned([x.shape], [{x.ndim - 2, x.ndim - 1}])}"
        )


def right_side(a: T, name: str, b: Operand) -> T:
    """`b` as a vector or a matrix beside `a`. Raises ShapeError for a number, DeviceError."""
    b = a._operand(name, b)
    if is_scalar(b):
        raise ShapeError(f"[{name}] the right side is a vector or a matrix, not the number {b}")
    check_device(name, a, b)
    return b


def solved(x: T, name: str, b: Operand, left: bool, solver: Callable[[Node, Node], Node]) -> T:
    """`solver(a, b)` on operands of equal dtype and batch axes; vectors as columns.

    Of the transposed operands, and its result transposed, if not `left`.
    """
    b = right_side(x, name, b)
    is_vector = b.ndim == 1 or (b.ndim == x.ndim - 1 and b.shape == x.shape[:-1])
    right = b.unsqueeze(-1) if is_vector else b
    check_matrix(x, name, square=True)
    turned = not left and not is_vector
    a, right = x if left else x.mT, right.mT if turned else right
    check_sides(
        name, x.shape, b.shape, "elements" if is_vector else "columns" if turned else "rows"
    )
    found = x._result(solver(*sides_of(name, a, right)), b)
    return found.squeeze(-1) if is_vector else found.mT if turned else found


def solved_triangular(a: T, b: Operand, upper: bool, left: bool = True, unit: bool = False) -> T:
    """The x of a @ x = b, of the upper or lower triangle of `a`; or of x @ a = b if not `left`.

    `unit`: its diagonal counts as 1. Raises ShapeError or DTypeError.
    """

    def solver(matrix: Node, right: Node) -> Node:
        return matrices.solve_triangular(matrix, right, upper is left, unit=unit)

    return solved(a, "solve_triangular", b, left, solver)


def sides_of(name: str, a: Basis, b: Basis) -> tuple[Node, Node]:
    """Matrix and right side as operands, promoted, with equal axes before the last two."""
    dtype = promoted(a.dtype, b.dtype)
    for side in (a, b):
        check_matrix(side, name)
    left, right = a.node.cast(dtype), b.node.cast(dtype)
    if left.shape[:-2] != right.shape[:-2]:
        batch = broadcast_shapes(name, left.shape, right.shape, apart=2)
        left, right = (expand(side, (*batch, *side.shape[-2:])) for side in (left, right))
    return in_memory(left, a.device), right


def in_memory(node: Node, device: Placement) -> Node:
    """`node` where a HOST node of it has a device: a graph of constants has none by itself."""
    if is_backed(node) or any(n.op in (Op.BUFFER, Op.COPY) for n in node.toposort()):
        return node
    if not isinstance(device, tuple):
        return Node(Op.COPY, node.dtype, (node,), device)
    copies = tuple(Node(Op.COPY, node.dtype, (node,), one) for one in device)
    return Node(Op.MULTI, node.dtype, copies, ShardArg(device, None))
