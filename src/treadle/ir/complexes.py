"""Which operations complex numbers have: the others are refused when the node is made.

check_complex(Op.CMPLT, ...)  ->  DTypeError: [less] complex64 numbers have no order; ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import DTypeError
from .op import OF_COMPLEX, Op

if TYPE_CHECKING:
    from ..dtype import DType
    from .node import Node

__all__ = ["check_complex"]

_ORDERING = {Op.CMPLT: "less", Op.MAX: "maximum", Op.MIN: "minimum", Op.SORT: "sort"}
_COMBINING = frozenset((Op.REDUCE, Op.SCAN, Op.SCATTER))


def check_complex(op: Op, dtype: DType, src: tuple[Node, ...], arg: Any) -> None:
    """Raises DTypeError where `op` on `src`, the first of which is complex, has no meaning."""
    name = src[0].dtype.name
    combining = arg.op if op in _COMBINING else None
    ordering = _ORDERING.get(op) or _ORDERING.get(combining)
    if ordering:
        raise DTypeError(
            f"[{ordering}] {name} numbers have no order; use .abs(), .real or .imag of them"
        )
    if op not in OF_COMPLEX or combining not in (None, Op.ADD):
        called = (combining or op).name.lower()
        raise DTypeError(f"[{called}] is not defined for {name}; use .real and .imag")
    if op is Op.CAST and not (dtype.is_complex or dtype.is_bool):
        raise DTypeError(
            f"[cast] {name} to {dtype.name} would lose the imaginary part; use .real, .imag or "
            ".abs()"
        )
