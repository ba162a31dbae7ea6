"""Writes the LLVM IR of one kernel for a simdgroup: each scalar becomes a value of 32 lanes.

    (a,) = e.read(item.operands[0])
    e.write(item, [e.op(f"add {e.lanes('i32')} {a}, {one}")])

A value is a list of its parts, vectors of integers of their width; floats are bitcast where they
are used. Within a block a part is an SSA value. At the block's end those that others need go to
the warp's memory, for the lanes that ran.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.emulate.air.machine import LANES, MACHINE, splat
from treadle.emulate.air.syntax import (
    CONSTANT,
    DEVICE,
    GENERIC,
    AIRError,
    Local,
    Pointer,
    Scalar,
    Symbol,
    Vector,
    bits_of,
    parts,
)
from treadle.emulate.simt import emit
from treadle.emulate.simt.registers import Registers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.air.layout import Layout
    from treadle.emulate.air.syntax import Instruction, Type, Value

__all__ = ["Emitter", "float_kind"]

_CONSTANT = re.compile(r"splat \(i32 (-?\d+)\)")
_EXPONENT = 0x7F80_0000  # of float32
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def float_kind(kind: Type) -> str:
    """The kind of floats that a value is made of. Raises AIRError for others."""
    element = kind.element if isinstance(kind, Vector) else kind
    if isinstance(element, Scalar) and element.kind in _BITS:
        return element.kind
    raise AIRError(f"{kind} is no type of floats")


class Emitter(emit.Emitter):
    """The code of one kernel so far."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(MACHINE)
        self.layout = layout
        self.registers = Registers(self, layout.places)
        self.spaces = layout.spaces
        self._read: set[str] = set()  # arguments, in this block
        self._flushed: dict[str, str] = {}  # bits of float32 without subnormal numbers, likewise

    def enter(self, mask: str, mask_bits: str) -> None:
        """The start of a block, or what is left of its lanes."""
        self.mask, self.mask_bits = mask, mask_bits
        self.registers.enter()
        self._read.clear()
        self._flushed.clear()

    def leave(self, live: frozenset[str]) -> None:
        """The end of a block: what others need goes to the warp's memory."""
        wanted = {part for name in live for part in self.layout.names.get(name, ())}
        self.registers.leave(wanted, self.mask, self.mask_bits)

    # -- values

    def read(self, value: Value) -> list[str]:
        """The parts of a value, as integers."""
        if isinstance(value, Local):
            if value.name not in self.layout.names:
                raise AIRError(f"{value.name} is defined nowhere")
            names = self.layout.names[value.name]
            if value.name in self.layout.arguments and value.name not in self._read:
                self._read.add(value.name)
                for name, made in zip(names, self.layout.arguments[value.name](), strict=True):
                    self.registers.write(name, made)
            return [self.registers.read(name) for name in names]
        kinds = parts(value.type)
        return [
            self._constant(bits_of(kind), part)
            for (_, kind), part in zip(kinds, value.parts, strict=True)
        ]

    def _constant(self, bits: int, part: int | Symbol | None) -> str:
        if isinstance(part, Symbol):
            return self.layout.address(self, part)
        return splat(bits, part or 0)

    def one(self, value: Value) -> str:
        """A value that has one part."""
        (found,) = self.read(value)
        return found

    def write(self, item: Instruction, values: Sequence[str]) -> None:
        """Gives an instruction's result its parts."""
        if item.result:
            for name, value in zip(self.layout.names[item.result], values, strict=True):
                self.registers.write(name, value)

    def elementwise(self, item: Instruction, function) -> None:
        """Applies a function to the first parts of all operands, the second ones, and so on."""
        rows = zip(*(self.read(value) for value in item.operands), strict=True)
        self.write(item, [function(*row) for row in rows])

    def space_of(self, value: Value) -> str:
        """The memory that a pointer points into, by the core's name. Raises AIRError if unknown."""
        kind = value.type
        if not isinstance(kind, Pointer):
            raise AIRError(f"{kind} is no pointer")
        space = kind.space
        if space == GENERIC:
            space = self.spaces.of(value)
        if space in (DEVICE, CONSTANT):
            return "global"
        return "local" if space == 0 else "shared"

    # -- numbers

    def as_float(self, value: str, kind: str) -> str:
        """Bits as floats of their width."""
        return self.op(f"bitcast {self.lanes(f'i{_BITS[kind]}')} {value} to {self.lanes(kind)}")

    def as_bits(self, value: str, kind: str) -> str:
        return self.op(f"bitcast {self.lanes(kind)} {value} to {self.lanes(f'i{_BITS[kind]}')}")

    def select(self, lanes: str, yes: str, no: str, bits: int) -> str:
        shape = self.lanes(f"i{bits}")
        return self.op(f"select {self.lanes('i1')} {lanes}, {shape} {yes}, {shape} {no}")

    def widen(self, value: str, kind: str, wide: str) -> str:
        """Bits of floats as floats of a wider kind, or of the same."""
        if kind == "bfloat":
            more = self.op(f"zext {self.lanes('i16')} {value} to {self.lanes('i32')}")
            value = self.op(f"shl {self.lanes('i32')} {more}, {splat(32, 16)}")
            kind = "float"
        if kind == "float":
            value = self.flushed(value)
        number = self.as_float(value, kind)
        if kind == wide:
            return number
        return self.op(f"fpext {self.lanes(kind)} {number} to {self.lanes(wide)}")

    def narrow(self, value: str, wide: str, kind: str) -> str:
        """Floats as bits of a narrower kind, or of the same, to nearest."""
        if wide == "double" and kind in ("half", "bfloat"):
            # Rounded to odd first, so that the second rounding is right.
            value, wide = self._to_odd(value), "float"
        if kind == "bfloat":
            return self._narrow_bfloat(value)
        if kind != wide:
            value = self.op(f"fptrunc {self.lanes(wide)} {value} to {self.lanes(kind)}")
        bits = self.as_bits(value, kind)
        return self.flushed(bits) if kind == "float" else bits

    def flushed(self, bits: str) -> str:
        """float32 whose subnormal numbers are zeros of their sign, where the module wants that."""
        if not self.layout.flushes:
            return bits
        if bits not in self._flushed:
            self._flushed[bits] = found = self._with_zeros(bits)
            self._flushed[found] = found
        return self._flushed[bits]

    def _with_zeros(self, bits: str) -> str:
        constant = _CONSTANT.fullmatch(bits)
        if constant is not None and int(constant[1]) & _EXPONENT:
            return bits
        shape = self.lanes("i32")
        exponent = self.op(f"and {shape} {bits}, {splat(32, _EXPONENT)}")
        small = self.op(f"icmp eq {shape} {exponent}, zeroinitializer")
        zero = self.op(f"and {shape} {bits}, {splat(32, 0x8000_0000)}")
        return self.select(small, zero, bits, 32)

    def _narrow_bfloat(self, value: str) -> str:
        shape = self.lanes("i32")
        bits = self.flushed(self.as_bits(value, "float"))
        high = self.op(f"lshr {shape} {bits}, {splat(32, 16)}")
        odd = self.op(f"and {shape} {high}, {splat(32, 1)}")
        more = self.op(f"add {shape} {odd}, {splat(32, 0x7FFF)}")
        near = self.op(f"lshr {shape} {self.op(f'add {shape} {bits}, {more}')}, {splat(32, 16)}")
        quiet = self.op(f"or {shape} {high}, {splat(32, 0x40)}")
        wrong = self.op(f"fcmp uno {self.lanes('float')} {value}, {value}")
        near = self.select(wrong, quiet, near, 32)
        return self.op(f"trunc {shape} {near} to {self.lanes('i16')}")

    def _to_odd(self, value: str) -> str:
        """float64 to float32, towards zero, with the last bit set where that is not exact."""
        single, double, shape = self.lanes("float"), self.lanes("double"), self.lanes("i32")
        near = self.op(f"fptrunc {double} {value} to {single}")
        back = self.op(f"fpext {single} {near} to {double}")
        bits = self.as_bits(near, "float")
        exact = self.op(f"fcmp ueq {double} {back}, {value}")
        size, whole = (
            self.intrinsic(f"llvm.fabs.v{LANES}f64", double, f"{double} {x}") for x in (value, back)
        )
        away = self.op(f"fcmp ogt {double} {whole}, {size}")
        less = self.op(f"zext {self.lanes('i1')} {away} to {shape}")
        down = self.op(f"sub {shape} {bits}, {less}")
        odd = self.op(f"or {shape} {down}, {splat(32, 1)}")
        return self.as_float(self.select(exact, bits, odd, 32), "float")
