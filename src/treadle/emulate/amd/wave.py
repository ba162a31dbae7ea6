"""One instruction's operands as values, and its results as registers, with its modifiers.

A Wave is what the meanings of instructions write their code with. Meanings say what kinds of
values they take; where these come from, and what DPP, SDWA, op_sel, neg, abs, clamp and omod do to
them, is the same for all and done here.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from treadle.emulate.amd.lanes import dpp_lanes
from treadle.emulate.amd.machine import PRIVATE, SHARED, WINDOW
from treadle.emulate.amd.names import canonical
from treadle.emulate.amd.operands import Kind, Operand
from treadle.emulate.simt.values import Values, bits_of, is_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.emulate.amd.chips import Chip
    from treadle.emulate.amd.decode import Instruction
    from treadle.emulate.amd.mode import Mode
    from treadle.emulate.simt.emit import Emitter
    from treadle.emulate.simt.registers import Registers

__all__ = ["Unsupported", "Wave"]

_EXEC, _VCC = 126, 106
_TTMP = 108
_PRESERVE = 2  # what SDWA does with the rest of its destination
_WHOLE = 6  # what SDWA calls all of a register
_FLAT_SCRATCH = ("flat_scratch_lo", "flat_scratch_hi")
# Operands of 64 bits: where generic addresses of shared and of scratch memory begin and end.
_APERTURES = {
    235: SHARED, 236: SHARED + WINDOW - 1, 237: PRIVATE, 238: PRIVATE + WINDOW - 1,
}  # fmt: skip
_SEL_RESULT = 3  # the bit of op_sel that is the destination's


class Unsupported(Exception):
    """An instruction, or a form of one, that has no meaning here."""


class Wave:
    """The code of one wave. `item` is the instruction that is being written."""

    item: Instruction

    def __init__(self, chip: Chip, e: Emitter, registers: Registers, mode: Mode) -> None:
        self.chip, self.e, self.registers, self.mode = chip, e, registers, mode
        self.width = e.machine.width
        self.x, self.s = Values(e, is_scalar=False), Values(e, is_scalar=True)
        self.mask_kind = f"u{self.width}"
        self.lanes = ""  # that the instruction writes
        self.name, self.address = "", 0
        self.index_mode = 0  # which operands are registers behind others: see indexed
        self._held: list[tuple[str, str]] | None = None
        self._spread: dict[str, str] = {}

    def begin(self, item: Instruction, address: int) -> None:
        """An instruction, which lies at an address of the GPU's."""
        self.item, self.address = item, address
        self.name = canonical(item.operation)
        self.lanes = self.e.mask
        self._dpp: tuple[list[int], list[int]] | None = None
        if "dpp_ctrl" in item.modifiers or "dpp8" in item.modifiers:
            self._start_dpp()

    def enter(self) -> None:
        """A basic block begins."""
        self.registers.enter()
        self._spread.clear()
        self.see_exec()

    # -- EXEC

    def see_exec(self) -> None:
        self.e.mask_bits = self.registers.read("exec")
        self.e.mask = self.e.as_lanes(self.e.mask_bits)

    def set_exec(self, mask: str) -> None:
        """Sets EXEC, of lanes that are: a wave of fewer has the others off."""
        self.registers.write("exec", mask)
        self.see_exec()

    # -- scalars

    def _number(self, of: Operand) -> int:
        """A scalar register's number, as fields have it."""
        return of.index + (_TTMP if of.kind is Kind.TTMP else 0)

    def scalar(self, of: Operand | int, kind: str = "u32", part: int = 0) -> str:
        """A scalar of 16, 32 or 64 bits: an operand, or a register by its number as operand.

        `part` counts registers behind the first.
        """
        if isinstance(of, Operand):
            if of.kind in (Kind.CONSTANT, Kind.LITERAL):
                return str(of.value & (1 << bits_of(kind)) - 1)
            if of.kind not in (Kind.SGPR, Kind.TTMP, Kind.SPECIAL):
                raise Unsupported("a vector register as a scalar")
        number = part + (self._number(of) if isinstance(of, Operand) else of)
        bits = bits_of(kind)
        if bits == 16:
            return self.s.resize("u32", "u16", self._scalar(number))
        if bits == 32:
            return self._scalar(number)
        if number == _EXEC and self.width == 64:
            return self.e.mask_bits
        if number == self.chip.null:
            return "0"
        if number in _APERTURES:
            return str(_APERTURES[number])
        return self.s.pair(self._scalar(number), self._scalar(number + 1))

    def flat_scratch(self) -> str:
        """FLAT_SCRATCH: where the wave's scratch memory begins, on chips that software tells."""
        halves = ("s102", "s103") if self.chip.generation == 9 else _FLAT_SCRATCH
        return self.s.pair(*map(self.registers.read, halves))

    def _scalar(self, number: int) -> str:
        """The 32 bits that a field of this number means."""
        if number == self.chip.null:
            return "0"
        if number == self.chip.m0:
            return self.registers.read("m0")
        if number < _TTMP + 16:
            return self.registers.read(f"s{number}")
        if number in (_EXEC, _EXEC + 1):
            if self.width == 64:
                return self.s.halves(self.e.mask_bits)[number - _EXEC]
            return self.e.mask_bits if number == _EXEC else self.registers.read("exec_hi")
        if number == 253:
            return self.registers.read("scc")
        if number in (251, 252):
            mask = self.e.mask_bits if number == 252 else self.mask(_VCC)
            return self.s.from_flag("u32", self.s.compare(self.mask_kind, "eq", mask, "0"))
        raise Unsupported(f"the scalar operand {number}")

    def set_scalar(self, of: Operand | int, value: str, kind: str = "u32", part: int = 0) -> None:
        """Sets a scalar register, or two of them."""
        number = part + (self._number(of) if isinstance(of, Operand) else of)
        if number == self.chip.null:
            return
        if bits_of(kind) == 64:
            if number == _EXEC and self.width == 64:
                self.set_exec(value)
                return
            for i, half in enumerate(self.s.halves(value)):
                self.set_scalar(number + i, half)
        elif number == self.chip.m0:
            self.registers.write("m0", value)
        elif number < _TTMP + 16:
            self.registers.write(f"s{number}", value)
        elif number == _EXEC and self.width == 32:
            self.set_exec(value)
        elif number == _EXEC + 1 and self.width == 32:
            self.registers.write("exec_hi", value)
        elif number in (_EXEC, _EXEC + 1):
            parts = list(self.s.halves(self.e.mask_bits))
            parts[number - _EXEC] = value
            self.set_exec(self.s.pair(*parts))
        else:
            raise Unsupported(f"the scalar operand {number}")

    def set_scc(self, flag: str) -> None:
        self.registers.write("scc", self.s.from_flag("u32", flag))

    def scc(self) -> str:
        """SCC as a condition."""
        return self.s.truth("u32", self.registers.read("scc"))

    # -- masks of lanes

    def mask(self, of: Operand | int) -> str:
        """A mask that scalar registers hold."""
        return self.scalar(of, self.mask_kind)

    def mask_lanes(self, of: Operand | int) -> str:
        """The same as a vector of i1."""
        return self.e.as_lanes(self.mask(of))

    def set_mask(self, of: Operand | int, lanes: str) -> None:
        """Sets scalar registers to where lanes that act have a condition: 0 elsewhere."""
        mine = self.e.as_mask(self.x.both(lanes, self.lanes))
        self.set_scalar(of, mine, self.mask_kind)

    # -- vectors

    def _letter(self, of: Operand) -> str:
        return "a" if of.kind is Kind.AGPR else "v"

    def vector(self, of: Operand, part: int = 0) -> str:
        """32 bits of a vector register; `part` counts registers behind the first."""
        return self.registers.read(f"{self._letter(of)}{of.index + part}")

    def set_vector(self, of: Operand, value: str, part: int = 0) -> None:
        """Sets 32 bits of a vector register in the lanes that the instruction writes."""
        name = f"{self._letter(of)}{of.index + part}"
        if self._held is not None:
            self._held.append((name, value))
        else:
            self.registers.write(name, value, self.lanes)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is written to vector registers within is seen only afterwards."""
        self._held = []
        yield
        held, self._held = self._held, None
        for name, value in held:
            self.registers.write(name, value, self.lanes)

    def lanes_of(self, of: Operand, part: int = 0) -> str:
        """32 bits of any operand in each lane."""
        if of.kind in (Kind.VGPR, Kind.AGPR):
            return self.vector(of, part)
        if of.kind in (Kind.CONSTANT, Kind.LITERAL):
            return self.x.const("u32", of.value >> 32 * part & 0xFFFFFFFF)
        return self.spread("u32", self.scalar(of, part=part))

    def spread(self, kind: str, value: str) -> str:
        """A scalar in all lanes."""
        if not value.startswith("%"):
            return self.x.const(f"u{bits_of(kind)}", int(value))
        key = f"{bits_of(kind)} {value}"
        if key not in self._spread:
            self._spread[key] = self.e.spread_scalar(f"i{bits_of(kind)}", value)
        return self._spread[key]

    # -- sources of vector instructions

    def source(self, name: str, kind: str) -> str:
        """A source as the kind says, after modifiers: floats as floats."""
        of = self.item.operands[name]
        raw = self.raw(name, kind)
        if not is_float(kind) and not (of.negate or of.absolute):
            return raw
        float_kind = f"f{bits_of(kind)}"
        raw = self.signed(float_kind, raw, of)
        if not is_float(kind):
            return raw
        return self.flushed(kind, self.x.cast(f"b{bits_of(kind)}", kind, raw))

    def signed(self, kind: str, raw: str, of: Operand) -> str:
        """The bits of floats after abs and neg."""
        bits, whole = bits_of(kind), f"u{bits_of(kind)}"
        sign = 1 << bits - 1
        if of.absolute:
            raw = self.x.op(whole, "and", raw, self.x.const(whole, sign - 1))
        if of.negate:
            raw = self.x.op(whole, "xor", raw, self.x.const(whole, sign))
        return raw

    def flushed(self, kind: str, value: str) -> str:
        """Denormals as 0 with their sign, where MODE says so of sources."""
        return self.without_denormals(kind, value) if self.mode.flushes_sources(kind) else value

    def without_denormals(self, kind: str, value: str) -> str:
        """Denormals as 0 with their sign."""
        whole = kind.replace("f", "u")
        raw = self.x.cast(kind, whole, value)
        bits = bits_of(kind)
        fraction = {16: 10, 32: 23, 64: 52}[bits]
        exponent = ((1 << bits - 1) - 1) >> fraction << fraction
        there = self.x.op(whole, "and", raw, self.x.const(whole, exponent))
        tiny = self.x.compare(whole, "eq", there, self.x.const(whole, 0))
        sign = self.x.op(whole, "and", raw, self.x.const(whole, 1 << bits - 1))
        return self.x.cast(whole, kind, self.x.select(whole, tiny, sign, raw))

    def _selects(self, name: str) -> bool:
        """Whether op_sel means the upper half of a source or of the destination."""
        at = _SEL_RESULT if name == "vdst" else int(name[-1]) if name[-1].isdigit() else 0
        return bool(self.item.modifiers.get("op_sel", 0) >> at & 1)

    @property
    def selects_high_result(self) -> bool:
        """Whether 16 bits of a result go to the upper half of the destination."""
        return self.item.operands["vdst"].high or self._selects("vdst")

    def raw(self, name: str, kind: str) -> str:
        """The bits of a source, after DPP, SDWA and the choice of a half."""
        of, bits = self.item.operands[name], bits_of(kind)
        if of.kind in (Kind.CONSTANT, Kind.LITERAL):
            return self.x.const(f"u{bits}", of.value & (1 << bits) - 1)
        if bits == 64:
            if of.kind in (Kind.VGPR, Kind.AGPR):
                low, high = (self._moved(name, self.vector(of, i)) for i in range(2))
                return self.x.pair(low, high)
            return self.spread(kind, self.scalar(of, kind))
        value = self._moved(name, self.lanes_of(of))
        select = self.item.modifiers.get(f"{name}_sel", _WHOLE)
        if select != _WHOLE:
            value = self._part(value, select, of.sign_extend)
        elif of.sign_extend:
            value = self.x.resize("i16", "i32", self.x.resize("u32", "u16", value))
        if bits == 16:
            if of.high or self._selects(name):
                value = self.x.op("u32", "lshr", value, self.x.const("u32", 16))
            value = self.x.resize("u32", "u16", value)
        return value

    def destination(self, kind: str) -> str:
        """What a float destination was before."""
        of, bits = self.item.operands["vdst"], bits_of(kind)
        value = self.vector(of)
        if bits == 64:
            value = self.x.pair(value, self.vector(of, 1))
        elif bits == 16:
            if self.selects_high_result:
                value = self.x.op("u32", "lshr", value, self.x.const("u32", 16))
            value = self.x.resize("u32", "u16", value)
        return self.flushed(kind, self.x.cast(f"b{bits}", kind, value))

    def packed_bits(self, name: str) -> str:
        """The 32 bits of a source of which an operation takes halves."""
        return self._moved(name, self.lanes_of(self.item.operands[name]))

    def raw_signed(self, name: str) -> str:
        """16 bits of a float source after abs and neg."""
        return self.signed("f16", self.raw(name, "u16"), self.item.operands[name])

    def _part(self, value: str, select: int, with_sign: bool) -> str:
        """What SDWA takes of a source: a byte or a word."""
        bits = 8 if select < 4 else 16
        value = self.x.bits(value, 8 * select if select < 4 else 16 * (select - 4), bits)
        if with_sign:
            away = self.x.const("u32", 32 - bits)
            value = self.x.op("u32", "ashr", self.x.op("u32", "shl", value, away), away)
        return value

    # -- DPP

    def _start_dpp(self) -> None:
        """Which lane each lane's src0 comes from, and which lanes are written."""
        fields, e = self.item.modifiers, self.e
        lanes, inside, written = dpp_lanes(fields, self.width, self.chip.generation)
        written_lanes = e.machine.constants("i1", written)
        self.lanes = self.x.both(e.mask, written_lanes)
        valid = e.machine.constants("i1", inside)
        if not fields.get("fi"):
            order = e.machine.constants("i32", lanes)
            shape = e.lanes("i1")
            active = e.op(
                f"shufflevector {shape} {e.mask}, {shape} poison, {e.lanes('i32')} {order}"
            )
            valid = self.x.both(valid, active)
        self._dpp = (lanes, inside)
        self._dpp_valid = valid
        if not fields.get("bound_ctrl") and "dpp_ctrl" in fields:
            self.lanes = self.x.both(self.lanes, valid)

    def _moved(self, name: str, value: str) -> str:
        """A register of src0 after DPP."""
        if self._dpp is None or name != "src0":
            return value
        e, shape = self.e, self.e.lanes("i32")
        order = e.machine.constants("i32", self._dpp[0])
        moved = e.op(f"shufflevector {shape} {value}, {shape} poison, {shape} {order}")
        return self.x.select("u32", self._dpp_valid, moved, self.x.const("u32", 0))

    # -- results of vector instructions

    def result(self, kind: str, value: str, name: str = "vdst") -> None:
        """Sets the destination: after omod and clamp, and in the half that is meant."""
        if is_float(kind):
            value = self.finished(kind, value)
            value = self.x.cast(kind, kind.replace("f", "u"), value)
        self.set_bits(bits_of(kind), value, name)

    def set_bits(self, bits: int, value: str, name: str = "vdst") -> None:
        """Sets the destination to bits as they are."""
        of = self.item.operands[name]
        if bits == 64:
            for part, half in enumerate(self.x.halves(value)):
                self.set_vector(of, half, part)
            return
        select = self.item.modifiers.get("dst_sel", _WHOLE)
        if select != _WHOLE:
            if bits == 16:
                value = self.x.resize("u16", "u32", value)
            self._set_part(of, value, select)
        elif bits == 32:
            self.set_vector(of, value)
        else:
            self.set_half(of, value, self.selects_high_result)

    def set_half(self, of: Operand, value: str, is_high: bool, clears: bool | None = None) -> None:
        """Sets 16 bits of a register; the others stay, or are cleared where the chip does that."""
        wide = self.x.resize("u16", "u32", value)
        if is_high:
            wide = self.x.op("u32", "shl", wide, self.x.const("u32", 16))
        clears = self.chip.clears_high and not is_high if clears is None else clears
        if not clears:
            kept = self.x.const("u32", 0xFFFF if is_high else 0xFFFF0000)
            before = self.x.op("u32", "and", self.vector(of), kept)
            wide = self.x.op("u32", "or", wide, before)
        self.set_vector(of, wide)

    def _set_part(self, of: Operand, value: str, select: int) -> None:
        """What SDWA writes: a byte or a word; the rest is 0, the sign, or what it was."""
        bits = 8 if select < 4 else 16
        low = 8 * select if select < 4 else 16 * (select - 4)
        unused = self.item.modifiers.get("dst_unused", 0)
        field = self.x.bits(value, 0, bits)
        if unused == 1:
            away = self.x.const("u32", 32 - bits)
            field = self.x.op("u32", "ashr", self.x.op("u32", "shl", field, away), away)
        field = self.x.op("u32", "shl", field, self.x.const("u32", low))
        if unused == _PRESERVE:
            hole = 0xFFFFFFFF & ~(((1 << bits) - 1) << low)
            rest = self.x.op("u32", "and", self.vector(of), self.x.const("u32", hole))
            field = self.x.op("u32", "or", field, rest)
        self.set_vector(of, field)

    def finished(self, kind: str, value: str) -> str:
        """A float result after omod and clamp, with its denormals as MODE says."""
        fields, x = self.item.modifiers, self.x
        factor = {1: 2.0, 2: 4.0, 3: 0.5}.get(fields.get("omod", 0))
        if factor:
            value = x.op(kind, "fmul", value, x.const(kind, factor))
        if fields.get("clamp"):
            zero, one = x.const(kind, 0.0), x.const(kind, 1.0)
            positive = x.compare(kind, "ogt", value, zero)
            value = x.select(kind, positive, value, zero)  # what is no number becomes 0, too
            small = x.compare(kind, "olt", value, one)
            value = x.select(kind, small, value, one)
        return self.without_denormals(kind, value) if self.mode.flushes_results(kind) else value
