"""A 64-bit word of ir3 machine code to an instruction: its name, its fields, its text.

    item = decode(0x4010_4002_0c21_0001)
    item.name, item.text         # add.f, "add.f hr0.z, r0.y, c<a0.x + 33>"
    item.fields["SRC1"].fields["SRC"].fields["GPR"]

The text is what Mesa's disassembler prints. A field is a number, or the form of an operand with
fields of its own.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from treadle.emulate.ir3.table import INSTRUCTION, table

if TYPE_CHECKING:
    from treadle.emulate.ir3.table import Expression, Field, Form

__all__ = ["GPU", "DecodeError", "Decoded", "Value", "decode"]

GPU = 630  # of which generation words are, where nothing is said

Value: TypeAlias = "int | Decoded"


class DecodeError(Exception):
    """A word that is no instruction, or that has bits set which are to be 0."""


@dataclass(frozen=True)
class Decoded:
    """An instruction or an operand. `fields` are those of the form that fits."""

    name: str
    word: int
    fields: dict[str, Value]
    text: str

    def number(self, name: str) -> int:
        """A field that is a number: 0 where there is none of that name."""
        value = self.fields.get(name, 0)
        return value.word if isinstance(value, Decoded) else value

    def operand(self, name: str) -> Decoded:
        """A field that has fields. Raises KeyError where there is none."""
        value = self.fields[name]
        if isinstance(value, int):
            raise KeyError(name)
        return value


@lru_cache(maxsize=65536)
def decode(word: int, gpu: int = GPU) -> Decoded:
    """The instruction of a word. Raises DecodeError."""
    form = table().find(INSTRUCTION, word, gpu)
    if form is None:
        raise DecodeError(f"{word:#018x} is no instruction")
    return _Scope(form, word, gpu, None, {}).decoded()


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) & 1 else value


class _Scope:
    """A form that fits a word, and the scope around it, whose fields its `params` name."""

    def __init__(
        self, form: Form, word: int, gpu: int, outer: _Scope | None, params: dict[str, str]
    ) -> None:
        self._form, self._word, self._gpu = form, word, gpu
        self._outer, self._params = outer, params
        self._assumed: list[Expression] = []
        self._values: dict[str, int] = {}

    # -- fields

    def _holds(self, condition: Expression | None) -> bool:
        # A condition may be about fields that are there if it holds.
        if condition is None or any(condition is other for other in self._assumed):
            return True
        return bool(self._evaluate(condition))

    def _find(self, name: str) -> Field | None:
        for case in self._form.cases:
            if name in case.fields and self._holds(case.condition):
                return case.fields[name]
        return None

    def _resolve(self, name: str) -> tuple[int, Field, _Scope]:
        """A field's bits, what the table says of it, and the scope that it is of."""
        field = self._find(name)
        if field is None:
            if self._outer is None or name not in self._params:
                raise DecodeError(f"{self._form.name} has no field {name}")
            return self._outer._resolve(self._params[name])
        if field.derived is not None:
            return self._evaluate(field.derived), field, self
        return self._word >> field.low & (1 << field.width) - 1, field, self

    def _number(self, name: str) -> int:
        if name not in self._values:
            value = self._resolve(name)[0]
            if self._assumed:  # it may be of a case that does not hold
                return value
            self._values[name] = value
        return self._values[name]

    def _evaluate(self, tree: Expression) -> int:
        if isinstance(tree, int):
            return tree
        if isinstance(tree, str):
            return self._number(tree)
        self._assumed.append(tree)
        try:
            return self._operate(tree)
        finally:
            self._assumed.pop()

    def _operate(self, tree: list[Expression]) -> int:
        operator, *sides = tree
        if operator == "gpu":
            return self._gpu
        first = self._evaluate(sides[0])
        if operator == "!":
            return int(not first)
        if operator == "&&" and not first:
            return 0
        if operator == "||" and first:
            return 1
        return _OPERATORS[str(operator)](first, self._evaluate(sides[1]))

    # -- what comes out

    def decoded(self) -> Decoded:
        self._check()
        shown = (
            case.text
            for case in self._form.cases
            if case.text is not None and self._holds(case.condition)
        )
        template = next(shown, "{NAME}")  # brax has no text
        wanted = set(re.findall(r"\{(\w+)\}", template))
        fields: dict[str, Value] = {}
        texts: dict[str, str] = {"NAME": self._form.name}
        names = {name for case in self._form.cases for name in case.fields} | set(self._params)
        for name in names:
            try:
                value, field, scope = self._resolve(name)
                fields[name], texts[name] = self._shown(value, field, scope)
            except DecodeError:
                if name in wanted and self._find(name):
                    raise
        text = re.sub(r"\{(\w+)\}", lambda found: texts.get(found[1], ""), template)
        return Decoded(self._form.name, self._word, fields, text)

    def _check(self) -> None:
        """Bits that are to be 0, or to have a value."""
        if wrong := self._word & self._form.either:
            raise DecodeError(f"{self._form.name} has bits {wrong:#x}, which are to be 0")
        for case in self._form.cases:
            if not self._holds(case.condition):
                continue
            for low, high, value in case.asserts:
                if self._word >> low & (1 << (high - low + 1)) - 1 != value:
                    raise DecodeError(
                        f"bits {low} to {high} of {self._form.name} are to be {value:#x}"
                    )
            if case.text is not None:
                break  # cases behind the one that holds are not of this word

    def _shown(self, value: int, field: Field, scope: _Scope) -> tuple[Value, str]:
        """A field's value, and its text."""
        found = table()
        if field.type in found.forms:
            form = found.find(field.type, value, self._gpu)
            if form is None:
                raise DecodeError(f"{value:#x} is no {field.type[1:]}")
            params = {inner: outer for outer, inner in field.params}
            inner = _Scope(form, value, self._gpu, scope, params).decoded()
            return inner, inner.text
        if field.type in found.enums:
            return value, found.enums[field.type].get(value, str(value))
        if field.type in ("bool", "bool_inv"):
            is_shown = bool(value) != (field.type == "bool_inv")
            if field.shown is None:
                return value, str(int(is_shown))
            return value, field.shown if is_shown else ""
        if field.type in ("int", "branch", "absbranch", "offset"):
            number = _signed(value, field.width)
            if field.type == "offset":
                return number, f"{number:+d}" if value else ""
            return number, str(number)
        return value, _plain(value, field)


def _plain(value: int, field: Field) -> str:
    if field.type == "hex":
        return f"{value:x}"
    if field.type == "uoffset":
        return f"+{value}" if value else ""
    if field.type == "float":
        code = "<e" if field.width == 16 else "<f"
        return f"{struct.unpack(code, value.to_bytes(field.width // 8, 'little'))[0]:f}"
    return str(value)


_OPERATORS = {
    "&&": lambda a, b: int(bool(a) and bool(b)), "||": lambda a, b: int(bool(a) or bool(b)),
    "|": lambda a, b: a | b, "&": lambda a, b: a & b, "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b), ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
}  # fmt: skip
