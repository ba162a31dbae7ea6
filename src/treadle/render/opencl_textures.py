"""Textures in OpenCL C: whole texels are read and written, lanes taken out of them.

    LOAD(p0, 4 * r0) of float32 x 4  ->  read_imagef(arg0, (int2)(r0 % width, r0 / width))

What is stored comes as whole texels, by optimize/texels.py.
"""

from __future__ import annotations

from ..dtype import ImageDType
from ..errors import InternalError
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..lower.overflow_analysis import is_multiple
from .clike import Function

__all__ = ["CHANNEL", "WithTextures", "image_of"]

_TEXEL = 4  # elements
CHANNEL = """\
float channel(float4 texel, int n) {
  return n < 2 ? (n == 0 ? texel.x : texel.y) : (n == 2 ? texel.z : texel.w);
}
"""


def image_of(memory: Node) -> ImageDType | None:
    """The texture that a piece of memory is, if it is one."""
    memory = behind_after(memory)
    return memory.arg.image if memory.op is Op.PARAM else None


class WithTextures(Function):
    """The part of a function of OpenCL C that reads and writes textures."""

    def _texel(self, image: ImageDType, place: str, ahead: int = 0) -> str:
        """The coordinates of the texel that element `place` is in, `ahead` texels further on."""
        width = image.image_shape[1]
        texel = f"({place}) / 4" + (f" + {ahead}" if ahead else "")
        return f"(int2)(({texel}) % {width}, ({texel}) / {width})"

    def texture_load(self, node: Node, image: ImageDType) -> str:
        base, place = self.memory(node.src[0]), self.value(node.src[1])
        dtype, aligned = node.dtype, is_multiple(node.src[1], _TEXEL)
        gate, other = (*node.src[2:], None, None)[:2]
        whole = dtype.count % 4 == 0 and aligned and (gate is None or gate.dtype.count == 1)
        if whole:
            texels = [
                f"read_imagef({base}, {self._texel(image, place, n)})"
                for n in range(dtype.count // 4)
            ]
            code = texels[0] if dtype.count == 4 else f"({self.type(dtype)})({', '.join(texels)})"
            return self.let(dtype, self._where(gate, code, other, None))
        lanes = []
        for n in range(dtype.count):
            at = f"{place} + {n}" if n else place
            one = f"channel(read_imagef({base}, {self._texel(image, at)}), ({at}) % 4)"
            lanes.append(self._where(gate, one, other, n if dtype.count > 1 else None))
        return self.let(dtype, lanes[0] if dtype.count == 1 else self.vector(dtype, lanes))

    def _where(self, gate: Node | None, code: str, other: Node | None, lane: int | None) -> str:
        """`code` where `gate` holds, in one lane or as a whole, else `other`."""
        if gate is None or other is None:
            return code
        held, instead = self.value(gate), self.value(other)
        if lane is not None:
            instead = self.lane(other.dtype, instead, lane)
            held = self.lane(gate.dtype, held, lane) if gate.dtype.count > 1 else held
        return f"({held} ? {code} : {instead})"

    def texture_store(self, node: Node, image: ImageDType) -> None:
        memory, index, value = node.src[:3]
        gate = node.src[3] if len(node.src) == 4 else None
        whole = value.dtype.count == 4 and is_multiple(index, _TEXEL)
        if not whole or (gate is not None and gate.dtype.count > 1):
            raise InternalError(f"a texture is written in whole texels, not by {node!r}")
        guard = "" if gate is None else f"if ({self.value(gate)}) "
        texel = self._texel(image, self.value(index))
        self.line(f"{guard}write_imagef({self.memory(memory)}, {texel}, {self.value(value)});")
