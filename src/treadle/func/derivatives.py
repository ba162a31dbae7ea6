"""Gradients, and products of Jacobians with vectors, of functions of trees of tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from ..errors import ShapeError, UserError
from ..explained import explained
from ..ir.builders import constant
from ..ir.node import Node
from ..tensor import Tensor
from ..transforms.grad import gradients
from ..transforms.jvp import jvp as node_jvp
from . import trees
from .arguments import (
    Arguments,
    check_float,
    check_inexact,
    check_tensor,
    or_zeros,
    tensor_of,
)

__all__ = ["grad", "jvp", "split", "value_and_grad", "vjp"]

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")


@explained
def grad(
    func: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, Any]:
    """A function that gives the gradient of `func`, whose result is one float.

    `argnums` says for which positional arguments, each a tensor or a tree of them (tuples, lists,
    dicts): the gradient has the form of the argument, and is a tuple for several. Arguments that do
    not matter get zeros; that of complex z = x + i y is df/dx + i df/dy, as PyTorch's is. With
    `has_aux`, `func` returns (result, anything), and the gradient comes with that: (gradient,
    anything).

    The result can be differentiated and mapped again. Raises ShapeError where `func` gives more
    than one element, DTypeError for what holds no floats, UserError for other arguments.

    >>> from treadle import Tensor, grad
    >>> grad(lambda x: (x * x).sum())(Tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    both = _value_and_grad("grad", func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args: P.args, **kwargs: P.kwargs) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


@explained
def value_and_grad(
    func: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[P, tuple[R, Any]]:
    """As `grad`; gives (result, gradient), with aux ((result, anything), gradient).

    The gradient has the form, the shapes and the dtypes of the arguments. Raises as `grad`.
    """
    return _value_and_grad("value_and_grad", func, argnums, has_aux)


def _value_and_grad(
    name: str, func: Callable[P, R], argnums: int | Sequence[int], has_aux: bool
) -> Callable[P, tuple[R, Any]]:
    @functools.wraps(func)
    def value_and_gradient(*args: P.args, **kwargs: P.kwargs) -> tuple[Any, Any]:
        given = Arguments(name, args, argnums)
        result, aux = split(name, given.call(func, kwargs), has_aux)
        check_float(name, "the function's result", result)
        if result.numel() != 1:
            raise ShapeError(
                f"[{name}] the function gives shape {result.shape}, and only one value has a "
                "gradient: reduce it with .sum() or .mean(), or see jacrev and vjp"
            )
        one = constant(result.dtype, 1, result.shape)
        found = _of_inputs(given, gradients({result.node: one}, given.nodes))
        value = given.real(result)
        return ((value, given.real(aux)) if has_aux else value), given.results(found)

    return value_and_gradient


@overload
def vjp(
    func: Callable[..., R], *primals: object, has_aux: Literal[False] = ...
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    func: Callable[..., tuple[R, A]], *primals: object, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[Any, ...]], A]: ...
@explained
def vjp(func: Callable[..., Any], *primals: object, has_aux: bool = False) -> tuple[Any, ...]:
    """(func(*primals), products): `products(cotangents)` are those of vectors with the Jacobian.

    `cotangents` has the form and the shapes of the result; `products` gives a tuple, for each
    primal what arrives there, in its shape and dtype. With `has_aux`, `func` returns (result,
    anything), and the third value is that. Raises UserError, ShapeError or DTypeError for what does
    not fit.
    """
    given = Arguments("vjp", primals, range(len(primals)))
    result, aux = split("vjp", given.call(func, {}), has_aux)
    for path, _, leaf in trees.paired("vjp", "", None, result):
        check_tensor("vjp", f"the function's result{path}", leaf)

    def products(cotangents: object) -> tuple[object, ...]:
        seeds: dict[Node, Node] = {}
        for path, own, leaf in trees.paired("vjp", "cotangents", cotangents, result, prefix=False):
            _check_like("vjp", f"cotangents{path}", own, leaf, "the result")
            if leaf.dtype.is_inexact:
                part = own.node.cast(leaf.dtype)
                old = seeds.get(leaf.node)
                seeds[leaf.node] = part if old is None else old + part
        return given.results(_of_inputs(given, gradients(seeds, given.nodes)))

    value = given.real(result)
    return (value, products, given.real(aux)) if has_aux else (value, products)


@overload
def jvp(
    func: Callable[..., R], primals: Sequence[object], tangents: Sequence[object],
    has_aux: Literal[False] = ...,
) -> tuple[R, R]: ...  # fmt: skip
@overload
def jvp(
    func: Callable[..., tuple[R, A]], primals: Sequence[object], tangents: Sequence[object],
    has_aux: Literal[True],
) -> tuple[R, R, A]: ...  # fmt: skip
@explained
def jvp(
    func: Callable[..., Any],
    primals: Sequence[object],
    tangents: Sequence[object],
    has_aux: bool = False,
) -> tuple[Any, ...]:
    """(func(*primals), the directional derivative of that), in forward mode.

    `tangents` has the form and the shapes of `primals`; what the result changes by has those of the
    result, zeros where it does not depend on them or holds no floats. With `has_aux`, `func`
    returns (result, anything), and the third value is that. Raises UserError, ShapeError or
    DTypeError for what does not fit.
    """
    if not isinstance(primals, (tuple, list)):
        raise UserError(f"[jvp] primals is a tuple of arguments, not a {type(primals).__name__}")
    given = Arguments("jvp", primals, range(len(primals)))
    moving: dict[Node, Node] = {}
    pairs = trees.paired("jvp", "tangents", tangents, primals, prefix=False)
    for alias, (path, own, leaf) in zip(given.nodes, pairs, strict=True):
        _check_like("jvp", f"tangents{path}", own, leaf, "the primal")
        moving[alias] = own.node.cast(leaf.dtype)
    result, aux = split("jvp", given.call(func, {}), has_aux)
    found = trees.leaves(result)
    for path, _, leaf in trees.paired("jvp", "", None, result):
        check_tensor("jvp", f"the function's result{path}", leaf)
    made = node_jvp([leaf.node for leaf in found], moving)
    changes = [
        tensor_of(or_zeros(node, leaf.dtype, leaf.shape), leaf.device)
        for node, leaf in zip(made, found, strict=True)
    ]
    both = given.real(result), given.real(trees.restored(result, changes))
    return (*both, given.real(aux)) if has_aux else both


def split(name: str, result: object, has_aux: bool) -> tuple[Any, Any]:
    """The result and what comes with it. Raises UserError if it is not two values."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise UserError(
            f"[{name}] with has_aux the function returns (result, anything), not a "
            f"{type(result).__name__}"
        )
    return result


def _of_inputs(given: Arguments, found: list[Node | None]) -> list[Node]:
    pairs = zip(found, given.inputs, strict=True)
    return [or_zeros(node, x.dtype, x.shape) for node, x in pairs]


def _check_like(name: str, what: str, value: object, like: Tensor, whose: str) -> None:
    """Raises where `value` is no tensor of the shape of `like`, or no floats where that is."""
    tensor = check_tensor(name, what, value)
    if like.dtype.is_inexact:
        (check_inexact if like.dtype.is_complex else check_float)(name, what, value)
    if tensor.shape != like.shape:
        raise ShapeError(
            f"[{name}] {what} has shape {tensor.shape}, {whose} that it belongs to {like.shape}"
        )
