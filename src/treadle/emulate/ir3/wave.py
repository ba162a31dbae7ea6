"""Values of the operands of one instruction at a time, as LLVM IR.

    w.begin(item)
    a, b = (w.source(i, "f32") for i in range(2))
    w.result("f32", w.x.op("f32", "fadd", a, b))

An instruction that repeats is written once for each `step`. Kinds of values are those of
simt.values: `f32`, `u16`, ...
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from treadle.emulate.ir3.machine import DIFFERENT, OUTSIDE
from treadle.emulate.ir3.operands import (
    A0,
    A1,
    PREDICATES,
    SHARED,
    SHARED_END,
    Kind,
    Operand,
    Unsupported,
)
from treadle.emulate.simt.values import Values, bits_of, is_float

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.emulate.ir3.operands import Instruction
    from treadle.emulate.kgsl.images import Format
    from treadle.emulate.simt.emit import Emitter
    from treadle.emulate.simt.registers import Registers

__all__ = ["Bound", "Wave"]

_LEAST_NORMAL = {"f32": 2.0**-126}  # what is less becomes 0; halves keep their small numbers


def _whole_of(number: int) -> int:
    """The full register that a half one is in."""
    return number // 2 if number < SHARED else SHARED + (number - SHARED) // 2


class Bound(NamedTuple):
    """An image: where its address, pitch, width and height are in a launch's parameters."""

    place: int
    format: Format


class Wave:
    """What meanings write with.

    `constants` is how many 32-bit constants a kernel has loaded, `count` how many components of
    full registers it has. `has_demotion` is about half constants: see Kernel.
    """

    item: Instruction

    def __init__(
        self,
        e: Emitter,
        registers: Registers,
        constants: int,
        count: int,
        has_demotion: bool,
    ) -> None:
        self.e, self.registers, self._constants = e, registers, constants
        self._count, self._has_demotion = count, has_demotion
        self.x = Values(e, is_scalar=False)
        self.textures: list[Bound] = []
        self.images: list[Bound] = []
        self.samplers = 0
        self.step = 0
        self.lanes = ""  # those that act, where they are not all of the basic block
        self._known: dict[int, str] = {}
        self._guards = 0

    def enter(self) -> None:
        """The start of a basic block."""
        self.registers.enter()
        self._known.clear()
        self.lanes = ""

    def begin(self, item: Instruction, step: int = 0) -> None:
        self.item, self.step = item, step

    def flag(self, item: Instruction, which: int) -> str:
        """A source of a branch: p0.x or its like, or its opposite."""
        flag = self.registers.read(f"p{item.number(f'COMP{which}')}")
        return self.x.no(flag) if item.number(f"INV{which}") else flag

    def predicate(self, name: str) -> None:
        """From now on lanes act where p0.x holds (predt), where it does not, or all (prede)."""
        if name == "prede":
            self.lanes = ""
            return
        flag = self.registers.read("p0")
        self.lanes = self.x.both(flag if name == "predt" else self.x.no(flag), self.e.mask)

    @contextmanager
    def only(self, lanes: str) -> Iterator[None]:
        """Memory is accessed by these lanes, a vector of i1, alone."""
        e = self.e
        before = e.mask, e.mask_bits
        if lanes:
            e.mask, e.mask_bits = lanes, e.as_mask(lanes)
        yield
        e.mask, e.mask_bits = before

    # -- registers

    def component(self, number: int, is_half: bool) -> str:
        """A register's bits in each lane: u32, or u16 of a half one."""
        x = self.x
        if number in (A0, A1):
            value = self.registers.read(f"a{number - A0}")
            return x.resize("u32", "u16", value) if is_half else value
        self._check_number(number, is_half)
        if not is_half:
            return self._whole(number)
        value = self._whole(_whole_of(number))
        if number % 2:
            value = x.op("u32", "lshr", value, x.const("u32", 16))
        return x.resize("u32", "u16", value)

    def _whole(self, number: int) -> str:
        """A full register's bits in each lane."""
        value = self.registers.read(f"r{number}")
        return self.e.spread_scalar("i32", value) if number >= SHARED else value

    def _check_number(self, number: int, is_half: bool) -> None:
        if SHARED <= number < SHARED_END:
            return
        if not 0 <= number < self._count * (2 if is_half else 1):
            name = f"{'h' if is_half else ''}r{number // 4}.{'xyzw'[number % 4]}"
            raise Unsupported(f"{name}, and a work item has {self._count // 4} full registers")

    def set_component(self, number: int, is_half: bool, value: str) -> None:
        """Sets a register to u32, or to u16 if it is a half one, in the lanes that act."""
        x = self.x
        if number in (A0, A1):
            wide = x.resize("i16", "i32", value) if is_half else value
            self.registers.write(f"a{number - A0}", wide, self.lanes)
            return
        self._check_number(number, is_half)
        if not is_half:
            self._set_whole(number, value)
            return
        wide = x.resize("u16", "u32", value)
        if number % 2:
            wide = x.op("u32", "shl", wide, x.const("u32", 16))
        kept = x.const("u32", 0xFFFF if number % 2 else 0xFFFF0000)
        before = x.op("u32", "and", self._whole(_whole_of(number)), kept)
        self._set_whole(_whole_of(number), x.op("u32", "or", before, wide))

    def _set_whole(self, number: int, value: str) -> None:
        """Sets a full register, by lanes that agree on it if they share it."""
        name = f"r{number}"
        if number < SHARED:
            self.registers.write(name, value, self.lanes)
            return
        if not 1 <= self.item.category <= 3:
            raise Unsupported("setting a register that all lanes share but by arithmetic")
        e, x, lanes = self.e, self.x, self.lanes or self.e.mask
        bits = e.as_mask(lanes)
        one = e.op(f"extractelement {e.lanes('i32')} {value}, i32 {e.first_lane(bits)}")
        some = e.op(f"icmp ne {e.machine.mask} {bits}, 0")
        new = e.op(f"select i1 {some}, i32 {one}, i32 {self.registers.read(name)}")
        if not self.item.is_scalar:
            differs = x.compare("u32", "ne", value, e.spread_scalar("i32", new))
            self._guard(x.both(differs, lanes), value, DIFFERENT)
        self.registers.write(name, new)

    # -- constants

    def constant(self, number: int) -> str:
        """A constant's 32 bits, in all lanes."""
        if number >= self._constants:
            raise Unsupported(
                f"c{number // 4}.{'xyzw'[number % 4]} is read, and {self._constants} are loaded"
            )
        if number not in self._known:
            e = self.e
            base = e.op(f"inttoptr i64 {e.launch_value('params', 64)} to ptr")
            at = e.op(f"getelementptr i32, ptr {base}, i64 {number}")
            self._known[number] = e.spread_scalar("i32", e.op(f"load i32, ptr {at}"))
        return self._known[number]

    def parameter(self, place: int) -> str:
        """64 bits of a launch's parameters, in all lanes."""
        e = self.e
        base = e.op(f"inttoptr i64 {e.launch_value('params', 64)} to ptr")
        at = e.op(f"getelementptr i8, ptr {base}, i64 {place}")
        return e.spread_scalar("i64", e.op(f"load i64, ptr {at}"))

    # -- relative addresses

    def _places(self, base: str, offset: int, count: int, step: int) -> str:
        """For each lane the place of element a0.x + offset; one of none is a fault."""
        x, e = self.x, self.e
        index = x.op("u32", "add", self.registers.read("a0"), x.const("u32", offset))
        inside = x.compare("u32", "ult", index, x.const("u32", count))
        index = x.select("u32", inside, index, x.const("u32", 0))
        wrong = x.both(x.no(inside), self.lanes or e.mask)
        self._guard(wrong, x.op("u32", "add", self.registers.read("a0"), x.const("u32", offset)))
        wide = x.resize("u32", "u64", index)
        places = x.op("u64", "mul", wide, x.const("u64", step))
        return e.op(f"getelementptr i8, ptr {base}, {e.lanes('i64')} {places}")

    def _guard(self, wrong: str, index: str, kind: int = OUTSIDE) -> None:
        """A fault of the first lane of `wrong`, if there is one, with its lane of `index`."""
        e = self.e
        self._guards += 1
        bits, number = e.as_mask(wrong), self._guards
        some = e.op(f"icmp ne {e.machine.mask} {bits}, 0")
        e.do(f"br i1 {some}, label %outside{number}, label %inside{number}")
        e.label(f"outside{number}")
        lane = e.first_lane(bits)
        which = e.op(f"extractelement {e.lanes('i32')} {index}, i32 {lane}")
        e.report(kind, lane, e.op(f"sext i32 {which} to i64"))
        e.do(f"br label %inside{number}")
        e.label(f"inside{number}")

    def _gather(self, places: str) -> str:
        e, width = self.e, self.e.machine.width
        return e.intrinsic(
            f"llvm.masked.gather.v{width}i32.v{width}p0", e.lanes("i32"),
            f"{e.lanes('ptr')} {places}", "i32 4", f"{e.lanes('i1')} {self.lanes or e.mask}",
            f"{e.lanes('i32')} zeroinitializer",
            types=f"{e.lanes('ptr')}, i32, {e.lanes('i1')}, {e.lanes('i32')}",
        )  # fmt: skip

    def _register_places(self, offset: int, is_half: bool) -> str:
        """Where the registers are that a0.x names: those written are stored before."""
        e = self.e
        if is_half:
            raise Unsupported("half registers that a0.x names")
        self.registers.leave(None, e.mask, e.mask_bits)
        step = 4 * e.machine.width
        places = self._places(e.warp_field("r0"), offset, self._count, step)
        lanes = self.x.op("u64", "mul", e.machine.iota, self.x.const("u64", 4))
        numbers = self.x.op(
            "u64", "add", e.op(f"ptrtoint {e.lanes('ptr')} {places} to {e.lanes('i64')}"), lanes
        )
        return e.op(f"inttoptr {e.lanes('i64')} {numbers} to {e.lanes('ptr')}")

    # -- sources

    def bits(self, of: Operand, of_float: bool = False) -> str:
        """An operand's bits before its signs: u16 of a half one, else u32.

        A half constant is made of 32 bits: those of a float where `of_float`, else the low ones.
        """
        x, number = self.x, of.number + (self.step if of.steps else 0)
        if of.kind is Kind.GPR:
            return self.component(number, of.is_half)
        if of.kind is Kind.NUMBER:
            bits = 16 if of.is_half else 32
            return x.const(f"u{bits}", of.number & (1 << bits) - 1)
        if of.kind is Kind.RELATIVE_GPR:
            return self._gather(self._register_places(number, of.is_half))
        if of.is_half and not self._has_demotion:
            return self._packed_constant(of, number)
        if of.kind is Kind.CONSTANT:
            value = self.constant(number)
        else:
            e = self.e
            base = e.op(f"inttoptr i64 {e.launch_value('params', 64)} to ptr")
            value = self._gather(self._places(base, number, self._constants, 4))
        if not of.is_half:
            return value
        if of_float:
            narrow = x.convert("fptrunc", "f32", "f16", x.cast("u32", "f32", value))
            return x.cast("f16", "u16", narrow)
        return x.resize("u32", "u16", value)

    def _packed_constant(self, of: Operand, number: int) -> str:
        """Two half constants are in a whole one."""
        x = self.x
        if of.kind is not Kind.CONSTANT:
            raise Unsupported("packed half constants that a0.x names")
        value = self.constant(number // 2)
        if number % 2:
            value = x.op("u32", "lshr", value, x.const("u32", 16))
        return x.resize("u32", "u16", value)

    def source(self, index: int, kind: str, signs: str = "") -> str:
        """A source as a value of `kind`, whose bits are those of the operand.

        `signs` says what (neg) does where the kind does not: `not` inverts bits, `none` is nothing.
        """
        of = self.item.sources[index]
        if bits_of(kind) != (16 if of.is_half else 32):
            raise Unsupported(f"{kind} of a source of another size")
        if is_float(kind) and of.kind is Kind.NUMBER and not of.is_float:
            raise Unsupported("a whole number as a source of floats")
        bits = f"u{bits_of(kind)}"
        value = self.x.cast(bits, kind, self.bits(of, is_float(kind)))
        if is_float(kind):
            return self.flushed(kind, self._float_signs(of, kind, value))
        return self._signs(of, kind, value, signs)

    def _float_signs(self, of: Operand, kind: str, value: str) -> str:
        x = self.x
        if of.absolute:
            value = x.call(kind, "fabs", value)
        return x.op(kind, "fneg", value) if of.negated else value

    def _signs(self, of: Operand, kind: str, value: str, signs: str) -> str:
        x = self.x
        if signs == "not":
            if of.absolute:
                raise Unsupported("the absolute value of bits")
            return x.op(kind, "xor", value, x.const(kind, -1)) if of.negated else value
        if signs == "none" and (of.absolute or of.negated):
            raise Unsupported("(neg) or (abs) of this source")
        if of.absolute:
            value = x.call(kind, "abs", value, more="i1 false")
        return x.op(kind, "sub", x.const(kind, 0), value) if of.negated else value

    def flushed(self, kind: str, value: str) -> str:
        """A float whose number is too small for its exponent becomes 0 of its sign."""
        x, least = self.x, _LEAST_NORMAL.get(kind)
        if least is None:
            return value
        size = x.call(kind, "fabs", value)
        small = x.compare(kind, "olt", size, x.const(kind, least))
        sign = x.op("u32", "and", x.cast(kind, "u32", value), x.const("u32", 1 << 31))
        return x.select(kind, small, x.cast("u32", kind, sign), value)

    # -- results

    def result(self, kind: str, value: str) -> None:
        """Sets the destination of cat2 to cat4: what is computed in `kind`, in its own size."""
        x, of = self.x, self.item.destination
        number = of.number + self.step
        if is_float(kind):
            value = self._finished_float(kind, value)
        if of.number >= PREDICATES:
            flag = x.truth(f"u{bits_of(kind)}", x.cast(kind, f"u{bits_of(kind)}", value))
            self.set_flag(number, flag)
            return
        wanted = 16 if of.is_half else 32
        if bits_of(kind) != wanted:
            kind, value = self._resized(kind, wanted, value)
        self.set_component(number, of.is_half, x.cast(kind, f"u{wanted}", value))

    def set_flag(self, number: int, flag: str) -> None:
        """Sets p0.x, or what follows it."""
        if not PREDICATES <= number < PREDICATES + 4:
            raise Unsupported("a flag that is not p0.x to p0.w")
        self.registers.write(f"p{number - PREDICATES}", flag, self.lanes)

    def _finished_float(self, kind: str, value: str) -> str:
        x = self.x
        if self.item.saturates:
            zero, one = x.const(kind, 0.0), x.const(kind, 1.0)
            value = x.select(kind, x.compare(kind, "ogt", value, zero), value, zero)
            value = x.select(kind, x.compare(kind, "olt", value, one), value, one)
        return self.flushed(kind, value)

    def _resized(self, kind: str, bits: int, value: str) -> tuple[str, str]:
        """A result of the other size: floats are rounded to nearest, integers keep their sign."""
        new = f"{kind[0]}{bits}"
        if is_float(kind):
            return new, self.x.convert("fptrunc" if bits == 16 else "fpext", kind, new, value)
        return new, self.x.resize(kind, new, value)

    def set_moved(self, of: Operand, value: str) -> None:
        """Sets a destination of cat1, u16 or u32."""
        number = of.number + (self.step if of.steps else 0)
        if of.kind is Kind.RELATIVE_GPR:
            self._scatter(number, of.is_half, value)
        elif PREDICATES <= number < PREDICATES + 4:
            self.set_flag(number, self.x.truth("u16" if of.is_half else "u32", value))
        else:
            self.set_component(number, of.is_half, value)

    def _scatter(self, offset: int, is_half: bool, value: str) -> None:
        e, width = self.e, self.e.machine.width
        places = self._register_places(offset, is_half)
        e.intrinsic(
            f"llvm.masked.scatter.v{width}i32.v{width}p0", "void", f"{e.lanes('i32')} {value}",
            f"{e.lanes('ptr')} {places}", "i32 4", f"{e.lanes('i1')} {self.lanes or e.mask}",
            types=f"{e.lanes('i32')}, {e.lanes('ptr')}, i32, {e.lanes('i1')}",
        )  # fmt: skip
        self.registers.enter()  # what was read is to be read anew
