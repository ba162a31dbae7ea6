"""What renderers of textures have in common: which memory is one, and what a texel has."""

from __future__ import annotations

from ..dtype import ImageDType
from ..ir.node import Node, behind_after
from ..ir.op import Op

__all__ = ["TEXEL", "image_of"]

TEXEL = 4  # elements


def image_of(memory: Node) -> ImageDType | None:
    """The texture that a piece of memory is, if it is one."""
    memory = behind_after(memory)
    return memory.arg.image if memory.op is Op.PARAM else None
