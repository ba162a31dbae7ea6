"""Matrix products: general, narrow on one side, in batches; operands as they are or transposed."""

from __future__ import annotations

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw

__all__ = ["draw"]


def draw(draw: Draw) -> Work:
    batch, (m, k, n) = (), (draw.size(16, 2048), draw.size(16, 2048), draw.size(16, 2048))
    kind = draw.one_of("general", "narrow rows", "narrow columns", "batch")
    if kind == "narrow rows":
        m, k, n = draw.size(1, 16), draw.size(256, 4096), draw.size(256, 4096)
    elif kind == "narrow columns":
        m, k, n = draw.size(256, 4096), draw.size(256, 4096), draw.size(1, 16)
    elif kind == "batch":
        batch = (draw.size(2, 64),)
        m, k, n = draw.size(16, 512), draw.size(16, 512), draw.size(16, 512)
    left, right = draw.one_of(False, False, True), draw.one_of(False, False, True)
    shapes = (
        (*batch, k, m) if left else (*batch, m, k),
        (*batch, n, k) if right else (*batch, k, n),
    )

    def form(lib: Library[Array], a: Array, b: Array) -> Array:
        return (_transposed(lib, a) if left else a) @ (_transposed(lib, b) if right else b)

    texts = ["x".join(map(str, shape)) for shape in shapes]
    name = f"matmul {texts[0]}{'.T' * left} @ {texts[1]}{'.T' * right}"
    amount = 2.0 * m * k * n * (batch[0] if batch else 1)
    return Work("random", name, "flops", amount, tuple(map(Input, shapes)), form, ())


def _transposed(lib: Library[Array], x: Array) -> Array:
    return lib.permute(x, (1, 0) if len(x.shape) == 2 else (0, 2, 1))
