"""PTX text becomes tokens, each with the line it stands on.

    tokens("add.s32 %r1, %r2, -1;")  ->  word "add", dot ".s32", word "%r1", ...

Comments are dropped here, and so are `.loc` and `.file`, which end with their line and not with a
semicolon. Modifiers are tokens of their own (`.shared::cta` is one).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from treadle.emulate.ptx.syntax import PTXError

__all__ = ["Token", "tokens"]

_PATTERN = re.compile(
    r"""
      (?P<space>[ \t\r]+)
    | (?P<line>\n)
    | (?P<comment>//[^\n]*)
    | (?P<block>/\*.*?\*/)
    | (?P<string>"[^"\n]*")
    | (?P<float>0[fF][0-9a-fA-F]{8}(?![\w]) | 0[dD][0-9a-fA-F]{16}(?![\w])
              | \d+\.\d*(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+)
    | (?P<integer>0[xX][0-9a-fA-F]+U? | 0[bB][01]+U? | \d+U?)
    | (?P<dot>\.[A-Za-z0-9_:]*[A-Za-z0-9_])
    | (?P<word>[%A-Za-z_$][\w$]*)
    | (?P<sign><<|>>|[{}\[\]()<>,;:=+\-*/%!@|~&^?])
    """,
    re.VERBOSE | re.DOTALL,
)
_TO_LINE_END = {".loc", ".file"}


class Token(NamedTuple):
    """`kind` is word, dot, integer, float, string, sign or end."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> list[Token]:
    """All tokens, then one of kind `end`. Raises PTXError at a character that PTX does not have."""
    found: list[Token] = []
    line, at, dropping = 1, 0, 0
    text = text.rstrip("\0")
    while at < len(text):
        match = _PATTERN.match(text, at)
        if match is None:
            raise PTXError(line, f"PTX has no character {text[at]!r} here")
        at, kind = match.end(), match.lastgroup or ""
        if kind in ("line", "block"):
            line += match.group().count("\n")
        elif kind not in ("space", "comment") and dropping != line:
            if match.group() in _TO_LINE_END:
                dropping = line
            else:
                found.append(Token(kind, match.group(), line))
    found.append(Token("end", "", line))
    return found
