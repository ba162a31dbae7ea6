"""Rows of arithmetic in several operands, of distances and of what describes data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor

from .rows import axes, method

__all__ = ["NUMBERS"]

# methods that take PyTorch's arguments as they are
SAME = """
addbmm addcdiv addcmul addmm addmv addr baddbmm corrcoef cov dist equal float_power fmax fmin frexp
gcd histogram lcm nanquantile renorm
"""


def nanmedian(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    return x.nanmedian(axes(dim), keepdim)


def cdist(x: Tensor, other: Tensor, p: float = 2.0, compute_mode: Any = None) -> Tensor:
    return x.cdist(other, p)


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, **options: Any) -> Tensor:
    ends = (n.item() if isinstance(n, Tensor) else n for n in (start, end))
    return Tensor.logspace(*ends, steps, base, dtype=options.get("dtype"))


def histogramdd(x: Tensor, bins: Any, *, range: Any = None, weight: Any = None,
                density: bool = False) -> Any:  # fmt: skip
    found, edges = x.histogramdd(bins, range, weight, density)
    return found, list(edges)


NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: method(name) for name in SAME.split()},
    "special.xlog1py": method("xlog1py"),
    "mode": lambda x, dim=-1, keepdim=False: x.mode(dim, keepdim),
    "nanmedian": nanmedian,
    "cdist": cdist,
    "histogramdd": histogramdd,
    "logspace": logspace,
    "nn.functional.pairwise_distance": method("pairwise_distance"),
    "nn.functional.pdist": method("pdist"),
}
