"""Whole Jacobians: products with all unit vectors at once, as one batch.

    jacrev(f)(x), jacfwd(f)(x)  ->  (*f(x).shape, *x.shape)

The function is called once. Its derivative is a graph of one more node, what arrives at a result or
leaves an argument, and is batched over the unit vectors of that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from ..errors import ShapeError
from ..explained import explained
from ..ir.builders import constant, iota_along, permute, reshape
from ..ir.node import Node
from ..ir.shape import Shape, size_product
from ..tensor import Tensor
from ..transforms.batch import batch
from ..transforms.grad import gradients
from ..transforms.jvp import jvp
from ..transforms.shapes import named
from . import trees
from .arguments import Arguments, check_float, or_zeros
from .derivatives import split

__all__ = ["hessian", "jacfwd", "jacrev"]

P = ParamSpec("P")


@explained
def jacrev(
    func: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, Any]:
    """A function that gives the Jacobian of `func` in reverse mode, for fewer results than inputs.

    For each tensor of the result, in its form, there are those of the arguments that `argnums`
    names, in theirs, of shape (*result, *argument). `has_aux` as for `grad`. Raises as `grad` does,
    and DTypeError for arguments and results that hold no floats.
    """
    return _jacobian("jacrev", func, argnums, has_aux, _rows)


@explained
def jacfwd(
    func: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, Any]:
    """A function that gives the Jacobian of `func` in forward mode, for fewer inputs than results.

    In the form and the shapes of `jacrev`: (*result, *argument), of floats. Raises as `grad`.
    """
    return _jacobian("jacfwd", func, argnums, has_aux, _columns)


@explained
def hessian(func: Callable[P, Any], argnums: int | Sequence[int] = 0) -> Callable[P, Any]:
    """A function that gives all second derivatives of `func`: `jacfwd` of `jacrev`.

    Of one float and an argument of some shape, (*argument, *argument). Raises as `grad`.
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _jacobian(
    name: str, func: Callable[P, Any], argnums: int | Sequence[int], has_aux: bool,
    parts: Callable[[Arguments, list[Tensor]], list[list[Node]]],
) -> Callable[P, Any]:  # fmt: skip
    @functools.wraps(func)
    def jacobian(*args: P.args, **kwargs: P.kwargs) -> Any:
        given = Arguments(name, args, argnums)
        for number, x in enumerate(given.inputs):
            check_float(name, f"tensor {number} of the arguments", x)
        result, aux = split(name, given.call(func, kwargs), has_aux)
        for path, _, leaf in trees.paired(name, "", None, result):
            check_float(name, f"the function's result{path}", leaf)
        rows = parts(given, trees.leaves(result))
        found = trees.restored(result, [given.results(row) for row in rows])
        return (found, given.real(aux)) if has_aux else found

    return jacobian


def _rows(given: Arguments, results: list[Tensor]) -> list[list[Node]]:
    """For each result the Jacobians for all inputs, of (*result, *input)."""
    table = []
    for result in results:
        seed = named(constant(result.dtype, 0, result.shape))
        found = gradients({result.node: seed}, given.nodes)
        table.append(
            [
                _shaped(part, x, (*result.shape, *x.shape))
                for part, x in zip(_along_units(found, seed), given.inputs, strict=True)
            ]
        )
    return table


def _columns(given: Arguments, results: list[Tensor]) -> list[list[Node]]:
    columns = []
    for alias, x in zip(given.nodes, given.inputs, strict=True):
        seed = named(constant(x.dtype, 0, x.shape))
        found = jvp([result.node for result in results], {alias: seed})
        columns.append(
            [
                _last(_shaped(part, result, (*x.shape, *result.shape)), x.ndim)
                for part, result in zip(_along_units(found, seed), results, strict=True)
            ]
        )
    return [[column[i] for column in columns] for i in range(len(results))]


def _along_units(found: list[Node | None], seed: Node) -> list[Node | None]:
    """What each of `found`, linear in `seed`, is for every unit vector in its place."""
    size = size_product(seed.shape)
    if not isinstance(size, int):
        raise ShapeError(f"[jacobian] one of the symbolic shape {seed.shape} has no known size")
    units = iota_along((size, size), 0).eq(iota_along((size, size), 1)).cast(seed.dtype)
    if not size:
        return [None] * len(found)
    known = [node for node in found if node is not None]
    batched = iter(batch(known, {seed: reshape(units, (size, *seed.shape))}, size))
    return [None if node is None else next(batched) for node in found]


def _shaped(node: Node | None, of: Tensor, shape: Shape) -> Node:
    return reshape(or_zeros(node, of.dtype, shape), shape)


def _last(node: Node, count: int) -> Node:
    """The first `count` axes behind the others."""
    rank = len(node.shape)
    return permute(node, (*range(count, rank), *range(count)))
