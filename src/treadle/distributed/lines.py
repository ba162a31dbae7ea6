r"""What one process prints, as whole lines that begin with its number, and its progress bars.

    lines = Lines(b"[0] ", shows_progress=True)
    lines.of(b"epoch 1\nstep")                b"[0] epoch 1\n"; the rest waits for its end
    lines.of(b"\r 10% #\r 20% ##")            b"[0]  20% ##\r", as it stands
    lines.of(b"\ndone\n")                     b"[0]  20% ##\n[0] done\n"

A bar is a line that is written again after a carriage return. Bars below each other, as tqdm
draws them, go down by line feeds and up by an escape sequence, and are shown as one line. Of a
process that shows no progress there is what is left of its bars when something else is printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Lines"]

_TOKENS = re.compile(rb"(\r|\n|\x1b\[\d*A|\x1b\[\d*K)")


@dataclass
class _Row:
    """A line that has not ended. `is_bar`: it was written again."""

    text: bytes = b""
    is_bar: bool = False


class Lines:
    """Turns what a process writes into lines with a mark in front."""

    def __init__(self, mark: bytes, shows_progress: bool) -> None:
        self._mark, self._shows_progress = mark, shows_progress
        self._rows, self._at = [_Row()], 0
        self._begins = False  # the next text is written over what is in its row
        self._has_returned = False  # the cursor has, since it came to its row
        self._has_written = False  # text, since the cursor came to its row
        self._is_written = False  # text, of this data, since the cursor came to its row
        self._shown = b""
        self._carriage = b""  # a carriage return whose line feed may come with the next text

    def of(self, data: bytes) -> bytes:
        """What is to be printed now that `data` was written: lines, then a bar that has changed."""
        data, self._carriage = self._carriage + data, b""
        if data.endswith(b"\r") and not self._rows[self._at].is_bar:
            data, self._carriage = data[:-1], b"\r"
        ended: list[bytes] = []
        self._is_written = False
        for token in _TOKENS.split(data.replace(b"\r\n", b"\n")):
            if token == b"\r":
                self._return(ended)
            elif token == b"\n":
                self._feed(ended)
            elif token.endswith(b"A") and token.startswith(b"\x1b["):
                self._move_to(max(0, self._at - int(token[2:-1] or 1)))
            elif token and not token.startswith(b"\x1b["):
                self._write(token, ended)
        return self._printed(ended) + self._progress()

    def rest(self) -> bytes:
        """What is left at the end, as lines; no progress is."""
        rows, self._rows, self._at = self._rows, [_Row()], 0
        return self._printed([row.text for row in rows if row.text.strip()]) + self._progress()

    def _return(self, ended: list[bytes]) -> None:
        if self._at and self._has_written:  # the cursor stays here: those above are done
            self._end_above(ended)
        self._rows[self._at].is_bar = True
        self._begins = self._has_returned = True

    def _feed(self, ended: list[bytes]) -> None:
        if not self._at and not self._rows[0].is_bar:
            ended.append(self._rows[0].text)
            self._rows[0] = _Row()
            return
        is_end = self._is_written  # else it may be the way to a bar below
        if self._at + 1 == len(self._rows):
            self._rows.append(_Row())
        self._move_to(self._at + 1)
        self._begins = True
        if is_end:
            self._end_above(ended)

    def _move_to(self, row: int) -> None:
        self._at = row
        self._has_returned = self._has_written = self._is_written = False

    def _write(self, text: bytes, ended: list[bytes]) -> None:
        if self._at and not self._has_returned:  # printed after bars, which are done
            self._end_above(ended)
            self._rows[0] = _Row()
        row = self._rows[self._at]
        row.text = text if self._begins else row.text + text
        self._begins, self._has_written, self._is_written = False, True, True

    def _end_above(self, ended: list[bytes]) -> None:
        ended += [row.text for row in self._rows[: self._at] if row.text.strip()]
        del self._rows[: self._at]
        self._at = 0

    def _progress(self) -> bytes:
        bars = [row.text.rstrip() for row in self._rows if row.is_bar and row.text.strip()]
        shown = b"  ".join(bars)
        if shown == self._shown or not self._shows_progress:
            return b""
        self._shown = shown
        return self._mark + shown + b"\r"

    def _printed(self, ended: list[bytes]) -> bytes:
        return b"".join(self._mark + line + b"\n" for line in ended)
