"""Floating-point arithmetic, in every rounding that PTX has.

Halves are computed in float32 (float64 for fma), bfloat16 likewise: with more than twice the bits
and two to spare, rounding twice gives what rounding once would. Directed rounding switches the
processor's mode in a function of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx import integer
from treadle.emulate.ptx.emit import Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.syntax import WIDTHS

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = [
    "EXPONENT", "HANDLERS", "NAN", "ONE", "ROUNDINGS", "SIGN", "clamp", "directed", "elementwise",
    "flush", "half_of_pair", "is_float", "join_pair", "narrow", "relu", "rounded", "to_double",
    "to_float", "to_odd", "widen",
]  # fmt: skip

HANDLERS = Handlers()
ROUNDINGS = {"rn": 1, "rz": 0, "rm": 3, "rp": 2}  # LLVM's numbers of them
_SINGLE = ("f16", "bf16", "f32", "f64")
_HALVES = ("f16", "bf16")
_PAIRS = ("f16x2", "bf16x2", "f32x2")
_FLOAT_SHAPE, _DOUBLE_SHAPE = float_lanes("f32"), float_lanes("f64")
# Sign, exponent, and the not-a-number that results have.
SIGN = {"f16": 1 << 15, "bf16": 1 << 15, "f32": 1 << 31, "f64": 1 << 63}
EXPONENT = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0x7FF8 << 48}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF << 52}


# -- forms


def half_of_pair(e: Emitter, value: str, i: int) -> str:
    """One 16-bit half of 32 bits."""
    if i:
        value = e.op(f"lshr {lanes(32)} {value}, {splat(32, 16)}")
    return e.op(f"trunc {lanes(32)} {value} to {lanes(16)}")


def join_pair(e: Emitter, low: str, high: str) -> str:
    """Two 16-bit halves as 32 bits."""
    wide = [e.op(f"zext {lanes(16)} {value} to {lanes(32)}") for value in (low, high)]
    return e.op(f"or {lanes(32)} {e.op(f'shl {lanes(32)} {wide[1]}, {splat(32, 16)}')}, {wide[0]}")


def flush(e: Emitter, value: str, kind: str) -> str:
    """Bits of floats with subnormal numbers made zeroes of their sign."""
    shape, bits = lanes(WIDTHS[kind]), WIDTHS[kind]
    exponent = e.op(f"and {shape} {value}, {splat(bits, EXPONENT[kind])}")
    small = e.op(f"icmp eq {shape} {exponent}, zeroinitializer")
    zero = e.op(f"and {shape} {value}, {splat(bits, SIGN[kind])}")
    return e.op(f"select {lanes(1)} {small}, {shape} {zero}, {shape} {value}")


def widen(e: Emitter, value: str, kind: str) -> tuple[str, str]:
    """Bits of floats as floats to compute with, and their kind: f32 or f64."""
    if kind == "bf16":
        wide = e.op(f"zext {lanes(16)} {value} to {lanes(32)}")
        return e.as_float(e.op(f"shl {lanes(32)} {wide}, {splat(32, 16)}"), "f32"), "f32"
    number = e.as_float(value, kind)
    if kind == "f16":
        return e.op(f"fpext {float_lanes('f16')} {number} to {_FLOAT_SHAPE}"), "f32"
    return number, kind


def narrow(e: Emitter, value: str, kind: str) -> str:
    """float32 (float64 for f64) as bits of `kind`, to nearest."""
    if kind in ("f32", "f64"):
        return e.as_bits(value, kind)
    if kind == "f16":
        return e.as_bits(e.op(f"fptrunc {_FLOAT_SHAPE} {value} to {float_lanes('f16')}"), "f16")
    bits = e.as_bits(value, "f32")
    odd = e.op(
        f"and {lanes(32)} {e.op(f'lshr {lanes(32)} {bits}, {splat(32, 16)}')}, {splat(32, 1)}"
    )
    more = e.op(f"add {lanes(32)} {odd}, {splat(32, 0x7FFF)}")
    near = e.op(f"lshr {lanes(32)} {e.op(f'add {lanes(32)} {bits}, {more}')}, {splat(32, 16)}")
    wrong = e.op(f"fcmp uno {_FLOAT_SHAPE} {value}, {value}")
    near = e.op(
        f"select {lanes(1)} {wrong}, {lanes(32)} {splat(32, NAN['bf16'])}, {lanes(32)} {near}"
    )
    return e.op(f"trunc {lanes(32)} {near} to {lanes(16)}")


def to_double(e: Emitter, value: str) -> str:
    return e.op(f"fpext {_FLOAT_SHAPE} {value} to {_DOUBLE_SHAPE}")


def to_float(e: Emitter, value: str) -> str:
    return e.op(f"fptrunc {_DOUBLE_SHAPE} {value} to {_FLOAT_SHAPE}")


def to_odd(e: Emitter, value: str) -> str:
    """float64 to float32 rounded to odd: rounding that again to fewer bits is rounding once."""
    near = to_float(e, value)
    back = to_double(e, near)
    bits = e.as_bits(near, "f32")
    exact = e.op(f"fcmp ueq {_DOUBLE_SHAPE} {back}, {value}")
    # The neighbour towards zero where rounding went away from zero, then the last bit set.
    size, whole = (
        e.intrinsic("llvm.fabs.v32f64", _DOUBLE_SHAPE, f"{_DOUBLE_SHAPE} {x}")
        for x in (value, back)
    )
    away = e.op(f"fcmp ogt {_DOUBLE_SHAPE} {whole}, {size}")
    down = e.op(f"sub {lanes(32)} {bits}, {e.op(f'zext {lanes(1)} {away} to {lanes(32)}')}")
    odd = e.op(f"or {lanes(32)} {down}, {splat(32, 1)}")
    return e.as_float(
        e.op(f"select {lanes(1)} {exact}, {lanes(32)} {bits}, {lanes(32)} {odd}"), "f32"
    )


def rounded(e: Emitter, name: str, rounding: str, kind: str, values: tuple[str, ...]) -> str:
    """fadd, fsub, fmul, fdiv, fma or sqrt of f32 or f64 in one of the four roundings."""
    shape = float_lanes(kind)
    if rounding == "rn":
        if name in ("fma", "sqrt"):
            tag = f"llvm.{name}.v32{kind}"
            return e.intrinsic(tag, shape, *(f"{shape} {value}" for value in values))
        return e.op(f"{name} {shape} {values[0]}, {values[1]}")
    function = directed(e, name, rounding, shape, shape, len(values), f"v32{kind}")
    return e.op(f"call {shape} {function}({', '.join(f'{shape} {value}' for value in values)})")


def directed(
    e: Emitter, name: str, rounding: str, source: str, result: str, count: int, suffix: str
) -> str:
    """A function that does `llvm.experimental.constrained.NAME` in another rounding mode."""
    parameters = ", ".join(f"{source} %a{i}" for i in range(count))
    intrinsic = f"llvm.experimental.constrained.{name}.{suffix}"
    sources = ", ".join([source] * count)
    e.need(intrinsic, f"declare {result} @{intrinsic}({sources}, metadata, metadata)")
    e.need("llvm.set.rounding", "declare void @llvm.set.rounding(i32)")
    arguments = parameters + ', metadata !"round.dynamic", metadata !"fpexcept.ignore"'
    label = f"{name}_{rounding}_{suffix.replace('.', '_')}"
    return e.need(
        label,
        f"""define internal {result} @{label}({parameters}) strictfp noinline {{
  call void @llvm.set.rounding(i32 {ROUNDINGS[rounding]}) strictfp
  %r = call {result} @{intrinsic}({arguments}) strictfp
  call void @llvm.set.rounding(i32 1) strictfp
  ret {result} %r
}}
""",
    )


def clamp(e: Emitter, value: str, kind: str) -> str:
    """Bits of floats between 0 and 1; NaN becomes 0."""
    shape, bits = lanes(WIDTHS[kind]), WIDTHS[kind]
    number, wide = widen(e, value, kind)
    floats = float_lanes(wide)
    positive = e.op(f"fcmp ogt {floats} {number}, zeroinitializer")
    one = e.op(f"bitcast {lanes(WIDTHS[wide])} {splat(WIDTHS[wide], ONE[wide])} to {floats}")
    small = e.op(f"fcmp olt {floats} {number}, {one}")
    high = e.op(f"select {lanes(1)} {small}, {shape} {value}, {shape} {splat(bits, ONE[kind])}")
    return e.op(f"select {lanes(1)} {positive}, {shape} {high}, {shape} zeroinitializer")


def relu(e: Emitter, value: str, kind: str) -> str:
    """Bits of floats with negative ones made 0; NaN becomes the canonical one."""
    shape, bits = lanes(WIDTHS[kind]), WIDTHS[kind]
    number, wide = widen(e, value, kind)
    wrong = e.op(f"fcmp uno {float_lanes(wide)} {number}, {number}")
    positive = e.op(f"fcmp ogt {float_lanes(wide)} {number}, zeroinitializer")
    kept = e.op(f"select {lanes(1)} {positive}, {shape} {value}, {shape} zeroinitializer")
    return e.op(f"select {lanes(1)} {wrong}, {shape} {splat(bits, NAN[kind])}, {shape} {kept}")


# -- instructions on one value or on both halves of a register


def elementwise(e: Emitter, item: Instruction, m: Modifiers, kind: str, compute) -> None:
    """Writes compute(kind, *bits) for a type or for each half of a pair."""
    ftz, sat, positive = m.flag("ftz"), m.flag("sat"), m.flag("relu")
    bits = WIDTHS[kind]
    values = [e.read(operand, bits) for operand in item.operands[1:]]

    def one(single: str, parts: list[str]) -> str:
        parts = [flush(e, part, single) for part in parts] if ftz else parts
        result = compute(single, *parts)
        result = flush(e, result, single) if ftz else result
        result = clamp(e, result, single) if sat else result
        return relu(e, result, single) if positive else result

    if kind not in _PAIRS:
        e.write(item.operands[0], one(kind, values), bits)
    elif kind == "f32x2":
        halves = []
        for i in range(2):
            moved = [e.op(f"lshr {lanes(64)} {v}, {splat(64, 32 * i)}") for v in values]
            parts = [e.op(f"trunc {lanes(64)} {v} to {lanes(32)}") for v in moved]
            halves.append(e.op(f"zext {lanes(32)} {one('f32', parts)} to {lanes(64)}"))
        high = e.op(f"shl {lanes(64)} {halves[1]}, {splat(64, 32)}")
        e.write(item.operands[0], e.op(f"or {lanes(64)} {high}, {halves[0]}"), 64)
    else:
        halves = [one(kind[:-2], [half_of_pair(e, v, i) for v in values]) for i in range(2)]
        e.write(item.operands[0], join_pair(e, *halves), 32)


def is_float(item: Instruction) -> bool:
    return item.modifiers[-1] in (*_SINGLE, *_PAIRS)


@HANDLERS.of("add", "sub", "mul")
def _arithmetic(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not is_float(item):
        other = integer.integer_product if item.opcode == "mul" else integer.integer_arithmetic
        other(e, item, m)
        return
    kind = m.type()
    rounding = m.one_of(ROUNDINGS, "rn")
    name = "f" + item.opcode
    if item.opcode != "mul" and kind in _HALVES and m.flag("f32"):
        _mixed(e, item, m, kind, name, rounding)
        return

    def compute(single: str, a: str, b: str) -> str:
        (x, wide), (y, _) = widen(e, a, single), widen(e, b, single)
        return narrow(e, rounded(e, name, rounding, wide, (x, y)), single)

    elementwise(e, item, m, kind, compute)


@HANDLERS.of("fma", "mad")
def _multiply_add(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not is_float(item):
        integer.integer_product(e, item, m)
        return
    kind = m.type()
    rounding = m.one_of(ROUNDINGS, "rn")
    if kind in _HALVES and m.flag("f32"):
        _mixed(e, item, m, kind, "fma", rounding)
        return

    def compute(single: str, *bits: str) -> str:
        wide = [widen(e, value, single) for value in bits]
        numbers = tuple(number for number, _ in wide)
        if WIDTHS[single] > 16:
            return narrow(e, rounded(e, "fma", rounding, wide[0][1], numbers), single)
        return narrow(e, _small_fma(e, numbers), single)

    elementwise(e, item, m, kind, compute)


def _mixed(
    e: Emitter, item: Instruction, m: Modifiers, kind: str, name: str, rounding: str
) -> None:
    """Arithmetic of float32 whose operands are halves, but for the last."""
    *halves, last = item.operands[1:]
    numbers = [widen(e, e.read(one, 16), kind)[0] for one in halves]
    numbers.append(e.as_float(e.read(last, 32), "f32"))
    result = e.as_bits(rounded(e, name, rounding, "f32", tuple(numbers)), "f32")
    e.write(item.operands[0], clamp(e, result, "f32") if m.flag("sat") else result, 32)


def _small_fma(e: Emitter, numbers: tuple[str, ...]) -> str:
    """a * b + c of halves, as a float32 that rounds to the right half."""
    a, b, c = (to_double(e, number) for number in numbers)
    product = e.op(f"fmul {_DOUBLE_SHAPE} {a}, {b}")  # exact
    total = e.op(f"fadd {_DOUBLE_SHAPE} {product}, {c}")
    # What the sum lost (Knuth), so that even a tie of the sum itself is seen.
    part = e.op(f"fsub {_DOUBLE_SHAPE} {total}, {product}")
    rest = e.op(f"fsub {_DOUBLE_SHAPE} {total}, {part}")
    lost = e.op(f"fadd {_DOUBLE_SHAPE} {e.op(f'fsub {_DOUBLE_SHAPE} {product}, {rest}')}, "
                f"{e.op(f'fsub {_DOUBLE_SHAPE} {c}, {part}')}")  # fmt: skip
    bits = e.as_bits(total, "f64")
    toward = e.op(f"fmul {_DOUBLE_SHAPE} {lost}, {total}")
    down = e.op(f"fcmp olt {_DOUBLE_SHAPE} {toward}, zeroinitializer")
    some = e.op(f"fcmp one {_DOUBLE_SHAPE} {lost}, zeroinitializer")
    less = e.op(f"sub {lanes(64)} {bits}, {e.op(f'zext {lanes(1)} {down} to {lanes(64)}')}")
    odd = e.op(f"or {lanes(64)} {less}, {splat(64, 1)}")
    exact = e.op(f"select {lanes(1)} {some}, {lanes(64)} {odd}, {lanes(64)} {bits}")
    return to_odd(e, e.as_float(exact, "f64"))


@HANDLERS.of("div")
def _divide(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not is_float(item):
        integer.integer_division(e, item, m)
        return
    kind = m.type(("f32", "f64"))
    rounding = m.one_of((*ROUNDINGS, "approx", "full"))
    how = rounding if rounding in ROUNDINGS else "rn"

    def compute(single: str, a: str, b: str) -> str:
        x, y = e.as_float(a, single), e.as_float(b, single)
        return e.as_bits(rounded(e, "fdiv", how, single, (x, y)), single)

    elementwise(e, item, m, kind, compute)


@HANDLERS.of("rcp", "sqrt")
def _root_or_reciprocal(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("f32", "f64"))
    rounding = m.one_of((*ROUNDINGS, "approx"))
    if not rounding:
        raise m.fail("needs a rounding or .approx")
    how = rounding if rounding in ROUNDINGS else "rn"

    def compute(single: str, a: str) -> str:
        x = e.as_float(a, single)
        if item.opcode == "sqrt":
            return e.as_bits(rounded(e, "sqrt", how, single, (x,)), single)
        one = e.as_float(splat(WIDTHS[single], ONE[single]), single)
        return e.as_bits(rounded(e, "fdiv", how, single, (one, x)), single)

    elementwise(e, item, m, kind, compute)
