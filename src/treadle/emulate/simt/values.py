"""Values of a kind, whether scalars or vectors of lanes: `f32`, `i16`, `u64`...

    x.op("f32", "fadd", a, b)      the sum in each lane
    scalar.op("u32", "add", a, b)  of two scalars

A kind is a letter and bits: `i` for integers with a sign, `u` without, `b` bits, `f` floats.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from treadle.emulate.simt.lanewise import lanewise

if TYPE_CHECKING:
    from treadle.emulate.simt.emit import Emitter

__all__ = ["Values", "bits_of", "float_bits", "is_float"]

_FLOATS = {"f16": "half", "f32": "float", "f64": "double"}
_FORMATS = {16: "<e", 32: "<f", 64: "<d"}


def bits_of(kind: str) -> int:
    return int(re.sub(r"\D", "", kind))


def is_float(kind: str) -> bool:
    return kind in _FLOATS


def element(kind: str) -> str:
    """The type of one value in LLVM IR."""
    return _FLOATS.get(kind) or f"i{bits_of(kind)}"


def float_bits(value: float, bits: int) -> int:
    return int.from_bytes(struct.pack(_FORMATS[bits], value), "little")


class Values:
    """Writes operations on all lanes, or, where `is_scalar`, on single values."""

    def __init__(self, e: Emitter, is_scalar: bool) -> None:
        self.e, self.is_scalar = e, is_scalar

    def type(self, kind: str) -> str:
        one = element(kind)
        return one if self.is_scalar else self.e.lanes(one)

    @property
    def flag(self) -> str:
        """The type of conditions."""
        return "i1" if self.is_scalar else self.e.lanes("i1")

    def const(self, kind: str, value: float) -> str:
        """A number, the same in all lanes."""
        if is_float(kind):
            bits = float_bits(value, bits_of(kind))
            return self.cast(f"b{bits_of(kind)}", kind, self.const(f"b{bits_of(kind)}", bits))
        number = int(value)
        return str(number) if self.is_scalar else f"splat ({element(kind)} {number})"

    def op(self, kind: str, opcode: str, *arguments: str) -> str:
        return self.e.op(f"{opcode} {self.type(kind)} {', '.join(arguments)}")

    def compare(self, kind: str, how: str, a: str, b: str) -> str:
        opcode = "fcmp" if is_float(kind) else "icmp"
        return self.e.op(f"{opcode} {how} {self.type(kind)} {a}, {b}")

    def select(self, kind: str, flag: str, a: str, b: str) -> str:
        shape = self.type(kind)
        return self.e.op(f"select {self.flag} {flag}, {shape} {a}, {shape} {b}")

    def both(self, a: str, b: str) -> str:
        return self.e.op(f"and {self.flag} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.e.op(f"or {self.flag} {a}, {b}")

    def no(self, a: str) -> str:
        ones = "true" if self.is_scalar else "splat (i1 true)"
        return self.e.op(f"xor {self.flag} {a}, {ones}")

    def call(self, kind: str, name: str, *arguments: str, more: str = "") -> str:
        """An intrinsic all of whose arguments are of the kind; `more` are others."""
        one, shape = element(kind), self.type(kind)
        short = one if one[0] == "i" else f"f{bits_of(kind)}"
        suffix = short if self.is_scalar else f"v{self.e.machine.width}{short}"
        given = [f"{shape} {a}" for a in arguments] + ([more] if more else [])
        return self.e.intrinsic(f"llvm.{name}.{suffix}", shape, *given)

    def each(self, name: str, kinds: tuple[str, ...], result: str, scalar: str, *a: str) -> str:
        """Lines of IR that make %r of %x0, %x1..., for each lane: see lanewise."""
        types = tuple(map(element, kinds))
        return lanewise(self.e, name, types, element(result), scalar, a)

    # -- between kinds

    def cast(self, old: str, new: str, value: str) -> str:
        """The same bits as another kind."""
        before, after = self.type(old), self.type(new)
        return value if before == after else self.e.op(f"bitcast {before} {value} to {after}")

    def convert(self, opcode: str, old: str, new: str, value: str) -> str:
        """`zext`, `sext`, `trunc`, `fpext`, `sitofp`..."""
        return self.e.op(f"{opcode} {self.type(old)} {value} to {self.type(new)}")

    def resize(self, old: str, new: str, value: str) -> str:
        """An integer of other bits; by its sign where the old kind has one."""
        before, after = bits_of(old), bits_of(new)
        if before == after:
            return value
        opcode = "trunc" if before > after else "sext" if old[0] == "i" else "zext"
        return self.convert(opcode, f"b{before}", f"b{after}", value)

    def from_flag(self, kind: str, flag: str) -> str:
        """1 where a condition holds, else 0."""
        return self.e.op(f"zext {self.flag} {flag} to {self.type(kind)}")

    def truth(self, kind: str, value: str) -> str:
        """Where a value is not 0."""
        return self.compare(kind, "ne", value, self.const(kind, 0))

    def pair(self, low: str, high: str) -> str:
        """64 bits of two times 32."""
        wide = (self.resize("u32", "u64", part) for part in (low, high))
        first, second = wide
        moved = self.op("u64", "shl", second, self.const("u64", 32))
        return self.op("u64", "or", first, moved)

    def halves(self, value: str) -> tuple[str, str]:
        """64 bits as two times 32."""
        high = self.op("u64", "lshr", value, self.const("u64", 32))
        return self.resize("u64", "u32", value), self.resize("u64", "u32", high)

    def bits(self, value: str, low: int, count: int, kind: str = "u32") -> str:
        """A field of an integer."""
        if low:
            value = self.op(kind, "lshr", value, self.const(kind, low))
        return self.op(kind, "and", value, self.const(kind, (1 << count) - 1))
