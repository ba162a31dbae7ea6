"""Declarations of variables: state space, alignment, type, names, sizes and initial values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.cursor import Cursor, float_bits, float_constant
from treadle.emulate.ptx.syntax import WIDTHS, Symbol, Variable

if TYPE_CHECKING:
    pass

__all__ = ["LINKAGE", "SPACES", "Declarations"]

SPACES = {".global", ".const", ".shared", ".local", ".param"}
LINKAGE = {".visible", ".extern", ".weak", ".common"}
_TYPES = {"." + name for name in WIDTHS}


class Declarations(Cursor):
    """Reads what modules and functions declare alike."""

    def skip_linkage(self) -> None:
        """Past what linkers need: a module is all that there is here."""
        while self.token.text in LINKAGE:
            self.next()

    # -- variables

    def variables(self, declare) -> list[Variable]:
        """One declaration: a space, a type, and names with sizes and initialisers, to its ';'."""
        space = self.next().text[1:]
        align, lanes, kind = self.type()
        found = [self.variable(space, kind, align, lanes, declare)]
        while self.accept(","):
            found.append(self.variable(space, kind, align, lanes, declare))
        self.expect(";")
        return found

    def type(self) -> tuple[int, int, str]:
        """(alignment or 0, elements of a vector, name of the type)"""
        align, lanes = 0, 1
        while True:
            word = self.token.text
            if word == ".align":
                self.next()
                align = self.integer()
            elif word in (".v2", ".v4", ".v8"):
                self.next()
                lanes = int(word[2:])
            elif word == ".attribute":
                self.fail(".attribute is not emulated")
            elif word in _TYPES:
                return align, lanes, self.next().text[1:]
            elif word == ".ptr":
                self.pointer_notes()
            else:
                self.fail(f"expected a type, found {word!r}")

    def pointer_notes(self) -> None:
        """What a kernel's parameter says of the memory it points to: `.ptr .global .align 16`."""
        self.next()
        while self.token.text in SPACES or self.token.text == ".align":
            if self.next().text == ".align":
                self.integer()

    def variable(
        self,
        space: str,
        kind: str,
        align: int,
        lanes: int,
        declare,
    ) -> Variable:
        line = self.token.line
        name = declare(self.word())
        each = WIDTHS[kind] // 8 * lanes
        count = 1
        is_open = False
        while self.accept("["):
            if self.accept("]"):
                is_open = True
            else:
                count *= self.integer()
                self.expect("]")
        variable = Variable(space, name, 0 if is_open else each * count, align or each, line)
        if self.accept("="):
            self._initialise(variable, kind, is_open)
        return variable

    def _initialise(self, variable: Variable, kind: str, is_open: bool) -> None:
        data = bytearray()
        self._initial_values(variable, kind, data)
        if is_open:
            variable.nbytes = len(data)
        elif len(data) > variable.nbytes:
            self.fail(f"{variable.name} has {variable.nbytes} bytes and {len(data)} of values")
        variable.initial = bytes(data).ljust(variable.nbytes, b"\0")

    def _initial_values(self, variable: Variable, kind: str, data: bytearray) -> None:
        if self.accept("{"):
            while not self.accept("}"):
                self._initial_values(variable, kind, data)
                self.accept(",")
            return
        nbytes = WIDTHS[kind] // 8
        if self.token.kind == "word":
            variable.pointers.append((len(data), self._initial_address()))
            data += bytes(nbytes)
            return
        negative = False
        if self.token.text == "-" and self.items[self.at + 1].kind == "float":
            negative = bool(self.next())
        if self.token.kind == "float":
            value = float_bits(float_constant(self.next().text, negative), WIDTHS[kind])
        else:
            value = self.integer()
        data += (value & ((1 << (8 * nbytes)) - 1)).to_bytes(nbytes, "little")

    def _initial_address(self) -> Symbol:
        is_generic = self.accept("generic")
        if is_generic:
            self.expect("(")
        name = self.word()
        if is_generic:
            self.expect(")")
        offset = 0
        if self.token.text in ("+", "-"):
            self.accept("+")
            offset = self.integer()
        return Symbol(name, offset)

    def skip_directive(self, word: str) -> None:
        if word == ".alias":
            self.fail(".alias is not emulated")
        closing = "}" if word == ".section" else ";"
        while not self.accept(closing):
            if self.token.kind == "end":
                self.fail(f"{word} has no end")
            self.next()
