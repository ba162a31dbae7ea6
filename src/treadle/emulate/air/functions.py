"""Built-in functions of values: numbers, integers' bits, conversions.

Functions that no machine rounds exactly (sin, exp) are computed in float64 by the C library and
rounded to their type: nearer than any Metal device is.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from treadle.emulate.air.arithmetic import convert_floats, from_float, is_float, to_float
from treadle.emulate.air.emit import Emitter, float_kind
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.machine import LANES, splat
from treadle.emulate.air.names import called
from treadle.emulate.air.syntax import AIRError, Constant, bits_of, parts
from treadle.emulate.simt.lanewise import lanewise

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.air.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_LETTERS = {"half": "f16", "float": "f32", "double": "f64"}


def _scalar_bits(item: Instruction) -> int:
    return bits_of(parts(item.type)[0][1])


def _in(e: Emitter, item: Instruction, wide: str, function: Callable[..., str]) -> None:
    """Applies a function of floats of a kind at least as wide as the result's."""
    kind = float_kind(item.type)
    wide = "double" if kind == "double" else wide

    def compute(*values: str) -> str:
        numbers = [e.widen(value, kind, wide) for value in values]
        return e.narrow(function(wide, *numbers), wide, kind)

    e.elementwise(item, compute)


def _intrinsic(e: Emitter, name: str, wide: str, *values: str) -> str:
    shape = e.lanes(wide)
    full = f"llvm.{name}.v{LANES}{_LETTERS[wide]}"
    return e.intrinsic(full, shape, *(f"{shape} {value}" for value in values))


def library(e: Emitter, name: str, *values: str) -> str:
    """A function of the C library, of float64 lanes."""
    arguments = ", ".join(f"double %x{i}" for i in range(len(values)))
    e.need(name, f"declare double @{name}({', '.join(['double'] * len(values))})")
    kinds = ("double",) * len(values)
    scalar = f"  %r = call double @{name}({arguments})"
    return lanewise(e, f"lanes_{name}", kinds, "double", scalar, values)


# -- by the C library

_LIBRARY = {
    name: name
    for name in (
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
        "atanh", "exp", "exp2", "exp10", "log", "log2", "log10", "pow", "atan2", "fmod", "erf",
        "hypot",
    )
} | {"powr": "pow"}  # fmt: skip


@HANDLERS.of(*_LIBRARY, *(f"llvm.{name}" for name in _LIBRARY))
def _library(e: Emitter, item: Instruction) -> None:
    name = _LIBRARY[called(item.words[0]).name.removeprefix("llvm.")]
    _in(e, item, "double", lambda _, *values: library(e, name, *values))


@HANDLERS.of("sinpi", "cospi", "tanpi")
def _of_pi(e: Emitter, item: Instruction) -> None:
    name = called(item.words[0]).name.removesuffix("pi")
    double = e.lanes("double")

    def compute(_: str, x: str) -> str:
        two = e.op(f"frem {double} {x}, {_double(2.0)}")
        return library(e, name, e.op(f"fmul {double} {two}, {_double(math.pi)}"))

    _in(e, item, "double", compute)


def _double(value: float) -> str:
    return f"splat (double 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X})"


@HANDLERS.of("rsqrt")
def _reciprocal_root(e: Emitter, item: Instruction) -> None:
    double = e.lanes("double")

    def compute(_: str, x: str) -> str:
        return e.op(f"fdiv {double} {_double(1.0)}, {_intrinsic(e, 'sqrt', 'double', x)}")

    _in(e, item, "double", compute)


@HANDLERS.of("ldexp", "llvm.ldexp")
def _scale(e: Emitter, item: Instruction) -> None:
    kind = float_kind(item.type)
    e.need("scalbn", "declare double @scalbn(double, i32)")

    def compute(value: str, power: str) -> str:
        wide = e.widen(value, kind, "double")
        scalar = "  %r = call double @scalbn(double %x0, i32 %x1)"
        kinds = ("double", "i32")
        return e.narrow(
            lanewise(e, "lanes_scalbn", kinds, "double", scalar, (wide, power)), "double", kind
        )

    e.elementwise(item, compute)


# -- exactly rounded

_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven",
              "round": "round", "fabs": "fabs", "sqrt": "sqrt"}  # fmt: skip


@HANDLERS.of(*_ROUNDINGS, *(f"llvm.{name}" for name in _ROUNDINGS), "llvm.roundeven")
def _rounding(e: Emitter, item: Instruction) -> None:
    name = called(item.words[0]).name.removeprefix("llvm.")
    _in(e, item, "float", lambda wide, x: _intrinsic(e, _ROUNDINGS.get(name, name), wide, x))


@HANDLERS.of("fract")
def _fraction(e: Emitter, item: Instruction) -> None:
    """x - floor(x), below 1."""
    top = {"half": 0x3BFF, "bfloat": 0x3F7F, "float": 0x3F7FFFFF}[float_kind(item.type)]
    kind = float_kind(item.type)
    below = e.widen(splat(16 if kind != "float" else 32, top), kind, "float")

    def compute(wide: str, x: str) -> str:
        shape = e.lanes(wide)
        rest = e.op(f"fsub {shape} {x}, {_intrinsic(e, 'floor', wide, x)}")
        large = e.op(f"fcmp ogt {shape} {rest}, {below}")
        return e.op(f"select {e.lanes('i1')} {large}, {shape} {below}, {shape} {rest}")

    _in(e, item, "float", compute)


@HANDLERS.of("sign")
def _sign(e: Emitter, item: Instruction) -> None:
    def compute(wide: str, x: str) -> str:
        shape, flags = e.lanes(wide), e.lanes("i1")
        up = e.op(f"fcmp ogt {shape} {x}, zeroinitializer")
        down = e.op(f"fcmp olt {shape} {x}, zeroinitializer")
        zero = e.op(f"fcmp oeq {shape} {x}, zeroinitializer")
        plus, minus = (f"splat ({wide} {value})" for value in ("1.0", "-1.0"))
        value = e.op(f"select {flags} {up}, {shape} {plus}, {shape} zeroinitializer")
        value = e.op(f"select {flags} {down}, {shape} {minus}, {shape} {value}")
        return e.op(f"select {flags} {zero}, {shape} {x}, {shape} {value}")

    _in(e, item, "float", compute)


@HANDLERS.of("fma", "llvm.fma", "llvm.fmuladd", "mad")
def _fused(e: Emitter, item: Instruction) -> None:
    """One rounding: of halves in float64, where it is right but for ties of far apart numbers."""
    wide = "float" if float_kind(item.type) == "float" else "double"
    _in(e, item, wide, lambda wide, *values: _intrinsic(e, "fma", wide, *values))


def _extreme(e: Emitter, how: str, wide: str, a: str, b: str) -> str:
    """The less ("olt") or greater; of a number and a NaN the number."""
    shape, flags = e.lanes(wide), e.lanes("i1")
    first = e.op(f"fcmp {how} {shape} {a}, {b}")
    wrong = e.op(f"fcmp uno {shape} {b}, {b}")
    either = e.op(f"or {flags} {first}, {wrong}")
    return e.op(f"select {flags} {either}, {shape} {a}, {shape} {b}")


@HANDLERS.of("fmin", "fmax", "llvm.minnum", "llvm.maxnum")
def _float_extreme(e: Emitter, item: Instruction) -> None:
    how = "olt" if "min" in called(item.words[0]).name else "ogt"
    _in(e, item, "float", lambda wide, a, b: _extreme(e, how, wide, a, b))


@HANDLERS.of("llvm.is.fpclass")
def _class(e: Emitter, item: Instruction) -> None:
    """Whether a float is of one of the classes that bits of a constant name: NaN, infinite, ..."""
    number, classes = item.operands
    kind, held = float_kind(number.type), e.read(number)
    if not isinstance(classes, Constant):
        raise AIRError("the classes of llvm.is.fpclass are no constant")
    shape, letters = e.lanes(kind), {"bfloat": "bf16", **_LETTERS}[kind]
    full = f"llvm.is.fpclass.v{LANES}{letters}"
    mask = f"i32 {classes.parts[0]}"
    e.write(item, [
        e.intrinsic(
            full, e.lanes("i1"), f"{shape} {e.as_float(value, kind)}", mask, types=f"{shape}, i32"
        )
        for value in held
    ])  # fmt: skip


@HANDLERS.of("copysign", "llvm.copysign")
def _copy_sign(e: Emitter, item: Instruction) -> None:
    bits = _scalar_bits(item)
    shape = e.lanes(f"i{bits}")

    def compute(a: str, b: str) -> str:
        size = e.op(f"and {shape} {a}, {splat(bits, (1 << (bits - 1)) - 1)}")
        sign = e.op(f"and {shape} {b}, {splat(bits, 1 << (bits - 1))}")
        return e.op(f"or {shape} {size}, {sign}")

    e.elementwise(item, compute)


@HANDLERS.of("dot")
def _dot(e: Emitter, item: Instruction) -> None:
    kind = float_kind(item.type)
    a, b = (e.read(value) for value in item.operands)
    total = ""
    for x, y in zip(a, b, strict=True):
        u, v = e.widen(x, kind, "double"), e.widen(y, kind, "double")
        product = e.op(f"fmul {e.lanes('double')} {u}, {v}")
        total = e.op(f"fadd {e.lanes('double')} {total}, {product}") if total else product
    e.write(item, [e.narrow(total, "double", kind)])


@HANDLERS.of("isnan", "isinf", "isfinite")
def _classify(e: Emitter, item: Instruction) -> None:
    kind = float_kind(item.operands[0].type)
    name = called(item.words[0]).name
    shape = e.lanes("float")

    def compute(value: str) -> str:
        number = e.widen(value, kind, "float")
        if name == "isnan":
            return e.op(f"fcmp uno {shape} {number}, {number}")
        size = _intrinsic(e, "fabs", "float", number)
        infinity = "splat (float 0x7FF0000000000000)"
        return e.op(f"fcmp {'oeq' if name == 'isinf' else 'olt'} {shape} {size}, {infinity}")

    e.elementwise(item, compute)


# -- integers


@HANDLERS.of(
    "min", "max", "abs", "clamp", "llvm.smin", "llvm.smax", "llvm.umin", "llvm.umax", "llvm.abs"
)
def _integers(e: Emitter, item: Instruction) -> None:
    name = called(item.words[0])
    if is_float(item.type):
        raise AIRError(f"{item.words[0]} of floats is not emulated")
    bits = _scalar_bits(item)
    shape = e.lanes(f"i{bits}")
    words = name.name.removeprefix("llvm.")
    sign = name.sign or words[0]
    how = words if name.name.startswith("llvm.") and words != "abs" else f"{sign}{words}"

    def call(function: str, *values: str) -> str:
        full = f"llvm.{function}.v{LANES}i{bits}"
        return e.intrinsic(full, shape, *(f"{shape} {value}" for value in values))

    if words == "abs":
        values = e.read(item.operands[0])
        negative = [e.op(f"sub {shape} zeroinitializer, {value}") for value in values]
        if sign == "u":
            e.write(item, values)
        else:
            rows = zip(values, negative, strict=True)
            e.write(item, [call("smax", *row) for row in rows])
    elif words == "clamp":
        e.elementwise(item, lambda x, a, b: call(f"{sign}min", call(f"{sign}max", x, a), b))
    else:
        e.elementwise(item, lambda a, b: call(how, a, b))


_BITS = {"popcount": "ctpop", "clz": "ctlz", "ctz": "cttz", "reverse_bits": "bitreverse"}


@HANDLERS.of(*_BITS, "llvm.ctpop", "llvm.ctlz", "llvm.cttz", "llvm.bitreverse", "llvm.bswap")
def _count_bits(e: Emitter, item: Instruction) -> None:
    name = called(item.words[0]).name.removeprefix("llvm.")
    name = _BITS.get(name, name)
    bits = _scalar_bits(item)
    shape = e.lanes(f"i{bits}")
    more = ("i1 false",) if name in ("ctlz", "cttz") else ()
    types = ", ".join((shape, *("i1" for _ in more)))
    full = f"llvm.{name}.v{LANES}i{bits}"
    e.write(item, [
        e.intrinsic(full, shape, f"{shape} {value}", *more, types=types)
        for value in e.read(item.operands[0])
    ])  # fmt: skip


@HANDLERS.of("rotate", "llvm.fshl", "llvm.fshr")
def _funnel(e: Emitter, item: Instruction) -> None:
    name = called(item.words[0]).name
    bits = _scalar_bits(item)
    shape = e.lanes(f"i{bits}")
    full = f"llvm.{'fshl' if name == 'rotate' else name.removeprefix('llvm.')}.v{LANES}i{bits}"

    def compute(a: str, b: str, c: str = "") -> str:
        values = (a, b, c) if c else (a, a, b)
        return e.intrinsic(full, shape, *(f"{shape} {value}" for value in values))

    e.elementwise(item, compute)


@HANDLERS.of("mul_hi", "mulhi")
def _high_product(e: Emitter, item: Instruction) -> None:
    bits, sign = _scalar_bits(item), called(item.words[0]).sign
    shape, wide = e.lanes(f"i{bits}"), e.lanes(f"i{2 * bits}")
    extend = "sext" if sign == "s" else "zext"

    def compute(a: str, b: str) -> str:
        x, y = (e.op(f"{extend} {shape} {value} to {wide}") for value in (a, b))
        product = e.op(f"mul {wide} {x}, {y}")
        high = e.op(f"lshr {wide} {product}, {splat(2 * bits, bits)}")
        return e.op(f"trunc {wide} {high} to {shape}")

    e.elementwise(item, compute)


@HANDLERS.of(
    "add_sat", "sub_sat", "llvm.uadd.sat", "llvm.usub.sat", "llvm.sadd.sat", "llvm.ssub.sat"
)
def _saturating(e: Emitter, item: Instruction) -> None:
    name = called(item.words[0])
    words = name.name.removeprefix("llvm.")
    how = words if words.endswith(".sat") else f"{name.sign}{words[:3]}.sat"
    bits = _scalar_bits(item)
    shape = e.lanes(f"i{bits}")
    full = f"llvm.{how}.v{LANES}i{bits}"
    e.elementwise(item, lambda a, b: e.intrinsic(full, shape, f"{shape} {a}", f"{shape} {b}"))


@HANDLERS.of("llvm.vector.reduce.add", "llvm.vector.reduce.mul", "llvm.vector.reduce.and",
             "llvm.vector.reduce.or", "llvm.vector.reduce.xor")  # fmt: skip
def _reduce_vector(e: Emitter, item: Instruction) -> None:
    opcode = called(item.words[0]).name.rsplit(".", 1)[1]
    shape = e.lanes(f"i{_scalar_bits(item)}")
    first, *rest = e.read(item.operands[0])
    for value in rest:
        first = e.op(f"{opcode} {shape} {first}, {value}")
    e.write(item, [first])


# -- conversions


@HANDLERS.of("convert")
def _convert(e: Emitter, item: Instruction) -> None:
    """air.convert.f.f32.s.i16: a target, then a source; each has a sign or f."""
    name = called(item.words[0])
    target, source = name.sign, name.types[1]
    kind, bits = item.operands[0].type, _scalar_bits(item)
    if target == "f" and source == "f":
        e.elementwise(item, lambda a: convert_floats(e, a, float_kind(kind), float_kind(item.type)))
    elif target == "f":
        given = bits_of(parts(kind)[0][1])
        e.elementwise(item, lambda a: to_float(e, a, given, source, float_kind(item.type)))
    elif source == "f" and bits == 1:
        number = lambda a: e.widen(a, float_kind(kind), "float")
        e.elementwise(
            item, lambda a: e.op(f"fcmp une {e.lanes('float')} {number(a)}, zeroinitializer")
        )
    elif source == "f":
        e.elementwise(item, lambda a: from_float(e, a, float_kind(kind), target, bits))
    else:
        raise AIRError(f"{item.words[0]} is not emulated")


@HANDLERS.of("normalize_function_constant_predicate")
def _predicate(e: Emitter, item: Instruction) -> None:
    some = e.op(f"icmp ne {e.lanes('i8')} {e.one(item.operands[0])}, zeroinitializer")
    e.write(item, [e.op(f"zext {e.lanes('i1')} {some} to {e.lanes('i8')}")])


@HANDLERS.of("is_uniform")
def _is_uniform(e: Emitter, item: Instruction) -> None:
    """A hint to the compiler, which may always be false."""
    e.write(item, ["zeroinitializer"])
