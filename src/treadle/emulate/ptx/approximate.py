"""Exponentials, logarithms, roots and their kin: computed better than hardware does.

What PTX says of their special values holds. f32 goes by way of float64, f16 by way of f32.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.floating import (
    ONE,
    elementwise,
    narrow,
    rounded,
    to_double,
    to_float,
    widen,
)
from treadle.emulate.simt.lanewise import lanewise

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_DOUBLE_SHAPE = float_lanes("f64")


def _approximate(e: Emitter, item: Instruction, m: Modifiers, function, kinds) -> None:
    kind = m.type(kinds)
    m.flag("approx")

    def compute(single: str, a: str) -> str:
        number, wide = widen(e, a, single)
        double = number if wide == "f64" else to_double(e, number)
        result = function(e, double)
        return narrow(e, result if wide == "f64" else to_float(e, result), single)

    elementwise(e, item, m, kind, compute)


@HANDLERS.of("ex2")
def _exp2(e: Emitter, item: Instruction, m: Modifiers) -> None:
    _approximate(e, item, m, exp2, ("f32", "f16", "f16x2", "bf16", "bf16x2"))


@HANDLERS.of("lg2")
def _log2(e: Emitter, item: Instruction, m: Modifiers) -> None:
    _approximate(e, item, m, log2, ("f32",))


@HANDLERS.of("rsqrt")
def _rsqrt(e: Emitter, item: Instruction, m: Modifiers) -> None:
    def function(e: Emitter, x: str) -> str:
        root = rounded(e, "sqrt", "rn", "f64", (x,))
        one = e.as_float(splat(64, ONE["f64"]), "f64")
        return e.op(f"fdiv {_DOUBLE_SHAPE} {one}, {root}")

    _approximate(e, item, m, function, ("f32", "f64"))


@HANDLERS.of("sin", "cos", "tanh")
def _from_library(e: Emitter, item: Instruction, m: Modifiers) -> None:
    name = item.opcode

    def function(e: Emitter, x: str) -> str:
        e.need(name, f"declare double @{name}(double)")
        scalar = f"  %r = call double @{name}(double %x0)"
        return lanewise(e, f"lanes_{name}", ("double",), "double", scalar, (x,))

    allowed = ("f32", "f16", "f16x2", "bf16", "bf16x2") if name == "tanh" else ("f32",)
    _approximate(e, item, m, function, allowed)


def _double(value: float) -> str:
    return f"splat (double 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X})"


def _polynomial(e: Emitter, x: str, coefficients: list[float]) -> str:
    """Horner's rule, the highest power first."""
    value = _double(coefficients[0])
    for coefficient in coefficients[1:]:
        value = rounded(e, "fma", "rn", "f64", (value, x, _double(coefficient)))
    return value


def exp2(e: Emitter, x: str) -> str:
    """2^x of float64 lanes, right to float32 and beyond."""
    shape = _DOUBLE_SHAPE
    low = e.op(f"fcmp olt {shape} {x}, {_double(-1000.0)}")
    high = e.op(f"fcmp ogt {shape} {x}, {_double(1000.0)}")
    bounded = e.op(f"select {lanes(1)} {low}, {shape} {_double(-1000.0)}, {shape} {x}")
    bounded = e.op(f"select {lanes(1)} {high}, {shape} {_double(1000.0)}, {shape} {bounded}")
    wrong = e.op(f"fcmp uno {shape} {x}, {x}")
    calm = e.op(f"select {lanes(1)} {wrong}, {shape} zeroinitializer, {shape} {bounded}")
    whole = e.intrinsic("llvm.roundeven.v32f64", shape, f"{shape} {calm}")
    rest = e.op(f"fsub {shape} {calm}, {whole}")
    # The series of 2^f to the 11th power: |f| <= 1/2 leaves less than 1e-14.
    terms = [math.log(2) ** n / math.factorial(n) for n in range(11, -1, -1)]
    value = _polynomial(e, rest, terms)
    power = e.op(f"fptosi {shape} {whole} to {lanes(64)}")
    biased = e.op(f"add {lanes(64)} {power}, {splat(64, 1023)}")
    scale = e.as_float(e.op(f"shl {lanes(64)} {biased}, {splat(64, 52)}"), "f64")
    value = e.op(f"fmul {shape} {value}, {scale}")
    return e.op(f"select {lanes(1)} {wrong}, {shape} {x}, {shape} {value}")


def log2(e: Emitter, x: str) -> str:
    """log2 of float64 lanes that came from float32: none is subnormal."""
    shape = _DOUBLE_SHAPE
    bits = e.as_bits(x, "f64")
    # Moved by sqrt(1/2), so that the fraction is between sqrt(1/2) and sqrt(2).
    moved = e.op(f"sub {lanes(64)} {bits}, {splat(64, 0x3FE6A09E00000000)}")
    power = e.op(f"ashr {lanes(64)} {moved}, {splat(64, 52)}")
    scaled = e.op(f"sub {lanes(64)} {bits}, {e.op(f'shl {lanes(64)} {power}, {splat(64, 52)}')}")
    fraction = e.as_float(scaled, "f64")
    up = e.op(f"fadd {shape} {fraction}, {_double(-1.0)}")
    down = e.op(f"fadd {shape} {fraction}, {_double(1.0)}")
    s = e.op(f"fdiv {shape} {up}, {down}")
    square = e.op(f"fmul {shape} {s}, {s}")
    # log2(f) = 2/ln 2 * (s + s^3/3 + ...), s = (f - 1) / (f + 1) below 0.172
    terms = [2 / math.log(2) / n for n in range(19, 0, -2)]
    value = e.op(f"fmul {shape} {s}, {_polynomial(e, square, terms)}")
    value = e.op(f"fadd {shape} {value}, {e.op(f'sitofp {lanes(64)} {power} to {shape}')}")
    zero = e.op(f"fcmp oeq {shape} {x}, zeroinitializer")
    infinite = e.op(f"fcmp oeq {shape} {x}, {_double(math.inf)}")
    valid = e.op(f"fcmp oge {shape} {x}, zeroinitializer")
    value = e.op(f"select {lanes(1)} {valid}, {shape} {value}, {shape} {_double(math.nan)}")
    value = e.op(f"select {lanes(1)} {infinite}, {shape} {x}, {shape} {value}")
    return e.op(f"select {lanes(1)} {zero}, {shape} {_double(-math.inf)}, {shape} {value}")
