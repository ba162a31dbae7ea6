"""Machine code of an AMD GPU to instructions, by LLVM's table of encodings.

    decode(bytes.fromhex("02040206"), 0, "gfx1100")
        v_add_f32_e32 v1, s2, v2        4 bytes, VOP2, operation v_add_f32

A row matches where the instruction has its fixed bits. Rows are found by these: the nine leading
bits select a few masks, and each mask has a dictionary from fixed bits to rows. The longest
encodings are tried first, since a DPP instruction begins as the VOP2 that it extends.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

from treadle.emulate.amd.operands import (
    LITERAL,
    Kind,
    Operand,
    Place,
    field_class,
    literal_operand,
    operand,
)
from treadle.emulate.amd.table import CHIPS, Row, generation, rows, wave_sizes

__all__ = ["DecodeError", "Instruction", "decode"]

Group = tuple[int, int, dict[int, list[Row]]]  # size, mask of the fixed bits, rows by their value
_LEADING = 23  # the lowest of the nine leading bits of the first word
_LONGEST = 24  # bytes: an instruction with a literal, or an image's with its addresses
# Chips with accumulation registers. In a memory instruction, one bit makes all of its data such.
_ACCUMULATORS = {"gfx90a", "gfx942", "gfx950"}
_WITH_ACCUMULATOR = 10  # the width of a field that has that bit
_DATA = {"vdst", "vdata", "data0"}
# The field `fi` of a DPP8 instruction is its source field, which says DPP8 by one of two numbers.
_DPP8 = {0xE9: 0, 0xEA: 1}
_PARTS_OF_WORDS = ("v_dot4_", "v_dot8_")  # products of bytes: there are no halves to select
_OFFSET_SIGN = 23  # the sign of an offset of 24 bits
# Fields whose numbers from here on mean nothing: parts of registers in SDWA.
_RESERVED = {"dst_sel": 7, "src0_sel": 7, "src1_sel": 7, "dst_unused": 3}


class DecodeError(Exception):
    """Bytes that no row of the table matches."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    `operation` is common to all encodings of an operation: v_add_f32 in VOP2, VOP3, DPP, SDWA and
    VOPD. `operands` has what is written and read, by LLVM's names (vdst, src0, vaddr), `modifiers`
    every number beside it (clamp, offset, dpp_ctrl). Per source there are masks: bit 1 of `op_sel`
    is that of src1. `pair` has the two halves of a VOPD instruction, which have no pair themselves.
    """

    offset: int
    size: int
    operation: str
    mnemonic: str
    encoding: str
    operands: dict[str, Operand]
    modifiers: dict[str, int]
    chip: str
    wave_size: int
    row: Row = field(repr=False)
    code: bytes = field(repr=False)
    pair: tuple[Instruction, ...] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the operands that are written."""
        return tuple(name for name in self.row.results if name in self.operands)


def decode(code: bytes, offset: int, chip: str, wave_size: int | None = None) -> Instruction:
    """The instruction at `offset` of `code`, for a chip such as "gfx1100".

    `wave_size` is 32 or 64, by default the usual one of the chip.
    Raises DecodeError where no instruction of the chip begins so, or where `code` ends within one.
    """
    return _decoder(chip, wave_size or wave_sizes(chip)[0]).decode(code, offset)


@cache
def _decoder(chip: str, wave_size: int) -> Decoder:
    if chip not in CHIPS:
        raise DecodeError(f"no encodings for {chip!r}; there are those of {', '.join(CHIPS)}")
    return Decoder(chip, wave_size)


class Decoder:
    """The rows of a chip, ordered for look-up."""

    def __init__(self, chip: str, wave_size: int) -> None:
        self._chip, self._wave_size = chip, wave_size
        self._generation = generation(chip)
        groups: dict[tuple[int, int, int, int], dict[int, list[Row]]] = {}
        for rank, row in rows(chip, wave_size):
            key = (-row.size, rank, -row.mask.bit_count(), row.mask)
            groups.setdefault(key, {}).setdefault(row.value, []).append(row)
        self._groups = [(-key[0], key[3], groups[key]) for key in sorted(groups)]
        self._buckets: dict[int, list[Group]] = {}

    def _bucket(self, leading: int) -> list[Group]:
        """The groups with the rows that can begin with these bits."""
        found = []
        for size, mask, group in self._groups:
            fixed = mask >> _LEADING & 511
            fitting = {v: r for v, r in group.items() if v >> _LEADING & 511 == leading & fixed}
            if fitting:
                found.append((size, mask, fitting))
        return found

    def decode(self, code: bytes, offset: int) -> Instruction:
        here = code[offset : offset + _LONGEST]
        word = int.from_bytes(here, "little")
        leading = word >> _LEADING & 511
        bucket = self._buckets.get(leading)
        if bucket is None:
            bucket = self._buckets[leading] = self._bucket(leading)
        for size, mask, group in bucket:
            if size > len(here):
                continue
            for row in group.get(word & mask, ()):
                found = self._read(row, word, here, offset)
                if found:
                    return found
        raise DecodeError(self._unknown(here, offset))

    def _unknown(self, here: bytes, offset: int) -> str:
        shown = " ".join(
            f"{int.from_bytes(here[n : n + 4], 'little'):08x}" for n in (0, 4) if here[n:]
        )
        at = f"(at offset 0x{offset:x})"
        return f"no instruction of {self._chip} begins with {shown or 'nothing'} {at}"

    def _read(self, row: Row, word: int, here: bytes, offset: int) -> Instruction | None:
        """The instruction, or None where a field has a number that names nothing."""
        if not _formats_fit(row, word):
            return None
        size = row.size
        literal = None
        if any(f.of.place is Place.SOURCE and f.read(word) == LITERAL for f in row.registers):
            if not _takes_literal(row, self._generation):
                return None
            constant = next((f for f in row.fields if f.name == "imm"), None)
            literal = constant.read(word) if constant else word >> 8 * size & 0xFFFFFFFF
            size += 0 if constant else 4
        if word & row.stray:
            return None
        addresses = _addresses(row, word, self._generation)
        if size + addresses > len(here):
            return None
        modifiers = _numbers(row, word)
        if modifiers is None:
            return None
        operands = self._operands(row, word, literal)
        if operands is None:
            return None
        if addresses:
            _add_addresses(operands, row, here[size : size + addresses])
            size += addresses
        _spread(row, operands, modifiers)
        if modifiers.get("op_sel") and row.operation.startswith(_PARTS_OF_WORDS):
            return None
        found = Instruction(
            offset,
            size,
            row.operation,
            row.mnemonic,
            row.encoding,
            operands,
            modifiers,
            self._chip,
            self._wave_size,
            row,
            here[:size],
        )
        return replace(found, pair=_halves(found)) if row.encoding == "VOPD" else found

    def _operands(self, row: Row, word: int, literal: int | None) -> dict[str, Operand] | None:
        operands = {}
        accumulator = 0
        for f in row.registers:
            if f.of.place is Place.EITHER and f.width == _WITH_ACCUMULATOR and f.name in _DATA:
                accumulator = f.read(word) & 1 << _WITH_ACCUMULATOR - 1
        for f in row.registers:
            number = f.read(word)
            if f.is_tagged and not number & 256:
                return None
            if f.llvm_class.startswith("KImm"):
                found = literal_operand(number, f.of)
            elif f.of.mask and self._wave_size == 32:
                narrow = replace(f.of, bits=32, type="b32")
                found = operand(number, narrow, self._generation, literal)
            else:
                if f.name == "vdstY":
                    number |= ~word >> 56 & 1  # the other parity than vdstX
                elif f.of.place is Place.EITHER and f.width < _WITH_ACCUMULATOR:
                    number |= accumulator
                found = operand(number, f.of, self._generation, literal)
            if found is None or (found.kind is Kind.AGPR and self._chip not in _ACCUMULATORS):
                return None
            operands[f.name] = found
        return operands


# Matrix products whose operands are as wide as the formats that cbsz and blgp say: a row for each.
_FORMATS = ("f8", "f8", "f6", "f6", "f4")


def _formats_fit(row: Row, word: int) -> bool:
    """Whether a row is the one for the formats that the instruction says."""
    if not row.operation.endswith("_f8f6f4"):
        return True
    numbers = {f.name: f.read(word) for f in row.numbers}
    formats = [_FORMATS[n] for n in (numbers["cbsz"], numbers["blgp"]) if n < len(_FORMATS)]
    return len(formats) == 2 and f"_{'_'.join(formats)}_" in row.name


def _takes_literal(row: Row, generation: int) -> bool:
    """Whether 4 bytes may follow: not behind memory instructions, DPP or names of barriers.

    Nor do they behind VOP3 of generation 9.
    """
    if row.encoding.startswith(("MUBUF", "MTBUF", "VBUFFER")) or "_DPP" in row.encoding:
        return False
    if "SplitBarrier" in row.classes.values():
        return False
    return generation > 9 or not row.encoding.startswith("VOP3")


def _addresses(row: Row, word: int, generation: int) -> int:
    """How many bytes of further addresses follow an image instruction."""
    if row.encoding != "MIMG" or generation not in (10, 11):
        return 0
    return 4 * (word >> 1 & 3 if generation == 10 else word & 1)


def _add_addresses(operands: dict[str, Operand], row: Row, tail: bytes) -> None:
    wanted = [name for name in row.classes if name.startswith("vaddr") and name not in operands]
    for name, number in zip(wanted, tail, strict=False):
        operands[name] = Operand(Kind.VGPR, number, field_class(row.classes[name]).bits)


def _numbers(row: Row, word: int) -> dict[str, int] | None:
    """The fields that are numbers, and cache bits that the encoding has set for good."""
    numbers = {f.name: f.read(word) for f in row.numbers}
    if "dpp8" in numbers:
        if numbers["fi"] not in _DPP8:
            return None
        numbers["fi"] = _DPP8[numbers["fi"]]
    if row.has_unsigned_offset and numbers["offset"] >> _OFFSET_SIGN:
        return None
    if any(numbers.get(name, 0) >= end for name, end in _RESERVED.items()):
        return None
    if row.encoding.startswith("VOP3") and any(
        numbers[f.name] & 3
        for f in row.numbers
        if f.name.endswith("_modifiers") and f.llvm_class.startswith("Int")
    ):
        return None  # integers have no sign to change
    if row.classes.get("cpol", "").startswith("CPol_GLC"):
        numbers["cpol"] = numbers.get("cpol", 0) | 1
    return numbers


def _spread(row: Row, operands: dict[str, Operand], modifiers: dict[str, int]) -> None:
    """Modifiers of single sources (src0_modifiers) to what they mean, by the names of LLVM's text.

    The four bits of a source are: negate, or negate the lower half; absolute value, or negate the
    upper half, or extend the sign; take the upper half; the same for the upper half of the result.
    """
    packed = "neg_lo" in row.classes or "neg_hi" in row.classes
    for number, name in enumerate(("src0", "src1", "src2")):
        bits = modifiers.pop(f"{name}_modifiers", None)
        if bits is None:
            continue
        _select(row, modifiers, number, bits)
        if packed and f"${name}_modifiers" not in row.asm:
            _mark(modifiers, "neg_lo", number, bits)
            _mark(modifiers, "neg_hi", number, bits >> 1)
        elif name in operands:
            operands[name] = _modified(operands[name], row.classes[f"{name}_modifiers"], bits)
    _halve(row, operands, modifiers)


def _select(row: Row, modifiers: dict[str, int], number: int, bits: int) -> None:
    of_scales = row.classes.get("src0_modifiers") == "op_sel0"
    if "op_sel" in row.classes or of_scales:
        _mark(modifiers, "op_sel", number, bits >> 2)
    if "op_sel_hi" in row.classes or of_scales:
        _mark(modifiers, "op_sel_hi", number, bits >> 3)
    elif "op_sel" in row.classes and number == 0:
        _mark(modifiers, "op_sel", 3, bits >> 3)


def _mark(modifiers: dict[str, int], name: str, number: int, bit: int) -> None:
    modifiers[name] = modifiers.get(name, 0) | (bit & 1) << number


def _modified(of: Operand, llvm_class: str, bits: int) -> Operand:
    if not bits & 3:
        return of
    if "Int" in llvm_class:
        return replace(of, sign_extend=bool(bits & 1)) if "SDWA" in llvm_class else of
    return replace(of, negate=bool(bits & 1), absolute=bool(bits & 2))


def _halve(row: Row, operands: dict[str, Operand], modifiers: dict[str, int]) -> None:
    """Registers of 16 bits in VOP3: the upper half is chosen by op_sel."""
    chosen = modifiers.get("op_sel", 0)
    if not chosen or row.name.find("_t16_") < 0:
        return
    for number, name in enumerate(("src0", "src1", "src2", "vdst")):
        of = operands.get(name)
        if of and of.kind is Kind.VGPR and of.bits == 16 and chosen >> number & 1:
            operands[name] = replace(of, high=True)


def _halves(of: Instruction) -> tuple[Instruction, ...]:
    """The two operations of a VOPD instruction, each with the operands that it has alone."""
    halves = []
    for letter, asm in zip("XY", of.row.asm.split(" :: "), strict=True):
        name = asm.split()[0]
        operands = {
            key.removesuffix(letter).replace("vsrc1", "src1"): value
            for key, value in of.operands.items()
            if key.endswith(letter)
        }
        if "$imm" in asm:
            operands["imm"] = of.operands["imm"]
        operation = name.removeprefix("v_dual_").removesuffix("_e32")
        halves.append(
            replace(of, operation=f"v_{operation}", mnemonic=name, operands=operands, pair=())
        )
    return tuple(halves)
