"""Words of LLVM IR's text, and the types and constants that they spell."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from treadle.emulate.air.syntax import (
    AIRError,
    Array,
    Constant,
    Local,
    Pointer,
    Scalar,
    Struct,
    Symbol,
    Vector,
    bits_of,
    offset_of,
    parts,
    size_of,
    type_at,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treadle.emulate.air.syntax import Type, Value

__all__ = ["Words", "signed", "unquoted", "words_of"]

_WORD = re.compile(
    r'\s*(?:;.*)?(c?"[^"]*"|[%@!]"[^"]*"|[%@!#$][\w.$-]*|[-+]?\d[\w.+-]*|[A-Za-z_.][\w.]*|\S)'
)
_SCALARS = {"void", "half", "bfloat", "float", "double", "label", "metadata", "token"}
_NOTHING = {"undef", "poison"}
_CASTS = {"bitcast", "addrspacecast", "ptrtoint", "inttoptr", "trunc", "zext", "sext"}
# Words that begin a constant; every other word behind a type is an attribute.
_CONSTANTS = {"true", "false", "null", "none", "zeroinitializer", "splat", "getelementptr", "add",
              "sub", "mul", "xor", *_NOTHING, *_CASTS}  # fmt: skip
_FLAGS = {"inbounds", "nuw", "nsw", "nusw"}
_FORMATS = {"half": "<e", "float": "<f", "double": "<d"}


def words_of(text: str) -> list[str]:
    """The words of a text; comments are none."""
    return _WORD.findall(text)


def unquoted(name: str) -> str:
    """A name or string without its quotes and escapes."""
    if name.endswith('"'):
        name = name[0] * (name[0] in "%@") + name[name.index('"') + 1 : -1]
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)


class Words:
    """A row of words, and how far it has been read."""

    def __init__(self, text: str, structs: Mapping[str, Type]) -> None:
        self.items, self.at, self._structs = words_of(text), 0, structs

    @property
    def here(self) -> str:
        """The next word, "" at the end."""
        return self.items[self.at] if self.at < len(self.items) else ""

    def take(self) -> str:
        word = self.here
        self.at += 1
        return word

    def skip(self, word: str) -> bool:
        """Takes the word if it is next."""
        if self.here == word:
            self.at += 1
            return True
        return False

    def need(self, word: str) -> None:
        if not self.skip(word):
            raise AIRError(f"{word!r} is missing at {' '.join(self.items[self.at : self.at + 8])}")

    def skip_group(self) -> None:
        """Takes what is between parentheses, if one opens here."""
        if self.here != "(":
            return
        depth = 0
        while True:
            depth += {"(": 1, ")": -1}.get(self.here, 0)
            if self.at >= len(self.items):
                raise AIRError("a parenthesis is not closed")
            self.at += 1
            if depth == 0:
                return

    def skip_attributes(self) -> int:
        """Takes attributes of a parameter, a result or a call; what `align` says, or 0."""
        align = 0
        while True:
            word = self.here
            if word == "align":
                self.at += 1
                group = self.skip("(")
                align = int(self.take())
                if group:
                    self.need(")")
            elif word[:1] in ('"', "#") or (word[:1].isalpha() and not self._begins_value(word)):
                self.at += 1
                if self.skip("="):
                    self.at += 1
                self.skip_group()
            else:
                return align

    @staticmethod
    def _begins_value(word: str) -> bool:
        """Whether a word begins a type or a constant."""
        named = word in _SCALARS or word in _CONSTANTS or word == "ptr" or word[:2] == 'c"'
        return named or re.fullmatch(r"i\d+", word) is not None

    # -- types

    def type(self) -> Type:
        word = self.take()
        if word == "ptr":
            space = 0
            if self.skip("addrspace"):
                self.need("(")
                space = int(self.take())
                self.need(")")
            return Pointer(space)
        if word in _SCALARS or re.fullmatch(r"i\d+", word):
            return Scalar(word)
        if word == "[":
            return self._row(Array, "]")
        if word == "<":
            if self.skip("{"):
                found = self._struct(packed=True)
                self.need(">")
                return found
            return self._row(Vector, ">")
        if word == "{":
            return self._struct(packed=False)
        if word[:1] == "%" and word in self._structs:
            return self._structs[word]
        raise AIRError(f"{word} is no type that is emulated")

    def _row(self, kind: type[Array] | type[Vector], end: str) -> Type:
        count = int(self.take())
        self.need("x")
        element = self.type()
        self.need(end)
        return kind(count, element)

    def _struct(self, packed: bool) -> Struct:
        members = []
        while not self.skip("}"):
            members.append(self.type())
            self.skip(",")
        return Struct(tuple(members), packed)

    # -- values

    def typed_value(self) -> Value:
        kind = self.type()
        self.skip_attributes()
        return self.value(kind)

    def value(self, kind: Type) -> Value:
        word = self.here
        if word[:1] == "%":
            self.at += 1
            return Local(unquoted(word), kind)
        return self.constant(kind)

    def constant(self, kind: Type) -> Constant:
        return Constant(kind, self._constant(kind)[: len(parts(kind))])

    def _constant(self, kind: Type) -> tuple[int | Symbol | None, ...]:
        word = self.take()
        if word in _NOTHING:
            return (None,) * len(parts(kind))
        if word in ("zeroinitializer", "null", "none", "false"):
            return (0,) * len(parts(kind))
        if word == "true":
            return (1,)
        if word[:1] == "@":
            return (Symbol(unquoted(word)),)
        if word == "splat":
            self.need("(")
            one = self._typed_parts()
            self.need(")")
            return one * (len(parts(kind)) // len(one))
        if word[:2] == 'c"':
            return tuple(unquoted('"' + word[2:]).encode("latin-1"))
        if word in ("[", "{", "<"):
            return self._members(word)
        if word == "getelementptr":
            return (self._place(),)
        if word in _CASTS:
            self.need("(")
            found = self._typed_parts()
            self.need("to")
            self.type()
            self.need(")")
            return found
        if isinstance(kind, Scalar) and re.match(r"[-+\d]", word):
            return (_number(kind.kind, word),)
        raise AIRError(f"{word} is no constant that is emulated")

    def _typed_parts(self) -> tuple[int | Symbol | None, ...]:
        value = self.typed_value()
        if isinstance(value, Local):
            raise AIRError(f"{value.name} is no constant")
        return value.parts

    def _members(self, opened: str) -> tuple[int | Symbol | None, ...]:
        if opened == "<" and self.skip("{"):
            found = self._members("{")
            self.need(">")
            return found
        found = []
        while not self.skip({"[": "]", "{": "}", "<": ">"}[opened]):
            found += self._typed_parts()
            self.skip(",")
        return tuple(found)

    def _place(self) -> Symbol | int:
        """A constant address: getelementptr (T, ptr @g, i64 1, ...)."""
        while self.here in _FLAGS:
            self.at += 1
        if self.skip("inrange"):
            self.skip_group()
        self.need("(")
        kind = self.type()
        self.need(",")
        (base,) = self._typed_parts()
        offset = 0
        first = True
        while self.skip(","):
            index = signed(self.typed_value())
            if first:
                offset += index * size_of(kind)
            else:
                offset += offset_of(kind, index)
                kind = type_at(kind, index)
            first = False
        self.need(")")
        if isinstance(base, Symbol):
            return Symbol(base.name, base.offset + offset)
        return (base or 0) + offset


def signed(value: Value) -> int:
    """A constant integer with its sign."""
    if isinstance(value, Local) or not isinstance(value.parts[0], int):
        raise AIRError("a constant integer is needed")
    number, bits = value.parts[0], bits_of(value.type)
    return number - ((number >> (bits - 1)) << bits)


def _number(kind: str, word: str) -> int:
    """The bits of a number."""
    if kind[0] == "i":
        return int(word) & ((1 << int(kind[1:])) - 1)
    if word.startswith(("0xH", "0xR")):
        return int(word[3:], 16)
    if word.startswith("0x"):
        value = struct.unpack("<d", int(word, 16).to_bytes(8, "little"))[0]
        if kind == "float" and value != value:  # a NaN keeps its bits
            bits = int(word, 16)
            return (bits >> 32 & 0x80000000) | 0x7F800000 | (bits >> 29 & 0x7FFFFF)
    else:
        value = float(word)
    if kind == "bfloat":
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16
    return int.from_bytes(struct.pack(_FORMATS[kind], value), "little")
