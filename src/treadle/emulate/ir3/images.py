"""Images: read as textures (isam), read and written (ldib, stib), at whole coordinates.

What is outside of an image reads as zeros, and is not written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ir3.meanings import MEANINGS
from treadle.emulate.ir3.operands import TYPES, Unsupported, component
from treadle.emulate.simt import accesses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.ir3.wave import Bound, Wave

__all__: list[str] = []

_FLAGS = ("3D", "A", "O", "P", "SV", "S2EN_BINDLESS", "SRC2_IMM_OFFSET")


def _bound(found: Sequence[Bound], number: int, what: str) -> Bound:
    if number >= len(found):
        raise Unsupported(f"{what} {number}, and {len(found)} are there")
    return found[number]


def _place(w: Wave, image: Bound, first: int) -> tuple[str, str]:
    """The address of an element, and which lanes are inside: x and y are two full registers."""
    x_, x = w.x, w.component(first, is_half=False)
    address, pitch, width, height = (w.parameter(image.place + 8 * n) for n in range(4))
    column, line = (x_.resize("u32", "u64", v) for v in (x, w.component(first + 1, is_half=False)))
    inside = x_.both(
        x_.compare("u64", "ult", column, width), x_.compare("u64", "ult", line, height)
    )
    offset = x_.op("u64", "mul", column, x_.const("u64", image.format.nbytes))
    offset = x_.op("u64", "add", offset, x_.op("u64", "mul", line, pitch))
    return x_.op("u64", "add", address, offset), x_.both(inside, w.lanes or w.e.mask)


def _elements(w: Wave, image: Bound, first: int, kind: str) -> list[str]:
    """Four components as floats of a kind; those that the image does not have are 0, 0, 0, 1."""
    x, bits = w.x, image.format.bits
    address, inside = _place(w, image, first)
    found = []
    with w.only(inside):
        for n in range(image.format.count):
            at = x.op("u64", "add", address, x.const("u64", n * bits // 8))
            found += accesses.load(w.e, "global", at, bits)
    zero = x.const(kind, 0.0)
    values = [x.select(kind, inside, _converted(w, f"f{bits}", kind, v), zero) for v in found]
    missing = [x.select(kind, inside, x.const(kind, float(n == 3)), zero) for n in range(4)]
    return [*values, *missing[len(values) :]]


def _converted(w: Wave, old: str, new: str, bits: str) -> str:
    """Bits of one kind of floats as floats of another."""
    x = w.x
    value = x.cast(f"u{old[1:]}", old, bits)
    if old == new:
        return value
    return x.convert("fpext" if old == "f16" else "fptrunc", old, new, value)


def _float_type(number: int) -> str:
    kind = TYPES[number]
    if kind not in ("f16", "f32"):
        raise Unsupported(f"elements of an image as {kind}")
    return kind


def _set(w: Wave, first: int, kind: str, values: Sequence[str], mask: int) -> None:
    """Sets a register for each component of a mask."""
    bits = f"u{kind[1:]}"
    for n, value in enumerate(values):
        if mask >> n & 1:
            w.set_component(first + n, kind == "f16", w.x.cast(kind, bits, value))


@MEANINGS.of("isam")
def _sample(w: Wave) -> None:
    item = w.item
    for flag in _FLAGS:
        if item.number(flag):
            raise Unsupported(f"isam with {flag}")
    if not item.number("FULL"):
        raise Unsupported("coordinates in half registers")
    image = _bound(w.textures, item.decoded.operand("TEX").number("TEX"), "texture")
    sampler = item.decoded.operand("SAMP").number("SAMP")
    if sampler >= w.samplers:
        raise Unsupported(f"sampler {sampler} is read, and {w.samplers} are bound")
    kind = _float_type(item.decoded.operand("TYPE").number("TYPE"))
    first = component(item.decoded.operand("SRC1").operand("SRC"))
    values = _elements(w, image, first, kind)
    _set(w, component(item.decoded.operand("DST")), kind, values, item.number("WRMASK"))


def _image(w: Wave) -> tuple[Bound, str, int]:
    """The image of ldib and stib, the kind of its components and their count."""
    item = w.item
    if not item.number("TYPED") or item.number("MODE") or item.number("BINDLESS"):
        raise Unsupported("an image that is not typed, or not named by a number")
    if item.number("D") != 2 or item.number("HAS_OFFSET"):
        raise Unsupported("an image that is not of two dimensions")
    image = _bound(w.images, item.register("SSBO").number, "image")
    return image, _float_type(item.number("TYPE")), item.number("TYPE_SIZE")


@MEANINGS.of("ldib.b")
def _load(w: Wave) -> None:
    image, kind, count = _image(w)
    values = _elements(w, image, w.item.register("SRC2").number, kind)
    _set(w, w.item.register("SRC1").number, kind, values, (1 << count) - 1)


@MEANINGS.of("stib.b")
def _store(w: Wave) -> None:
    image, kind, count = _image(w)
    bits = image.format.bits
    if count < image.format.count:
        raise Unsupported(f"{count} components for an image of {image.format.count}")
    address, inside = _place(w, image, w.item.register("SRC2").number)
    first, x = w.item.register("SRC1").number, w.x
    with w.only(inside):
        for n in range(image.format.count):
            value = _converted(w, kind, f"f{bits}", w.component(first + n, kind == "f16"))
            at = x.op("u64", "add", address, x.const("u64", n * bits // 8))
            accesses.store(w.e, "global", at, bits, [x.cast(f"f{bits}", f"u{bits}", value)])
