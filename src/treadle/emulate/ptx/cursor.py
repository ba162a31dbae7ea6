"""A place in the tokens of PTX text, and how constants are read from there."""

from __future__ import annotations

import struct
from typing import NoReturn

from treadle.emulate.ptx.lexer import Token
from treadle.emulate.ptx.syntax import Immediate, PTXError

__all__ = ["Cursor", "float_bits", "float_constant"]


class Cursor:
    """A place in the tokens, and how to go on from it."""

    def __init__(self, items: list[Token]) -> None:
        self.items, self.at = items, 0

    @property
    def token(self) -> Token:
        return self.items[self.at]

    def fail(self, message: str) -> NoReturn:
        raise PTXError(self.token.line, message)

    def next(self) -> Token:
        self.at += 1
        return self.items[self.at - 1]

    def accept(self, text: str) -> bool:
        found = self.token.text == text and self.token.kind != "end"
        self.at += found
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.token.text or 'the end'!r}")

    def word(self) -> str:
        if self.token.kind != "word":
            self.fail(f"expected a name, found {self.token.text or 'the end'!r}")
        return self.next().text

    def integer(self) -> int:
        """A constant expression of integers: sums and products, as compilers write them."""
        value = self._product()
        while self.token.text in ("+", "-", "|", "&", "<<", ">>"):
            value = _COMBINE[self.next().text](value, self._product())
        return value

    def _product(self) -> int:
        value = self._unary()
        while self.token.text == "*":
            self.next()
            value *= self._unary()
        return value

    def _unary(self) -> int:
        if self.accept("-"):
            return -self._unary()
        if self.accept("~"):
            return ~self._unary()
        if self.accept("("):
            if self.token.kind == "dot":  # a cast, (.s64) or (.u64)
                self.next()
                self.expect(")")
                return self._unary()
            value = self.integer()
            self.expect(")")
            return value
        if self.token.kind != "integer":
            self.fail(f"expected an integer, found {self.token.text or 'the end'!r}")
        return _integer(self.next().text)


_COMBINE = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "|": lambda a, b: a | b,
    "&": lambda a, b: a & b, "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
}  # fmt: skip


def _integer(text: str) -> int:
    text = text.rstrip("U")
    if len(text) > 1 and text[0] == "0" and text[1] in "01234567":
        return int(text, 8)
    return int(text, 0)


def float_constant(text: str, negative: bool) -> Immediate:
    prefix, digits = text[:2].lower(), text[2:]
    if prefix in ("0f", "0d"):
        bits, width = int(digits, 16), 32 if prefix == "0f" else 64
    else:
        bits, width = int.from_bytes(struct.pack("<d", float(text)), "little"), 64
    return Immediate(bits ^ (1 << (width - 1) if negative else 0), width)


def float_bits(value: Immediate, width: int) -> int:
    """A float constant as the pattern of a type of `width` bits."""
    if value.width == width:
        return value.value
    number = struct.unpack(
        "<f" if value.width == 32 else "<d", value.value.to_bytes(value.width // 8, "little")
    )[0]
    form = {16: "<e", 32: "<f", 64: "<d"}[width]
    return int.from_bytes(struct.pack(form, number), "little")
