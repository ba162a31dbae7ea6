"""How layers start: sizes that are checked, and random parameters of them."""

from __future__ import annotations

import math

from ..errors import ShapeError
from ..tensor import Tensor

__all__ = ["check_sizes", "fan_in_uniform"]


def check_sizes(layer: object, **sizes: int) -> None:
    """Raises ShapeError, with the layer's name and the parameter's, for what is no size."""
    for name, size in sizes.items():
        if not hasattr(size, "__index__") or size < 0:
            raise ShapeError(
                f"[{type(layer).__name__}] {name} is a whole number of 0 or more, not {size!r}"
            )


def fan_in_uniform(*shape: int, fan_in: int) -> Tensor:
    """Uniform in ±1/sqrt(fan_in): Kaiming's rule with a = sqrt(5), as PyTorch's layers start.

    A fan-in of 0 (a layer without inputs) gives zeros. Computed with the first result that needs
    them, and kept.
    """
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound).contiguous()
