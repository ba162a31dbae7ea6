"""An instruction as text, as LLVM's disassembler prints it: `v_add_f32_e32 v1, s2, v2`.

The text of a row is LLVM's own, with places for operands (`v_add_f32$vdst, $src0, $src1`). What a
place prints depends on its class: a register, ` offset:16`, ` quad_perm:[0,1,2,3]`. Numbers that
LLVM spells by name without need (messages, hardware registers, formats) stay numbers here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.emulate.amd.operands import Kind, Operand, register_text
from treadle.emulate.amd.table import generation

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.amd.decode import Instruction

__all__ = ["text"]

_PLACE = re.compile(r"\$(\w+)")


def text(of: Instruction) -> str:
    """The instruction in LLVM's assembly language; its mnemonic is followed by one space."""
    asm = re.sub(r"[{}]", "", of.row.asm).replace("$format $soffset", " $soffset$format")
    first = re.split(r"[^\w.]", asm, maxsplit=1)[0]
    places = _with_vcc(of, asm[len(first) :])
    rest = _PLACE.sub(lambda place: _place(of, place[1]), places)
    if places.startswith(("$vdst", "$sdst", "$tgt")):
        rest = " " + rest
    name = of.mnemonic if not of.pair else first
    return re.sub(r"  +", " ", name + rest).rstrip()


def _vcc(of: Instruction) -> str:
    return "vcc_lo" if of.wave_size == 32 else "vcc"


# Operations that read, or read and write, VCC in their short encodings without a field for it.
_CARRY = ("v_add_co_ci_u32", "v_sub_co_ci_u32", "v_subrev_co_ci_u32")
_SELECT = ("v_cndmask_b32", "v_cndmask_b16")


def _with_vcc(of: Instruction, places: str) -> str:
    """The places of a row with VCC among them, where the instruction has no field for it."""
    if of.encoding.startswith("VOP3") or "vcc" in places or of.pair:
        return places
    compares = ("v_cmp_", "v_cmpx_") if generation(of.chip) == 9 else ("v_cmp_",)
    if of.operation.startswith(compares) and "sdst" not in of.operands:
        return f" {_vcc(of)},{places}"
    if of.operation in _CARRY:
        places = places.replace("$vdst", f"$vdst, {_vcc(of)}", 1)
    if of.operation in _CARRY + _SELECT:
        return re.sub(r"(\$src1(?:_modifiers)?)", rf"\1, {_vcc(of)}", places, count=1)
    return places


def _place(of: Instruction, name: str) -> str:
    """What the place `$name` prints."""
    base = name.removesuffix("_modifiers")
    if name == "immX":
        base = "imm"
    if name == "vdst" and base not in of.operands and "vdata" in of.operands:
        base = "vdata"
    llvm_class = of.row.classes.get(name, "")
    if name.endswith("_modifiers") and llvm_class in _BYTES_OF_SCALES:
        return _byte_of_scales(of, _BYTES_OF_SCALES[llvm_class])
    if base in of.operands:
        return _operand_text(of, base)
    number = of.modifiers.get(name, 0)
    for table in (_BY_CLASS, _BY_NAME):
        printer = table.get(llvm_class if table is _BY_CLASS else name)
        if printer:
            return printer(of, number)
    return str(number)


def _operand_text(of: Instruction, name: str) -> str:
    operand = of.operands[name]
    shown = register_text(operand)
    if _halved(of, name, operand):
        shown += ".h" if operand.high else ".l"
    if operand.sign_extend:
        return f"sext({shown})"
    if operand.absolute:
        shown = f"|{shown}|"
    if not operand.negate:
        return shown
    number = operand.kind in (Kind.CONSTANT, Kind.LITERAL)
    return f"neg({shown})" if number and not operand.absolute else f"-{shown}"


def _halved(of: Instruction, name: str, operand: Operand) -> bool:
    """Whether a register is one of 16 bits, which has a half in its name."""
    if operand.kind is not Kind.VGPR or operand.bits != 16:
        return False
    llvm_class = of.row.classes.get(name, "")
    return "_16" in llvm_class or "_t16" in llvm_class or "SrcT_" in llvm_class


def _flag(word: str) -> Callable[[Instruction, int], str]:
    return lambda of, number: f" {word}" if number else ""


def _named(word: str) -> Callable[[Instruction, int], str]:
    return lambda of, number: f" {word}:{number}" if number else ""


def _hexadecimal(word: str) -> Callable[[Instruction, int], str]:
    return lambda of, number: f" {word}:0x{number:x}"


def _signed(number: int, bits: int) -> int:
    return number - (1 << bits) if number >> bits - 1 else number


def _flat_offset(of: Instruction, number: int) -> str:
    field = next(f for f in of.row.fields if f.name == "offset")
    width = field.width
    unsigned = of.encoding == "FLAT" and generation(of.chip) < 12
    value = number & (1 << width - 1) - 1 if unsigned else _signed(number, width)
    return f" offset:{value}" if value else ""


def _buffer_offset(of: Instruction, number: int) -> str:
    value = (
        _signed(number, 24) if generation(of.chip) == 12 and of.encoding == "VBUFFER" else number
    )
    return f" offset:{value}" if value else ""


def _scalar_offset(of: Instruction, number: int) -> str:
    width = 24 if generation(of.chip) == 12 else 21
    value = _signed(number, width)
    return f"-0x{-value:x}" if value < 0 else f"0x{value:x}"


def _scalar_offset_modifier(of: Instruction, number: int) -> str:
    return f" offset:{_scalar_offset(of, number)}"


def _optional_scalar_offset(of: Instruction, number: int) -> str:
    is_shown = number or generation(of.chip) == 12
    return _scalar_offset_modifier(of, number) if is_shown else ""


_CACHE_BITS = {
    "gfx9": ((1, "glc"), (2, "slc")),
    "gfx90a": ((1, "glc"), (2, "slc"), (16, "scc")),
    "gfx94": ((1, "sc0"), (2, "nt"), (16, "sc1")),
    "gfx10": ((1, "glc"), (2, "slc"), (4, "dlc")),
    "gfx11": ((1, "glc"), (2, "slc"), (4, "dlc")),
}
_SCOPES = ("", " scope:SCOPE_SE", " scope:SCOPE_DEV", " scope:SCOPE_SYS")


def _cache_policy(of: Instruction, number: int) -> str:
    if generation(of.chip) == 12:
        return _temporal_hint(of, number & 7, number >> 3 & 3) + _SCOPES[number >> 3 & 3]
    if of.chip in ("gfx942", "gfx950") and not of.operation.startswith("s_"):
        bits = _CACHE_BITS["gfx94"]
    else:
        bits = _CACHE_BITS.get(of.chip) or _CACHE_BITS[f"gfx{generation(of.chip)}"]
    return "".join(f" {word}" for bit, word in bits if number & bit)


_LOAD_HINTS = {1: "NT", 2: "HT", 3: "LU", 4: "NT_RT", 5: "RT_NT", 6: "NT_HT"}
_STORE_HINTS = {1: "NT", 2: "HT", 3: "RT_WB", 4: "NT_RT", 5: "RT_NT", 6: "NT_HT", 7: "NT_WB"}


def _temporal_hint(of: Instruction, hint: int, scope: int) -> str:
    if not hint:
        return ""
    if "atomic" in of.operation:
        return _atomic_hint(hint, scope)
    stores = "store" in of.operation
    kind = "STORE" if stores else "LOAD"
    if hint == 3 and scope == 3:
        return f" th:TH_{kind}_BYPASS"
    name = (_STORE_HINTS if stores else _LOAD_HINTS).get(hint)
    return f" th:TH_{kind}_{name}" if name else f" th:0x{hint:x}"


def _atomic_hint(hint: int, scope: int) -> str:
    if hint & 4:
        if scope >= 2:
            return " th:TH_ATOMIC_CASCADE_" + ("NT" if hint & 2 else "RT")
        return f" th:0x{hint:x}"
    if hint & 2:
        return " th:TH_ATOMIC_NT" + ("_RETURN" if hint & 1 else "")
    return " th:TH_ATOMIC_RETURN"


_NO_GDS = ("gfx90a", "gfx942", "gfx950")
_MULTIPLY = ("", " mul:2", " mul:4", " div:2")
_SLOTS = ("p10", "p20", "p0")
_SELECTS = ("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD")
_UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")


def _select(word: str, names: tuple[str, ...]) -> Callable[[Instruction, int], str]:
    return lambda of, number: f" {word}:{names[number] if number < len(names) else number}"


def _dpp_control(of: Instruction, number: int) -> str:
    """The lanes that a DPP operand comes from."""
    if number < 256:
        return f" quad_perm:[{','.join(str(number >> shift & 3) for shift in (0, 2, 4, 6))}]"
    base, by = number & ~15, number & 15
    shifts = {0x100: "row_shl", 0x110: "row_shr", 0x120: "row_ror"}
    if base in shifts and by:
        return f" {shifts[base]}:{by}"
    if generation(of.chip) >= 10 and base in (0x150, 0x160):
        return f" {'row_share' if base == 0x150 else 'row_xmask'}:{by}"
    if of.chip in ("gfx90a", "gfx942", "gfx950") and base == 0x150:
        return f" row_newbcast:{by}"
    return _DPP_WORDS.get(number, f" dpp_ctrl:0x{number:x}")


_DPP_WORDS = {
    0x130: " wave_shl:1",
    0x134: " wave_rol:1",
    0x138: " wave_shr:1",
    0x13C: " wave_ror:1",
    0x140: " row_mirror",
    0x141: " row_half_mirror",
    0x142: " row_bcast:15",
    0x143: " row_bcast:31",
}


def _dpp8(of: Instruction, number: int) -> str:
    return f" dpp8:[{','.join(str(number >> 3 * lane & 7) for lane in range(8))}]"


def _sources(of: Instruction) -> int:
    """How many sources the masks of a packed instruction have bits for."""
    if of.operation.startswith("v_permlane"):
        return 2
    if of.operation.startswith(("v_wmma", "v_swmmac")):
        return 3
    return 1 + max(n for n in range(3) if f"src{n}_modifiers" in of.row.classes)


def _mask(word: str, default: int) -> Callable[[Instruction, int], str]:
    def shown(of: Instruction, number: int) -> str:
        count = _sources(of)
        bits = [number >> n & 1 for n in range(count)]
        if word == "op_sel" and "op_sel_hi" not in of.row.classes and _chooses_result(of):
            bits.append(number >> 3 & 1)
        usual = 0 if "$src0_modifiers" in of.row.asm else default
        if all(bit == usual for bit in bits):
            return ""
        return f" {word}:[{','.join(map(str, bits))}]"

    return shown


_BYTES_OF_SCALES = {"op_sel0": "op_sel", "op_sel_hi0": "op_sel_hi"}


def _byte_of_scales(of: Instruction, word: str) -> str:
    """One bit of which byte a scale is: of A, of B, and of C, which has none."""
    number = of.modifiers[word]
    if not number and word == "op_sel":
        return ""
    return f" {word}:[{number & 1},{number >> 1 & 1},0]"


def _chooses_result(of: Instruction) -> bool:
    """Whether op_sel is printed with a bit for the result: not for lane permutations."""
    compares = of.encoding == "VOP3" and of.operation.startswith("v_cmp_")
    return compares or ("vdst" in of.row.classes and not of.operation.startswith("v_permlane"))


def _format_or_negation(of: Instruction, number: int) -> str:
    """The field blgp, which negates the sources of products in float64 from gfx942 on."""
    if number and of.operation.startswith("v_mfma_f64") and of.chip != "gfx90a":
        return f" neg:[{number & 1},{number >> 1 & 1},{number >> 2}]"
    return f" blgp:{number}" if number else ""


def _number(of: Instruction, number: int) -> str:
    """A number that is small in decimal, else in hexadecimal."""
    return str(number) if number <= 64 else f"0x{number:x}"


def _waits(of: Instruction, number: int) -> str:
    """The counters that s_waitcnt waits for; those at their maximum are not waited for."""
    parts = []
    for name, value, most in _counters(generation(of.chip), number):
        if value != most:
            parts.append(f"{name}({value})")
    return (
        " ".join(parts)
        if parts
        else " ".join(
            f"{name}({value})" for name, value, _ in _counters(generation(of.chip), number)
        )
    )


def _counters(of: int, number: int) -> list[tuple[str, int, int]]:
    if of == 11:
        return [
            ("vmcnt", number >> 10 & 63, 63),
            ("expcnt", number & 7, 7),
            ("lgkmcnt", number >> 4 & 63, 63),
        ]
    wide = 63 if of == 10 else 15
    return [
        ("vmcnt", number & 15 | (number >> 14 & 3) << 4, 63),
        ("expcnt", number >> 4 & 7, 7),
        ("lgkmcnt", number >> 8 & wide, wide),
    ]


def _hardware_register(of: Instruction, number: int) -> str:
    """Which bits of which register: its number, the first bit, how many."""
    register, first, count = number & 63, number >> 6 & 31, (number >> 11) + 1
    part = "" if (first, count) == (0, 32) else f", {first}, {count}"
    return f"hwreg({register}{part})"


def _hexadecimal_word(of: Instruction, number: int) -> str:
    return f"0x{number:x}"


_BY_CLASS: dict[str, Callable[[Instruction, int], str]] = {
    "Offset": _buffer_offset,
    "flat_offset": _flat_offset,
    "SMEMOffset": _scalar_offset,
    "SMEMOffsetMod": _scalar_offset_modifier,
    "OptSMEMOffsetMod": _optional_scalar_offset,
    "Offset0": _named("offset0"),
    "Offset1": _named("offset1"),
    "SOPPBrTarget": lambda of, number: str(number),
    "i16imm": _number,
    "VersionImm": _number,
    "DepCtr": _number,
    "i8imm": _number,
    "hwreg": _hardware_register,
    "SWaitCnt": _waits,
    "s16imm": _hexadecimal_word,
    "u16imm": _hexadecimal_word,
    "i32imm": _number,
    "GPRIdxMode": _number,
    "InterpSlot": lambda of, number: _SLOTS[number] if number < 3 else f"invalid_param_{number}",
    "Endpgm": lambda of, number: f" {number}" if number else "",
}
_BY_NAME: dict[str, Callable[[Instruction, int], str]] = {
    "clamp": _flag("clamp"),
    "omod": lambda of, number: _MULTIPLY[number],
    "gds": lambda of, number: " gds" if number and of.chip not in _NO_GDS else "",
    "cpol": _cache_policy,
    "tfe": _flag("tfe"),
    "lwe": _flag("lwe"),
    "d16": _flag("d16"),
    "da": _flag("da"),
    "unorm": _flag("unorm"),
    "a16": _flag("a16"),
    "r128": _flag("r128"),
    "high": _flag("high"),
    "attr": lambda of, number: f"attr{number}",
    "attrchan": lambda of, number: f".{'xyzw'[number]}",
    "dmask": lambda of, number: f" dmask:0x{number:x}" if number else "",
    "dim": lambda of, number: f" dim:{number}",
    "format": lambda of, number: f" format:{number}" if number else "",
    "dpp_ctrl": _dpp_control,
    "row_mask": _hexadecimal("row_mask"),
    "bank_mask": _hexadecimal("bank_mask"),
    "bound_ctrl": lambda of, number: " bound_ctrl:1" if number else "",
    "fi": _named("fi"),
    "dpp8": _dpp8,
    "dst_sel": _select("dst_sel", _SELECTS),
    "dst_unused": _select("dst_unused", _UNUSED),
    "src0_sel": _select("src0_sel", _SELECTS),
    "src1_sel": _select("src1_sel", _SELECTS),
    "op_sel": _mask("op_sel", 0),
    "op_sel_hi": _mask("op_sel_hi", 1),
    "neg_lo": _mask("neg_lo", 0),
    "neg_hi": _mask("neg_hi", 0),
    "byte_sel": _named("byte_sel"),
    "cbsz": _named("cbsz"),
    "abid": _named("abid"),
    "blgp": _format_or_negation,
    "index_key_8bit": _named("index_key"),
    "index_key_16bit": _named("index_key"),
    "waitexp": lambda of, number: f" wait_exp:{number}",
    "waitvdst": lambda of, number: (
        f" wait_vdst:{number}" if generation(of.chip) == 11 else f" wait_va_vdst:{number}"
    ),
    "waitvsrc": lambda of, number: f" wait_vm_vsrc:{number}",
}
