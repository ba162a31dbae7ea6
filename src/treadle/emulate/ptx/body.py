"""The statements of a function: registers, labels, instructions and their operands.

Names of registers, labels and variables inside `{ }` belong to that block: each gets a name of its
own here (`%r1` of the second block is `%r1@2`), so that a body is one flat list.
"""

from __future__ import annotations

from treadle.emulate.ptx.cursor import float_constant
from treadle.emulate.ptx.declarations import LINKAGE, SPACES, Declarations
from treadle.emulate.ptx.machine import LANES
from treadle.emulate.ptx.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Symbol,
    Vector,
)

__all__ = ["Body"]


class Scopes:
    """Names as they are written, and the names that they have in the flat body."""

    def __init__(self) -> None:
        self.open: list[dict[str, str]] = [{}]
        self.count = 0

    def enter(self) -> None:
        self.open.append({})
        self.count += 1

    def leave(self) -> None:
        self.open.pop()

    def declare(self, name: str) -> str:
        flat = name if len(self.open) == 1 else f"{name}@{self.count}"
        self.open[-1][name] = flat
        return flat

    def __getitem__(self, name: str) -> str:
        for scope in reversed(self.open):
            if name in scope:
                return scope[name]
        return name


class Body:
    """The statements of one function, up to its closing brace."""

    def __init__(self, reader: Declarations, function: Function) -> None:
        self.reader, self.function = reader, function
        self.scopes = Scopes()
        self.statements: list[Instruction | Label] = []

    def read(self) -> None:
        self.function.body = self.statements
        depth = 1
        while depth:
            reader = self.reader
            if reader.accept("{"):
                depth += 1
                self.scopes.enter()
                self._declare_labels()
            elif reader.accept("}"):
                depth -= 1
                self.scopes.leave()
            elif reader.token.kind == "dot":
                self._directive()
            elif reader.token.kind == "end":
                reader.fail(f"{self.function.name} has no end")
            else:
                self._statement()

    def _declare_labels(self) -> None:
        """Labels of a block are known before they stand there: a branch may go forward."""
        items, depth = self.reader.items, 0
        for at in range(self.reader.at, len(items)):
            text = items[at].text
            depth += (text == "{") - (text == "}")
            if depth < 0:
                return
            if depth == 0 and text == ":" and items[at - 1].kind == "word":
                self.scopes.declare(items[at - 1].text)

    def _directive(self) -> None:
        reader, text = self.reader, self.reader.token.text
        if text == ".reg":
            self._registers()
        elif text in SPACES or text in LINKAGE:
            reader.skip_linkage()
            self.function.variables += reader.variables(self.scopes.declare)
        elif text == ".branchtargets":
            self._table()
        elif text in (".pragma", ".callprototype", ".calltargets"):
            reader.skip_directive(text)
        else:
            reader.fail(f"{text!r} begins no statement that is emulated")

    def _registers(self) -> None:
        reader = self.reader
        reader.next()
        _, lanes, kind = reader.type()
        if lanes > 1:
            reader.fail("registers that are vectors are not emulated")
        while True:
            name = reader.word()
            if reader.accept("<"):
                count = reader.integer()
                reader.expect(">")
                names = [f"{name}{i}" for i in range(count)]
            else:
                names = [name]
            for each in names:
                self.function.registers[self.scopes.declare(each)] = kind
            if not reader.accept(","):
                break
        reader.expect(";")

    def _table(self) -> None:
        """`label: .branchtargets a, b, c;`, the targets of a brx.idx"""
        label = self.statements.pop() if self.statements else None
        if not isinstance(label, Label):
            self.reader.fail(".branchtargets has no label")
        self.reader.next()
        names = [self.scopes[self.reader.word()]]
        while self.reader.accept(","):
            names.append(self.scopes[self.reader.word()])
        self.reader.expect(";")
        self.function.tables[label.name] = tuple(names)

    def _statement(self) -> None:
        reader = self.reader
        line, guard, negated = reader.token.line, None, False
        if reader.accept("@"):
            negated = reader.accept("!")
            guard = Register(self.scopes[reader.word()])
        elif reader.token.kind == "word" and reader.items[reader.at + 1].text == ":":
            self.statements.append(Label(self.scopes[reader.word()], line))
            reader.next()
            return
        line = reader.token.line
        opcode = reader.word()
        modifiers = []
        while reader.token.kind == "dot":
            modifiers.append(reader.next().text[1:])
        operands = self._call() if opcode == "call" else self._operands()
        self.statements.append(
            Instruction(opcode, tuple(modifiers), operands, line, guard, negated)
        )

    def _operands(self) -> tuple[Operand, ...]:
        if self.reader.accept(";"):
            return ()
        found = [self._operand()]
        while self.reader.accept(","):
            found.append(self._operand())
        self.reader.expect(";")
        return tuple(found)

    def _operand(self) -> Operand:
        first = self._single()
        return Pair(first, self._single()) if self.reader.accept("|") else first

    def _single(self) -> Operand:
        reader = self.reader
        if reader.accept("{"):
            items = [self._operand()]
            while reader.accept(","):
                items.append(self._operand())
            reader.expect("}")
            return Vector(tuple(items))
        if reader.accept("["):
            return self._address()
        if reader.accept("!"):
            return Negated(Register(self.scopes[reader.word()]))
        if reader.token.kind == "word":
            return self._name()
        negative = False
        if reader.token.text == "-" and reader.items[reader.at + 1].kind == "float":
            negative = bool(reader.next())
        if reader.token.kind == "float":
            return float_constant(reader.next().text, negative)
        return Immediate(reader.integer())

    def _name(self) -> Operand:
        reader = self.reader
        written = reader.word()
        if written == "_":
            return Sink()
        if written == "WARP_SZ":
            return Immediate(LANES)
        name = self.scopes[written]
        while reader.token.kind == "dot":
            name += reader.next().text
        if name in self.function.registers or written.startswith("%"):
            return Register(name)
        offset = 0
        if reader.token.text in ("+", "-"):
            reader.accept("+")
            offset = reader.integer()
        return Symbol(name, offset)

    def _address(self) -> Operand:
        reader = self.reader
        base: Register | Symbol | Immediate
        if reader.token.kind == "word":
            name = self.scopes[reader.word()]
            base = Register(name) if name in self.function.registers else Symbol(name)
        else:
            base = Immediate(reader.integer())
        offset = 0
        if reader.accept("+") or reader.token.text == "-":
            offset = reader.integer()
        coordinates: tuple[Operand, ...] = ()
        if reader.accept(","):
            found = self._single()
            coordinates = found.items if isinstance(found, Vector) else (found,)
        reader.expect("]")
        return Address(base, offset, coordinates)

    def _call(self) -> tuple[Operand, ...]:
        """`call (results), callee, (arguments);`, each part but the callee optional."""
        reader = self.reader
        results = self._names() if reader.token.text == "(" else Vector(())
        reader.accept(",")
        callee = self._operand()
        arguments = Vector(())
        if reader.accept(",") and reader.token.text == "(":
            arguments = self._names()
        if reader.accept(","):
            self._operand()  # a prototype, or the functions that may be meant
        reader.expect(";")
        return results, callee, arguments

    def _names(self) -> Vector:
        reader = self.reader
        reader.expect("(")
        found = []
        while not reader.accept(")"):
            found.append(self._operand())
            reader.accept(",")
        return Vector(tuple(found))
