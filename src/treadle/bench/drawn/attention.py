"""Attention: lengths of queries and keys, masks, fewer heads of keys than of queries, gradients."""

from __future__ import annotations

from ..libraries.base import Library
from ..work import Array, Input, Work
from .draw import Draw

__all__ = ["draw"]


def draw(draw: Draw) -> Work:
    batch, heads = draw.one_of(1, 2, 4), draw.one_of(2, 4, 6, 8, 12, 16)
    shared = draw.one_of(1, 1, 1, 2, heads)  # queries' heads for each of the keys'
    width = draw.one_of(32, 40, 64, 64, 80, 96, 128)
    queries = draw.size(24, 1500)
    keys = draw.one_of(queries, queries, draw.size(24, 1500))
    mask = draw.one_of("", "", "causal", "causal", "boolean mask", "added mask")
    backward = draw.one_of(False, True)
    if mask == "causal":
        keys = queries

    def form(lib: Library[Array], *given: Array) -> Array:
        q, k, v, *masks = given
        return lib.masked_attention(
            q, k, v, masks[0] if masks else None, mask == "causal", shared > 1
        )

    sizes = [(batch, heads, queries, width), *[(batch, heads // shared, keys, width)] * 2]
    given = [Input(size) for size in sizes]
    if mask == "boolean mask":
        given.append(Input((queries, keys), "bool", below=2))
    elif mask == "added mask":
        given.append(Input((queries, keys)))
    flops = (14.0 if backward else 4.0) * batch * heads * queries * keys * width
    name = f"attention {batch}x{heads}x{queries}x{width}, keys {heads // shared}x{keys}"
    name += f", {mask}" * bool(mask) + ", with gradients" * backward
    flops /= 2 if mask == "causal" else 1
    if not backward:
        return Work("random", name, "flops", flops, tuple(given), form, ())
    return Work("random", name, "flops", flops, (*given, Input(sizes[0])), form, (),
                task="gradients", wanted=(0, 1, 2))  # fmt: skip
