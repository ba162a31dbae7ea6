"""Types of parameters: what callers of tensors' methods, of functions and of layers may give.

    def sum(self, axis: Axes = None, keepdim: bool = False, dtype: DTypeLike | None = None)

A type checker reads the type. Where a call fails, the error reads the kind beside it: what the
parameter takes at run time, and what messages call that. `Operand` is made of tensors: it stands in
`operands`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Protocol, SupportsIndex, TypeAlias, TypedDict

from .. import kinds
from ..dtype import DType
from ..ir.node import Node

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Axes", "Bounds", "DTypeLike", "DeviceLike", "Drawn", "Extent", "Made", "Pairs", "Placed",
    "Placement", "Real", "Scalar", "Sizes", "TorchDType", "Typed",
]  # fmt: skip

# A size or a position: a number, or a symbolic one, which is made of a `Variable`.
Extent: TypeAlias = int | Node
Bounds: TypeAlias = tuple[Extent, Extent]
Pairs: TypeAlias = Sequence[Bounds]

# One axis, several, or None for all.
Axes: TypeAlias = Annotated["SupportsIndex | Sequence[SupportsIndex] | None", kinds.AXES]

# One size, or one for each axis. Where sizes may be left out, None takes what is there.
Sizes: TypeAlias = Annotated[
    "SupportsIndex | Node | Sequence[SupportsIndex | Node | None]", kinds.SIZES
]


class TorchDType(Protocol):
    """A dtype of PyTorch, which need not be installed for type checkers to know it."""

    @property
    def is_floating_point(self) -> bool: ...
    @property
    def is_complex(self) -> bool: ...
    @property
    def itemsize(self) -> int: ...


# A dtype of treadle, NumPy or PyTorch, its name, or Python's own type of such numbers.
DTypeLike: TypeAlias = Annotated[
    "DType | str | type[complex | np.generic] | np.dtype | TorchDType", kinds.DTYPE
]

# Where a tensor is: several devices share it, or each has a copy.
Placement: TypeAlias = str | tuple[str, ...]
DeviceLike: TypeAlias = Annotated["str | Sequence[str] | None", kinds.DEVICE]

# A number, or one that depends on variables.
Real: TypeAlias = Annotated[float | Node, kinds.NUMBER]

# One of Python's numbers.
Scalar: TypeAlias = Annotated[complex, kinds.NUMBER]


# What methods that make tensors take by name and hand on to others.


class Placed(TypedDict, total=False):
    """Where a new tensor is."""

    device: DeviceLike


class Typed(Placed, total=False):
    """The same, and its element type."""

    dtype: DTypeLike | None


class Made(Typed, total=False):
    """The same, and whether gradients are asked for."""

    requires_grad: bool | None


class Drawn(Made, total=False):
    """The same of random numbers, and whether they are computed once into memory."""

    contiguous: bool
