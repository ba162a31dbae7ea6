"""Integer instructions against Python's integers, at the edges of each type."""

import itertools

import numpy as np
import pytest

EDGES = {
    16: [0, 1, 2, 3, 0x7FFF, 0x8000, 0x8001, 0xFFFF],
    32: [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFF, 0x12345678],
    64: [0, 1, 3, 63, 64, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, 0x123456789ABCDEF0],
}
TYPES = ["u16", "s16", "u32", "s32", "u64", "s64"]


def bits_of(kind):
    return int(kind[1:])


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def value_of(value, kind):
    return signed(value, bits_of(kind)) if kind[0] == "s" else value & ((1 << bits_of(kind)) - 1)


def pairs(bits):
    found = list(itertools.product(EDGES[bits], repeat=2))
    return [np.array(column, f"u{bits // 8}") for column in zip(*found, strict=True)]


def check(run, code, arrays, expected, out_bits):
    found = run(code, *arrays, out=f"u{out_bits // 8}")
    mask = (1 << out_bits) - 1
    for i, value in enumerate(found):
        inputs = [int(array[i]) for array in arrays]
        wanted = expected(*inputs)
        if wanted is not None:
            assert int(value) == wanted & mask, (code, [hex(v) for v in inputs])


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "div": lambda a, b: truncated(a, b) if b else None,
    "rem": lambda a, b: a - b * truncated(a, b) if b else None,
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_wraps(run, name, kind):
    expected = lambda a, b: ARITHMETIC[name](value_of(a, kind), value_of(b, kind))
    bits = bits_of(kind)
    check(run, f"{name}.{kind} %d, %a, %b;", pairs(bits), expected, bits)


@pytest.mark.parametrize("kind", TYPES)
def test_the_high_half_of_a_product(run, kind):
    bits = bits_of(kind)
    expected = lambda a, b: (value_of(a, kind) * value_of(b, kind)) >> bits
    check(run, f"mul.hi.{kind} %d, %a, %b;", pairs(bits), expected, bits)


@pytest.mark.parametrize("kind", TYPES[:4])
def test_a_wide_product_has_twice_the_bits(run, kind):
    bits = bits_of(kind)
    expected = lambda a, b: value_of(a, kind) * value_of(b, kind)
    check(run, f"mul.wide.{kind} %d, %a, %b;", pairs(bits), expected, 2 * bits)


def test_multiply_add_in_all_widths(run):
    a, b = pairs(32)
    c = a[::-1].copy()
    check(run, "mad.lo.s32 %d, %a, %b, %c;", [a, b, c], lambda a, b, c: a * b + c, 32)
    wide = c.astype("u8") << np.uint64(7)
    check(run, "mad.wide.u32 %d, %a, %b, %c;", [a, b, wide], lambda a, b, c: a * b + c, 64)
    check(run, "mad.hi.u32 %d, %a, %b, %c;", [a, b, c], lambda a, b, c: (a * b >> 32) + c, 32)


@pytest.mark.parametrize("name", ["max.s32.relu", "max.relu.s32", "min.s32.relu"])
def test_extremes_below_zero_are_clipped_where_asked(run, name):
    best = max if name[:3] == "max" else min
    check(run, f"{name} %d, %a, %b;", pairs(32),
          lambda a, b: max(best(signed(a, 32), signed(b, 32)), 0), 32)  # fmt: skip


def test_sums_of_32_bits_saturate_where_asked(run):
    def clamp(value):
        return min(max(value, -(1 << 31)), (1 << 31) - 1)

    check(run, "add.sat.s32 %d, %a, %b;", pairs(32),
          lambda a, b: clamp(signed(a, 32) + signed(b, 32)), 32)  # fmt: skip
    check(run, "sub.sat.s32 %d, %a, %b;", pairs(32),
          lambda a, b: clamp(signed(a, 32) - signed(b, 32)), 32)  # fmt: skip


def test_carries_go_on_to_the_next_word(run):
    a, b = pairs(64)
    code = """mov.b64 {%t0, %t1}, %a; mov.b64 {%t2, %t3}, %b;
    add.cc.u32 %t4, %t0, %t2; addc.u32 %t5, %t1, %t3; mov.b64 %d, {%t4, %t5};"""
    check(run, code, [a, b], lambda a, b: a + b, 64)
    code = code.replace("add.cc", "sub.cc").replace("addc", "subc")
    check(run, code, [a, b], lambda a, b: a - b, 64)


def test_a_difference_carries_where_it_borrows_nothing(run):
    """What ptxas makes of it: IADD3 of the negated number, and its carry. NVIDIA's own division of
    128-bit integers counts on that."""
    a, b = pairs(32)
    check(run, "sub.cc.u32 %t0, %a, %b; addc.u32 %d, 0, 0;", [a, b], lambda a, b: a >= b, 32)
    code = "sub.cc.u32 %t0, %a, %b; subc.cc.u32 %t1, %b, %a; addc.u32 %d, 0, 0;"
    check(run, code, [a, b], lambda a, b: b - a - (a < b) >= 0, 32)
    check(run, "add.cc.u32 %t0, %a, %b; subc.u32 %d, %a, %b;", [a, b],
          lambda a, b: a - b - (a + b < 1 << 32), 32)  # fmt: skip


def test_products_of_24_bits(run):
    low = lambda v: v & 0xFFFFFF
    sign = lambda v: signed(v, 24)
    check(run, "mul24.lo.u32 %d, %a, %b;", pairs(32), lambda a, b: low(a) * low(b), 32)
    check(run, "mul24.hi.s32 %d, %a, %b;", pairs(32), lambda a, b: sign(a) * sign(b) >> 16, 32)


def test_division_by_zero_and_overflow_end(run):
    a = np.array([7, 0, 1 << 31, 1 << 31], "u4")
    b = np.array([0, 0, 0, 0xFFFFFFFF], "u4")
    assert run("div.s32 %d, %a, %b;", a, b, out="u4").tolist()[3] == 1 << 31
    assert run("rem.s32 %d, %a, %b;", a, b, out="u4").tolist()[3] == 0
    assert run("div.u32 %d, %a, %b;", a, b, out="u4").tolist()[:2] == [0xFFFFFFFF] * 2


@pytest.mark.parametrize("kind", ["b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64"])
def test_shifts_clamp_their_amount(run, kind):
    bits = int(kind[1:])
    amounts = [0, 1, bits - 1, bits, bits + 1, 200, 0x80000000, 0xFFFFFFFF]
    rows = list(itertools.product(EDGES[bits], amounts))
    a, b = (np.array(c, t) for c, t in zip(zip(*rows, strict=True), (f"u{bits // 8}", "u4"),
                                           strict=True))  # fmt: skip
    if kind[0] == "b":
        check(run, f"shl.{kind} %d, %a, %b;", [a, b], lambda a, n: a << min(n, 64), bits)
    right = lambda a, n: (signed(a, bits) if kind[0] == "s" else a) >> min(n, 64)
    check(run, f"shr.{kind} %d, %a, %b;", [a, b], right, bits)


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(run, mode):
    rows = list(
        itertools.product([0x12345678, 0xFFFFFFFF], [0x9ABCDEF0, 1], [0, 1, 31, 32, 33, 64])
    )
    arrays = [np.array(column, "u4") for column in zip(*rows, strict=True)]
    amount = (lambda n: min(n, 32)) if mode == "clamp" else (lambda n: n & 31)
    both = lambda a, b: b << 32 | a
    check(run, f"shf.l.{mode}.b32 %d, %a, %b, %c;", arrays,
          lambda a, b, n: both(a, b) << amount(n) >> 32, 32)  # fmt: skip
    check(run, f"shf.r.{mode}.b32 %d, %a, %b, %c;", arrays,
          lambda a, b, n: both(a, b) >> amount(n), 32)  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
def test_counting_bits(run, bits):
    (a,) = [np.array(EDGES[bits], f"u{bits // 8}")]
    check(run, f"popc.b{bits} %d, %a;", [a], lambda a: a.bit_count(), 32)
    check(run, f"clz.b{bits} %d, %a;", [a], lambda a: bits - a.bit_length(), 32)
    check(run, f"brev.b{bits} %d, %a;", [a], lambda a: int(f"{a:0{bits}b}"[::-1], 2), bits)
    check(run, f"bfind.u{bits} %d, %a;", [a], lambda a: a.bit_length() - 1, 32)
    magnitude = lambda a: a if signed(a, bits) >= 0 else ~a & ((1 << bits) - 1)
    check(run, f"bfind.s{bits} %d, %a;", [a], lambda a: magnitude(a).bit_length() - 1, 32)
    check(run, f"bfind.shiftamt.u{bits} %d, %a;", [a],
          lambda a: bits - a.bit_length() if a else -1, 32)  # fmt: skip


def extracted(a, at, count, bits, is_signed):
    """bfe as the pseudocode of the specification writes it."""
    at, count, last = at & 255, count & 255, bits - 1
    fill = 0 if not is_signed or count == 0 else a >> min(at + count - 1, last) & 1
    return sum(
        (a >> (at + i) & 1 if i < count and at + i <= last else fill) << i for i in range(bits)
    )


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields_are_extracted(run, kind):
    bits = bits_of(kind)
    rows = list(itertools.product(EDGES[bits][3:9], [0, 3, 31, 63, 64, 255, 256],
                                  [0, 1, 8, 32, 64, 255]))  # fmt: skip
    a, b, c = zip(*rows, strict=True)
    arrays = [np.array(a, f"u{bits // 8}"), np.array(b, "u4"), np.array(c, "u4")]
    check(run, f"bfe.{kind} %d, %a, %b, %c;", arrays,
          lambda a, b, c: extracted(a, b, c, bits, kind[0] == "s"), bits)  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields_are_inserted(run, bits):
    rows = list(itertools.product(EDGES[bits][4:], [0, 5, 31, 32, 63, 64, 255], [0, 1, 7, 32, 64]))
    a, b, c = zip(*rows, strict=True)
    into = (1 << bits) // 3

    def inserted(a, at, count):
        ones = sum(1 << (at + i) for i in range(count) if at + i < bits)
        return into & ~ones | (a << at) & ones

    code = f"mov.u64 %u0, {into}; cvt.u{bits}.u64 %{'tu'[bits == 64]}1, %u0;"
    code += f"bfi.b{bits} %d, %a, %{'tu'[bits == 64]}1, %b, %c;"
    arrays = [np.array(a, f"u{bits // 8}"), np.array(b, "u4"), np.array(c, "u4")]
    check(run, code, arrays, inserted, bits)


def test_bytes_are_permuted(run):
    rng = np.random.default_rng(1)
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype="u4") for _ in range(3))

    def permuted(a, b, c):
        found = 0
        for i in range(4):
            pick = c >> 4 * i & 15
            byte = (b << 32 | a) >> 8 * (pick & 7) & 255
            found |= ((255 if byte >> 7 else 0) if pick & 8 else byte) << 8 * i
        return found

    check(run, "prmt.b32 %d, %a, %b, %c;", [a, b, c], permuted, 32)
    four = lambda a, b, c: (b << 32 | a) >> 8 * (c & 3)
    check(run, "prmt.b32.f4e %d, %a, %b, %c;".replace(".b32.f4e", ".f4e.b32"), [a, b, c], four, 32)
    once = lambda a, b, c: (a >> 8 * (c & 3) & 255) * 0x01010101
    check(run, "prmt.rc8.b32 %d, %a, %b, %c;", [a, b, c], once, 32)


def test_every_table_of_three_inputs(run):
    a, b, c = (np.full(32, value, "u4") for value in (0xF0, 0xCC, 0xAA))
    for table in (0x00, 0x01, 0x80, 0x96, 0xE8, 0xFE, 0xFF, 0x3C):
        # With these inputs the low byte of the result is the table itself.
        found = run(f"lop3.b32 %d, %a, %b, %c, {table};", a, b, c, out="u4")
        assert (found & 0xFF).tolist() == [table] * 32


def test_a_table_says_whether_any_bit_is_set(run):
    a, b = pairs(32)
    code = "setp.eq.u32 %p0, %a, 1; lop3.JOIN.b32 %t0|%p1, %a, %b, %b, 0xc0, %p0;"
    code += "selp.u32 %d, 1, 0, %p1;"
    check(run, code.replace("JOIN", "or"), [a, b], lambda a, b: a & b != 0 or a == 1, 32)
    check(run, code.replace("JOIN", "and"), [a, b], lambda a, b: a & b != 0 and a == 1, 32)


def test_logic_of_bits_and_predicates(run):
    a, b = pairs(32)
    check(run, "and.b32 %d, %a, %b;", [a, b], lambda a, b: a & b, 32)
    check(run, "or.b32 %d, %a, %b;", [a, b], lambda a, b: a | b, 32)
    check(run, "xor.b32 %d, %a, %b;", [a, b], lambda a, b: a ^ b, 32)
    check(run, "not.b32 %d, %a;", [a], lambda a: ~a, 32)
    check(run, "cnot.b32 %d, %a;", [a], lambda a: int(a == 0), 32)
    code = """setp.lt.u32 %p0, %a, %b; setp.lt.s32 %p1, %a, %b; xor.pred %p2, %p0, %p1;
    not.pred %p3, %p2; selp.u32 %d, 1, 0, %p3;"""
    check(run, code, [a, b], lambda a, b: (a < b) == (signed(a, 32) < signed(b, 32)), 32)


def test_dot_products_of_bytes(run):
    rng = np.random.default_rng(2)
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype="u4") for _ in range(3))
    byte = lambda v, i, s: signed(v >> 8 * i & 255, 8) if s else v >> 8 * i & 255
    half = lambda v, i: signed(v >> 16 * i & 0xFFFF, 16)
    for left, right in itertools.product("us", repeat=2):
        code = f"dp4a.{left}32.{right}32 %d, %a, %b, %c;"

        def dot(a, b, c, signs=(left == "s", right == "s")):
            return c + sum(byte(a, i, signs[0]) * byte(b, i, signs[1]) for i in range(4))

        check(run, code, [a, b, c], dot, 32)
    halves = lambda a, b, c: c + sum(half(a, i) * byte(b, 2 + i, False) for i in range(2))
    check(run, "dp2a.hi.s32.u32 %d, %a, %b, %c;", [a, b, c], halves, 32)


def test_the_nth_set_bit(run):
    mask = np.full(12, 0b1011_0100, "u4")
    base = np.array([0, 0, 0, 3, 7, 7, 7, 2, 3, 0, 31, 4], "u4")
    offset = np.array([1, 2, 5, 1, -1, -2, -5, 0, 0, 4, -1, -1], "i4").view("u4")
    found = run("fns.b32 %d, %a, %b, %c;", mask, base, offset, out="i4").tolist()
    assert found == [2, 4, -1, 4, 7, 5, -1, 2, -1, 7, 7, 4]


def test_sums_of_absolute_differences_and_absolute_values(run):
    a, b = pairs(32)
    c = np.full_like(a, 5)
    check(run, "sad.s32 %d, %a, %b, %c;", [a, b, c],
          lambda a, b, c: abs(signed(a, 32) - signed(b, 32)) + c, 32)  # fmt: skip
    check(run, "abs.s32 %d, %a;", [a], lambda a: abs(signed(a, 32)), 32)
    check(run, "neg.s32 %d, %a;", [a], lambda a: -a, 32)


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_bytes_are_compared_one_by_one(run, kind):
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(0, 1 << 32, 64, dtype="u4") for _ in range(3))
    view = "u1" if kind == "u32" else "i1"
    apart = abs(a.view(view).astype("i4") - b.view(view).astype("i4")).reshape(-1, 4)
    code = f"vabsdiff4.{kind}.{kind}.{kind} %d, %a, %b, 0;"
    assert (run(code, a, b, out="u4") == apart.astype("u1").view("u4").ravel()).all()
    code = code.replace(" %d", ".add %d").replace(" 0;", " %c;")
    assert (run(code, a, b, c, out="u4") == c + apart.sum(1).astype("u4")).all()


def test_masks_and_extensions_of_a_length(run):
    a = np.array([0, 1, 4, 31, 32, 40], "u4")
    b = np.array([0, 3, 8, 31, 2, 1], "u4")
    ones = lambda p, n: ((1 << min(n, 32)) - 1) << min(p, 40)
    check(run, "bmsk.clamp.b32 %d, %a, %b;", [a, b], ones, 32)
    value = np.full(6, 0x89ABCDEF, "u4")
    length = np.array([0, 1, 4, 8, 32, 99], "u4")
    check(run, "szext.clamp.s32 %d, %a, %b;", [value, length],
          lambda a, n: signed(a & ((1 << min(n, 32)) - 1), min(n, 32)) if n else 0, 32)  # fmt: skip


def test_comparisons_set_values_and_pairs_of_predicates(run):
    a, b = pairs(32)
    check(run, "set.gt.u32.s32 %d, %a, %b;", [a, b],
          lambda a, b: -(signed(a, 32) > signed(b, 32)), 32)  # fmt: skip
    code = "setp.hi.u32 %p0|%p1, %a, %b; selp.u32 %t0, 2, 0, %p0; selp.u32 %t1, 1, 0, %p1;"
    check(run, code + "or.b32 %d, %t0, %t1;", [a, b], lambda a, b: 2 if a > b else 1, 32)
    code = "setp.ne.u32 %p0, %a, 1; setp.eq.and.u32 %p1|%p2, %a, %b, !%p0;"
    code += "selp.u32 %t0, 2, 0, %p1; selp.u32 %t1, 1, 0, %p2; or.b32 %d, %t0, %t1;"
    check(run, code, [a, b], lambda a, b: (2 if a == b else 1) if a == 1 else 0, 32)
    check(run, "slct.u32.s32 %d, 10, 20, %a;", [a], lambda a: 10 if signed(a, 32) >= 0 else 20, 32)


def test_pairs_of_16_bits(run):
    a, b = pairs(32)
    both = lambda f: (
        lambda a, b: (f(a >> 16, b >> 16) & 0xFFFF) << 16 | f(a & 0xFFFF, b & 0xFFFF) & 0xFFFF
    )
    check(run, "add.u16x2 %d, %a, %b;", [a, b], both(lambda a, b: a + b), 32)
    check(run, "min.s16x2 %d, %a, %b;", [a, b],
          both(lambda a, b: min(signed(a, 16), signed(b, 16))), 32)  # fmt: skip
