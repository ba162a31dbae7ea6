"""Programs on matrix units: products of each kind of numbers, in each layout, and attention.

for name, run in programs(): run("NULL:3")
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from treadle import Context, Tensor, dtypes

__all__ = ["programs"]

KINDS = ("float16", "bfloat16", "float32", "int8", "uint8", "fp8e4m3", "fp8e5m2")
# Rows, steps and columns: one slice, remainders of everything, many tiles, few rows.
SIZES = ((32, 16, 96), (130, 70, 100), (512, 256, 384), (64, 1000, 4096), (2048, 2048, 2048))
SIDES = ("nn", "nt", "tn", "tt")  # whether each factor is read across


def programs() -> Iterator[tuple[str, Callable[[str], None]]]:
    """Every program by name."""
    for kind in KINDS:
        for number, size in enumerate(SIZES):
            for sides in SIDES if number in (1, 2) else SIDES[:1]:
                name = f"units: {kind} {'x'.join(map(str, size))} {sides}"
                yield name, functools.partial(_product, kind, size, sides)
    for kind in KINDS[:2]:
        for width in (32, 96, 160):
            for is_causal in (False, True):
                name = f"units: attention {kind} {width}{' causal' if is_causal else ''}"
                yield name, functools.partial(_attention, kind, width, is_causal)
        yield f"units: layer {kind}", functools.partial(_layer, kind)
        yield f"units: convolution {kind}", functools.partial(_convolution, kind)


def _empty(device: str, kind: str, *shape: int) -> Tensor:
    return Tensor.empty(*shape, dtype=kind, device=device).realize()


def _product(kind: str, size: tuple[int, int, int], sides: str, device: str) -> None:
    rows, steps, columns = size
    x, y = (
        _empty(device, kind, *(shape[::-1] if side == "t" else shape))
        for shape, side in zip(((rows, steps), (steps, columns)), sides, strict=True)
    )
    x, y = (factor.T if side == "t" else factor for factor, side in zip((x, y), sides, strict=True))
    with Context(ALLOW_TF32=1):
        (x @ y).realize()
        if kind in ("int8", "uint8"):
            x.matmul(y, dtype=dtypes.int32).realize()


def _attention(kind: str, width: int, is_causal: bool, device: str) -> None:
    q, k, v = (_empty(device, kind, 2, 3, 200, width) for _ in range(3))
    for tensor in (q, k, v):
        tensor.requires_grad_()
    out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
    out.backward(_empty(device, kind, 2, 3, 200, width))
    gradients = (tensor.grad for tensor in (q, k, v))
    Tensor.realize(out, *(grad for grad in gradients if grad is not None))


def _layer(kind: str, device: str) -> None:
    """A linear layer in batches, what is computed before it and after it."""
    x, weight = _empty(device, kind, 3, 200, 96), _empty(device, kind, 160, 96)
    bias = _empty(device, kind, 160)
    (x.relu() @ weight.T + bias).gelu().realize()


def _convolution(kind: str, device: str) -> None:
    images, weight = _empty(device, kind, 4, 32, 20, 20), _empty(device, kind, 48, 32, 3, 3)
    images.conv2d(weight, padding=1).realize()
