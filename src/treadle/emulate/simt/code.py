"""Writes functions of LLVM IR: values, branches and loops as Python calls.

    code = Code(machine, "i32", "f", "i32 %n")
    i = code.variable("i32", "0")
    code.loop(lambda: code.op(f"icmp slt i32 {code.get(i)}, %n"), lambda: ...)
    code.do(f"ret i32 {code.get(i)}")

Variables are allocas, which the compiler turns into registers; so there are no phis to write. In
what is written, `W` stands for the lanes of a warp and `MASK` for the type of a mask of them:
`<W x i64>` is an address for each lane.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from treadle.emulate.simt.machine import TOUCH, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.simt.machine import Machine

__all__ = ["LANES", "RECORDS", "Code", "Variable", "declarations", "sized"]

# Parameters of functions about the lanes of a mask, and of those about a block or a warp.
RECORDS = "ptr %block, ptr %warp"
LANES = f"{RECORDS}, MASK %mask, i32 %site"


_SIZED = re.compile(r"\bMASK\b|(?<=<)W(?= x )|(?<=\.v)W(?=[if]\d)")


def sized(machine: Machine, text: str) -> str:
    """The text with the machine's width for W and MASK."""
    return _SIZED.sub(
        lambda found: machine.mask if found[0] == "MASK" else str(machine.width), text
    )


def declarations(machine: Machine) -> str:
    """What functions call that nobody here defines."""
    lines = [
        *(f"i{bits} @llvm.{how}.i{bits}(i{bits}, i{bits})" for bits in (32, 64)
          for how in ("umin", "umax", "smin", "smax")),
        *(f"i{bits} @llvm.cttz.i{bits}(i{bits}, i1)" for bits in {32, machine.width}),
        *(f"i{bits} @llvm.ctpop.i{bits}(i{bits})" for bits in {32, machine.width}),
        *(f"i{bits} @llvm.vector.reduce.{how}.vWi{bits}(<W x i{bits}>)" for bits in (32, 64)
          for how in ("umin", "umax", "or")),
        "i1 @llvm.vector.reduce.and.vWi1(<W x i1>)",
        "void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)",
        "i32 @memcmp(ptr, ptr, i64)",
    ]  # fmt: skip
    return sized(machine, "".join(f"declare {line}\n" for line in lines))


class Variable(str):
    """The address of an alloca; `type` is what it holds."""

    __slots__ = ("type",)
    type: str


class Code:
    """One function. `text` is its definition when all has been written."""

    def __init__(
        self, machine: Machine, result: str, name: str, parameters: str, attributes: str = ""
    ) -> None:
        self.machine = machine
        self._records = {"block": machine.block, "warp": machine.warp, "launch": machine.launch}
        self._head = f"define {result} @{name}({parameters}) {attributes} {{\nentry:"
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    @property
    def text(self) -> str:
        written = "\n".join([self._head, *self._allocas, *self._lines, "}\n"])
        return sized(self.machine, written)

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def do(self, text: str) -> None:
        self._lines.append("  " + text)

    def op(self, text: str) -> str:
        name = f"%{self._name()}"
        self._lines.append(f"  {name} = {text}")
        return name

    def variable(self, kind: str, initial: str) -> Variable:
        variable = Variable(f"%{self._name()}")
        variable.type = kind
        self._allocas.append(f"  {variable} = alloca {kind}")
        self.set(variable, initial)
        return variable

    def get(self, variable: Variable) -> str:
        return self.op(f"load {variable.type}, ptr {variable}")

    def set(self, variable: Variable, value: str) -> None:
        self.do(f"store {variable.type} {value}, ptr {variable}")

    # -- memory

    def at(self, pointer: str, offset: str | int, each: int = 1) -> str:
        """The address `offset` times `each` bytes behind `pointer`."""
        kind = f"i{8 * each}"
        return self.op(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def field(self, record: str, name: str) -> str:
        """The address of a field of %block, %warp or %launch."""
        return self.at(f"%{record}", self._records[record][name])

    def load(self, record: str, name: str, bits: int = 32) -> str:
        return self.op(f"load i{bits}, ptr {self.field(record, name)}")

    def save(self, record: str, name: str, value: str, bits: int = 32) -> None:
        self.do(f"store i{bits} {value}, ptr {self.field(record, name)}")

    def pointer(self, record: str, name: str) -> str:
        return self.op(f"load ptr, ptr {self.field(record, name)}")

    def slot(self, record: str, name: str, index: str, bits: int = 32) -> str:
        """The address of an element of a field; the index is an i32."""
        return self.at(self.field(record, name), self.wide(index), bits // 8)

    # -- lanes

    def wide(self, number: str) -> str:
        """An i32 as an i64."""
        return self.op(f"zext i32 {number} to i64")

    def lane_address(self, lane: str) -> str:
        """What a lane's place in `addresses` holds."""
        return self.op(f"load i64, ptr {self.slot('warp', 'addresses', lane, 64)}")

    def in_mask(self, number: str, bits: int = 32) -> str:
        """A number as a mask."""
        width = self.machine.width
        if bits == width:
            return number
        return self.op(f"{'zext' if bits < width else 'trunc'} i{bits} {number} to MASK")

    def lane_bit(self, lane: str) -> str:
        """The mask of one lane."""
        return self.op(f"shl MASK 1, {self.in_mask(lane)}")

    def add_lane(self, mask: Variable, lane: str) -> None:
        """Puts a lane into a mask."""
        self.set(mask, self.op(f"or MASK {self.get(mask)}, {self.lane_bit(lane)}"))

    def without(self, mask: str, others: str) -> str:
        """A mask without the lanes of another."""
        return self.op(f"and MASK {mask}, {self.op(f'xor MASK {others}, -1')}")

    def is_empty(self, mask: str) -> str:
        return self.op(f"icmp eq MASK {mask}, 0")

    def has_lane(self, mask: str, lane: str) -> str:
        bit = self.op(f"and MASK {mask}, {self.lane_bit(lane)}")
        return self.op(f"icmp ne MASK {bit}, 0")

    def alignment(self, nbytes: str, how: str) -> str:
        """What an access's address is a multiple of, an i64, by its bytes and by what it does."""
        if self.machine.needs_alignment:
            return nbytes
        is_atomic = self.op(f"icmp eq i32 {how}, {TOUCH}")
        return self.op(f"select i1 {is_atomic}, i64 {nbytes}, i64 1")

    def count_lanes(self, mask: str) -> str:
        """How many lanes a mask has, an i32."""
        width = self.machine.width
        return self._in_i32(self.op(f"call MASK @llvm.ctpop.i{width}(MASK {mask})"))

    def _in_i32(self, number: str) -> str:
        return number if self.machine.width == 32 else self.op(f"trunc MASK {number} to i32")

    def spread(self, kind: str, value: str, count: str | int = "W") -> str:
        """A vector that has `value` everywhere."""
        shape = f"<{count} x {kind}>"
        one = self.op(f"insertelement {shape} poison, {kind} {value}, i32 0")
        return self.op(
            f"shufflevector {shape} {one}, {shape} poison, <{count} x i32> zeroinitializer"
        )

    def report(
        self,
        kind: int,
        lane: str,
        address: str,
        nbytes: str,
        extra: str = "0",
        site: str = "%site",
        warp: str = "%warp",
    ) -> None:
        """Notes a fault; the warp goes on for its other lanes to its next backward branch.

        `extra` is an i128, whose meaning depends on the kind.
        """
        self.do(
            f"call void @treadle_simt_fault(ptr %block, ptr {warp}, i32 {int(kind)}, i32 {site}, "
            f"i32 {lane}, i64 {address}, i32 {nbytes}, i128 {extra})"
        )

    def report_misaligned(self, lane: str, address: str, align: str) -> None:
        """Notes that an address of an access of %nbytes is no multiple of an i64."""
        self.report(Fault.MISALIGNED, lane, address, "%nbytes", self.as_extra(align))

    def as_extra(self, value: str, kind: str = "i64") -> str:
        """A number or a mask as what a report takes."""
        wide = kind == "i128" or (kind == "MASK" and self.machine.width == 128)
        return value if wide else self.op(f"zext {kind} {value} to i128")

    # -- control

    def label(self, name: str) -> None:
        """Goes on at `name`, from here too."""
        self.do(f"br label %{name}")
        self._lines.append(f"{name}:")

    def leave(self, text: str) -> None:
        """A `ret` in the middle; what follows is never reached from here."""
        self.do(text)
        self._lines.append(f"{self._name()}:")

    def when(
        self, condition: str, then: Callable[[], object], other: Callable[[], object] | None = None
    ) -> None:
        yes, no, after = self._name(), self._name(), self._name()
        self.do(f"br i1 {condition}, label %{yes}, label %{no if other else after}")
        self._lines.append(f"{yes}:")
        then()
        self.do(f"br label %{after}")
        if other:
            self._lines.append(f"{no}:")
            other()
            self.do(f"br label %{after}")
        self._lines.append(f"{after}:")

    def loop(self, condition: Callable[[], str], body: Callable[[], object]) -> None:
        """While the condition holds."""
        top, inside, after = self._name(), self._name(), self._name()
        self.label(top)
        self.do(f"br i1 {condition()}, label %{inside}, label %{after}")
        self._lines.append(f"{inside}:")
        body()
        self.do(f"br label %{top}")
        self._lines.append(f"{after}:")

    def count(self, n: str, body: Callable[[str], object], start: str = "0") -> None:
        """`body(i)` for each i32 from `start` to n - 1."""
        i = self.variable("i32", start)

        def step() -> None:
            now = self.get(i)
            body(now)
            self.set(i, self.op(f"add i32 {now}, 1"))

        self.loop(lambda: self.op(f"icmp slt i32 {self.get(i)}, {n}"), step)

    def each_lane(self, mask: str, body: Callable[[str], object]) -> None:
        """`body(lane)`, an i32, for each bit of a mask."""
        left, width = self.variable("MASK", mask), self.machine.width

        def step() -> None:
            now = self.get(left)
            lane = self._in_i32(self.op(f"call MASK @llvm.cttz.i{width}(MASK {now}, i1 true)"))
            less = self.op(f"add MASK {now}, -1")
            self.set(left, self.op(f"and MASK {now}, {less}"))
            body(lane)

        self.loop(lambda: self.op(f"icmp ne MASK {self.get(left)}, 0"), step)
