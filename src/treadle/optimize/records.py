"""Records: frozen dataclasses whose text is a call, which parses to an equal one.

    str(Reduction((Loop(3),)))      ->  "reduction((r3,))"
    read("reduction((r3,))")        ->  [Reduction((Loop(3),))], one for each line

A class says by which word it is called; several words may call one class.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Self

from ..ir.node import Node

__all__ = ["Loop", "Record", "Reduction", "read"]

_KINDS: dict[str, type[Record]] = {}


class Loop(int):
    """The number of a loop, which is its name: r4."""

    __slots__ = ()

    @classmethod
    def of(cls, node: Node) -> Self:
        """The name of a RANGE."""
        return cls(node.arg.number)

    def __repr__(self) -> str:
        return f"r{int(self)}"

    __str__ = __repr__


@dataclass(frozen=True)
class Record:
    """What prints as a call: first loops, records and tuples, then by name what is not usual."""

    word: ClassVar[str]

    def __init_subclass__(cls, words: tuple[str, ...] = ()) -> None:
        for word in words or (cls.__dict__.get("word"),):
            if word in _KINDS:
                raise TypeError(f"two kinds of records are called {word}")
            if word is not None:
                _KINDS[word] = cls

    def __str__(self) -> str:
        plain, named = [], []
        for one in sorted(fields(self), key=lambda one: bool(one.kw_only)):
            value = getattr(self, one.name)
            if not named and one.default is MISSING and isinstance(value, (Record, Loop, tuple)):
                plain.append(_text(value))
            elif value != one.default:
                named.append(f"{one.name}={_text(value)}")
        return f"{self.word}({', '.join(plain + named)})"

    def renamed(self, rename: Callable[[Loop], Loop]) -> Self:
        """The record with other names for its loops."""
        return replace(
            self, **{one.name: _renamed(getattr(self, one.name), rename) for one in fields(self)}
        )

    @classmethod
    def read(cls, word: str, values: list[Any], named: dict[str, Any]) -> Self:
        """The record that `word(*values, **named)` is the text of."""
        return cls(*values, **named)


@dataclass(frozen=True)
class Reduction(Record):
    """A REDUCE, by the loops that it closes; `number` counts those that close the same ones."""

    word = "reduction"

    loops: tuple[Loop, ...]
    number: int = 0


def read(text: str) -> list[Record]:
    """The records of which `text` has one a line. Raises ValueError for any other text."""
    try:
        lines = ast.parse(text).body
        made = [_value(line.value) for line in lines if isinstance(line, ast.Expr)]
    except (SyntaxError, TypeError) as error:
        raise ValueError(f"no records: {error}") from None
    records = [one for one in made if isinstance(one, Record)]
    if len(records) < len(lines):
        raise ValueError(f"a record is a call on a line of its own: {text!r}")
    return records


def _renamed(value: object, rename: Callable[[Loop], Loop]) -> Any:
    if isinstance(value, tuple):
        return tuple(_renamed(one, rename) for one in value)
    if isinstance(value, Record):
        return value.renamed(rename)
    return rename(value) if isinstance(value, Loop) else value


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"
    return str(value) if isinstance(value, (Record, Loop)) else repr(value)


def _value(node: ast.expr) -> object:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        word = node.func.id
        named = {one.arg: _value(one.value) for one in node.keywords if one.arg is not None}
        if word not in _KINDS:
            raise ValueError(f"nothing is called {word}")
        return _KINDS[word].read(word, [_value(one) for one in node.args], named)
    if isinstance(node, ast.Tuple):
        return tuple(map(_value, node.elts))
    if isinstance(node, ast.Name) and node.id[:1] == "r" and node.id[1:].isdigit():
        return Loop(node.id[1:])
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, str, bool, type(None))):
        return node.value
    raise ValueError(f"a record does not say {ast.unparse(node)}")
