"""softmax(q @ k.T / sqrt(width)) @ v over eight heads, and the gradients to all three."""

from __future__ import annotations

from ..libraries.base import Library
from ..work import AS_FAST, Array, Input, Work

__all__ = ["rows"]

HEADS, WIDTH = 8, 64


def rows(quick: bool) -> list[Work]:
    """At least PyTorch's speed at every length."""
    lengths = (32, 64) if quick else (512, 1024, 2048, 4096)
    return [
        _attention(tokens, causal, backward)
        for tokens in lengths
        for causal in (False, True)
        for backward in (False, True)
    ]


def _attention(tokens: int, causal: bool, backward: bool) -> Work:
    """Two products forward, five more back; half of each where later tokens are hidden."""

    def form(lib: Library[Array], q: Array, k: Array, v: Array) -> Array:
        return lib.attention(q, k, v, causal)

    kind = ", causal" * causal + ", with gradients" * backward
    name = f"attention {HEADS}x{tokens}x{WIDTH}{kind}"
    flops = (14.0 if backward else 4.0) * HEADS * tokens**2 * WIDTH / (2 if causal else 1)
    one = (Input((1, HEADS, tokens, WIDTH)),)
    if backward:
        return Work("attention", name, "flops", flops, one * 4, form, (AS_FAST,),
                    task="gradients", wanted=(0, 1, 2))  # fmt: skip
    return Work("attention", name, "flops", flops, one * 3, form, (AS_FAST,))
