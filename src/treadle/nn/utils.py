"""What training loops do with gradients between `backward()` and `step()`.

    loss.backward()
    nn.clip_grad_norm_(opt.params, 1.0)
    opt.step()

Gradients are tensors like others, so all of this is part of the step's kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..errors import ArgumentError, UserError
from ..explained import explained
from ..tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


@explained
def clip_grad_norm_(
    parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale the gradients of `parameters` so that their common norm is at most `max_norm`.

    Returns the norm before, a float of shape (); gradients keep shapes and dtypes. `norm_type` is
    the norm's order, math.inf for the largest element. Parameters without a gradient do not count.
    Raises UserError where none has one, ArgumentError for a norm that is not above 0.
    """
    gradients = _gradients("clip_grad_norm_", parameters)
    if not max_norm > 0 or not norm_type > 0:
        raise ArgumentError(
            f"[clip_grad_norm_] max_norm and norm_type are above 0, not {max_norm} and {norm_type}"
        )
    sizes = [g.float().abs() if g.dtype.bits < 32 else g.abs() for g in gradients]
    if norm_type == math.inf:
        total = Tensor.stack([size.max() for size in sizes]).max()
    else:
        parts = [size.pow(norm_type).sum() for size in sizes]
        total = Tensor.stack(parts).sum().pow(1 / norm_type)
    factor = (max_norm / (total + 1e-6)).minimum(1.0)
    for gradient in gradients:
        gradient.assign((gradient * factor).cast(gradient.dtype))
    return total


@explained
def clip_grad_value_(parameters: Iterable[Tensor] | Tensor, clip_value: float) -> None:
    """Cut the elements of the gradients of `parameters` off at ±`clip_value`; shapes and dtypes
    stay.

    Raises UserError where none has a gradient, ArgumentError for a value that is not above 0.
    """
    if not clip_value > 0:
        raise ArgumentError(f"[clip_grad_value_] clip_value is above 0, not {clip_value}")
    for gradient in _gradients("clip_grad_value_", parameters):
        gradient.assign(gradient.clamp(-clip_value, clip_value))


def _gradients(name: str, parameters: Iterable[Tensor] | Tensor) -> list[Tensor]:
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    found = [p.grad for p in given if p.grad is not None]
    if not found:
        raise UserError(
            f"[{name}] none of the {len(given)} parameters has a gradient; call it after "
            "loss.backward(), with parameters that an optimiser has, or that require gradients"
        )
    return found
