"""Words of Adreno's machine code, read back by Mesa's disassembler."""

import random
import re

import pytest
from tests.compile.mesa import disassemble

from treadle.compile.ir3.code import (
    PREDICATE,
    Constant,
    Instruction,
    Literal,
    Register,
    name_of,
)
from treadle.compile.ir3.encode import encode
from treadle.compile.ir3.tables import CONDITIONS, FLOATS, FORMS, TYPES, category
from treadle.errors import InternalError

COMPARED = ("cmps.f", "cmps.u", "cmps.s")
HALF_TYPES = ("f16", "u16", "s16", "u8")
FLUT = {0x3F000000: "(0.5)", 0x40490FDB: "(pi)", 0x40800000: "(4.0)"}
r = random.Random(0)


def register(count=1, half=False, neg=False, abs_=False):
    return Register(r.randrange(192 - count), count, half, neg, abs_)


def named(operand):
    """What the disassembler calls an operand."""
    sign = {(0, 0): "", (1, 0): "(neg)", (0, 1): "(abs)", (1, 1): "(absneg)"}
    front = sign[operand.neg, operand.abs]
    if isinstance(operand, Register):
        return front + name_of(operand.number, operand.half)
    if isinstance(operand, Constant):
        return f"{front}c{operand.index // 4}.{'xyzw'[operand.index % 4]}"
    if operand.bits in FLUT:
        return front + FLUT[operand.bits]
    return front + str(operand.signed)


def read(instruction, distance=0):
    (line,) = disassemble([encode(instruction, distance)])
    return line


def plain(op):
    """The registers of an instruction, with what they are called."""
    half = op == "sel.b16"
    dst = register(half=half)
    count = {2: 1 + ("SRC2" in FORMS.get(op, FORMS["cmps.f"]).fields), 3: 3, 4: 1}[category(op)]
    return Instruction(op, [dst], [register(half=half) for _ in range(count)])


ARITHMETIC = [
    name for name, form in FORMS.items() if form.category in (2, 3, 4) and name not in COMPARED
] + [f"{name}.{condition}" for name in COMPARED for condition in CONDITIONS]


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_on_registers(op):
    for _ in range(8):
        one = plain(op)
        one.ss, one.sy, one.jp = (r.random() < 0.5 for _ in range(3))
        if category(op) in (2, 3):
            one.nop = r.randrange(4)
        flags = "(sy)" * one.sy + "(ss)" * one.ss + "(jp)" * one.jp
        flags += f"(nop{one.nop}) " * bool(one.nop)
        operands = ", ".join(map(named, [*one.dsts, *one.srcs]))
        assert read(one) == f"{flags}{op} {operands}"


@pytest.mark.parametrize("op", [op for op in ARITHMETIC if category(op) == 2])
def test_constants_numbers_and_signs_in_category_2(op):
    is_float = ".f" in op
    for _ in range(8):
        one = plain(op)
        number = r.choice(list(FLUT)) if is_float else r.randrange(-511, 512) & 0xFFFFFFFF
        choices = [Constant(r.randrange(2048)), Literal(number)]
        if is_float:
            choices.append(register(neg=r.random() < 0.5, abs_=r.random() < 0.5))
        one.srcs[r.randrange(len(one.srcs))] = r.choice(choices)
        assert read(one) == f"{op} {', '.join(map(named, [*one.dsts, *one.srcs]))}"


@pytest.mark.parametrize("op", ["mad.f32", "mad.s24", "madsh.m16", "sel.b32"])
def test_constants_and_signs_in_category_3(op):
    for _ in range(8):
        one = plain(op)
        one.srcs[r.choice((0, 2))] = Constant(r.randrange(2048))
        if op == "mad.f32":
            one.srcs[1] = register(neg=r.random() < 0.5)
        assert read(one) == f"{op} {', '.join(map(named, [*one.dsts, *one.srcs]))}"


@pytest.mark.parametrize("op", COMPARED)
def test_a_comparison_can_set_the_predicate(op):
    one = Instruction(f"{op}.ge", [Register(PREDICATE)], [register(), register()])
    assert read(one) == f"{op}.ge p0.x, {named(one.srcs[0])}, {named(one.srcs[1])}"


@pytest.mark.parametrize("even", ["", ".even"])
@pytest.mark.parametrize("target", ["f16", "f32", "u16", "u32", "s16", "s32"])
@pytest.mark.parametrize("source", ["f16", "f32", "u16", "u32", "s16", "s32"])
def test_moves_and_conversions(source, target, even):
    kind = "mov" if source == target else "cov"
    one = Instruction(f"{kind}.{source}{target}{even}", [register(half=target in HALF_TYPES)],
                      [register(half=source in HALF_TYPES)])  # fmt: skip
    mode = "(even)" * bool(even)
    want = f"{kind}.{source}{target} {mode}{named(one.dsts[0])}, {named(one.srcs[0])}"
    assert read(one) == want


def test_moves_of_constants_and_literals():
    assert read(Instruction("mov.u32u32", [Register(5)], [Constant(9)])) == (
        "mov.u32u32 r1.y, c2.y"
    )
    assert read(Instruction("mov.u32u32", [Register(5)], [Literal(0xDEADBEEF)])) == (
        "mov.u32u32 r1.y, 0xdeadbeef"
    )
    assert read(Instruction("mov.u32u32", [Register(5)], [Register(4 * 48)])) == (
        "mov.u32u32 r1.y, r48.x"
    )


@pytest.mark.parametrize("kind", ["u32", "f32", "u16", "u8"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_memory(kind, size):
    half = kind in HALF_TYPES
    base, value = register(2), register(size, half=half)
    offset = r.randrange(-4096, 4096)
    beside = f"{offset:+d}" if offset else ""
    # The disassembler gives shared and private memory's registers no width.
    wide = named(Register(value.number, size))
    numbers = [Literal(offset & 0xFFFFFFFF), Literal(size)]
    for op, letter in (("ldg", "g"), ("ldl", "l"), ("ldp", "p")):
        shown = wide if op == "ldl" else named(value)
        one = Instruction(f"{op}.{kind}", [value], [base, *numbers])
        assert read(one) == f"{op}.{kind} {shown}, {letter}[{named(base)}{beside}], {size}"
    for op, letter in (("stg", "g"), ("stl", "l"), ("stp", "p")):
        shown = named(value) if op == "stg" else wide
        one = Instruction(f"{op}.{kind}", [], [base, value, *numbers])
        assert read(one) == f"{op}.{kind} {letter}[{named(base)}{beside}], {shown}, {size}"


@pytest.mark.parametrize("dwords", range(4))
@pytest.mark.parametrize("shift", range(3))
@pytest.mark.parametrize("size", range(1, 5))
def test_memory_by_an_index(size, shift, dwords):
    base, place, value = register(2), register(), register(size)
    more = [Literal(shift), Literal(dwords), Literal(size)]
    index = f"{named(place)}<<{shift + 2}"
    if dwords:
        index = f"({named(place)}<<{shift})" if shift else named(place)
        index = f"({index}+{dwords})<<2"
    load = read(Instruction("ldg.a.u32", [value], [base, place, *more]))
    assert load == f"ldg.a.u32 {named(value)}, g[{named(base)}+({index})], {size}"
    store = read(Instruction("stg.a.u32", [], [base, value, place, *more]))
    assert store == f"stg.a.u32 g[{named(base)}+({index})], {named(value)}, {size}"


@pytest.mark.parametrize("kind", ["f32", "f16"])
@pytest.mark.parametrize("number", [0, 5, 63])
def test_images(kind, number):
    half = kind in HALF_TYPES
    texel, place = register(4, half=half), register(2)
    by_number = [place, Literal(number)]
    load = read(Instruction(f"ldib.b.{kind}", [texel], by_number))
    assert load == f"ldib.b.typed.2d.{kind}.4.imm {named(texel)}, {named(place)}, {number}"
    store = read(Instruction(f"stib.b.{kind}", [], [texel, *by_number]))
    assert store == f"stib.b.typed.2d.{kind}.4.imm {named(texel)}, {named(place)}, {number}"
    texture = read(Instruction(f"isam.{kind}", [texel], by_number, sy=True, jp=True))
    assert texture == (
        f"(sy)(jp)isam.1d ({kind})(xyzw){named(texel)}, {named(place)}, s#0, t#{number}"
    )


def test_control():
    assert read(Instruction("nop", [], [], repeat=5)) == "(rpt5)nop"
    assert read(Instruction("end", [], [], jp=True)) == "(jp)end"
    assert read(Instruction("bar.g", [], [], ss=True, sy=True)) == "(sy)(ss)bar.g"
    assert read(Instruction("fence.r.w", [], [])) == "fence.r.w"
    branch = Instruction("br", [], [Register(PREDICATE)], inverted=True)
    lines = disassemble([encode(branch, 2), encode(Instruction("nop", [], [])),
                         encode(Instruction("end", [], []))])  # fmt: skip
    assert re.fullmatch(r"br !p0\.x, #l2", lines[0])


def test_every_form_is_covered():
    """What is not arithmetic is in one of the tests above by its name."""
    others = {name for name, form in FORMS.items() if form.category in (0, 1, 5, 6, 7)}
    assert others == {
        "nop", "end", "br", "mov-immed", "mov-const", "mov-gpr", "ldg", "ldg.a", "stg", "stg.a",
        "ldl", "ldp", "stl", "stp", "bar", "fence", "isam", "ldib.b", "stib.b",
    }  # fmt: skip
    assert set(FLUT) <= set(FLOATS)
    assert set(HALF_TYPES) <= set(TYPES)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (Instruction("ldg.u32", [Register(0)], [Register(4, 2), Literal(4096), Literal(1)]),
         "offset 4096"),
        (Instruction("ldg.a.u32", [Register(0)],
                     [Register(4, 2), Register(8), Literal(0), Literal(4), Literal(1)]),
         "4 does not fit OFF"),
        (Instruction("add.f", [Register(300)], [Register(2), Register(1)]), "300 does not fit DST"),
        (Instruction("mov.b32", [Register(0)], [Register(1)]), "no types of a move"),
        (Instruction("rcp", [Register(0)], [Constant(4)], nop=1), "has no field"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error(one, why):
    with pytest.raises(InternalError, match=why):
        encode(one)
