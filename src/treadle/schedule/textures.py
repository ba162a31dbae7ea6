"""Textures: which memory is one, and which intermediate results IMAGE=1 keeps in one.

    a @ b, then relu  ->  with IMAGE=1 the product, if it is stored at all, is stored as texels

A texture of (height, width) texels holds the same elements in the same row-major order as plain
memory would, four to a texel. GPUs of phones read it through a cache of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtype import ImageDType, dtypes
from ..ir.builders import reshape
from ..ir.node import Node, changed
from ..ir.op import Op
from ..ir.shape import size_product
from .plan import STORED, Plan

__all__ = ["as_texels", "image_of", "keep_in_images"]

_PLAIN = STORED - {Op.CONTIGUOUS}


def image_of(stored: Node) -> ImageDType | None:
    """The texture that a BUFFER or a stored node is kept in, if it is."""
    if stored.op is Op.BUFFER:
        return stored.arg.image
    return stored.arg if stored.op is Op.CONTIGUOUS else None


def as_texels(value: Node, image: ImageDType) -> Node:
    """`value` (float32, as many elements as `image` has) computed once, into a texture."""
    rows = reshape(value, (image.channels // 4, 4))
    return reshape(Node(Op.CONTIGUOUS, value.dtype, (rows,), image), value.shape)


def keep_in_images(
    outputs: Sequence[Node], plan: Plan, largest: tuple[int, int], half: bool
) -> list[Node]:
    """`outputs` with the intermediate results of `plan` in textures, wherever their size fits."""

    def change(node: Node, now: Node) -> Node:
        is_kept = node in plan.groups and node not in outputs and node.op not in _PLAIN
        image = _texture_for(node, largest, half) if is_kept else None
        return now if image is None else as_texels(now, image)

    return list(changed(outputs, change))


def _texture_for(node: Node, largest: tuple[int, int], half: bool) -> ImageDType | None:
    """The widest texture with exactly the elements of `node`."""
    size = size_product(node.shape)
    if node.dtype is not dtypes.float32 or image_of(node) or not isinstance(size, int) or size % 4:
        return None
    texels = size // 4
    widths = (w for w in range(min(texels, largest[1]), 0, -1) if texels % w == 0)
    width = next(widths, None)
    if width is None or texels // width > largest[0]:
        return None
    shape = (texels // width, width)
    return dtypes.imageh(shape) if half else dtypes.imagef(shape)
