"""What kernels are compared with: attention in float64, and sums of small integers on the CPU."""

import numpy as np

from treadle import Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.optimize.heuristic import optimize

__all__ = ["attention", "kernel", "on_device_and_exactly"]


def attention(q, k, v, allowed=None):
    """On arrays, in float64; `allowed` is true where attention is."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v


def kernel(tensor, target):
    """The one kernel of `tensor`: as scheduled, after its moves, and the moves."""
    (found,) = scheduled([(tensor.node, tensor.device)])
    return (found, *optimize(found.ast, target))


def on_device_and_exactly(case, device, random):
    """A function of makers of bfloat16 tensors, with sums so small that they are exact: twice."""
    given = []

    def make(*shape):
        given.append(random.integers(-2, 3, shape).astype(np.float32))
        return Tensor(given[-1], device=device).cast(dtypes.bfloat16).realize()

    ours = case(make).cast(dtypes.float32).numpy()
    arrays = iter(given)
    make_wide = lambda *shape: Tensor(next(arrays), device="CPU").realize()
    return ours, case(make_wide).cast(dtypes.bfloat16).cast(dtypes.float32).numpy()
