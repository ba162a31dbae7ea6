"""Rows of special functions and of window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle import Tensor, windows

from .rows import method

__all__ = ["ANALYSIS"]

# PyTorch's torch.special and treadle's methods under one name
SPECIAL = """
bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr ndtr ndtri
spherical_bessel_j0 zeta
"""
ALIASES = {
    "special.modified_bessel_i0": "i0",
    "special.modified_bessel_i1": "i1",
    "special.modified_bessel_k0": "bessel_k0",
    "special.modified_bessel_k1": "bessel_k1",
    "special.scaled_modified_bessel_k0": "scaled_bessel_k0",
    "special.scaled_modified_bessel_k1": "scaled_bessel_k1",
}
WINDOWS = """
bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann kaiser
nuttall
"""


def window(name: str) -> Callable[..., Any]:
    """PyTorch's settings of memory mean nothing here."""

    def row(m: int, *args: Any, layout: Any = None, requires_grad: bool = False, device: Any = None,
            **options: Any) -> Tensor:  # fmt: skip
        return getattr(windows, name)(m, *args, **options)

    return row


ANALYSIS: dict[str, Callable[..., Any]] = {
    **{f"special.{name}": method(name) for name in SPECIAL.split()},
    **{name: method(own) for name, own in ALIASES.items()},
    **{f"signal.windows.{name}": window(name) for name in WINDOWS.split()},
    "i0": method("i0"),
    "igamma": method("igamma"),
    "igammac": method("igammac"),
    "mvlgamma": method("multigammaln"),
    "polygamma": lambda x, n: x.polygamma(n),
    "special.polygamma": lambda x, n: x.polygamma(n),
}
