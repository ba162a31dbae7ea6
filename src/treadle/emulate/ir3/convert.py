"""Moves and conversions (cat1).

A float becomes an integer that is as near as can be, what is no number 0. Where nothing says how to
round, it is towards zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ir3.meanings import MEANINGS
from treadle.emulate.ir3.operands import Operand, Unsupported
from treadle.emulate.simt.values import bits_of, is_float

if TYPE_CHECKING:
    from treadle.emulate.ir3.wave import Wave

__all__: list[str] = []

_TYPES = ("f16", "f32", "u16", "u32", "i16", "i32", "u8", "i8")
_ZERO, _EVEN, _UP, _DOWN = range(4)
_WHOLE = {_ZERO: "trunc", _EVEN: "roundeven", _UP: "ceil", _DOWN: "floor"}


@MEANINGS.of("mov-immed", "mov-const", "mov-gpr", "mov-relgpr", "mov-relconst")
def _move(w: Wave) -> None:
    of_float = is_float(_TYPES[w.item.number("SRC_TYPE")])
    _set(w, w.item.destination, w.bits(w.item.sources[0], of_float))


@MEANINGS.of("swz", "gat", "sct")
def _move_several(w: Wave) -> None:
    values = [w.bits(source) for source in w.item.sources]
    for target, value in zip(w.item.destinations, values, strict=True):
        _set(w, target, value)


def _set(w: Wave, target: Operand, value: str) -> None:
    """Converts bits of a source, u16 or u32, and sets the destination."""
    old, new = (_TYPES[w.item.number(name)] for name in ("SRC_TYPE", "DST_TYPE"))
    if old != new:
        value = _converted(w, old, new, value)
    w.set_moved(target, value)


def _register_bits(kind: str) -> int:
    """Bits of a register that holds such a value."""
    return 32 if bits_of(kind) == 32 else 16


def _converted(w: Wave, old: str, new: str, value: str) -> str:
    x, how = w.x, w.item.number("ROUND")
    if is_float(old):
        number = w.flushed(old, x.cast(f"u{bits_of(old)}", old, value))
        if is_float(new):
            return _float_to_float(w, old, new, number, how)
        return _float_to_integer(w, old, new, number, how)
    wide = _register_bits(old)
    if bits_of(old) < wide:
        value = x.resize(f"u{wide}", f"u{bits_of(old)}", value)
    if not is_float(new):
        if how:
            raise Unsupported("rounding of integers")
        target = _register_bits(new)
        value = x.resize(old, f"{old[0]}{bits_of(new)}", value)
        return x.resize(f"{new[0]}{bits_of(new)}", f"u{target}", value)
    return _integer_to_float(w, old, new, value, how)


def _float_to_float(w: Wave, old: str, new: str, number: str, how: int) -> str:
    x = w.x
    if bits_of(new) > bits_of(old):
        return x.cast(new, f"u{bits_of(new)}", x.convert("fpext", old, new, number))
    return x.cast(new, f"u{bits_of(new)}", _narrowed(w, old, new, number, how))


def _narrowed(w: Wave, old: str, new: str, number: str, how: int) -> str:
    """A float of fewer bits: the nearest one, or its neighbour where that is on the wrong side."""
    x = w.x
    near = x.convert("fptrunc", old, new, number)
    if how == _EVEN:
        return near
    back, bits = x.convert("fpext", new, old, near), f"u{bits_of(new)}"
    if how == _ZERO:
        wrong = x.compare(old, "ogt", x.call(old, "fabs", back), x.call(old, "fabs", number))
        step = x.const(bits, -1)
    else:
        wrong = x.compare(old, "olt" if how == _UP else "ogt", back, number)
        is_negative = x.compare(old, "olt", number, x.const(old, 0.0))
        away = is_negative if how == _DOWN else x.no(is_negative)
        step = x.select(bits, away, x.const(bits, 1), x.const(bits, -1))
    raw = x.cast(new, bits, near)
    moved = x.op(bits, "add", raw, step)
    return x.cast(bits, new, x.select(bits, wrong, moved, raw))


def _float_to_integer(w: Wave, old: str, new: str, number: str, how: int) -> str:
    x, e = w.x, w.e
    whole = x.call(old, _WHOLE[how], number)
    opcode = "fptosi.sat" if new[0] == "i" else "fptoui.sat"
    shape, width = x.type(f"u{bits_of(new)}"), e.machine.width
    name = f"llvm.{opcode}.v{width}i{bits_of(new)}.v{width}f{bits_of(old)}"
    value = e.intrinsic(name, shape, f"{x.type(old)} {whole}")
    return x.resize(f"{new[0]}{bits_of(new)}", f"u{_register_bits(new)}", value)


def _integer_to_float(w: Wave, old: str, new: str, value: str, how: int) -> str:
    x = w.x
    exact = x.convert("sitofp" if old[0] == "i" else "uitofp", old, "f64", value)
    if new == "f16":
        # Integers that float32 does not have are more than any half.
        single = x.convert("fptrunc", "f64", "f32", exact)
        return x.cast("f16", "u16", _narrowed(w, "f32", "f16", single, how))
    return x.cast("f32", "u32", _narrowed(w, "f64", "f32", exact, how))
