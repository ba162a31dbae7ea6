"""Arithmetic of floats in scalar registers, which gfx11.5 and gfx12 have.

The formulas are those of vector instructions. Results of 16 bits clear the rest of a register.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.emulate.amd.floating import (
    extreme,
    from_integer,
    fused,
    ieee_extreme,
    operation,
    rounded,
    to_integer,
    towards_zero,
    widened,
)
from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.simt.values import bits_of, is_float

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []

_ONE = {
    "ceil": "ceil", "floor": "floor", "trunc": "trunc", "rndne": "roundeven",
}  # fmt: skip
_COMPARISONS = {
    "lt": "olt", "eq": "oeq", "le": "ole", "gt": "ogt", "lg": "one", "ge": "oge", "o": "ord",
    "u": "uno", "nge": "ult", "nlg": "ueq", "ngt": "ule", "nle": "ugt", "neq": "une", "nlt": "uge",
}  # fmt: skip


def _single(w: Wave) -> Wave:
    """The same wave, whose formulas are of single values."""
    made = copy.copy(w)
    made.x = w.s
    return made


def _read(one: Wave, name: str, kind: str) -> str:
    bits = one.scalar(one.item.operands[name], f"u{bits_of(kind)}")
    value = one.x.cast(f"u{bits_of(kind)}", kind, bits)
    return one.flushed(kind, value) if is_float(kind) else value


def _write(one: Wave, kind: str, value: str) -> None:
    if is_float(kind):
        if one.mode.flushes_results(kind):
            value = one.without_denormals(kind, value)
        value = one.x.cast(kind, f"u{bits_of(kind)}", value)
    value = one.x.resize(f"u{bits_of(kind)}", "u32", value)
    one.set_scalar(one.item.operands["sdst"], value)


def _simple(
    name: str, result: str, sources: tuple[tuple[str, str], ...], compute: Callable[..., str]
) -> None:
    def meaning(w: Wave) -> None:
        one = _single(w)
        values = [_read(one, source, kind) for source, kind in sources]
        _write(one, result, compute(one, *values))

    MEANINGS.add(name, meaning)


def _sources(kind: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name in names)


def _compare(kind: str, how: str, opcode: str) -> None:
    @MEANINGS.of(f"s_cmp_{how}_{kind}")
    def meaning(w: Wave) -> None:
        one = _single(w)
        a, b = (_read(one, name, kind) for name in ("src0", "src1"))
        w.set_scc(one.x.compare(kind, opcode, a, b))


for _kind in ("f32", "f16"):
    _two = _sources(_kind, "src0", "src1")
    for _name, _op in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul")):
        _simple(f"s_{_name}_{_kind}", _kind, _two, operation(_op, _kind))
    for _name, _is_max in (("min", False), ("max", True)):
        for _long in (_name, f"{_name}_num"):
            _simple(f"s_{_long}_{_kind}", _kind, _two, extreme(_kind, _is_max))
        _simple(f"s_{_name}imum_{_kind}", _kind, _two, ieee_extreme(_kind, _is_max))
    _simple(f"s_fmac_{_kind}", _kind, _sources(_kind, "src0", "src1", "sdst"), fused(_kind))
    for _name, _op in _ONE.items():
        _simple(f"s_{_name}_{_kind}", _kind, _sources(_kind, "src0"), rounded(_op, _kind))
    for _how, _opcode in _COMPARISONS.items():
        _compare(_kind, _how, _opcode)
_simple("s_fmaak_f32", "f32", _sources("f32", "src0", "src1", "imm"), fused("f32"))
_simple("s_fmamk_f32", "f32", _sources("f32", "src0", "imm", "src1"), fused("f32"))
for _integer in ("i32", "u32"):
    _simple(f"s_cvt_f32_{_integer}", "f32", (("src0", _integer),), from_integer(_integer, "f32"))
    _simple(f"s_cvt_{_integer}_f32", _integer, (("src0", "f32"),), to_integer("f32", _integer))
_simple("s_cvt_f16_f32", "f16", (("src0", "f32"),), lambda w, a: widened(w, "f32", "f16", a))
_simple("s_cvt_f32_f16", "f32", (("src0", "f16"),), lambda w, a: widened(w, "f16", "f32", a))


@MEANINGS.of("s_cvt_hi_f32_f16")
def _upper(w: Wave) -> None:
    one = _single(w)
    bits = one.x.bits(one.scalar(one.item.operands["src0"]), 16, 16)
    half = one.x.cast("u16", "f16", one.x.resize("u32", "u16", bits))
    _write(one, "f32", widened(one, "f16", "f32", one.flushed("f16", half)))


@MEANINGS.of("s_cvt_pk_rtz_f16_f32")
def _pack(w: Wave) -> None:
    one = _single(w)
    low, high = (towards_zero(one, _read(one, name, "f32")) for name in ("src0", "src1"))
    low, high = (one.x.resize("u16", "u32", half) for half in (low, high))
    one.set_scalar(
        one.item.operands["sdst"], one.x.op("u32", "or", low, one.x.op("u32", "shl", high, "16"))
    )
