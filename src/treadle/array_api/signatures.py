"""Methods of `Tensor` as functions of one or two positional arguments.

sin = unary(Tensor.sin)               sin(x)
equal = binary(Tensor.eq, "equal")    equal(x, y), equal(x, 1), equal(1, x)
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import ParamSpec, TypeAlias

from ..errors import DTypeError
from ..tensor import Tensor
from ..tensor.operands import Operand, is_scalar, scalar_node, weak_dtype

__all__ = ["Binary", "Unary", "binary", "check_tensor", "unary"]

_WIDTH = 96  # of lines of docstrings

Unary: TypeAlias = Callable[[Tensor], Tensor]
Binary: TypeAlias = Callable[[Operand, Operand], Tensor]


def check_tensor(name: str, x: object) -> Tensor:
    """`x` itself. Raises DTypeError for anything but a tensor: lists and arrays are not taken."""
    if isinstance(x, Tensor):
        return x
    raise DTypeError(f"[{name}] takes a tensor, not a {type(x).__name__}; asarray(...) makes one")


def unary(method: Unary, name: str = "") -> Unary:
    """`method` as a function of one tensor, called `name`; by default as the method is."""
    name = name or method.__name__

    def operator(x: Tensor, /) -> Tensor:
        return method(check_tensor(name, x))

    return _named(operator, name, _text_of(method, "x"))


def binary(method: Callable[..., Tensor], name: str = "") -> Binary:
    """`method` as a function of two tensors, one of which may be a Python scalar.

    The scalar takes the dtype of the tensor, or the default one of its kind if that is higher.
    """
    name = name or method.__name__

    def operator(x1: Operand, x2: Operand, /) -> Tensor:
        if is_scalar(x1):
            return method(_like(name, x1, check_tensor(name, x2)), x2)
        tensor = check_tensor(name, x1)
        return method(tensor, _like(name, x2, tensor) if is_scalar(x2) else x2)

    text = f"{_text_of(method, 'x1', 'x2')}\n\n{textwrap.fill(_SCALARS, _WIDTH)}"
    return _named(operator, name, text)


P = ParamSpec("P")


def _like(name: str, scalar: complex, tensor: Tensor) -> Tensor:
    node = scalar_node(name, scalar, weak_dtype(scalar, tensor.dtype))
    return Tensor._of(node, tensor.device)


def _named(function: Callable[P, Tensor], name: str, text: str) -> Callable[P, Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


_SCALARS = (
    "One of the two may be a Python scalar, which takes the dtype of the tensor if that has its "
    "kind or a higher one. Raises DTypeError for anything else that is no tensor."
)


def _text_of(method: Callable[..., Tensor], *operands: str) -> str:
    """A method's docstring, said of `operands`, and without what it says of other parameters."""
    text = inspect.getdoc(method) or ""
    names = [*inspect.signature(method).parameters]
    for name, operand in zip(names, operands, strict=False):
        text = re.sub(rf"\b{name}\b", operand, text)
    others = [f"`{name}`" for name in names[len(operands) :]]
    paragraphs = []
    for paragraph in text.split("\n\n"):
        sentences = re.split(r"(?<=[.;]) (?=[A-Z`])", " ".join(paragraph.split()))
        kept = [one for one in sentences if not any(other in one for other in others)]
        paragraphs.append(textwrap.fill(" ".join(kept), _WIDTH, break_on_hyphens=False))
    return "\n\n".join(filter(None, paragraphs))
