"""Writes functions of LLVM IR: values, branches and loops as Python calls.

    with function("i32", "f", "i32 %n") as code:
        i = code.variable("i32", "0")
        code.loop(lambda: code.op(f"icmp slt i32 {code.get(i)}, %n"), lambda: ...)
        code.do(f"ret i32 {code.get(i)}")

Variables are allocas, which the compiler turns into registers; so there are no phis to write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.machine import BLOCK, LAUNCH, WARP

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Code", "Variable"]

_RECORDS = {"block": BLOCK, "warp": WARP, "launch": LAUNCH}


class Variable(str):
    """The address of an alloca; `type` is what it holds."""

    __slots__ = ("type",)
    type: str


class Code:
    """One function. `text` is its definition when all has been written."""

    def __init__(self, result: str, name: str, parameters: str, attributes: str = "") -> None:
        self._head = f"define {result} @{name}({parameters}) {attributes} {{\nentry:"
        self._allocas: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    @property
    def text(self) -> str:
        return "\n".join([self._head, *self._allocas, *self._lines, "}\n"])

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
        kind = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[each]
        return self.op(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")

    def field(self, record: str, name: str) -> str:
        """The address of a field of %block, %warp or %launch."""
        return self.at(f"%{record}", _RECORDS[record][name])

    def load(self, record: str, name: str, bits: int = 32) -> str:
        return self.op(f"load i{bits}, ptr {self.field(record, name)}")

    def save(self, record: str, name: str, value: str, bits: int = 32) -> None:
        self.do(f"store i{bits} {value}, ptr {self.field(record, name)}")

    def pointer(self, record: str, name: str) -> str:
        return self.op(f"load ptr, ptr {self.field(record, name)}")

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
        left = self.variable("i32", mask)

        def step() -> None:
            now = self.get(left)
            lane = self.op(f"call i32 @llvm.cttz.i32(i32 {now}, i1 true)")
            less = self.op(f"add i32 {now}, -1")
            self.set(left, self.op(f"and i32 {now}, {less}"))
            body(lane)

        self.loop(lambda: self.op(f"icmp ne i32 {self.get(left)}, 0"), step)
