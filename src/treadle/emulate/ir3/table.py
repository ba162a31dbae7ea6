"""Mesa's table of ir3 encodings: the forms of instructions and of their operands, as data.

A form has fixed bits and cases. A case has fields, perhaps a text in which the names of fields are
in braces, and perhaps a condition. The first case that holds and has a field, or a text, gives it.
The file is read at first use.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeAlias

__all__ = ["INSTRUCTION", "Case", "Expression", "Field", "Form", "Table", "table"]

INSTRUCTION = "#instruction"

Expression: TypeAlias = "int | str | list[Expression]"  # a number, a field's name, an operation


@dataclass(frozen=True, slots=True)
class Field:
    """Bits of a form, or with an expression what is derived from other fields.

    `type` is `int`, `uint`, `bool`, ..., an enum or forms of operands. `shown` is the text of a
    flag. `params` are names of fields around, and how the forms of the operand call them.
    """

    low: int
    high: int
    type: str
    shown: str | None
    params: tuple[tuple[str, str], ...]
    derived: Expression | None

    @property
    def width(self) -> int:
        return self.high - self.low + 1


@dataclass(frozen=True, slots=True)
class Case:
    """Fields that a form has if `condition` holds, and bits that are to have a value."""

    condition: Expression | None
    text: str | None
    fields: dict[str, Field]
    asserts: tuple[tuple[int, int, int], ...]  # lowest bit, highest bit, value


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction, or a way to write an operand. Bits of `either` are expected to be 0."""

    name: str
    least_gpu: int
    most_gpu: int
    ones: int
    either: int
    mask: int
    cases: tuple[Case, ...]

    def fits(self, word: int, gpu: int) -> bool:
        in_range = self.least_gpu <= gpu <= self.most_gpu
        return in_range and word & self.mask & ~self.either == self.ones


@dataclass(frozen=True)
class Table:
    """All forms by what they are forms of, and the texts of numbers by enum."""

    forms: dict[str, tuple[Form, ...]]
    enums: dict[str, dict[int, str]]

    def find(self, kind: str, word: int, gpu: int) -> Form | None:
        """The one form that the bits are of. Raises ValueError where two are."""
        found = [form for form in self.forms[kind] if form.fits(word, gpu)]
        if len(found) > 1:
            raise ValueError(f"{word:#x} is {' and '.join(form.name for form in found)}")
        return found[0] if found else None


def _field(row: list) -> Field:
    low, high, kind, shown, params, derived = row
    return Field(low, high, kind, shown, tuple((a, b) for a, b in params), derived)


def _case(row: list) -> Case:
    condition, text, fields, asserts = row
    named = {name: _field(field) for name, field in fields.items()}
    return Case(condition, text, named, tuple((a, b, c) for a, b, c in asserts))


@cache
def table() -> Table:
    """The table of the package."""
    data = resources.files("treadle.emulate.ir3").joinpath("encodings.json.gz").read_bytes()
    read = json.loads(gzip.decompress(data))
    forms = {
        kind: tuple(
            Form(
                row["name"], row["gpus"][0], row["gpus"][1], row["ones"], row["either"],
                row["mask"], tuple(map(_case, row["cases"])),
            )
            for row in rows
        )
        for kind, rows in read["bitsets"].items()
    }  # fmt: skip
    enums = {
        name: {int(value): text for value, text in values.items()}
        for name, values in read["enums"].items()
    }
    return Table(forms, enums)
