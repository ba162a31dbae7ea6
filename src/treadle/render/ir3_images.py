"""Images for Adreno: whole texels are read and written, numbers taken out of them.

    isam.f32 %9:4, %7:2, 0        the texel of texture 0 whose x and y are in %7.0 and %7.1
    ldib.b.f32 %9:4, %7:2, 1      the same of image 1, which the phase may write
    stib.b.f32 %9:4, %7:2, 1      stores it

An image that a phase only reads is a texture, which has a cache of its own. Where there are more
than that takes, it is an image as those that are written. A load behind a gate reads texel 0 where
the gate is closed, or nothing at all of an image that the phase writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..dtype import ImageDType
from ..errors import InternalError
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Store, operands
from ..lower.overflow_analysis import is_multiple
from .ir3_division import divide, divide_by_constant
from .ir3_memory import Memory
from .ir3_values import Lane, word
from .textures import TEXEL, image_of

__all__ = ["Images"]

MOST_TEXTURES, MOST_IMAGES = 16, 64
_SHIFT = 2  # from elements to texels
_OUTSIDE = "0xffffffff"  # no image is as wide


class _Numbered(NamedTuple):
    """An image, and its number among the textures or among the others."""

    image: ImageDType
    is_texture: bool
    number: int


class _Element(NamedTuple):
    """Number `channel` of a texel, which is known or in a register."""

    texel: str | int
    channel: str | int


class Images(Memory):
    """The part of a function that reads and writes images, and otherwise plain memory."""

    def __init__(self, name: str, params: Sequence[Node], written: set[Node]) -> None:
        super().__init__()
        self.images = _numbered(name, params, written)

    def descriptions(self, params: Sequence[Node]) -> list[str]:
        """A line for each image, by which a runtime finds it."""
        return [
            f"  memory buffer={params.index(memory)} {'texture' if is_texture else 'image'}="
            f"{number} height={image.image_shape[0]} width={image.image_shape[1]} bits={image.bits}"
            for memory, (image, is_texture, number) in self.images.items()
        ]

    # -- loads ------------------------------------------------------------------------------------

    def _load(self, node: Node) -> list[Lane]:
        load = Load.of(node)
        memory = behind_after(load.memory)
        if memory not in self.images:
            return super()._load(node)
        count = node.dtype.count
        gates = self._conditions(load.gate) if load.is_gated else [None]
        if len(gates) == 1:
            gates *= count
        others = self.lanes(load.other) if load.is_gated else [""] * count
        lanes: list[Lane] = []
        for n, (gate, other) in enumerate(zip(gates, others, strict=True)):
            texel, channel = self._element(load.index, n)
            value = self._channel(self._read(memory, texel, gate), channel)
            lanes.append(value if gate is None else self.choose(gate, value, other))
        return lanes

    def _conditions(self, gate: Node) -> list[str | None]:
        return [lane for lane in self.lanes(gate) if isinstance(lane, str)]

    def _element(self, index: Node, further: int) -> _Element:
        """Where an element is, so many further on than an index; neighbours share their texel."""
        if index.op is Op.CONST:
            return _Element(*divmod(index.arg + further, TEXEL))
        if is_multiple(index, TEXEL):
            return self._beside(index, further)
        if index.op is Op.ADD:
            value, beside = operands(index)
            if beside.op is Op.CONST and is_multiple(value, TEXEL) and self.is_index(value):
                return self._beside(value, beside.arg + further)
        place = self._low(index)
        if further:
            place = self.emit("add.u", place, word(further))
        return _Element(
            self.emit("shr.b", place, word(_SHIFT)), self.emit("and.b", place, word(TEXEL - 1))
        )

    def _beside(self, whole: Node, elements: int) -> _Element:
        """So many elements behind the first of a texel."""
        texel = self.emit("shr.b", self._low(whole), word(_SHIFT))
        texels, channel = divmod(elements, TEXEL)
        if texels:
            texel = self.emit("add.u", texel, word(texels))
        return _Element(texel, channel)

    def _low(self, index: Node) -> str:
        """An index in one register: no image has as many elements as 32 bits count."""
        (lane,) = self.lanes(index)
        return lane if isinstance(lane, str) else lane[0]

    def _read(self, memory: Node, texel: str | int, gate: str | None) -> list[str]:
        """The four numbers of a texel, which are read once if nobody may change them."""
        image, is_texture, number = self.images[memory]
        is_fixed = not self.is_written(memory)
        if gate is not None and is_fixed:
            texel = self.select(gate, texel if isinstance(texel, str) else word(texel), "0x0")
        x, y = self._coordinates(image, texel)
        if gate is not None and not is_fixed:
            x = self.select(gate, x, _OUTSIDE)
        key = memory, x, y
        found = next((scope[key] for scope in self.known if key in scope), None)
        if found is None or not is_fixed:
            place, found = self._together([x, y], half=False), self.vector(TEXEL)
            op = "isam" if is_texture else "ldib.b"
            self.line(f"{op}.f32 {found}:{TEXEL}, {place}, {number}")
            self.known[-1][key] = found
        return [f"{found}.{n}" for n in range(TEXEL)]

    def _coordinates(self, image: ImageDType, texel: str | int) -> tuple[str, str]:
        """x and y of a texel of an image."""
        height, width = image.image_shape
        if isinstance(texel, int):
            return word(texel % width), word(texel // width)
        if height == 1:
            return texel, "0x0"
        short = divide_by_constant(self, texel, width, height * width - 1)
        y, x = short or divide(self, texel, word(width), signed=False)
        return x, y

    def _channel(self, texel: list[str], channel: str | int) -> str:
        """One of four numbers."""
        if isinstance(channel, int):
            return texel[channel]
        is_odd = self.emit("and.b", channel, word(1))
        is_late = self.emit("and.b", channel, word(2))
        early, late = (self.select(is_odd, texel[n + 1], texel[n]) for n in (0, 2))
        return self.select(is_late, late, early)

    # -- stores -----------------------------------------------------------------------------------

    def _store(self, node: Node) -> None:
        store = Store.of(node)
        memory = behind_after(store.memory)
        if memory not in self.images:
            super()._store(node)
            return
        gates = self._conditions(store.gate) if store.is_gated else []
        values = [value for value in self.lanes(store.value) if isinstance(value, str)]
        if len(values) != TEXEL or not is_multiple(store.index, TEXEL) or len(gates) > 1:
            raise InternalError(f"an image is written in whole texels, not by {node!r}")
        image, _, number = self.images[memory]
        if gates:
            self.open(f"if {gates[0]}")
        texel, _ = self._element(store.index, 0)
        place = self._together([*self._coordinates(image, texel)], half=False)
        self.line(f"stib.b.f32 {self._together(values, half=False)}, {place}, {number}")
        if gates:
            self.close()


def _numbered(name: str, params: Sequence[Node], written: set[Node]) -> dict[Node, _Numbered]:
    """The images among parameters."""
    found: dict[Node, _Numbered] = {}
    textures = others = 0
    for memory in params:
        image = image_of(memory)
        if image is None:
            continue
        if memory not in written and textures < MOST_TEXTURES:
            found[memory] = _Numbered(image, True, textures)
            textures += 1
        else:
            found[memory] = _Numbered(image, False, others)
            others += 1
    if others > MOST_IMAGES:
        raise InternalError(f"{name} takes {textures + others} images: the target allows fewer")
    return found
