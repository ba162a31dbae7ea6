"""Floats of 32 bits in scalar registers, which chips from gfx1150 on compute with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []


def _source(w: Wave, name: str) -> str:
    if w.mode.flushes_sources("f32"):
        raise Unsupported("scalar floats whose subnormals are flushed")
    return w.s.cast("u32", "f32", w.scalar(w.item.operands[name]))


def _write(w: Wave, value: str) -> None:
    w.set_scalar(w.item.operands["sdst"], w.s.cast("f32", "u32", value))


def _operation(name: str, compute: Callable[..., str], *sources: str) -> None:
    def meaning(w: Wave) -> None:
        _write(w, compute(w, *(_source(w, source) for source in sources)))

    MEANINGS.add(name, meaning)


def _fused(w: Wave, a: str, b: str, c: str) -> str:
    return w.s.call("f32", "fma", a, b, c)


for _name, _opcode in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul")):
    _operation(
        f"s_{_name}_f32", lambda w, a, b, op=_opcode: w.s.op("f32", op, a, b), "src0", "src1"
    )
for _name, _function in (
    ("rndne", "roundeven"), ("trunc", "trunc"), ("floor", "floor"), ("ceil", "ceil"),
):  # fmt: skip
    _operation(f"s_{_name}_f32", lambda w, a, f=_function: w.s.call("f32", f, a), "src0")
for _name, _sources in (
    ("s_fmac_f32", ("src0", "src1", "sdst")), ("s_fmaak_f32", ("src0", "src1", "imm")),
    ("s_fmamk_f32", ("src0", "imm", "src1")),
):  # fmt: skip
    _operation(_name, _fused, *_sources)


# -- conversions


def _from_integer(letter: str, opcode: str) -> None:
    @MEANINGS.of(f"s_cvt_f32_{letter}32")
    def meaning(w: Wave) -> None:
        value = w.scalar(w.item.operands["src0"])
        _write(w, w.s.convert(opcode, "u32", "f32", value))


def _to_integer(letter: str, function: str) -> None:
    """Toward zero; what is too large gives the largest, and what is no number 0."""

    @MEANINGS.of(f"s_cvt_{letter}32_f32")
    def meaning(w: Wave) -> None:
        given = f"float {_source(w, 'src0')}"
        found = w.e.intrinsic(f"llvm.{function}.sat.i32.f32", "i32", given)
        w.set_scalar(w.item.operands["sdst"], found)


for _letter, _opcode, _function in (("i", "sitofp", "fptosi"), ("u", "uitofp", "fptoui")):
    _from_integer(_letter, _opcode)
    _to_integer(_letter, _function)


@MEANINGS.of("s_cvt_f16_f32")
def _to_half(w: Wave) -> None:
    half = w.s.convert("fptrunc", "f32", "f16", _source(w, "src0"))
    bits = w.s.resize("u16", "u32", w.s.cast("f16", "u16", half))
    w.set_scalar(w.item.operands["sdst"], bits)


@MEANINGS.of("s_cvt_f32_f16")
def _from_half(w: Wave) -> None:
    bits = w.s.resize("u32", "u16", w.scalar(w.item.operands["src0"]))
    _write(w, w.s.convert("fpext", "f16", "f32", w.s.cast("u16", "f16", bits)))


# -- comparisons


def _comparison(name: str, how: str) -> None:
    @MEANINGS.of(f"s_cmp_{name}_f32")
    def meaning(w: Wave) -> None:
        w.set_scc(w.s.compare("f32", how, _source(w, "src0"), _source(w, "src1")))


for _name, _how in (
    ("lt", "olt"), ("eq", "oeq"), ("le", "ole"), ("gt", "ogt"), ("lg", "one"), ("ge", "oge"),
    ("o", "ord"), ("u", "uno"), ("nge", "ult"), ("nlg", "ueq"), ("ngt", "ule"), ("nle", "ugt"),
    ("neq", "une"), ("nlt", "uge"),
):  # fmt: skip
    _comparison(_name, _how)
