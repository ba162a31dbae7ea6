"""Counting bits, fields of bits, permutations of bytes, and dot products of bytes.

Fields are clipped at the last bit, as the pseudocode of bfe and bfi has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import Handlers, lanes, splat
from treadle.emulate.ptx.integer import least
from treadle.emulate.ptx.syntax import WIDTHS
from treadle.emulate.simt.lanewise import lanewise

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS"]

HANDLERS = Handlers()


@HANDLERS.of("popc", "clz", "brev")
def _count(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = WIDTHS[m.type(("b32", "b64"))]
    value, shape = e.read(item.operands[1], bits), lanes(bits)
    name = {"popc": "ctpop", "clz": "ctlz", "brev": "bitreverse"}[item.opcode]
    extra = ("i1 false",) if item.opcode == "clz" else ()
    found = e.intrinsic(f"llvm.{name}.v32i{bits}", shape, f"{shape} {value}", *extra)
    if item.opcode != "brev" and bits == 64:
        found, bits = e.op(f"trunc {shape} {found} to {lanes(32)}"), 32
    e.write(item.operands[0], found, bits)


@HANDLERS.of("bfind")
def _find_bit(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("u32", "u64", "s32", "s64"))
    bits, shape = WIDTHS[kind], lanes(WIDTHS[kind])
    value = e.read(item.operands[1], bits)
    if kind[0] == "s":  # the highest bit that is not the sign's
        sign = e.op(f"ashr {shape} {value}, {splat(bits, bits - 1)}")
        value = e.op(f"xor {shape} {value}, {sign}")
    ahead = e.intrinsic(f"llvm.ctlz.v32i{bits}", shape, f"{shape} {value}", "i1 false")
    if bits == 64:
        ahead = e.op(f"trunc {shape} {ahead} to {lanes(32)}")
    none = e.op(f"icmp eq {shape} {value}, zeroinitializer")
    if not m.flag("shiftamt"):
        ahead = e.op(f"sub {lanes(32)} {splat(32, bits - 1)}, {ahead}")
    found = e.op(f"select {lanes(1)} {none}, {lanes(32)} {splat(32, -1)}, {lanes(32)} {ahead}")
    e.write(item.operands[0], found, 32)


@HANDLERS.of("fns")
def _nth_set(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b32",))
    mask, base, offset = (e.read(operand, 32) for operand in item.operands[1:])
    function = e.need("fns", _FNS)
    scalar = f"  %r = call i32 {function}(i32 %x0, i32 %x1, i32 %x2)"
    value = lanewise(e, "fns_lanes", ("i32",) * 3, "i32", scalar, (mask, base, offset))
    e.write(item.operands[0], value, 32)


# The n-th set bit from `base` on, upwards for n > 0 and downwards for n < 0; n = 0 asks for base.
_FNS = """define internal i32 @fns(i32 %mask, i32 %base, i32 %n) noinline {
entry:
  %zero = icmp eq i32 %n, 0
  %up = icmp sge i32 %n, 0
  %step = select i1 %up, i32 1, i32 -1
  %minus = sub i32 0, %n
  %size = select i1 %up, i32 %n, i32 %minus
  %want = select i1 %zero, i32 1, i32 %size
  br label %loop
loop:
  %at = phi i32 [%base, %entry], [%next, %more]
  %left = phi i32 [%want, %entry], [%rest, %more]
  %in = icmp ult i32 %at, 32
  br i1 %in, label %look, label %none
look:
  %moved = lshr i32 %mask, %at
  %bit = and i32 %moved, 1
  %rest = sub i32 %left, %bit
  %found = icmp eq i32 %rest, 0
  br i1 %found, label %done, label %more
more:
  %next = add i32 %at, %step
  br i1 %zero, label %none, label %loop
done:
  ret i32 %at
none:
  ret i32 -1
}
"""


@HANDLERS.of("bfe")
def _extract(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("u32", "u64", "s32", "s64"))
    bits, shape = WIDTHS[kind], lanes(WIDTHS[kind])
    value = e.read(item.operands[1], bits)
    place, length = (_field(e, operand, bits) for operand in item.operands[2:])
    if kind[0] == "s":
        moved = e.op(f"ashr {shape} {value}, {least(e, place, bits - 1, bits)}")
        length = least(e, length, bits, bits)
        spare = e.op(f"sub {shape} {splat(bits, bits)}, {length}")
        none = e.op(f"icmp eq {shape} {length}, zeroinitializer")
        spare = least(e, spare, bits - 1, bits)
        up = e.op(f"shl {shape} {moved}, {spare}")
        found = e.op(f"ashr {shape} {up}, {spare}")
        found = e.op(f"select {lanes(1)} {none}, {shape} zeroinitializer, {shape} {found}")
    else:
        moved = _clear_shift(e, "lshr", value, place, bits)
        found = e.op(f"and {shape} {moved}, {_ones(e, length, bits)}")
    e.write(item.operands[0], found, bits)


def _field(e: Emitter, operand, bits: int) -> str:
    """A place or length: the low byte of an operand of 32 bits."""
    value = e.op(f"and {lanes(32)} {e.read(operand, 32)}, {splat(32, 255)}")
    return value if bits == 32 else e.op(f"zext {lanes(32)} {value} to {lanes(bits)}")


def _clear_shift(e: Emitter, how: str, value: str, amount: str, bits: int) -> str:
    """A shift that gives 0 where it goes too far."""
    shape = lanes(bits)
    far = e.op(f"icmp uge {shape} {amount}, {splat(bits, bits)}")
    near = least(e, amount, bits - 1, bits)
    moved = e.op(f"{how} {shape} {value}, {near}")
    return e.op(f"select {lanes(1)} {far}, {shape} zeroinitializer, {shape} {moved}")


def _ones(e: Emitter, length: str, bits: int) -> str:
    """The low `length` bits set."""
    over = _clear_shift(e, "shl", splat(bits, -1), length, bits)
    return e.op(f"xor {lanes(bits)} {over}, {splat(bits, -1)}")


@HANDLERS.of("bfi")
def _insert(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = WIDTHS[m.type(("b32", "b64"))]
    shape = lanes(bits)
    piece, into = e.read(item.operands[1], bits), e.read(item.operands[2], bits)
    place, length = (_field(e, operand, bits) for operand in item.operands[3:])
    hole = _clear_shift(e, "shl", _ones(e, length, bits), place, bits)
    moved = _clear_shift(e, "shl", piece, place, bits)
    keep = e.op(f"and {shape} {into}, {e.op(f'xor {shape} {hole}, {splat(bits, -1)}')}")
    put = e.op(f"and {shape} {moved}, {hole}")
    e.write(item.operands[0], e.op(f"or {shape} {keep}, {put}"), bits)


@HANDLERS.of("bmsk")
def _bit_mask(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b32",))
    mode = m.one_of(("clamp", "wrap"))
    place, length = (e.read(operand, 32) for operand in item.operands[1:])
    if mode == "wrap":
        place, length = (
            e.op(f"and {lanes(32)} {value}, {splat(32, 31)}") for value in (place, length)
        )
    elif mode != "clamp":
        raise m.fail("needs .clamp or .wrap")
    ones = _ones(e, length, 32)
    e.write(item.operands[0], _clear_shift(e, "shl", ones, place, 32), 32)


@HANDLERS.of("szext")
def _sign_or_zero_extend(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind, mode = m.type(("u32", "s32")), m.one_of(("clamp", "wrap"))
    value, length = (e.read(operand, 32) for operand in item.operands[1:])
    if mode == "wrap":
        length = e.op(f"and {lanes(32)} {length}, {splat(32, 31)}")
    elif mode != "clamp":
        raise m.fail("needs .clamp or .wrap")
    spare = e.op(f"sub {lanes(32)} {splat(32, 32)}, {least(e, length, 32)}")
    shift = "ashr" if kind == "s32" else "lshr"
    up = e.op(f"shl {lanes(32)} {value}, {least(e, spare, 31)}")
    found = e.op(f"{shift} {lanes(32)} {up}, {least(e, spare, 31)}")
    none = e.op(f"icmp eq {lanes(32)} {length}, zeroinitializer")
    found = e.op(f"select {lanes(1)} {none}, {lanes(32)} zeroinitializer, {lanes(32)} {found}")
    e.write(item.operands[0], found, 32)


# The byte that each of the four results takes, by mode and the selector's two low bits.
_PERMUTATIONS = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


@HANDLERS.of("prmt")
def _permute(e: Emitter, item: Instruction, m: Modifiers) -> None:
    mode = m.one_of(_PERMUTATIONS)
    m.type(("b32",))
    low, high, selector = (e.read(operand, 32) for operand in item.operands[1:])
    wide = [e.op(f"zext {lanes(32)} {value} to {lanes(64)}") for value in (low, high, selector)]
    both = e.op(f"or {lanes(64)} {e.op(f'shl {lanes(64)} {wide[1]}, {splat(64, 32)}')}, {wide[0]}")
    picks = [_pick(e, wide[2], mode, i) for i in range(4)]
    value = "zeroinitializer"
    for i, pick in enumerate(picks):
        number = e.op(f"and {lanes(64)} {pick}, {splat(64, 7)}")
        amount = e.op(f"shl {lanes(64)} {number}, {splat(64, 3)}")
        byte = e.op(f"lshr {lanes(64)} {both}, {amount}")
        byte = e.op(f"and {lanes(64)} {byte}, {splat(64, 255)}")
        if not mode:  # the nibble's high bit asks for the byte's sign, eight times
            narrow = e.op(f"trunc {lanes(64)} {byte} to {lanes(8)}")
            sign = e.op(f"ashr {lanes(8)} {narrow}, {splat(8, 7)}")
            signs = e.op(f"zext {lanes(8)} {sign} to {lanes(64)}")
            flag = e.op(f"and {lanes(64)} {pick}, {splat(64, 8)}")
            wants = e.op(f"icmp ne {lanes(64)} {flag}, zeroinitializer")
            byte = e.op(f"select {lanes(1)} {wants}, {lanes(64)} {signs}, {lanes(64)} {byte}")
        value = e.op(
            f"or {lanes(64)} {value}, {e.op(f'shl {lanes(64)} {byte}, {splat(64, 8 * i)}')}"
        )
    e.write(item.operands[0], e.op(f"trunc {lanes(64)} {value} to {lanes(32)}"), 32)


def _pick(e: Emitter, selector: str, mode: str, i: int) -> str:
    """Which of the eight bytes result i takes."""
    if not mode:
        moved = e.op(f"lshr {lanes(64)} {selector}, {splat(64, 4 * i)}")
        return e.op(f"and {lanes(64)} {moved}, {splat(64, 15)}")
    code = e.op(f"and {lanes(64)} {selector}, {splat(64, 3)}")
    rows = _PERMUTATIONS[mode]
    value = splat(64, rows[0][i])
    for row in (1, 2, 3):
        is_row = e.op(f"icmp eq {lanes(64)} {code}, {splat(64, row)}")
        value = e.op(
            f"select {lanes(1)} {is_row}, {lanes(64)} {splat(64, rows[row][i])}, "
            f"{lanes(64)} {value}"
        )
    return value


@HANDLERS.of("dp4a", "dp2a")
def _dot(e: Emitter, item: Instruction, m: Modifiers) -> None:
    second, first = m.type(("u32", "s32")), m.type(("u32", "s32"))
    a, b, total = (e.read(operand, 32) for operand in item.operands[1:])
    if item.opcode == "dp4a":
        terms = [(8 * i, 8, 8 * i) for i in range(4)]
    else:
        half = {"lo": 0, "hi": 16}[m.one_of(("lo", "hi"))]
        terms = [(16 * i, 16, half + 8 * i) for i in range(2)]
    for a_place, a_bits, b_place in terms:
        x = _part(e, a, a_place, a_bits, first == "s32")
        y = _part(e, b, b_place, 8, second == "s32")
        total = e.op(f"add {lanes(32)} {total}, {e.op(f'mul {lanes(32)} {x}, {y}')}")
    e.write(item.operands[0], total, 32)


def _part(e: Emitter, value: str, place: int, bits: int, signed: bool) -> str:
    up = e.op(f"shl {lanes(32)} {value}, {splat(32, 32 - place - bits)}")
    return e.op(f"{'ashr' if signed else 'lshr'} {lanes(32)} {up}, {splat(32, 32 - bits)}")


@HANDLERS.of("vabsdiff4")
def _byte_differences(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """How far the bytes of two words are apart; with .add their sum, and a third word."""
    sums = m.flag("add")
    kinds = [m.type(("u32", "s32")) for _ in range(3)]  # of b, of a, of the result
    words = [e.read(operand, 32) for operand in (item.operands[2], item.operands[1])]
    shape, found = lanes(32), e.read(item.operands[3], 32) if sums else "zeroinitializer"
    for byte in range(4):
        values = []
        for kind, word in zip(kinds, words, strict=False):
            top = e.op(f"shl {shape} {word}, {splat(32, 24 - 8 * byte)}")
            values.append(
                e.op(f"{'ashr' if kind == 's32' else 'lshr'} {shape} {top}, {splat(32, 24)}")
            )
        apart = e.op(f"sub {shape} {values[0]}, {values[1]}")
        apart = e.intrinsic("llvm.abs.v32i32", shape, f"{shape} {apart}", "i1 false")
        if sums:
            found = e.op(f"add {shape} {found}, {apart}")
            continue
        low = e.op(f"and {shape} {apart}, {splat(32, 255)}")
        found = e.op(f"or {shape} {found}, {e.op(f'shl {shape} {low}, {splat(32, 8 * byte)}')}")
    e.write(item.operands[0], found, 32)
