"""Writes the LLVM IR of one kernel: values of 32 lanes, and the registers that they stand for.

    e = Emitter(...)
    e.write(destination, e.op(f"add {lanes(32)} {e.read(a, 32)}, {e.read(b, 32)}"), 32)

A register is a vector of integers of its width, a predicate a vector of i1; floats are bitcast
where they are used. Within a block a register is an SSA value; at the block's end those that
others need go to the warp's memory, for the lanes that ran. What a handler of an instruction
writes for lanes that are not there is never seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from treadle.emulate.ptx.machine import LANES, MACHINE
from treadle.emulate.ptx.syntax import (
    WIDTHS,
    Immediate,
    Instruction,
    Negated,
    Operand,
    PTXError,
    Register,
    Sink,
    Symbol,
)
from treadle.emulate.simt import emit
from treadle.emulate.simt.registers import Registers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from treadle.emulate.ptx.layout import Layout

__all__ = [
    "FLOATS", "Emitter", "Handler", "Handlers", "Modifiers", "float_lanes", "lanes", "splat",
]  # fmt: skip

FLOATS = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def lanes(bits: int) -> str:
    """The type of a register of `bits`."""
    return f"<{LANES} x i{bits}>"


def float_lanes(kind: str) -> str:
    """The type of a register of floats: `f32` -> `<32 x float>`."""
    return f"<{LANES} x {FLOATS[kind]}>"


def splat(bits: int, value: int) -> str:
    """A constant, the same in each lane."""
    value &= (1 << bits) - 1
    if bits == 1:
        return f"splat (i1 {'true' if value else 'false'})"
    return f"splat (i{bits} {value})" if value else "zeroinitializer"


class Modifiers:
    """What follows an opcode, taken one by one; what nobody takes is not emulated."""

    def __init__(self, item: Instruction) -> None:
        self.item, self.rest = item, list(item.modifiers)

    def fail(self, why: str = "is not emulated") -> PTXError:
        return PTXError(self.item.line, f"{self.item.text} {why}")

    def flag(self, name: str) -> bool:
        """Whether `name` is there; takes it."""
        if name in self.rest:
            self.rest.remove(name)
            return True
        return False

    def one_of(self, names: Sequence[str] | Mapping[str, object], default: str = "") -> str:
        """The first modifier that is among `names`, or `default`; takes it."""
        for word in self.rest:
            if word in names:
                self.rest.remove(word)
                return word
        return default

    def type(self, allowed: Sequence[str] | Mapping[str, object] = WIDTHS) -> str:
        """The last modifier, which must be a type; takes it."""
        if not self.rest or self.rest[-1] not in allowed:
            raise self.fail()
        return self.rest.pop()

    def end(self) -> None:
        if self.rest:
            raise self.fail(f"has .{self.rest[0]}, which is not emulated")


class Handler(Protocol):
    def __call__(self, e: Emitter, item: Instruction, m: Modifiers, /) -> None: ...


class Handlers(dict[str, "Handler"]):
    """Opcode to the function that writes its code."""

    def of(self, *opcodes: str):
        def register(handler: Handler) -> Handler:
            self.update(dict.fromkeys(opcodes, handler))
            return handler

        return register


class Emitter(emit.Emitter):
    """The code of one kernel so far. `registers` maps names to types, `slots` to places in Warp."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(MACHINE)
        self.layout = layout
        self.registers = Registers(self, layout.places)
        self.block_mask = self.block_mask_bits = ""  # lanes that run this block
        self.guard: str | None = None
        self.carry: str | None = None

    def at(self, line: int) -> None:
        """What is written from now on is of an instruction on this line."""
        self.layout.line, self.site = line, str(line)

    def spread(self, scalar: str, bits: int = 32) -> str:
        """A scalar in every lane."""
        return self.spread_scalar(f"i{bits}", scalar)

    def first(self, operand: Operand, bits: int) -> str:
        """An operand that is the same for all lanes, as a scalar: that of the first lane here."""
        if isinstance(operand, Immediate):
            return str(operand.value)
        value = self.read(operand, bits)
        lane = self.op(f"and i32 {self.first_lane(self.mask_bits)}, {LANES - 1}")
        return self.op(f"extractelement {lanes(bits)} {value}, i32 {lane}")

    # -- blocks and guards

    def enter(self, mask: str, mask_bits: str) -> None:
        """The start of a block that these lanes run."""
        self.registers.enter()
        self.carry = None
        self.block_mask, self.block_mask_bits = mask, mask_bits
        self.mask, self.mask_bits, self.guard = self.block_mask, mask_bits, None

    def begin(self, item: Instruction) -> None:
        """The start of an instruction: sets the lanes that its guard leaves."""
        self.guard, self.mask, self.mask_bits = None, self.block_mask, self.block_mask_bits
        if item.guard is not None:
            guard = self.read_predicate(item.guard)
            if item.guard_negated:
                guard = self.op(f"xor {lanes(1)} {guard}, {splat(1, 1)}")
            self.guard = guard
            self.mask = self.op(f"and {lanes(1)} {guard}, {self.block_mask}")
            self.mask_bits = self.op(f"bitcast {lanes(1)} {self.mask} to i32")

    def leave(self, live: frozenset[str]) -> None:
        """Stores what other blocks need of what this one wrote."""
        self.registers.leave(live, self.block_mask, self.block_mask_bits)

    # -- registers

    def width(self, operand: Operand) -> int:
        """The bits of a register, 0 of a constant."""
        if isinstance(operand, Register):
            return WIDTHS[self.layout.kind(operand.name)]
        return 0

    def read(self, operand: Operand, bits: int, signed: bool = False) -> str:
        """An operand as lanes of `bits`: of a wider register the low bits.

        Raises PTXError if the register is narrower, unless it is `signed` or a special register.
        """
        if isinstance(operand, Immediate):
            return splat(bits, operand.value if operand.width in (0, bits) else
                         self.layout.convert(operand, bits))  # fmt: skip
        if isinstance(operand, Symbol):
            return self._fit(self.layout.address(self, operand), 64, bits, False)
        if not isinstance(operand, Register):
            raise self.layout.error(f"{operand} is no operand that this instruction takes")
        special = self.layout.special(self, operand.name)
        if special is not None:
            value, width = special
            return self._fit(value, width, bits, False)
        return self._fit(self._register(operand.name), self.width(operand), bits, signed)

    def _fit(self, value: str, width: int, bits: int, signed: bool) -> str:
        if width == bits:
            return value
        if width > bits:
            return self.op(f"trunc {lanes(width)} {value} to {lanes(bits)}")
        return self.op(f"{'sext' if signed else 'zext'} {lanes(width)} {value} to {lanes(bits)}")

    def _register(self, name: str) -> str:
        self.layout.kind(name)  # which is declared
        return self.registers.read(name)

    def read_predicate(self, operand: Operand) -> str:
        """A predicate, `!p` or a constant as lanes of i1."""
        match operand:
            case Immediate(value):
                return splat(1, int(bool(value)))
            case Negated(register):
                return self.op(f"xor {lanes(1)} {self._register(register.name)}, {splat(1, 1)}")
            case Register(name) if self.layout.kind(name) == "pred":
                return self._register(name)
        raise self.layout.error(f"{operand} is no predicate")

    def write(self, operand: Operand, value: str, bits: int, signed: bool = False) -> None:
        """Sets a register to lanes of `bits`, extended to its width, where the guard holds."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise self.layout.error(f"{operand} cannot be written")
        self._set(operand.name, self._fit(value, bits, self.width(operand), signed))

    def write_predicate(self, operand: Operand, value: str) -> None:
        """Sets a predicate, where the guard holds."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register) or self.layout.kind(operand.name) != "pred":
            raise self.layout.error(f"{operand} is no predicate")
        self._set(operand.name, value)

    def _set(self, name: str, value: str) -> None:
        self.registers.write(name, value, self.guard or "")

    # -- floats

    def as_float(self, value: str, kind: str) -> str:
        return self.op(f"bitcast {lanes(WIDTHS[kind])} {value} to {float_lanes(kind)}")

    def as_bits(self, value: str, kind: str) -> str:
        return self.op(f"bitcast {float_lanes(kind)} {value} to {lanes(WIDTHS[kind])}")
