"""What a field of an AMD instruction names: a register, a special register, a constant, a literal.

Field 256 of the class VSrc_f32 is v0, 3 is s3, 106 is vcc_lo, 129 the integer 1, 242 the float 1.0,
255 the literal that follows the instruction. A field has a class of LLVM's (`VSrc_f32`, `SReg_64`,
`AVLdSt_128`), which says what it may name and how wide that is.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import Enum
from functools import cache

__all__ = [
    "LITERAL",
    "FieldClass",
    "Kind",
    "Operand",
    "field_class",
    "literal_operand",
    "operand",
    "register_text",
]

LITERAL = 255  # the source field that says: 4 bytes follow the instruction
_VECTOR = 256  # the first source field that names a vector register
_ACCUMULATOR = 512  # the bit that makes a vector register an accumulation register


class Kind(Enum):
    """What an operand is."""

    SGPR = "s"
    VGPR = "v"
    AGPR = "a"
    TTMP = "ttmp"  # scalar registers of the trap handler
    SPECIAL = "special"  # by its name: vcc, exec, m0, null, scc, ...
    CONSTANT = "constant"  # inline: part of the field
    LITERAL = "literal"  # 4 bytes of the instruction


@dataclass(frozen=True, slots=True)
class Operand:
    """What one field names.

    `index` is the number of the first register, or the field itself where `kind` has no registers.
    `bits` is the width of the value, `type` what LLVM takes it for ("f32", "b64", "v2f16").
    `value` has the bits of a constant or literal, widened to `bits` as the type says: a literal is
    the upper half of a float64, a constant float has the operand's own format. `high` is the upper
    half of a register, for values of 16 bits.
    """

    kind: Kind
    index: int
    bits: int
    type: str = "b32"
    name: str = ""
    value: int = 0
    high: bool = False
    negate: bool = False
    absolute: bool = False
    sign_extend: bool = False

    @property
    def count(self) -> int:
        """How many 32-bit registers the value fills."""
        return max(1, self.bits // 32)


class Place(Enum):
    """What the numbers of a field count."""

    SOURCE = "everything that can be read"
    VECTOR_SOURCE = "vector registers behind bit 8, and constants"
    SCALAR = "scalar registers"
    VECTOR = "vector registers"
    ACCUMULATOR = "accumulation registers"
    ACCUMULATOR_SOURCE = "accumulation registers behind bit 8, and constants"
    EITHER = "vector registers, and accumulation registers behind bit 9"
    SDWA = "vector registers, and what else can be read behind bit 8"
    SDWA_SCALAR = "scalar registers behind bit 7, VCC without it"
    IMMEDIATE = "no register: a number"


@dataclass(frozen=True, slots=True)
class FieldClass:
    """A class of LLVM's, taken apart.

    `low128` is a field whose bit 7 names the upper half of one of the first 128 registers.
    `mask` is a scalar pair or single with a bit for each lane.
    """

    place: Place
    bits: int = 32
    type: str = "b32"
    low128: bool = False
    mask: bool = False


_PLAIN = {
    "VOPDstS64orS32": FieldClass(Place.SCALAR, 64, "b64", mask=True),
    "SDWAVopcDst": FieldClass(Place.SDWA_SCALAR, 64, "b64", mask=True),
    "SSrc_i1": FieldClass(Place.SOURCE, 64, "b64", mask=True),
    "VRegOrLdsSrc_32": FieldClass(Place.SOURCE),
    "SSrcOrLds_b32": FieldClass(Place.SOURCE),
    "VINTRPDst": FieldClass(Place.VECTOR),
    "VOPDDstYOperand": FieldClass(Place.VECTOR),
    "VRegSrc_fake16": FieldClass(Place.VECTOR, 16, "b16"),
    "VOPDstOperand_t16": FieldClass(Place.VECTOR, 16, "b16"),
    "VOPDstOperand_t16Lo128": FieldClass(Place.VECTOR, 16, "b16", low128=True),
    "VOPSrcEncodedDstOperand_t16Lo128": FieldClass(Place.VECTOR, 16, "b16", low128=True),
    "AV_LdSt_32_Align2_RegOp": FieldClass(Place.EITHER),
    "SplitBarrier": FieldClass(Place.SOURCE),
    "KImmFP32": FieldClass(Place.SOURCE, 32, "f32"),
    "KImmFP16": FieldClass(Place.SOURCE, 16, "f16"),
    **{f"ExpSrc{n}": FieldClass(Place.VECTOR) for n in range(4)},
}
_REGISTERS = re.compile(
    r"(?P<prefix>VGPROp|VGPR|VRegSrc|VReg|VDst|VISrc|ADst|AISrc|ARegSrc|AVLdSt|AVSrc|AVDst|SReg)"
    r"_(?P<bits>\d+)(?P<rest>.*)"
)
_SOURCES = re.compile(
    r"(?:SSrc|SCSrc|VSrc|VCSrc|SDWASrc)(?:T|Fake16)?_(?P<type>\w+?\d+)(?P<rest>_\w+)?"
)
_PLACES = {
    "VGPROp": Place.VECTOR,
    "VGPR": Place.VECTOR,
    "VRegSrc": Place.VECTOR,
    "VReg": Place.VECTOR,
    "VDst": Place.VECTOR,
    "VISrc": Place.VECTOR_SOURCE,
    "ADst": Place.ACCUMULATOR,
    "AISrc": Place.ACCUMULATOR_SOURCE,
    "ARegSrc": Place.ACCUMULATOR,
    "AVLdSt": Place.EITHER,
    "AVSrc": Place.EITHER,
    "AVDst": Place.EITHER,
    "SReg": Place.SCALAR,
}
_IMMEDIATE = FieldClass(Place.IMMEDIATE)


@cache
def field_class(name: str) -> FieldClass:
    """The class of this name; what names no register is an immediate."""
    if name in _PLAIN:
        return _PLAIN[name]
    if match := _REGISTERS.fullmatch(name):
        bits, rest = int(match["bits"]), match["rest"]
        return FieldClass(
            _PLACES[match["prefix"]],
            bits,
            rest.lstrip("_") if match["prefix"] in ("VISrc", "AISrc") else f"b{bits}",
            low128=bits == 16 and "Lo128" in rest,
        )
    if match := _SOURCES.fullmatch(name):
        type = match["type"]
        low128 = name.startswith("VSrcT_") and "Lo128" in name
        place = Place.SDWA if name.startswith("SDWA") else Place.SOURCE
        return FieldClass(place, _width(type), type, low128)
    return _IMMEDIATE


def _width(type: str) -> int:
    """16 of "bf16", 32 of "v2f16", 64 of "v2f32"."""
    lanes, width = re.findall(r"^(?:v(\d+))?[a-z]+(\d+)", type)[0]
    return int(lanes or 1) * int(width)


# Scalar fields that are no numbered registers, by generation. A pair has the name of its first
# register without `_lo`.
_COMMON = {
    106: "vcc_lo",
    107: "vcc_hi",
    126: "exec_lo",
    127: "exec_hi",
    235: "src_shared_base",
    236: "src_shared_limit",
    237: "src_private_base",
    238: "src_private_limit",
    251: "src_vccz",
    252: "src_execz",
    253: "src_scc",
}
_GFX9 = {102: "flat_scratch_lo", 103: "flat_scratch_hi", 104: "xnack_mask_lo", 105: "xnack_mask_hi"}
_SPECIAL = {
    9: _COMMON | _GFX9 | {124: "m0", 239: "src_pops_exiting_wave_id", 254: "src_lds_direct"},
    10: _COMMON | {124: "m0", 125: "null", 239: "src_pops_exiting_wave_id", 254: "src_lds_direct"},
    11: _COMMON | {124: "null", 125: "m0"},
    12: _COMMON | {124: "null", 125: "m0"},
}
_SCALARS = {9: 102, 10: 106, 11: 106, 12: 106}
_VCC = 106
_NO_PAIR = ("_hi", "m0", "lds_direct")  # registers that no pair begins with
_TTMP = range(108, 124)
_CONSTANTS = 128  # the first number of what can only be read
_INTEGERS = {**{128 + n: n for n in range(65)}, **{192 + n: -n for n in range(1, 17)}}
_FLOATS = {
    240: 0.5,
    241: -0.5,
    242: 1.0,
    243: -1.0,
    244: 2.0,
    245: -2.0,
    246: 4.0,
    247: -4.0,
    248: 0.15915494309189532,  # 1 / (2 pi)
}


def operand(field: int, of: FieldClass, generation: int, literal: int | None) -> Operand | None:
    """What `field` names in the class `of`, or None where it names nothing there."""
    if of.place is Place.VECTOR:
        return _vector(Kind.VGPR, field, of)
    if of.place is Place.ACCUMULATOR:
        return _vector(Kind.AGPR, field, of)
    if of.place is Place.EITHER:
        return _vector(Kind.AGPR if field & _ACCUMULATOR else Kind.VGPR, field & 511, of)
    if of.place is Place.SCALAR:
        return _scalar(field, of, generation) if field < _CONSTANTS else None
    if of.place is Place.SDWA_SCALAR:
        return _scalar(field & 127 if field & 128 else _VCC, of, generation)
    if of.place is Place.SDWA:
        field ^= _VECTOR
    if field >= _VECTOR:
        return _vector(Kind.AGPR if of.place is Place.ACCUMULATOR_SOURCE else Kind.VGPR, field, of)
    if field == LITERAL:
        return literal if literal is None else literal_operand(literal, of)
    found = _constant(field, of)
    if found or of.place in (Place.VECTOR_SOURCE, Place.ACCUMULATOR_SOURCE):
        return found
    return _scalar(field, of, generation)


def literal_operand(value: int, of: FieldClass) -> Operand:
    """4 bytes of the instruction as a value of the class: they are the upper half of a float64."""
    widened = value << 32 if of.type == "f64" else value & (1 << of.bits) - 1
    return Operand(Kind.LITERAL, LITERAL, of.bits, of.type, "", widened)


def _vector(kind: Kind, field: int, of: FieldClass) -> Operand | None:
    number = field & 255
    if of.low128:
        return Operand(kind, number & 127, of.bits, of.type, high=bool(number & 128))
    if number + of.bits // 32 > 256:
        return None
    return Operand(kind, number, of.bits, of.type)


def _scalar(field: int, of: FieldClass, generation: int) -> Operand | None:
    """A scalar register; the low bits of a field that names several registers do not count."""
    count = max(1, of.bits // 32)
    first = field & -min(4, count) if count != 3 else field & -4
    if field < _SCALARS[generation]:
        fits = first + count <= _SCALARS[generation]
        return Operand(Kind.SGPR, first, of.bits, of.type) if fits else None
    if field in _TTMP:
        fits = first + count <= _TTMP.stop
        return Operand(Kind.TTMP, first - _TTMP.start, of.bits, of.type) if fits else None
    name = _SPECIAL[generation].get(field)
    if name is None or count > 2 or (count == 2 and name.endswith(_NO_PAIR)):
        return None
    name = name.removesuffix("_lo") if of.bits > 32 else name
    return Operand(Kind.SPECIAL, field, of.bits, of.type, name)


def _constant(field: int, of: FieldClass) -> Operand | None:
    if field in _INTEGERS:
        return Operand(
            Kind.CONSTANT, field, of.bits, of.type, "", _INTEGERS[field] & (1 << of.bits) - 1
        )
    if field in _FLOATS:
        return Operand(Kind.CONSTANT, field, of.bits, of.type, "", _float_bits(_FLOATS[field], of))
    return None


def _float_bits(value: float, of: FieldClass) -> int:
    """The bits of a constant in the format of its operand.

    The hardware truncates 1 / (2 pi) to bfloat16, as it does all constants; the others are exact.
    """
    if "bf16" in of.type:
        return int.from_bytes(struct.pack("<f", value), "little") >> 16
    if of.type in ("f16", "b16", "i16", "v2f16", "v2b16"):
        return int.from_bytes(struct.pack("<e", value), "little")
    if of.type in ("f64", "b64"):
        return int.from_bytes(struct.pack("<d", value), "little")
    return int.from_bytes(struct.pack("<f", value), "little")


def register_text(operand: Operand) -> str:
    """An operand as LLVM prints it, without its modifiers."""
    if operand.kind is Kind.SPECIAL:
        return operand.name
    if operand.kind is Kind.LITERAL:
        return f"0x{operand.value >> 32 if operand.type == 'f64' else operand.value:x}"
    if operand.kind is Kind.CONSTANT:
        return _constant_text(operand)
    first, count = operand.index, operand.count
    name = operand.kind.value
    return f"{name}{first}" if count == 1 else f"{name}[{first}:{first + count - 1}]"


def _constant_text(operand: Operand) -> str:
    if operand.index in _INTEGERS:
        return str(_INTEGERS[operand.index])
    if operand.type in ("b16", "i16"):
        return f"0x{operand.value:x}"
    if operand.index == 248:
        return "0.15915494309189532" if operand.bits == 64 else "0.15915494"
    return str(_FLOATS[operand.index])
