"""Integer arithmetic, logic and shifts.

What PTX defines at the edges is in each function: shifts clamp their amount, division by zero
gives all ones (what hardware does; PTX leaves it open).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import Handlers, lanes, splat
from treadle.emulate.ptx.syntax import WIDTHS, Immediate, Pair
from treadle.emulate.simt.lanewise import lanewise

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = [
    "HANDLERS", "integer_arithmetic", "integer_division", "integer_extremes", "integer_product",
    "integer_unary", "least",
]  # fmt: skip

HANDLERS = Handlers()
_INTEGERS = ("u16", "u32", "u64", "s16", "s32", "s64")
_PAIRS = ("u16x2", "s16x2")
_BITS = ("b16", "b32", "b64")


def _binary(e: Emitter, item: Instruction, bits: int) -> tuple[str, str]:
    return e.read(item.operands[1], bits), e.read(item.operands[2], bits)


def _as_pairs(e: Emitter, value: str) -> str:
    return e.op(f"bitcast {lanes(32)} {value} to <64 x i16>")


def _from_pairs(e: Emitter, value: str) -> str:
    return e.op(f"bitcast <64 x i16> {value} to {lanes(32)}")


def integer_arithmetic(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """add and sub of integers, with .sat, carries and pairs."""
    kind = m.type((*_INTEGERS, *_PAIRS))
    if kind in _PAIRS:
        a, b = _binary(e, item, 32)
        result = e.op(f"{item.opcode} <64 x i16> {_as_pairs(e, a)}, {_as_pairs(e, b)}")
        e.write(item.operands[0], _from_pairs(e, result), 32)
        return
    bits = WIDTHS[kind]
    a, b = _binary(e, item, bits)
    if m.flag("sat"):
        if kind != "s32":
            raise m.fail("saturates s32 only")
        value = e.intrinsic(
            f"llvm.s{item.opcode}.sat.v32i32", lanes(32), f"{lanes(32)} {a}", f"{lanes(32)} {b}"
        )
    else:
        value = e.op(f"{item.opcode} {lanes(bits)} {a}, {b}")
    if m.flag("cc"):
        # As machine code has it: a difference carries where it borrows nothing, and addc sees that.
        pair = f"{value}, {a}" if item.opcode == "add" else f"{b}, {a}"
        e.carry = e.op(f"icmp {'ult' if item.opcode == 'add' else 'ule'} {lanes(bits)} {pair}")
    e.write(item.operands[0], value, bits)


@HANDLERS.of("addc", "subc")
def _with_carry(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = WIDTHS[m.type(_INTEGERS)]
    if e.carry is None:
        raise m.fail("has no add.cc or sub.cc before it in its block")
    a, b = _binary(e, item, bits)
    if item.opcode == "subc":  # a - b - 1 + carry
        b = e.op(f"xor {lanes(bits)} {b}, {splat(bits, -1)}")
    extra = e.op(f"zext {lanes(1)} {e.carry} to {lanes(bits)}")
    part = e.op(f"add {lanes(bits)} {a}, {b}")
    value = e.op(f"add {lanes(bits)} {part}, {extra}")
    if m.flag("cc"):
        first = e.op(f"icmp ult {lanes(bits)} {part}, {a}")
        second = e.op(f"icmp ult {lanes(bits)} {value}, {part}")
        e.carry = e.op(f"or {lanes(1)} {first}, {second}")
    e.write(item.operands[0], value, bits)


def integer_product(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """mul and mad: .lo, .hi and .wide."""
    kind = m.type(_INTEGERS)
    part = m.one_of(("lo", "hi", "wide"))
    bits, signed = WIDTHS[kind], kind[0] == "s"
    a, b = e.read(item.operands[1], bits), e.read(item.operands[2], bits)
    width = bits
    if part == "wide":
        if bits == 64:
            raise m.fail()
        value, width = _widened(e, a, b, bits, signed), bits * 2
    elif part == "hi":
        value = _high_product(e, a, b, bits, signed)
    elif part == "lo":
        value = e.op(f"mul {lanes(bits)} {a}, {b}")
    else:
        raise m.fail("needs .lo, .hi or .wide")
    if item.opcode == "mad":
        c = e.read(item.operands[3], width)
        if m.flag("sat"):
            if part != "hi" or kind != "s32":
                raise m.fail("saturates mad.hi.s32 only")
            value = e.intrinsic(
                "llvm.sadd.sat.v32i32", lanes(32), f"{lanes(32)} {value}", f"{lanes(32)} {c}"
            )
        else:
            value = _accumulate(e, m, value, c, width)
    e.write(item.operands[0], value, width, signed)


def _accumulate(e: Emitter, m: Modifiers, value: str, c: str, bits: int) -> str:
    total = e.op(f"add {lanes(bits)} {value}, {c}")
    if m.flag("cc"):
        e.carry = e.op(f"icmp ult {lanes(bits)} {total}, {value}")
    return total


@HANDLERS.of("madc")
def _mad_with_carry(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(_INTEGERS)
    bits, part = WIDTHS[kind], m.one_of(("lo", "hi"))
    if e.carry is None or not part:
        raise m.fail("has no mad.cc before it in its block")
    a, b = e.read(item.operands[1], bits), e.read(item.operands[2], bits)
    c = e.read(item.operands[3], bits)
    value = (
        e.op(f"mul {lanes(bits)} {a}, {b}") if part == "lo"
        else _high_product(e, a, b, bits, kind[0] == "s")
    )  # fmt: skip
    extra = e.op(f"zext {lanes(1)} {e.carry} to {lanes(bits)}")
    first = e.op(f"add {lanes(bits)} {value}, {c}")
    total = e.op(f"add {lanes(bits)} {first}, {extra}")
    if m.flag("cc"):
        one = e.op(f"icmp ult {lanes(bits)} {first}, {value}")
        two = e.op(f"icmp ult {lanes(bits)} {total}, {first}")
        e.carry = e.op(f"or {lanes(1)} {one}, {two}")
    e.write(item.operands[0], total, bits)


def _extend(e: Emitter, value: str, bits: int, wide: int, signed: bool) -> str:
    return e.op(f"{'sext' if signed else 'zext'} {lanes(bits)} {value} to {lanes(wide)}")


def _widened(e: Emitter, a: str, b: str, bits: int, signed: bool) -> str:
    a, b = (_extend(e, value, bits, bits * 2, signed) for value in (a, b))
    return e.op(f"mul {lanes(bits * 2)} {a}, {b}")


def _high_product(e: Emitter, a: str, b: str, bits: int, signed: bool) -> str:
    if bits < 64:
        product = _widened(e, a, b, bits, signed)
        high = e.op(f"lshr {lanes(bits * 2)} {product}, {splat(bits * 2, bits)}")
        return e.op(f"trunc {lanes(bits * 2)} {high} to {lanes(bits)}")
    extend = "sext" if signed else "zext"
    scalar = f"""  %w0 = {extend} i64 %x0 to i128
  %w1 = {extend} i64 %x1 to i128
  %p = mul i128 %w0, %w1
  %h = lshr i128 %p, 64
  %r = trunc i128 %h to i64"""
    return lanewise(e, f"mul_hi_{extend}", ("i64", "i64"), "i64", scalar, (a, b))


@HANDLERS.of("mul24", "mad24")
def _product24(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("u32", "s32"))
    part, signed = m.one_of(("lo", "hi")), kind == "s32"
    if not part:
        raise m.fail("needs .lo or .hi")
    halves = []
    for operand in item.operands[1:3]:
        low = e.op(f"shl {lanes(32)} {e.read(operand, 32)}, {splat(32, 8)}")
        shift = "ashr" if signed else "lshr"
        halves.append(
            _extend(e, e.op(f"{shift} {lanes(32)} {low}, {splat(32, 8)}"), 32, 64, signed)
        )
    value = e.op(f"mul {lanes(64)} {halves[0]}, {halves[1]}")
    if part == "hi":
        value = e.op(f"lshr {lanes(64)} {value}, {splat(64, 16)}")
    value = e.op(f"trunc {lanes(64)} {value} to {lanes(32)}")
    if item.opcode == "mad24":
        value = e.op(f"add {lanes(32)} {value}, {e.read(item.operands[3], 32)}")
    e.write(item.operands[0], value, 32)


def integer_division(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """div of integers."""
    _divide(e, item, m, is_quotient=True)


@HANDLERS.of("rem")
def _remainder(e: Emitter, item: Instruction, m: Modifiers) -> None:
    _divide(e, item, m, is_quotient=False)


def _divide(e: Emitter, item: Instruction, m: Modifiers, is_quotient: bool) -> None:
    kind = m.type(_INTEGERS)
    bits, signed = WIDTHS[kind], kind[0] == "s"
    shape = lanes(bits)
    a, b = _binary(e, item, bits)
    zero = e.op(f"icmp eq {shape} {b}, zeroinitializer")
    divisor = e.op(f"select {lanes(1)} {zero}, {shape} {splat(bits, 1)}, {shape} {b}")
    if signed:
        # The least number by -1 overflows; by 1 it gives the same quotient and remainder.
        lowest = e.op(f"icmp eq {shape} {a}, {splat(bits, 1 << (bits - 1))}")
        minus = e.op(f"icmp eq {shape} {divisor}, {splat(bits, -1)}")
        both = e.op(f"and {lanes(1)} {lowest}, {minus}")
        divisor = e.op(f"select {lanes(1)} {both}, {shape} {splat(bits, 1)}, {shape} {divisor}")
    quotient = _quotient(e, a, divisor, bits, signed)
    if is_quotient:
        value = e.op(f"select {lanes(1)} {zero}, {shape} {splat(bits, -1)}, {shape} {quotient}")
    else:
        value = e.op(f"sub {shape} {a}, {e.op(f'mul {shape} {quotient}, {divisor}')}")
    e.write(item.operands[0], value, bits, signed)


def _quotient(e: Emitter, a: str, b: str, bits: int, signed: bool) -> str:
    sign = "s" if signed else "u"
    if bits == 64:
        scalar = f"  %r = {sign}div i64 %x0, %x1"
        return lanewise(e, f"{sign}div64", ("i64", "i64"), "i64", scalar, (a, b))
    # Quotients of integers of 32 bits never round up to the next integer in 53 bits.
    doubles = "<32 x double>"
    x = e.op(f"{sign}itofp {lanes(bits)} {a} to {doubles}")
    y = e.op(f"{sign}itofp {lanes(bits)} {b} to {doubles}")
    return e.op(f"fpto{sign}i {doubles} {e.op(f'fdiv {doubles} {x}, {y}')} to {lanes(bits)}")


def integer_extremes(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """min and max of integers. NVRTC writes .relu behind the type."""
    clips = m.flag("relu")
    kind = m.type((*_INTEGERS, *_PAIRS))
    name = f"llvm.{kind[0]}{item.opcode}"
    if kind in _PAIRS:
        a, b = (_as_pairs(e, value) for value in _binary(e, item, 32))
        value = e.intrinsic(f"{name}.v64i16", "<64 x i16>", f"<64 x i16> {a}", f"<64 x i16> {b}")
        bits = 32
        if clips:
            value = e.intrinsic(
                "llvm.smax.v64i16", "<64 x i16>", f"<64 x i16> {value}",
                "<64 x i16> zeroinitializer",
            )  # fmt: skip
        value = _from_pairs(e, value)
    else:
        bits = WIDTHS[kind]
        shape = lanes(bits)
        a, b = _binary(e, item, bits)
        value = e.intrinsic(f"{name}.v32i{bits}", shape, f"{shape} {a}", f"{shape} {b}")
        if clips:
            value = e.intrinsic(
                f"llvm.smax.v32i{bits}", shape, f"{shape} {value}", f"{shape} zeroinitializer"
            )
    e.write(item.operands[0], value, bits, kind[0] == "s")


def integer_unary(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """abs and neg of integers."""
    bits = WIDTHS[m.type(("s16", "s32", "s64"))]
    shape, a = lanes(bits), e.read(item.operands[1], bits)
    if item.opcode == "neg":
        value = e.op(f"sub {shape} zeroinitializer, {a}")
    else:
        value = e.intrinsic(f"llvm.abs.v32i{bits}", shape, f"{shape} {a}", "i1 false")
    e.write(item.operands[0], value, bits, True)


@HANDLERS.of("sad")
def _sum_of_differences(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(_INTEGERS)
    bits = WIDTHS[kind]
    shape = lanes(bits)
    a, b = _binary(e, item, bits)
    less = e.op(f"icmp {kind[0]}lt {shape} {a}, {b}")
    up, down = e.op(f"sub {shape} {a}, {b}"), e.op(f"sub {shape} {b}, {a}")
    apart = e.op(f"select {lanes(1)} {less}, {shape} {down}, {shape} {up}")
    e.write(item.operands[0], e.op(f"add {shape} {apart}, {e.read(item.operands[3], bits)}"), bits)


# -- logic


@HANDLERS.of("and", "or", "xor")
def _logic(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("pred", *_BITS))
    result, a, b = item.operands
    if kind == "pred":
        x, y = e.read_predicate(a), e.read_predicate(b)
        e.write_predicate(result, e.op(f"{item.opcode} {lanes(1)} {x}, {y}"))
        return
    bits = WIDTHS[kind]
    x, y = e.read(a, bits), e.read(b, bits)
    e.write(result, e.op(f"{item.opcode} {lanes(bits)} {x}, {y}"), bits)


@HANDLERS.of("not")
def _not(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("pred", *_BITS))
    if kind == "pred":
        value = e.read_predicate(item.operands[1])
        e.write_predicate(item.operands[0], e.op(f"xor {lanes(1)} {value}, {splat(1, 1)}"))
        return
    bits = WIDTHS[kind]
    value = e.read(item.operands[1], bits)
    e.write(item.operands[0], e.op(f"xor {lanes(bits)} {value}, {splat(bits, -1)}"), bits)


@HANDLERS.of("cnot")
def _cnot(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = WIDTHS[m.type(_BITS)]
    zero = e.op(f"icmp eq {lanes(bits)} {e.read(item.operands[1], bits)}, zeroinitializer")
    e.write(item.operands[0], e.op(f"zext {lanes(1)} {zero} to {lanes(bits)}"), bits)


@HANDLERS.of("lop3")
def _lop3(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b32",))
    join = m.one_of(("and", "or"))
    result, a, b, c, table = item.operands[:5]
    if not isinstance(table, Immediate):
        raise m.fail("takes a constant table")
    shape = lanes(32)
    inputs = [e.read(operand, 32) for operand in (a, b, c)]
    flipped = [e.op(f"xor {shape} {value}, {splat(32, -1)}") for value in inputs]
    value = "zeroinitializer"
    for row in range(8):
        if table.value >> row & 1:
            chosen = [inputs[i] if row >> (2 - i) & 1 else flipped[i] for i in range(3)]
            term = e.op(f"and {shape} {chosen[0]}, {chosen[1]}")
            value = e.op(f"or {shape} {value}, {e.op(f'and {shape} {term}, {chosen[2]}')}")
    if not join:
        e.write(result, value, 32)
        return
    if not isinstance(result, Pair):
        raise m.fail("needs a register and a predicate to write")
    some = e.op(f"icmp ne {shape} {value}, zeroinitializer")
    joined = e.op(f"{join} {lanes(1)} {some}, {e.read_predicate(item.operands[5])}")
    e.write(result.first, value, 32)
    e.write_predicate(result.second, joined)


@HANDLERS.of("shl", "shr")
def _shift(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type((*_BITS, *_INTEGERS))
    bits, shape = WIDTHS[kind], lanes(WIDTHS[kind])
    value, amount = e.read(item.operands[1], bits), e.read(item.operands[2], 32)
    far = e.op(f"icmp ugt {lanes(32)} {amount}, {splat(32, bits - 1)}")
    clamped = e.op(
        f"select {lanes(1)} {far}, {lanes(32)} {splat(32, bits - 1)}, {lanes(32)} {amount}"
    )
    if bits != 32:
        how = "zext" if bits == 64 else "trunc"
        clamped = e.op(f"{how} {lanes(32)} {clamped} to {shape}")
    if item.opcode == "shr" and kind[0] == "s":
        shifted = e.op(f"ashr {shape} {value}, {clamped}")
    else:
        moved = e.op(f"{'shl' if item.opcode == 'shl' else 'lshr'} {shape} {value}, {clamped}")
        shifted = e.op(f"select {lanes(1)} {far}, {shape} zeroinitializer, {shape} {moved}")
    e.write(item.operands[0], shifted, bits, kind[0] == "s")


def _funnel(e: Emitter, low: str, high: str, amount: str, left: bool) -> str:
    """32 bits of high:low shifted by 0 to 32."""
    wide = [e.op(f"zext {lanes(32)} {value} to {lanes(64)}") for value in (low, high, amount)]
    top = e.op(f"shl {lanes(64)} {wide[1]}, {splat(64, 32)}")
    both = e.op(f"or {lanes(64)} {top}, {wide[0]}")
    if left:
        moved = e.op(f"shl {lanes(64)} {both}, {wide[2]}")
        both = e.op(f"lshr {lanes(64)} {moved}, {splat(64, 32)}")
    else:
        both = e.op(f"lshr {lanes(64)} {both}, {wide[2]}")
    return e.op(f"trunc {lanes(64)} {both} to {lanes(32)}")


@HANDLERS.of("shf")
def _funnel_shift(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b32",))
    side, mode = m.one_of(("l", "r")), m.one_of(("clamp", "wrap"))
    if not side or not mode:
        raise m.fail("needs .l or .r, and .clamp or .wrap")
    low, high, amount = (e.read(operand, 32) for operand in item.operands[1:])
    if mode == "wrap":
        amount = e.op(f"and {lanes(32)} {amount}, {splat(32, 31)}")
    else:
        amount = least(e, amount, 32)
    e.write(item.operands[0], _funnel(e, low, high, amount, side == "l"), 32)


def least(e: Emitter, value: str, limit: int, bits: int = 32) -> str:
    return e.intrinsic(
        f"llvm.umin.v32i{bits}", lanes(bits), f"{lanes(bits)} {value}",
        f"{lanes(bits)} {splat(bits, limit)}",
    )  # fmt: skip
