"""How parameters start: shapes and fan-in become tensors of random numbers."""

from __future__ import annotations

import math
from typing import Any

from ..tensor import Tensor

__all__ = ["fan_in_uniform"]


def fan_in_uniform(*shape: Any, fan_in: int) -> Tensor:
    """Uniform in ±1/sqrt(fan_in): Kaiming's rule with a = sqrt(5), as PyTorch's layers start.

    A fan-in of 0 (a layer without inputs) gives zeros.
    """
    bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0.0
    return Tensor.uniform(*shape, low=-bound, high=bound)
