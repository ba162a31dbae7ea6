"""Textures in OpenCL C: whole texels are read and written, lanes taken out of them.

    LOAD(p0, 4 * r0) of float32 x 4  ->  read_imagef(arg0, (int2)(r0 % width, r0 / width))

What is stored comes as whole texels, by optimize/texels.py.
"""

from __future__ import annotations

from ..dtype import ImageDType
from ..errors import InternalError
from ..ir.views import Load, Store
from ..lower.overflow_analysis import is_multiple
from .clike import Function
from .textures import TEXEL

__all__ = ["CHANNEL", "WithTextures"]

CHANNEL = """\
float channel(float4 texel, int n) {
  return n < 2 ? (n == 0 ? texel.x : texel.y) : (n == 2 ? texel.z : texel.w);
}
"""


class WithTextures(Function):
    """The part of a function of OpenCL C that reads and writes textures."""

    def _texel(self, image: ImageDType, place: str, ahead: int = 0) -> str:
        """The coordinates of the texel that element `place` is in, `ahead` texels further on."""
        width = image.image_shape[1]
        texel = f"({place}) / 4" + (f" + {ahead}" if ahead else "")
        return f"(int2)(({texel}) % {width}, ({texel}) / {width})"

    def texture_load(self, load: Load, image: ImageDType) -> str:
        base, place = self.memory(load.memory), self.value(load.index)
        dtype, aligned = load.dtype, is_multiple(load.index, TEXEL)
        if dtype.count % 4 == 0 and aligned and load.gate.dtype.count == 1:
            texels = [
                f"read_imagef({base}, {self._texel(image, place, n)})"
                for n in range(dtype.count // 4)
            ]
            code = texels[0] if dtype.count == 4 else f"({self.type(dtype)})({', '.join(texels)})"
            return self.let(dtype, self._where_gate(load, code, None))
        lanes = []
        for n in range(dtype.count):
            at = f"{place} + {n}" if n else place
            one = f"channel(read_imagef({base}, {self._texel(image, at)}), ({at}) % 4)"
            lanes.append(self._where_gate(load, one, n if dtype.count > 1 else None))
        return self.let(dtype, lanes[0] if dtype.count == 1 else self.vector(dtype, lanes))

    def _where_gate(self, load: Load, code: str, lane: int | None) -> str:
        """`code` where the gate holds, in one lane or as a whole, else what there is instead."""
        if not load.is_gated:
            return code
        held, instead = self.value(load.gate), self.value(load.other)
        if lane is not None:
            instead = self.lane(load.dtype, instead, lane)
            held = self.lane(load.gate.dtype, held, lane) if load.gate.dtype.count > 1 else held
        return f"({held} ? {code} : {instead})"

    def texture_store(self, store: Store, image: ImageDType) -> None:
        is_whole = store.value.dtype.count == 4 and is_multiple(store.index, TEXEL)
        if not is_whole or store.gate.dtype.count > 1:
            raise InternalError(f"a texture is written in whole texels, not by {store.node()!r}")
        guard = f"if ({self.value(store.gate)}) " if store.is_gated else ""
        texel, value = self._texel(image, self.value(store.index)), self.value(store.value)
        self.line(f"{guard}write_imagef({self.memory(store.memory)}, {texel}, {value});")
