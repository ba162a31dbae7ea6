"""Vector arithmetic of integers, moves, choices and comparisons."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.operands import Kind
from treadle.emulate.simt.values import bits_of, is_float

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__ = ["VCC", "gather", "join", "packed", "packed_source", "set_flags", "simple"]

VCC, EXEC = 106, 126


def simple(name: str, result: str, kinds: Sequence[str], compute: Callable[..., str]) -> None:
    """An operation of src0, src1... to vdst; `compute` gets the Wave and the values."""

    def meaning(w: Wave) -> None:
        values = [w.source(f"src{i}", kind) for i, kind in enumerate(kinds)]
        w.result(result, compute(w, *values))

    MEANINGS.add(name, meaning)


def _opcode(opcode: str, kind: str, swapped: bool = False) -> Callable[..., str]:
    def compute(w: Wave, a: str, b: str) -> str:
        return w.x.op(kind, opcode, *((b, a) if swapped else (a, b)))

    return compute


def _intrinsic(name: str, kind: str) -> Callable[..., str]:
    return lambda w, *values: w.x.call(kind, name, *values)


# -- 32 bits

_PAIRS: dict[str, tuple[str, str]] = {
    "v_and_b32": ("and", "u32"), "v_or_b32": ("or", "u32"), "v_xor_b32": ("xor", "u32"),
    "v_mul_lo_u32": ("mul", "u32"), "v_and_b16": ("and", "u16"), "v_or_b16": ("or", "u16"),
    "v_xor_b16": ("xor", "u16"), "v_mul_lo_u16": ("mul", "u16"),
}  # fmt: skip
for _name, (_op, _kind) in _PAIRS.items():
    simple(_name, _kind, (_kind, _kind), _opcode(_op, _kind))
for _bits in (16, 32):
    for _name in ("umin", "umax", "smin", "smax"):
        _letter = "u" if _name[0] == "u" else "i"
        _kind = f"u{_bits}"
        simple(f"v_{_name[1:]}_{_letter}{_bits}", _kind, (_kind, _kind), _intrinsic(_name, _kind))


def _clamped(opcode: str, kind: str, swapped: bool) -> Callable[..., str]:
    """A sum or difference, which `clamp` keeps within what the kind can hold."""

    def compute(w: Wave, a: str, b: str) -> str:
        if swapped:
            a, b = b, a
        if not w.item.modifiers.get("clamp"):
            return w.x.op(kind, opcode, a, b)
        return w.x.call(kind, f"{'s' if kind[0] == 'i' else 'u'}{opcode}.sat", a, b)

    return compute


for _kind in ("u32", "i32", "u16", "i16"):
    for _name, _op, _swapped in (("add", "add", False), ("sub", "sub", False),
                                 ("subrev", "sub", True)):  # fmt: skip
        if _kind[0] == "u" or _name != "subrev":
            simple(f"v_{_name}_nc_{_kind}", _kind, (_kind, _kind),
                   _clamped(_op, _kind, _swapped))  # fmt: skip


def _xnor(w: Wave, a: str, b: str) -> str:
    return w.x.op("u32", "xor", w.x.op("u32", "xor", a, b), w.x.const("u32", -1))


simple("v_xnor_b32", "u32", ("u32", "u32"), _xnor)


def _shift(opcode: str, bits: int) -> Callable[..., str]:
    """A shift of the second source by the low bits of the first."""
    kind, count = f"u{bits}", f"u{min(bits, 32)}"

    def compute(w: Wave, a: str, b: str) -> str:
        a = w.x.op(count, "and", a, w.x.const(count, bits - 1))
        return w.x.op(kind, opcode, b, w.x.resize(count, kind, a))

    return compute


for _bits in (16, 32, 64):
    _kind, _count = f"u{_bits}", f"u{min(_bits, 32)}"
    for _name, _op in ((f"v_lshlrev_b{_bits}", "shl"), (f"v_lshrrev_b{_bits}", "lshr"),
                       (f"v_ashrrev_i{_bits}", "ashr")):  # fmt: skip
        simple(_name, _kind, (_count, _kind), _shift(_op, _bits))


def _mul_high(letter: str) -> Callable[..., str]:
    def compute(w: Wave, a: str, b: str) -> str:
        wide = [w.x.resize(f"{letter}32", "u64", v) for v in (a, b)]
        return w.x.halves(w.x.op("u64", "mul", *wide))[1]

    return compute


simple("v_mul_hi_u32", "u32", ("u32", "u32"), _mul_high("u"))
simple("v_mul_hi_i32", "u32", ("u32", "u32"), _mul_high("i"))


def _low24(w: Wave, value: str, letter: str) -> str:
    if letter == "u":
        return w.x.bits(value, 0, 24)
    away = w.x.const("u32", 8)
    return w.x.op("u32", "ashr", w.x.op("u32", "shl", value, away), away)


def _mul24(letter: str, is_high: bool = False) -> Callable[..., str]:
    def compute(w: Wave, a: str, b: str) -> str:
        a, b = (_low24(w, v, letter) for v in (a, b))
        return _mul_high(letter)(w, a, b) if is_high else w.x.op("u32", "mul", a, b)

    return compute


def _mad24(letter: str) -> Callable[..., str]:
    return lambda w, a, b, c: w.x.op("u32", "add", _mul24(letter)(w, a, b), c)


for _letter in "ui":
    _name = f"{_letter}32_{_letter}24"
    simple(f"v_mul_{_name}", "u32", ("u32",) * 2, _mul24(_letter))
    simple(f"v_mul_hi_{_name}", "u32", ("u32",) * 2, _mul24(_letter, is_high=True))
    simple(f"v_mad_{_name}", "u32", ("u32",) * 3, _mad24(_letter))


def _two(kind: str, first: Callable[..., str], second: Callable[..., str]) -> Callable[..., str]:
    """`second` of what `first` makes of two sources, and the third."""
    return lambda w, a, b, c: second(w, first(w, a, b), c)


def _shl(w: Wave, a: str, b: str) -> str:
    return w.x.op("u32", "shl", a, w.x.op("u32", "and", b, w.x.const("u32", 31)))


def _op32(opcode: str) -> Callable[..., str]:
    return lambda w, a, b: w.x.op("u32", opcode, a, b)


for _name, _first, _second in (
    ("v_add3_u32", _op32("add"), _op32("add")), ("v_or3_b32", _op32("or"), _op32("or")),
    ("v_xor3_b32", _op32("xor"), _op32("xor")), ("v_and_or_b32", _op32("and"), _op32("or")),
    ("v_lshl_add_u32", _shl, _op32("add")), ("v_lshl_or_b32", _shl, _op32("or")),
    ("v_add_lshl_u32", _op32("add"), _shl), ("v_xad_u32", _op32("xor"), _op32("add")),
):  # fmt: skip
    simple(_name, "u32", ("u32",) * 3, _two("u32", _first, _second))


def _shl_add64(w: Wave, a: str, b: str, c: str) -> str:
    count = w.x.resize("u32", "u64", w.x.op("u32", "and", b, w.x.const("u32", 7)))
    return w.x.op("u64", "add", w.x.op("u64", "shl", a, count), c)


simple("v_lshl_add_u64", "u64", ("u64", "u32", "u64"), _shl_add64)


def _mad(kind: str) -> Callable[..., str]:
    return lambda w, a, b, c: w.x.op(kind, "add", w.x.op(kind, "mul", a, b), c)


simple("v_mad_u16", "u16", ("u16",) * 3, _mad("u16"))
simple("v_mad_i16", "u16", ("u16",) * 3, _mad("u16"))


def _bfe(has_sign: bool) -> Callable[..., str]:
    def compute(w: Wave, a: str, b: str, c: str) -> str:
        x = w.x
        low, count = (x.op("u32", "and", v, x.const("u32", 31)) for v in (b, c))
        moved = x.op("u32", "lshr", a, low)
        none = x.compare("u32", "eq", count, x.const("u32", 0))
        away = x.op("u32", "sub", x.const("u32", 32), count)
        away = x.select("u32", none, x.const("u32", 0), away)
        if not has_sign:
            value = x.op("u32", "lshr", x.op("u32", "shl", moved, away), away)
        else:
            # Fields that reach over the end have the sign of the whole.
            moved = x.op("u32", "ashr", a, low)
            value = x.op("u32", "ashr", x.op("u32", "shl", moved, away), away)
        return x.select("u32", none, x.const("u32", 0), value)

    return compute


simple("v_bfe_u32", "u32", ("u32",) * 3, _bfe(has_sign=False))
simple("v_bfe_i32", "u32", ("u32",) * 3, _bfe(has_sign=True))


def _bfi(w: Wave, mask: str, a: str, b: str) -> str:
    mine = w.x.op("u32", "and", mask, a)
    inverse = w.x.op("u32", "xor", mask, w.x.const("u32", -1))
    return w.x.op("u32", "or", mine, w.x.op("u32", "and", inverse, b))


simple("v_bfi_b32", "u32", ("u32",) * 3, _bfi)


def _bfm(w: Wave, a: str, b: str) -> str:
    x = w.x
    count, low = (x.op("u32", "and", v, x.const("u32", 31)) for v in (a, b))
    ones = x.op("u32", "sub", x.op("u32", "shl", x.const("u32", 1), count), x.const("u32", 1))
    return x.op("u32", "shl", ones, low)


simple("v_bfm_b32", "u32", ("u32",) * 2, _bfm)


def _align(step: int) -> Callable[..., str]:
    """The low half of two registers, moved right by so many bits times the third source."""

    def compute(w: Wave, a: str, b: str, c: str) -> str:
        x = w.x
        count = x.op("u32", "and", c, x.const("u32", 31 if step == 1 else 3))
        if step > 1:
            count = x.op("u32", "mul", count, x.const("u32", step))
        wide = x.op("u64", "lshr", x.pair(b, a), x.resize("u32", "u64", count))
        return x.resize("u64", "u32", wide)

    return compute


simple("v_alignbit_b32", "u32", ("u32",) * 3, _align(1))
simple("v_alignbyte_b32", "u32", ("u32",) * 3, _align(8))


def _perm(w: Wave, a: str, b: str, c: str) -> str:
    """Each byte of the third source says which byte of the others is there."""
    x, found = w.x, ""
    wide = x.pair(b, a)
    for i in range(4):
        choice = x.bits(c, 8 * i, 8)
        count = x.op("u32", "mul", x.op("u32", "and", choice, x.const("u32", 7)), x.const("u32", 8))
        moved = x.op("u64", "lshr", wide, x.resize("u32", "u64", count))
        byte = x.bits(x.resize("u64", "u32", moved), 0, 8)
        # 8 to 11 are the signs of bytes 1, 3, 5 and 7; 12 is 0, and what is more all ones.
        sign_at = x.op("u32", "mul", x.op("u32", "and", choice, x.const("u32", 3)),
                       x.const("u32", 16))  # fmt: skip
        sign_at = x.op("u32", "add", sign_at, x.const("u32", 15))
        sign = x.op("u64", "lshr", wide, x.resize("u32", "u64", sign_at))
        sign = x.op("u32", "and", x.resize("u64", "u32", sign), x.const("u32", 1))
        signs = x.op("u32", "mul", sign, x.const("u32", 255))
        byte = x.select("u32", x.compare("u32", "ugt", choice, x.const("u32", 7)), signs, byte)
        zero = x.compare("u32", "eq", choice, x.const("u32", 12))
        byte = x.select("u32", zero, x.const("u32", 0), byte)
        ones = x.compare("u32", "ugt", choice, x.const("u32", 12))
        byte = x.select("u32", ones, x.const("u32", 255), byte)
        part = x.op("u32", "shl", byte, x.const("u32", 8 * i))
        found = x.op("u32", "or", found, part) if found else part
    return found


simple("v_perm_b32", "u32", ("u32",) * 3, _perm)


def _of_three(kind: str, how: str) -> Callable[..., str]:
    """The least, greatest or middle of three integers."""
    low, high = (("s" if kind[0] == "i" else "u") + name for name in ("min", "max"))

    def compute(w: Wave, a: str, b: str, c: str) -> str:
        if how != "med3":
            name = low if how == "min3" else high
            return w.x.call(kind, name, w.x.call(kind, name, a, b), c)
        least, most = w.x.call(kind, low, a, b), w.x.call(kind, high, a, b)
        return w.x.call(kind, high, least, w.x.call(kind, low, most, c))

    return compute


for _kind in ("u32", "i32", "u16", "i16"):
    for _name in ("min3", "max3", "med3"):
        simple(f"v_{_name}_{_kind}", _kind, (_kind,) * 3, _of_three(_kind, _name))


for _kind, _sign in (("u32", "u"), ("i32", "s")):
    _least, _most = (_intrinsic(f"{_sign}{_name}", _kind) for _name in ("min", "max"))
    simple(f"v_minmax_{_kind}", _kind, (_kind,) * 3, _two(_kind, _least, _most))
    simple(f"v_maxmin_{_kind}", _kind, (_kind,) * 3, _two(_kind, _most, _least))


def _sad(w: Wave, a: str, b: str, c: str) -> str:
    most, least = w.x.call("u32", "umax", a, b), w.x.call("u32", "umin", a, b)
    return w.x.op("u32", "add", w.x.op("u32", "sub", most, least), c)


simple("v_sad_u32", "u32", ("u32",) * 3, _sad)

# -- one source

simple("v_not_b32", "u32", ("u32",), lambda w, a: w.x.op("u32", "xor", a, w.x.const("u32", -1)))
simple("v_not_b16", "u16", ("u16",), lambda w, a: w.x.op("u16", "xor", a, w.x.const("u16", -1)))
simple("v_bfrev_b32", "u32", ("u32",), lambda w, a: w.x.call("u32", "bitreverse", a))
simple("v_bcnt_u32_b32", "u32", ("u32",) * 2,
       lambda w, a, b: w.x.op("u32", "add", w.x.call("u32", "ctpop", a), b))  # fmt: skip
for _name, _kind in (("v_mov_b32", "u32"), ("v_mov_b16", "u16"), ("v_mov_b64", "u64")):
    simple(_name, _kind, (_kind,), lambda _, a: a)
for _name in ("v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"):
    simple(_name, "u32", ("u32",), lambda _, a: a)


def _first_bit(name: str) -> Callable[..., str]:
    def compute(w: Wave, a: str) -> str:
        count = w.x.call("u32", name, a, more="i1 false")
        none = w.x.compare("u32", "eq", a, w.x.const("u32", 0))
        return w.x.select("u32", none, w.x.const("u32", -1), count)

    return compute


simple("v_ctz_i32_b32", "u32", ("u32",), _first_bit("cttz"))
simple("v_clz_i32_u32", "u32", ("u32",), _first_bit("ctlz"))


def _sign_bits(w: Wave, a: str) -> str:
    """How many leading bits are the sign's: -1 where all are."""
    signs = w.x.op("u32", "ashr", a, w.x.const("u32", 31))
    return _first_bit("ctlz")(w, w.x.op("u32", "xor", a, signs))


simple("v_cls_i32", "u32", ("u32",), _sign_bits)


@MEANINGS.of("v_swap_b32")
def _swap(w: Wave) -> None:
    a, b = w.item.operands["vdst"], w.item.operands["src0"]
    first, second = w.vector(a), w.vector(b)
    w.set_vector(a, second)
    w.set_vector(b, first)


@MEANINGS.of("v_nop", "v_pipeflush")
def _nothing(_: Wave) -> None:
    """Nothing."""


# -- carries


def _carry_out(w: Wave, lanes: str) -> None:
    w.set_mask(w.item.operands.get("sdst", VCC), lanes)


def _with_carry(name: str, opcode: str, swapped: bool, takes_carry: bool) -> None:
    def meaning(w: Wave) -> None:
        x = w.x
        a, b = (x.resize("u32", "u64", w.source(f"src{i}", "u32")) for i in range(2))
        if swapped:
            a, b = b, a
        wide = x.op("u64", opcode, a, b)
        if takes_carry:
            flags = w.mask_lanes(w.item.operands.get("src2", VCC))
            wide = x.op("u64", opcode, wide, x.from_flag("u64", flags))
        low, high = x.halves(wide)
        out = x.truth("u32", high)
        if w.item.modifiers.get("clamp"):
            low = x.select("u32", out, x.const("u32", -1 if opcode == "add" else 0), low)
        _carry_out(w, out)
        w.set_bits(32, low)

    MEANINGS.add(name, meaning)


for _name, _op, _swapped in (("add", "add", False), ("sub", "sub", False),
                             ("subrev", "sub", True)):  # fmt: skip
    _with_carry(f"v_{_name}_co_u32", _op, _swapped, takes_carry=False)
    _with_carry(f"v_{_name}_co_ci_u32", _op, _swapped, takes_carry=True)


def _mad64(letter: str) -> None:
    @MEANINGS.of(f"v_mad_{letter}64_{letter}32")
    def meaning(w: Wave) -> None:
        x = w.x
        a, b = (x.resize(f"{letter}32", "u64", w.source(f"src{i}", "u32")) for i in range(2))
        c, product = w.source("src2", "u64"), x.op("u64", "mul", a, b)
        total = x.op("u64", "add", product, c)
        if letter == "u":
            out = x.compare("u64", "ult", total, c)
        else:
            # The 65th bit of a sum of numbers with signs.
            over = x.op("u64", "and", x.op("u64", "xor", total, product),
                        x.op("u64", "xor", total, c))  # fmt: skip
            top = x.op("u64", "xor", total, over)
            out = x.compare("i64", "slt", top, x.const("u64", 0))
        if "sdst" in w.item.operands:
            _carry_out(w, out)
        w.set_bits(64, total)


for _letter in "ui":
    _mad64(_letter)


# -- choices


def _choice(name: str, kind: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        a, b = w.source("src0", kind), w.source("src1", kind)
        flags = w.mask_lanes(w.item.operands.get("src2", VCC))
        w.set_bits(bits_of(kind), w.x.select(kind, flags, b, a))


_choice("v_cndmask_b32", "u32")
_choice("v_cndmask_b16", "u16")

_INTEGERS = {"lt": "lt", "eq": "eq", "le": "le", "gt": "gt", "ne": "ne", "ge": "ge"}
_FLOATS = {
    "lt": "olt", "eq": "oeq", "le": "ole", "gt": "ogt", "lg": "one", "ge": "oge", "o": "ord",
    "u": "uno", "nge": "ult", "nlg": "ueq", "ngt": "ule", "nle": "ugt", "neq": "une", "nlt": "uge",
}  # fmt: skip


def set_flags(w: Wave, lanes: str) -> None:
    """What a comparison does with its result: `cmpx` sets EXEC, too, or only that."""
    sets_exec = w.name.startswith("v_cmpx")
    mine = w.e.as_mask(w.x.both(lanes, w.lanes))
    if not sets_exec or w.chip.generation < 10:
        w.set_scalar(w.item.operands.get("sdst", VCC), mine, w.mask_kind)
    if sets_exec:
        w.set_exec(mine)


def _comparison(how: str, kind: str) -> None:
    sign = "" if how in ("eq", "ne") else "s" if kind[0] == "i" else "u"
    opcode = _FLOATS[how] if is_float(kind) else sign + _INTEGERS[how]

    def meaning(w: Wave) -> None:
        a, b = w.source("src0", kind), w.source("src1", kind)
        set_flags(w, w.x.compare(kind, opcode, a, b))

    for prefix in ("v_cmp", "v_cmpx"):
        MEANINGS.add(f"{prefix}_{how}_{kind}", meaning)


for _kind in ("i16", "u16", "i32", "u32", "i64", "u64"):
    for _how in _INTEGERS:
        _comparison(_how, _kind)
for _kind in ("f16", "f32", "f64"):
    for _how in _FLOATS:
        _comparison(_how, _kind)


def _same_for_all(name: str, value: bool) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        ones = w.x.compare("u32", "eq" if value else "ne", *[w.x.const("u32", 0)] * 2)
        set_flags(w, ones)


for _kind in ("i16", "u16", "i32", "u32", "i64", "u64", "f16", "f32", "f64"):
    for _prefix in ("v_cmp", "v_cmpx"):
        _same_for_all(f"{_prefix}_f_{_kind}", value=False)
        _same_for_all(f"{_prefix}_t_{_kind}", value=True)


# -- between lanes


@MEANINGS.of("v_readfirstlane_b32")
def _read_first(w: Wave) -> None:
    value = w.raw("src0", "u32")
    none = w.s.compare(w.mask_kind, "eq", w.e.mask_bits, "0")
    lane = w.s.select("u32", none, "0", w.e.first_lane(w.e.mask_bits))
    _extract(w, value, lane)


def _extract(w: Wave, value: str, lane: str) -> None:
    found = w.e.op(f"extractelement {w.e.lanes('i32')} {value}, i32 {lane}")
    w.set_scalar(w.item.operands.get("vdst") or w.item.operands["sdst"], found)


def _lane(w: Wave, name: str) -> str:
    return w.s.op("u32", "and", w.scalar(w.item.operands[name]), str(w.width - 1))


@MEANINGS.of("v_readlane_b32")
def _read_lane(w: Wave) -> None:
    _extract(w, w.raw("src0", "u32"), _lane(w, "src1"))


@MEANINGS.of("v_writelane_b32")
def _write_lane(w: Wave) -> None:
    """EXEC does not matter."""
    of, value = w.item.operands["vdst"], w.scalar(w.item.operands["src0"])
    now, lane = w.vector(of), _lane(w, "src1")
    found = w.e.op(f"insertelement {w.e.lanes('i32')} {now}, i32 {value}, i32 {lane}")
    letter = "a" if of.kind is Kind.AGPR else "v"
    w.registers.write(f"{letter}{of.index}", found)


@MEANINGS.of("v_permlane16_b32", "v_permlanex16_b32")
def _permute_rows(w: Wave) -> None:
    """Lanes of a row take from their own row, or from its neighbour, by 16 numbers of 4 bits."""
    x, e = w.x, w.e
    value, now = w.raw("src0", "u32"), w.vector(w.item.operands["vdst"])
    low, high = (w.scalar(w.item.operands[name]) for name in ("src1", "src2"))
    choices = x.pair(w.spread("u32", low), w.spread("u32", high))
    shifts = e.machine.constants("i64", [4 * (i % 16) for i in range(w.width)])
    row = 16 if "x16" in w.name else 0
    rows = e.machine.constants("i32", [(i & ~15) ^ row for i in range(w.width)])
    place = x.op("u64", "and", x.op("u64", "lshr", choices, shifts), x.const("u64", 15))
    lanes = x.op("u32", "or", x.resize("u64", "u32", place), rows)
    moved = gather(w, value, lanes)
    # op_sel: 1 reads lanes that do not act, 2 gives 0 for those that are not read.
    options = w.item.modifiers.get("op_sel", 0)
    if not options & 1:
        active = gather(w, x.from_flag("u32", e.mask), lanes)
        other = x.const("u32", 0) if options & 2 else now
        moved = x.select("u32", x.truth("u32", active), moved, other)
    w.set_bits(32, moved)


@MEANINGS.of("v_permlane64_b32")
def _swap_halves(w: Wave) -> None:
    value = w.raw("src0", "u32")
    if w.width == 64:
        order = w.e.machine.constants("i32", [i ^ 32 for i in range(64)])
        shape = w.e.lanes("i32")
        value = w.e.op(f"shufflevector {shape} {value}, {shape} poison, {shape} {order}")
    w.set_bits(32, value)


def gather(w: Wave, value: str, lanes: str) -> str:
    """For each lane the value of the lane whose number it has."""
    e, shape = w.e, w.e.lanes("i32")
    name = "gather_lanes"
    function = e.need(
        name,
        f"""define internal {shape} @{name}({shape} %values, {shape} %lanes) noinline {{
entry:
  %from = alloca {shape}
  %to = alloca {shape}
  %which = alloca {shape}
  store {shape} %values, ptr %from
  store {shape} %lanes, ptr %which
  br label %loop
loop:
  %n = phi i32 [0, %entry], [%next, %loop]
  %w = getelementptr i32, ptr %which, i32 %n
  %lane = load i32, ptr %w
  %p = getelementptr i32, ptr %from, i32 %lane
  %x = load i32, ptr %p
  %q = getelementptr i32, ptr %to, i32 %n
  store i32 %x, ptr %q
  %next = add i32 %n, 1
  %more = icmp ult i32 %next, {w.width}
  br i1 %more, label %loop, label %done
done:
  %all = load {shape}, ptr %to
  ret {shape} %all
}}
""",
    )
    return e.op(f"call {shape} {function}({shape} {value}, {shape} {lanes})")


def _count_below(w: Wave, low: int) -> None:
    """How many bits of a mask stand for lanes below each, of half a wave, plus a number."""
    x = w.x
    below = [((1 << min(max(i - low, 0), 32)) - 1) for i in range(w.width)]
    bits = x.op("u32", "and", w.source("src0", "u32"), w.e.machine.constants("i32", below))
    w.set_bits(32, x.op("u32", "add", x.call("u32", "ctpop", bits), w.source("src1", "u32")))


@MEANINGS.of("v_mbcnt_lo_u32_b32")
def _count_low(w: Wave) -> None:
    _count_below(w, 0)


@MEANINGS.of("v_mbcnt_hi_u32_b32")
def _count_high(w: Wave) -> None:
    _count_below(w, 32)


# -- pairs of 16 bits


def packed(name: str, count: int, compute: Callable[..., str]) -> None:
    """The same on both halves: op_sel and op_sel_hi say which halves of the sources they take."""

    @MEANINGS.of(f"v_pk_{name}")
    def meaning(w: Wave) -> None:
        kind = re.sub(r".*_([a-z]\d+)$", r"\1", name)
        kind = "u16" if kind == "b16" else kind
        low, high = (
            compute(w, *[packed_source(w, f"src{i}", kind, i, half) for i in range(count)])
            for half in range(2)
        )
        if is_float(kind):
            low, high = (w.x.cast(kind, "u16", w.finished(kind, v)) for v in (low, high))
        w.set_bits(32, join(w, low, high))


def join(w: Wave, low: str, high: str) -> str:
    """Two values of 16 bits in one register."""
    low, high = (w.x.resize("u16", "u32", v) for v in (low, high))
    return w.x.op("u32", "or", low, w.x.op("u32", "shl", high, w.x.const("u32", 16)))


def packed_source(w: Wave, name: str, kind: str, at: int, half: int) -> str:
    """The half of a source that an operation on a half takes."""
    m = w.item.modifiers
    chosen = m.get("op_sel_hi" if half else "op_sel", 0) >> at & 1
    value = w.packed_bits(name)
    if chosen:
        value = w.x.op("u32", "lshr", value, w.x.const("u32", 16))
    value = w.x.resize("u32", "u16", value)
    if not is_float(kind):
        return value
    if m.get("neg_hi" if half else "neg_lo", 0) >> at & 1:
        value = w.x.op("u16", "xor", value, w.x.const("u16", 0x8000))
    return w.flushed(kind, w.x.cast("u16", kind, value))


for _name, _op in (("add_u16", "add"), ("sub_u16", "sub"), ("add_i16", "add"), ("sub_i16", "sub")):
    packed(_name, 2, _clamped(_op, _name[-3:], swapped=False))
packed("mul_lo_u16", 2, _opcode("mul", "u16"))
for _name, _op in (("lshlrev_b16", "shl"), ("lshrrev_b16", "lshr"), ("ashrrev_i16", "ashr")):
    packed(_name, 2, _shift(_op, 16))
for _name in ("umin", "umax", "smin", "smax"):
    packed(f"{_name[1:]}_{'u' if _name[0] == 'u' else 'i'}16", 2, _intrinsic(_name, "u16"))
for _name in ("mad_u16", "mad_i16"):
    packed(_name, 3, _mad("u16"))


@MEANINGS.of("v_pack_b32_f16")
def _pack(w: Wave) -> None:
    w.set_bits(32, join(w, w.raw_signed("src0"), w.raw_signed("src1")))
