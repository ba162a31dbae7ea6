"""Sums of products of the parts of two registers: halves, bytes, and integers of four bits.

    v_dot4_i32_i8 v0, v1, v2, v3      v0 = v3 + the four products of the bytes of v1 and v2

Those of floats are computed in 64 bits and rounded once; AMD does not say what hardware rounds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.emulate.amd.floating import widened
from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.small_floats import decoded, small_float
from treadle.emulate.amd.vector import packed_source
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []

# -- integers


def _part(w: Wave, value: str, number: int, bits: int, has_sign: bool) -> str:
    """A part of a word as 64 bits."""
    moved = w.x.op("u32", "shl", value, w.x.const("u32", 32 - bits * (number + 1)))
    opcode = "ashr" if has_sign else "lshr"
    field = w.x.op("u32", opcode, moved, w.x.const("u32", 32 - bits))
    return w.x.resize("i32" if has_sign else "u32", "u64", field)


def _sum(w: Wave, bits: int, signs: tuple[bool, bool], total: str) -> None:
    """The sum, to which `total` is added; `clamp` keeps it within 32 bits."""
    x = w.x
    kind = "i32" if any(signs) else "u32"
    a, b = w.packed_bits("src0"), w.packed_bits("src1")
    if bits == 16:
        a, b = (_halves(w, name) for name in ("src0", "src1"))
    value = x.resize(kind, "u64", total)
    for i in range(32 // bits):
        parts = [_part(w, v, i, bits, has) for v, has in zip((a, b), signs, strict=True)]
        value = x.op("u64", "add", value, x.op("u64", "mul", *parts))
    if w.item.modifiers.get("clamp"):
        least, most = (-(1 << 31), (1 << 31) - 1) if kind == "i32" else (0, (1 << 32) - 1)
        letter = "s" if kind == "i32" else "u"
        value = x.call("u64", f"{letter}max", value, x.const("u64", least))
        value = x.call("u64", f"{letter}min", value, x.const("u64", most))
    w.set_bits(32, x.resize("u64", "u32", value))


def _halves(w: Wave, name: str) -> str:
    """Both halves of a source that the instruction takes, which op_sel and op_sel_hi choose."""
    at = int(name[-1])
    if "op_sel_hi" not in w.item.modifiers:
        return w.packed_bits(name)
    low, high = (w.x.resize("u16", "u32", packed_source(w, name, "u16", at, n)) for n in range(2))
    return w.x.op("u32", "or", low, w.x.op("u32", "shl", high, w.x.const("u32", 16)))


def _add_integers(name: str, bits: int, letter: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        """Of `iu`, neg_lo says which source has signs."""
        signs = w.item.modifiers.get("neg_lo", 0) if letter == "iu" else 3 * (letter == "i")
        total = w.raw("src2", "u32") if "src2" in w.item.operands else _before(w)
        _sum(w, bits, (bool(signs & 1), bool(signs & 2)), total)


def _before(w: Wave) -> str:
    return w.vector(w.item.operands["vdst"])


for _count, _bits in ((2, 16), (4, 8), (8, 4)):
    for _letter in "iu":
        _add_integers(f"v_dot{_count}_{_letter}32_{_letter}{_bits}", _bits, _letter)
    _add_integers(f"v_dot{_count}c_i32_i{_bits}", _bits, "i")
for _count, _bits in ((4, 8), (8, 4)):
    _add_integers(f"v_dot{_count}_i32_iu{_bits}", _bits, "iu")


# -- floats


def _float_of(w: Wave, kind: str, bits: str) -> str:
    """A half or bfloat16 as float64."""
    if kind == "f16":
        return widened(w, "f16", "f64", w.flushed("f16", w.x.cast("u16", "f16", bits)))
    high = w.x.op("u32", "shl", w.x.resize("u16", "u32", bits), w.x.const("u32", 16))
    return widened(w, "f32", "f64", w.x.cast("u32", "f32", high))


def _factor(w: Wave, kind: str, number: int, half: int) -> str:
    """One of the two values of a source, after its signs.

    VOP3P has op_sel, neg_lo and neg_hi for halves; in VOP3, abs and neg are for both.
    """
    m, name = w.item.modifiers, f"src{number}"
    of = w.item.operands[name]
    if "op_sel_hi" in m:
        bits = packed_source(w, name, "u16", number, half)
    else:
        value = w.packed_bits(name)
        if half:
            value = w.x.op("u32", "lshr", value, w.x.const("u32", 16))
        bits = w.x.resize("u32", "u16", value)
    bits = w.signed("f16", bits, of)
    if m.get("neg_hi" if half else "neg_lo", 0) >> number & 1:
        bits = w.x.op("u16", "xor", bits, w.x.const("u16", 0x8000))
    return _float_of(w, kind, bits)


def _products(w: Wave, kind: str, total: str) -> str:
    x = w.x
    for half in range(2):
        a, b = (_factor(w, kind, number, half) for number in range(2))
        total = x.op("f64", "fadd", total, x.op("f64", "fmul", a, b))
    return total


def _to_bfloat(w: Wave, value: str) -> str:
    """The bits of the bfloat16 that is nearest to a float; of two, the even one."""
    x = w.x
    bits = x.cast("f32", "u32", value)
    odd = x.bits(x.op("u32", "lshr", bits, x.const("u32", 16)), 0, 1)
    up = x.op("u32", "add", bits, x.op("u32", "add", odd, x.const("u32", 0x7FFF)))
    quiet = x.op("u32", "or", bits, x.const("u32", 0x400000))
    found = x.select("u32", x.compare("f32", "uno", value, value), quiet, up)
    return x.resize("u32", "u16", x.op("u32", "lshr", found, x.const("u32", 16)))


def _signed_total(w: Wave) -> str:
    """The third source: neg_lo negates it, and neg_hi takes its absolute value."""
    m, x = w.item.modifiers, w.x
    if m.get("neg_hi", 0) >> 2 & 1 and "8" not in w.name:
        raise Unsupported(f"{w.item.operation} with neg_hi for its third source")
    bits = x.cast("f32", "u32", w.source("src2", "f32"))
    if m.get("neg_hi", 0) >> 2 & 1:
        bits = x.op("u32", "and", bits, x.const("u32", 0x7FFFFFFF))
    if m.get("neg_lo", 0) >> 2 & 1:
        bits = x.op("u32", "xor", bits, x.const("u32", 0x80000000))
    return x.cast("u32", "f32", bits)


def _add_floats(name: str, kind: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        first = _signed_total(w) if "src2" in w.item.operands else w.destination("f32")
        found = _products(w, kind, widened(w, "f32", "f64", first))
        w.result("f32", widened(w, "f64", "f32", found))


for _kind in ("f16", "bf16"):
    _add_floats(f"v_dot2_f32_{_kind}", _kind)
    _add_floats(f"v_dot2acc_f32_{_kind}", _kind)


@MEANINGS.of("v_dot2_f16_f16")
def _half_sum(w: Wave) -> None:
    total = widened(w, "f16", "f64", w.source("src2", "f16"))
    w.result("f16", widened(w, "f64", "f16", _products(w, "f16", total)))


@MEANINGS.of("v_dot2_bf16_bf16")
def _bfloat_sum(w: Wave) -> None:
    total = _float_of(w, "bf16", w.raw_signed("src2"))
    w.set_bits(16, _to_bfloat(w, widened(w, "f64", "f32", _products(w, "bf16", total))))


def _add_bytes(name: str) -> None:
    kinds = re.findall("[fb][fp]8", name)

    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        x, total = w.x, widened(w, "f32", "f64", _signed_total(w))
        sources = [w.packed_bits(f"src{number}") for number in range(2)]
        for i in range(4):
            a, b = (
                widened(w, "f32", "f64", decoded(w, small_float(w.chip, kind), _byte(w, v, i)))
                for kind, v in zip(kinds, sources, strict=True)
            )
            total = x.op("f64", "fadd", total, x.op("f64", "fmul", a, b))
        w.result("f32", widened(w, "f64", "f32", total))


def _byte(w: Wave, value: str, number: int) -> str:
    return w.x.bits(value, 8 * number, 8)


for _first in ("fp8", "bf8"):
    for _second in ("fp8", "bf8"):
        _add_bytes(f"v_dot4_f32_{_first}_{_second}")
