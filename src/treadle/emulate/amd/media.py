"""Operations of images: sums of absolute differences of bytes, averages, and faces of a cube.

v_sad_u8 v0, v1, v2, v3      v0 = v3 + how far the four bytes of v1 are from those of v2
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.vector import join, simple
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []


# -- sums of absolute differences


def _sum(w: Wave, a: str, b: str, total: str, bits: int = 8, is_masked: bool = False) -> str:
    """Where it is masked, fields of `b` that are 0 do not count."""
    if w.item.modifiers.get("clamp"):
        raise Unsupported(f"{w.item.operation} with clamp")
    x = w.x
    for low in range(0, 32, bits):
        one, other = (x.bits(v, low, bits) for v in (a, b))
        ends = [x.call("u32", f"u{which}", one, other) for which in ("max", "min")]
        apart = x.op("u32", "sub", *ends)
        if is_masked:
            apart = x.select("u32", x.truth("u32", other), apart, x.const("u32", 0))
        total = x.op("u32", "add", total, apart)
    return total


def _high(w: Wave, a: str, b: str, total: str) -> str:
    found = w.x.op("u32", "shl", _sum(w, a, b, w.x.const("u32", 0)), w.x.const("u32", 16))
    return w.x.op("u32", "add", found, total)


simple("v_sad_u8", "u32", ("u32",) * 3, _sum)
simple("v_sad_hi_u8", "u32", ("u32",) * 3, _high)
simple("v_sad_u16", "u32", ("u32",) * 3, lambda w, *v: _sum(w, *v, bits=16))
simple("v_msad_u8", "u32", ("u32",) * 3, lambda w, *v: _sum(w, *v, is_masked=True))


def _four(name: str, is_masked: bool) -> None:
    """Four sums of 16 bits, each of which takes the first source one byte further on."""

    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        x = w.x
        window, b, totals = w.raw("src0", "u64"), w.raw("src1", "u32"), w.raw("src2", "u64")
        sums = []
        for i in range(4):
            a = x.resize("u64", "u32", x.op("u64", "lshr", window, x.const("u64", 8 * i)))
            total = x.resize("u64", "u32", x.bits(totals, 16 * i, 16, "u64"))
            sums.append(x.resize("u32", "u16", _sum(w, a, b, total, is_masked=is_masked)))
        for part in range(2):
            value = join(w, *sums[2 * part : 2 * part + 2])
            w.set_vector(w.item.operands["vdst"], value, part)


_four("v_qsad_pk_u16_u8", is_masked=False)
_four("v_mqsad_pk_u16_u8", is_masked=True)


def _average(w: Wave, a: str, b: str, c: str) -> str:
    """Of each two bytes, rounded up where the third one is odd."""
    x, found = w.x, w.x.const("u32", 0)
    for low in range(0, 32, 8):
        total = x.op("u32", "add", x.bits(a, low, 8), x.bits(b, low, 8))
        total = x.op("u32", "add", total, x.bits(c, low, 1))
        half = x.op("u32", "lshr", total, x.const("u32", 1))
        found = x.op("u32", "or", found, x.op("u32", "shl", half, x.const("u32", low)))
    return found


simple("v_lerp_u8", "u32", ("u32",) * 3, _average)

# -- the face of a cube that a direction meets, and where


def _on_a_face(w: Wave, by_axis: Callable[[bool], tuple[str, str, str]], v: tuple[str, ...]) -> str:
    """`by_axis` gives for x, y and z what is chosen where it is the longest; True if it is < 0."""
    x = w.x
    ax, ay, az = (x.call("f32", "fabs", one) for one in v)
    along_z = x.both(x.compare("f32", "oge", az, ax), x.compare("f32", "oge", az, ay))
    along_y = x.compare("f32", "oge", ay, ax)
    below = [x.compare("f32", "olt", one, x.const("f32", 0.0)) for one in v]
    pairs = zip(below, by_axis(True), by_axis(False), strict=True)
    of_x, of_y, of_z = (x.select("f32", flag, yes, no) for flag, yes, no in pairs)
    return x.select("f32", along_z, of_z, x.select("f32", along_y, of_y, of_x))


def _negative(w: Wave, value: str) -> str:
    return w.e.op(f"fneg {w.x.type('f32')} {value}")


def _face(w: Wave, *v: str) -> str:
    faces = {False: (0.0, 2.0, 4.0), True: (1.0, 3.0, 5.0)}

    def number(below: bool) -> tuple[str, str, str]:
        x, y, z = (w.x.const("f32", face) for face in faces[below])
        return x, y, z

    return _on_a_face(w, number, v)


def _longest(w: Wave, a: str, b: str, c: str) -> str:
    twice = _on_a_face(w, lambda _: (a, b, c), (a, b, c))
    return w.x.op("f32", "fmul", twice, w.x.const("f32", 2.0))


def _across(w: Wave, a: str, b: str, c: str) -> str:
    minus_a, minus_c = _negative(w, a), _negative(w, c)
    return _on_a_face(w, lambda below: (c, a, minus_a) if below else (minus_c, a, a), (a, b, c))


def _along(w: Wave, a: str, b: str, c: str) -> str:
    down, minus_c = _negative(w, b), _negative(w, c)
    return _on_a_face(w, lambda below: (down, minus_c if below else c, down), (a, b, c))


for _name, _compute in (("id", _face), ("ma", _longest), ("sc", _across), ("tc", _along)):
    simple(f"v_cube{_name}_f32", "f32", ("f32",) * 3, _compute)
