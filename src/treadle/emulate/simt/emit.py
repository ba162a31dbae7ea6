"""Writes the LLVM IR of one kernel: values of all lanes, and places in the records.

    e.op(f"add {e.lanes('i32')} {a}, {b}")

A kernel is a function (ptr %block, ptr %warp). Front ends add what they know of registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.emulate.simt.machine import Machine

__all__ = ["Emitter"]


def _type_of(argument: str) -> str:
    """The type of 'type value'."""
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    return argument.split(" ", 1)[0]


class Emitter:
    """The code of one kernel so far.

    `mask` are the lanes that run the instruction, a vector of i1, `mask_bits` the same as a mask,
    and `site` is the instruction's number, or a value that is.
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.lines: list[str] = []
        self.helpers: dict[str, str] = {}  # name -> definition or declaration
        self.site = "0"
        self.mask = self.mask_bits = ""
        self._count = 0

    def definition(self, symbol: str) -> str:
        """The module of the kernel `symbol`, when all has been written."""
        helpers, body = "\n".join(self.helpers.values()), "\n".join(self.lines)
        return (
            f'{helpers}\ndefine void @{symbol}(ptr %block, ptr %warp) "prefer-vector-width"="512" '
            f"{{\n{body}\n}}\n"
        )

    # -- text

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def op(self, text: str) -> str:
        """The value of an instruction."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def need(self, name: str, definition: str) -> str:
        """`@name`, defined once in this module."""
        self.helpers.setdefault(name, definition)
        return f"@{name}"

    def intrinsic(self, name: str, result: str, *arguments: str, types: str = "") -> str:
        """Calls an intrinsic or support function; each argument is 'type value'."""
        types = types or ", ".join(map(_type_of, arguments))
        self.helpers.setdefault(name, f"declare {result} @{name}({types})")
        call = f"call {result} @{name}({', '.join(arguments)})"
        if result == "void":
            self.do(call)
            return ""
        return self.op(call)

    # -- lanes

    def lanes(self, kind: str) -> str:
        """The type of a value of `kind` in each lane."""
        return self.machine.lanes(kind)

    def spread_scalar(self, kind: str, scalar: str) -> str:
        """A scalar in every lane."""
        shape = self.lanes(kind)
        one = self.op(f"insertelement {shape} poison, {kind} {scalar}, i32 0")
        return self.op(f"shufflevector {shape} {one}, {shape} poison, "
                       f"{self.lanes('i32')} zeroinitializer")  # fmt: skip

    def first_lane(self, mask: str) -> str:
        """The number of a mask's first lane, an i32; of an empty one that of no lane."""
        kind = self.machine.mask
        lane = self.intrinsic(
            f"llvm.cttz.{kind}", kind, f"{kind} {mask}", "i1 false", types=f"{kind}, i1"
        )
        return lane if kind == "i32" else self.op(f"trunc {kind} {lane} to i32")

    def as_lanes(self, mask: str) -> str:
        """A mask as a vector of i1."""
        return self.op(f"bitcast {self.machine.mask} {mask} to {self.lanes('i1')}")

    def as_mask(self, flags: str) -> str:
        """A vector of i1 as a mask."""
        return self.op(f"bitcast {self.lanes('i1')} {flags} to {self.machine.mask}")

    # -- records

    def warp_field(self, name: str, offset: int = 0) -> str:
        return self.op(f"getelementptr i8, ptr %warp, i64 {self.machine.warp[name] + offset}")

    def block_field(self, name: str) -> str:
        return self.op(f"getelementptr i8, ptr %block, i64 {self.machine.block[name]}")

    def block_value(self, name: str, bits: int = 32) -> str:
        return self.op(f"load i{bits}, ptr {self.block_field(name)}")

    def launch_value(self, name: str, bits: int = 32) -> str:
        launch = self.op(f"load ptr, ptr {self.block_field('launch')}")
        place = self.op(f"getelementptr i8, ptr {launch}, i64 {self.machine.launch[name]}")
        return self.op(f"load i{bits}, ptr {place}")

    def warp_mask(self, name: str) -> str:
        """A mask that the Warp holds."""
        return self.op(f"load {self.machine.mask}, ptr {self.warp_field(name)}")

    def save_warp_mask(self, name: str, mask: str) -> None:
        self.do(f"store {self.machine.mask} {mask}, ptr {self.warp_field(name)}")

    # -- support functions

    def support(self, name: str, *arguments: str, result: str = "void", mask: str = "") -> str:
        """Calls a support function about the lanes that run the instruction, or those of a mask."""
        return self.intrinsic(
            f"treadle_simt_{name}", result, "ptr %block", "ptr %warp",
            f"{self.machine.mask} {mask or self.mask_bits}", f"i32 {self.site}", *arguments,
        )  # fmt: skip

    def fault(self, kind: int, address: str = "0") -> None:
        """Reports a fault of the first lane that runs this, if any does."""
        number = f"fault{len(self.lines)}"
        some = self.op(f"icmp ne {self.machine.mask} {self.mask_bits}, 0")
        self.do(f"br i1 {some}, label %{number}, label %no{number}")
        self.label(number)
        self.report(kind, self.first_lane(self.mask_bits), address)
        self.do(f"br label %no{number}")
        self.label(f"no{number}")

    def report(self, kind: int, lane: str, address: str = "0") -> None:
        """Reports a fault of a lane."""
        self.intrinsic(
            "treadle_simt_fault", "void", "ptr %block", "ptr %warp", f"i32 {int(kind)}",
            f"i32 {self.site}", f"i32 {lane}", f"i64 {address}", "i32 0", "i128 0",
        )  # fmt: skip
