"""Scalar arithmetic: what writes scalar registers, SCC and EXEC, and has no lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.wave import Unsupported
from treadle.emulate.simt.values import bits_of

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []

_EXEC = 126


def _sources(w: Wave, *kinds: str) -> list[str]:
    return [w.scalar(w.item.operands[f"src{i}"], kind) for i, kind in enumerate(kinds)]


def _write(w: Wave, kind: str, value: str) -> None:
    w.set_scalar(w.item.operands["sdst"], value, kind)


def _nonzero(w: Wave, kind: str, value: str) -> None:
    w.set_scc(w.s.truth(kind, value))


def _immediate(w: Wave) -> str:
    """The 16 bits of an instruction, with their sign."""
    value = w.item.modifiers["simm16"] & 0xFFFF
    return str(value - ((value & 0x8000) << 1))


def _with_overflow(w: Wave, name: str, kind: str, *values: str) -> str:
    """An integer operation whose carry or overflow SCC says."""
    one = f"i{bits_of(kind)}"
    pair = w.e.intrinsic(f"llvm.{name}.with.overflow.{one}", f"{{{one}, i1}}",
                         *(f"{one} {value}" for value in values))  # fmt: skip
    w.set_scc(w.e.op(f"extractvalue {{{one}, i1}} {pair}, 1"))
    return w.e.op(f"extractvalue {{{one}, i1}} {pair}, 0")


def _adder(name: str, intrinsic: str) -> None:
    def meaning(w: Wave) -> None:
        a, b = _sources(w, "u32", "u32")
        _write(w, "u32", _with_overflow(w, intrinsic, "u32", a, b))

    MEANINGS.add(name, meaning)


for _name, _intrinsic in (("s_add_u32", "uadd"), ("s_sub_u32", "usub"), ("s_add_i32", "sadd"),
                          ("s_sub_i32", "ssub")):  # fmt: skip
    _adder(_name, _intrinsic)


@MEANINGS.of("s_addc_u32", "s_subb_u32")
def _with_carry(w: Wave) -> None:
    is_sum = "addc" in w.name
    a, b = (w.s.resize("u32", "u64", v) for v in _sources(w, "u32", "u32"))
    carry = w.s.resize("u32", "u64", w.registers.read("scc"))
    opcode = "add" if is_sum else "sub"
    wide = w.s.op("u64", opcode, w.s.op("u64", opcode, a, b), carry)
    w.set_scc(w.s.truth("u64", w.s.op("u64", "lshr", wide, "32")))
    _write(w, "u32", w.s.resize("u64", "u32", wide))


@MEANINGS.of("s_add_nc_u64", "s_sub_nc_u64", "s_mul_u64")
def _wide(w: Wave) -> None:
    a, b = _sources(w, "u64", "u64")
    _write(w, "u64", w.s.op("u64", w.name.split("_")[1], a, b))


@MEANINGS.of("s_mul_i32")
def _mul(w: Wave) -> None:
    _write(w, "u32", w.s.op("u32", "mul", *_sources(w, "u32", "u32")))


@MEANINGS.of("s_mul_hi_u32", "s_mul_hi_i32")
def _mul_high(w: Wave) -> None:
    sign = w.name[-3]
    a, b = (w.s.resize(f"{sign}32", "u64", v) for v in _sources(w, "u32", "u32"))
    product = w.s.op("u64", "mul", a, b)
    _write(w, "u32", w.s.halves(product)[1])


@MEANINGS.of("s_min_i32", "s_min_u32", "s_max_i32", "s_max_u32")
def _extreme(w: Wave) -> None:
    a, b = _sources(w, "u32", "u32")
    sign = "s" if w.name[-3] == "i" else "u"
    first = w.s.compare("u32", sign + ("lt" if "min" in w.name else "gt"), a, b)
    # SCC says that the first was taken.
    w.set_scc(first)
    _write(w, "u32", w.s.select("u32", first, a, b))


_LOGIC: dict[str, tuple[str, bool, bool]] = {  # opcode, inverts the second, inverts the result
    "and": ("and", False, False), "or": ("or", False, False), "xor": ("xor", False, False),
    "nand": ("and", False, True), "nor": ("or", False, True), "xnor": ("xor", False, True),
    "and_not1": ("and", True, False), "or_not1": ("or", True, False),
}  # fmt: skip


def _logic_value(w: Wave, name: str, kind: str, a: str, b: str) -> str:
    opcode, inverts_second, inverts = _LOGIC[name]
    if inverts_second:
        b = w.s.op(kind, "xor", b, "-1")
    value = w.s.op(kind, opcode, a, b)
    return w.s.op(kind, "xor", value, "-1") if inverts else value


def _logic(name: str, kind: str) -> None:
    def meaning(w: Wave) -> None:
        value = _logic_value(w, name, kind, *_sources(w, kind, kind))
        _nonzero(w, kind, value)
        _write(w, kind, value)

    def save(w: Wave) -> None:
        (source,) = _sources(w, kind)
        now = w.e.mask_bits
        # The operand is the first: EXEC is inverted in and_not1, the operand in and_not0.
        swapped = name.removesuffix("_not0") != name
        base = name.replace("_not0", "_not1")
        value = _logic_value(w, base, kind, *((now, source) if swapped else (source, now)))
        _nonzero(w, kind, value)
        _write(w, kind, now)
        w.set_exec(value)

    bits = kind.replace("u", "b")
    if name in _LOGIC:
        MEANINGS.add(f"s_{name}_{bits}", meaning)
    MEANINGS.add(f"s_{name}_saveexec_{bits}", save)


for _kind in ("u32", "u64"):
    for _name in (*_LOGIC, "and_not0", "or_not0"):
        _logic(_name, _kind)


def _shift(name: str, opcode: str, kind: str) -> None:
    def meaning(w: Wave) -> None:
        a, b = _sources(w, kind, "u32")
        count = w.s.op("u32", "and", b, str(bits_of(kind) - 1))
        value = w.s.op(kind, opcode, a, w.s.resize("u32", kind, count))
        _nonzero(w, kind, value)
        _write(w, kind, value)

    MEANINGS.add(name, meaning)


for _bits in (32, 64):
    _shift(f"s_lshl_b{_bits}", "shl", f"u{_bits}")
    _shift(f"s_lshr_b{_bits}", "lshr", f"u{_bits}")
    _shift(f"s_ashr_i{_bits}", "ashr", f"u{_bits}")


@MEANINGS.of("s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32")
def _shift_add(w: Wave) -> None:
    a, b = (w.s.resize("u32", "u64", v) for v in _sources(w, "u32", "u32"))
    wide = w.s.op("u64", "add", w.s.op("u64", "shl", a, w.name[6]), b)
    w.set_scc(w.s.truth("u64", w.s.op("u64", "lshr", wide, "32")))
    _write(w, "u32", w.s.resize("u64", "u32", wide))


@MEANINGS.of("s_bfm_b32", "s_bfm_b64")
def _field_mask(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    most = str(bits_of(kind) - 1)
    count, low = (w.s.resize("u32", kind, w.s.op("u32", "and", v, most))
                  for v in _sources(w, "u32", "u32"))  # fmt: skip
    ones = w.s.op(kind, "add", w.s.op(kind, "shl", "1", count), "-1")
    _write(w, kind, w.s.op(kind, "shl", ones, low))


@MEANINGS.of("s_bfe_u32", "s_bfe_i32", "s_bfe_u64", "s_bfe_i64")
def _field(w: Wave) -> None:
    kind, has_sign = "u" + w.name[-2:], w.name[-3] == "i"
    a, b = _sources(w, kind, "u32")
    bits = bits_of(kind)
    low = w.s.resize("u32", kind, w.s.op("u32", "and", b, str(bits - 1)))
    count = w.s.op("u32", "and", w.s.op("u32", "lshr", b, "16"), "127")
    count = w.s.call("u32", "umin", count, str(bits))
    away = w.s.resize("u32", kind, w.s.op("u32", "sub", str(bits), count))
    moved = w.s.op(kind, "lshr", a, low)
    none = w.s.compare("u32", "eq", count, "0")
    away = w.s.select(kind, none, "0", away)
    value = w.s.op(kind, "ashr" if has_sign else "lshr", w.s.op(kind, "shl", moved, away), away)
    value = w.s.select(kind, none, "0", value)
    _nonzero(w, kind, value)
    _write(w, kind, value)


@MEANINGS.of("s_absdiff_i32")
def _distance(w: Wave) -> None:
    value = w.s.op("u32", "sub", *_sources(w, "u32", "u32"))
    value = w.s.call("u32", "abs", value, more="i1 false")
    _nonzero(w, "u32", value)
    _write(w, "u32", value)


def _pack(name: str, first: bool, second: bool) -> None:
    def meaning(w: Wave) -> None:
        a, b = _sources(w, "u32", "u32")
        low = w.s.op("u32", "lshr", a, "16") if first else w.s.op("u32", "and", a, "65535")
        high = w.s.op("u32", "and", b, "-65536") if second else w.s.op("u32", "shl", b, "16")
        _write(w, "u32", w.s.op("u32", "or", low, high))

    MEANINGS.add(name, meaning)


for _name, _first, _second in (("ll", False, False), ("lh", False, True), ("hh", True, True),
                               ("hl", True, False)):  # fmt: skip
    _pack(f"s_pack_{_name}_b32_b16", _first, _second)


@MEANINGS.of("s_cselect_b32", "s_cselect_b64")
def _select(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    a, b = _sources(w, kind, kind)
    _write(w, kind, w.s.select(kind, w.scc(), a, b))


# -- one source


@MEANINGS.of("s_mov_b32", "s_mov_b64")
def _move(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    _write(w, kind, *_sources(w, kind))


@MEANINGS.of("s_cmov_b32", "s_cmov_b64")
def _move_if(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    (a,) = _sources(w, kind)
    _write(w, kind, w.s.select(kind, w.scc(), a, w.scalar(w.item.operands["sdst"], kind)))


@MEANINGS.of("s_not_b32", "s_not_b64")
def _not(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    value = w.s.op(kind, "xor", *_sources(w, kind), "-1")
    _nonzero(w, kind, value)
    _write(w, kind, value)


@MEANINGS.of("s_brev_b32", "s_brev_b64")
def _reverse(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    _write(w, kind, w.s.call(kind, "bitreverse", *_sources(w, kind)))


def _quads(w: Wave) -> tuple[str, str]:
    """A mask's kind, and the lowest bit of each four of which one is set."""
    kind = "u" + w.name[-2:]
    (a,) = _sources(w, kind)
    for away in (1, 2):
        a = w.s.op(kind, "or", a, w.s.op(kind, "lshr", a, str(away)))
    return kind, w.s.op(kind, "and", a, str(0x1111111111111111 & (1 << int(kind[1:])) - 1))


@MEANINGS.of("s_wqm_b32", "s_wqm_b64")
def _whole_quads(w: Wave) -> None:
    kind, lowest = _quads(w)
    found = w.s.op(kind, "mul", lowest, "15")
    _write(w, kind, found)
    w.set_scc(w.s.truth(kind, found))


@MEANINGS.of("s_quadmask_b32", "s_quadmask_b64")
def _quad_mask(w: Wave) -> None:
    """A bit for each four."""
    kind, value = _quads(w)
    for away in (3, 6, 12, 24)[: 3 if kind == "u32" else 4]:
        # Two groups of bits become one of twice the size.
        size = away // 3
        mask = sum(((1 << 2 * size) - 1) << 8 * size * n for n in range(64 // (8 * size)))
        moved = w.s.op(kind, "or", value, w.s.op(kind, "lshr", value, str(away)))
        value = w.s.op(kind, "and", moved, str(mask & (1 << int(kind[1:])) - 1))
    _write(w, kind, value)
    w.set_scc(w.s.truth(kind, value))


@MEANINGS.of("s_bitreplicate_b64_b32")
def _twice_each_bit(w: Wave) -> None:
    (a,) = _sources(w, "u32")
    value = w.s.resize("u32", "u64", a)
    for away, mask in (
        (16, 0x0000FFFF0000FFFF), (8, 0x00FF00FF00FF00FF), (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333), (1, 0x5555555555555555),
    ):  # fmt: skip
        moved = w.s.op("u64", "or", value, w.s.op("u64", "shl", value, str(away)))
        value = w.s.op("u64", "and", moved, str(mask))
    _write(w, "u64", w.s.op("u64", "mul", value, "3"))


@MEANINGS.of("s_bcnt1_i32_b32", "s_bcnt1_i32_b64", "s_bcnt0_i32_b32", "s_bcnt0_i32_b64")
def _count(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    (a,) = _sources(w, kind)
    if "bcnt0" in w.name:
        a = w.s.op(kind, "xor", a, "-1")
    value = w.s.resize(kind, "u32", w.s.call(kind, "ctpop", a))
    _nonzero(w, "u32", value)
    _write(w, "u32", value)


@MEANINGS.of("s_ctz_i32_b32", "s_ctz_i32_b64", "s_clz_i32_u32", "s_clz_i32_u64")
def _zeros(w: Wave) -> None:
    kind = "u" + w.name[-2:]
    (a,) = _sources(w, kind)
    count = w.s.resize(kind, "u32", w.s.call(kind, "cttz" if "ctz" in w.name else "ctlz", a,
                                             more="i1 false"))  # fmt: skip
    none = w.s.compare(kind, "eq", a, "0")
    _write(w, "u32", w.s.select("u32", none, "-1", count))


@MEANINGS.of("s_cls_i32", "s_cls_i32_i64")
def _sign_bits(w: Wave) -> None:
    """How many leading bits are the sign's: -1 where all are."""
    bits = 64 if w.name.endswith("64") else 32
    kind = f"u{bits}"
    (a,) = _sources(w, kind)
    others = w.s.op(kind, "xor", a, w.s.op(kind, "ashr", a, str(bits - 1)))
    count = w.s.resize(kind, "u32", w.s.call(kind, "ctlz", others, more="i1 false"))
    _write(w, "u32", w.s.select("u32", w.s.compare(kind, "eq", others, "0"), "-1", count))


@MEANINGS.of("s_sext_i32_i8", "s_sext_i32_i16")
def _extend(w: Wave) -> None:
    away = "24" if w.name.endswith("i8") else "16"
    (a,) = _sources(w, "u32")
    _write(w, "u32", w.s.op("u32", "ashr", w.s.op("u32", "shl", a, away), away))


@MEANINGS.of("s_abs_i32")
def _abs(w: Wave) -> None:
    value = w.s.call("u32", "abs", *_sources(w, "u32"), more="i1 false")
    _nonzero(w, "u32", value)
    _write(w, "u32", value)


@MEANINGS.of("s_bitset0_b32", "s_bitset1_b32")
def _set_bit(w: Wave) -> None:
    (a,) = _sources(w, "u32")
    bit = w.s.op("u32", "shl", "1", w.s.op("u32", "and", a, "31"))
    now = w.scalar(w.item.operands["sdst"])
    if "set1" in w.name:
        _write(w, "u32", w.s.op("u32", "or", now, bit))
    else:
        _write(w, "u32", w.s.op("u32", "and", now, w.s.op("u32", "xor", bit, "-1")))


@MEANINGS.of("s_getpc_b64")
def _counter(w: Wave) -> None:
    _write(w, "u64", str(w.address + w.item.size))


# -- an immediate of 16 bits


@MEANINGS.of("s_movk_i32")
def _move_immediate(w: Wave) -> None:
    _write(w, "u32", _immediate(w))


@MEANINGS.of("s_cmovk_i32")
def _move_immediate_if(w: Wave) -> None:
    now = w.scalar(w.item.operands["sdst"])
    _write(w, "u32", w.s.select("u32", w.scc(), _immediate(w), now))


@MEANINGS.of("s_addk_i32")
def _add_immediate(w: Wave) -> None:
    now = w.scalar(w.item.operands["sdst"])
    _write(w, "u32", _with_overflow(w, "sadd", "u32", now, _immediate(w)))


@MEANINGS.of("s_mulk_i32")
def _mul_immediate(w: Wave) -> None:
    now = w.scalar(w.item.operands["sdst"])
    _write(w, "u32", w.s.op("u32", "mul", now, _immediate(w)))


# -- comparisons

_ORDER = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


def _comparison(how: str, letter: str, bits: int) -> None:
    same = {"eq": "eq", "lg": "ne"}.get(how)
    opcode = same or ("s" if letter == "i" else "u") + _ORDER[how]

    def meaning(w: Wave) -> None:
        a, b = _sources(w, f"u{bits}", f"u{bits}")
        w.set_scc(w.s.compare(f"u{bits}", opcode, a, b))

    def immediate(w: Wave) -> None:
        operands = w.item.operands
        number = w.item.modifiers["simm16"] & 0xFFFF if letter == "u" else _immediate(w)
        a = w.scalar(operands.get("src0") or operands["sdst"])
        w.set_scc(w.s.compare("u32", opcode, a, str(number)))

    MEANINGS.add(f"s_cmp_{how}_{letter}{bits}", meaning)
    if bits == 32:
        MEANINGS.add(f"s_cmpk_{how}_{letter}{bits}", immediate)


for _how in ("eq", "lg", *_ORDER):
    for _letter in "iu":
        _comparison(_how, _letter, 32)
for _how in ("eq", "lg"):
    _comparison(_how, "u", 64)


def _bit_comparison(name: str, bits: int, value: int) -> None:
    def meaning(w: Wave) -> None:
        kind = f"u{bits}"
        a, b = _sources(w, kind, "u32")
        at = w.s.resize("u32", kind, w.s.op("u32", "and", b, str(bits - 1)))
        bit = w.s.op(kind, "and", w.s.op(kind, "lshr", a, at), "1")
        w.set_scc(w.s.compare(kind, "eq", bit, str(value)))

    MEANINGS.add(name, meaning)


for _bits in (32, 64):
    for _value in (0, 1):
        _bit_comparison(f"s_bitcmp{_value}_b{_bits}", _bits, _value)


# -- MODE


@MEANINGS.of("s_round_mode")
def _round_mode(w: Wave) -> None:
    if w.item.modifiers["simm16"] & 15:
        raise Unsupported("floats that are not rounded to the nearest")


@MEANINGS.of("s_denorm_mode")
def _denorm_mode(w: Wave) -> None:
    w.mode = w.mode.with_denormals(w.item.modifiers["simm16"])


_FLAT_SCRATCH = {20: "flat_scratch_lo", 21: "flat_scratch_hi"}
_MODE = 1


def _hardware_field(w: Wave) -> tuple[int, int, int]:
    """A hardware register's number, and the lowest bit and the bits of its field."""
    what = w.item.modifiers["simm16"]
    return what & 63, what >> 6 & 31, (what >> 11 & 31) + 1


@MEANINGS.of("s_setreg_b32", "s_setreg_imm32_b32")
def _set_hardware(w: Wave) -> None:
    number, low, count = _hardware_field(w)
    given = w.item.operands.get("sdst")
    if number in _FLAT_SCRATCH and count == 32 and given is not None:
        w.registers.write(_FLAT_SCRATCH[number], w.scalar(given))
        return
    if number != _MODE or given is not None:
        raise Unsupported(f"{w.item.mnemonic} of hardware register {number}")
    w.mode = w.mode.with_field(low, count, w.item.modifiers["imm"])
    if w.mode.rounding:
        raise Unsupported("floats that are not rounded to the nearest")


@MEANINGS.of("s_getreg_b32")
def _get_hardware(w: Wave) -> None:
    number, low, count = _hardware_field(w)
    if number in _FLAT_SCRATCH:
        value = w.s.bits(w.registers.read(_FLAT_SCRATCH[number]), low, count)
    elif number == _MODE and low + count <= w.mode.BITS:
        value = str(w.mode.bits >> low & (1 << count) - 1)
    else:
        raise Unsupported(f"{w.item.mnemonic} of hardware register {number}")
    _write(w, "u32", value)


def _nothing(_: Wave) -> None:
    """What only concerns time: an instruction that changes nothing that code can see."""


for _name in (
    "s_nop", "s_delay_alu", "s_clause", "s_inst_prefetch", "s_set_inst_prefetch_distance",
    "s_sleep", "s_sendmsg", "s_setprio", "s_code_end", "s_icache_inv", "s_dcache_inv",
    "s_dcache_wb", "s_gl1_inv", "s_wait_alu", "s_wait_event", "s_wait_idle",
):  # fmt: skip
    MEANINGS.add(_name, _nothing)
