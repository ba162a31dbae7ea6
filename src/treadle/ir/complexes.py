"""Which operations complex numbers have: the others are refused when the node is made.

x.relu()  ->  DTypeError: [relu] complex64 numbers have no order; use .abs(), .real or .imag of them
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ..errors import DTypeError
from ..explained import EXPLAINING
from .args import ReduceArg, ScanArg, ScatterArg
from .op import OF_COMPLEX, Op

if TYPE_CHECKING:
    from ..dtype import DType
    from .graph import AnyNode

__all__ = ["check_complex"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_ORDERING = frozenset((Op.CMPLT, Op.MAX, Op.MIN, Op.SORT))
_COMBINING = (ReduceArg, ScanArg, ScatterArg)


def check_complex(op: Op, dtype: DType, src: tuple[AnyNode, ...], arg: object) -> None:
    """Raises DTypeError where `op` on `src`, the first of which is complex, has no meaning."""
    name = src[0].dtype.name
    combining = arg.op if isinstance(arg, _COMBINING) else None
    if op in _ORDERING or combining in _ORDERING:
        raise DTypeError(
            f"[{_called(op)}] {name} numbers have no order; use .abs(), .real or .imag of them"
        )
    if op not in OF_COMPLEX or combining not in (None, Op.ADD):
        raise DTypeError(f"[{_called(op)}] is not defined for {name}; use .real and .imag of it")
    if op is Op.CAST and not (dtype.is_complex or dtype.is_bool):
        raise DTypeError(
            f"[cast] {name} to {dtype.name} would lose the imaginary part; use .real, .imag or "
            ".abs()"
        )


def _called(op: Op) -> str:
    """The method that the user called, by name or by an operator; without one, the op."""
    frame, name = sys._getframe(2), op.name.lower()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        found = frame.f_code.co_name
        if frame.f_code is not EXPLAINING and found != "operator" and not found.startswith("<"):
            name = found.strip("_")
        frame = frame.f_back
    return name
