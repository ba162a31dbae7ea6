"""Lines of a process and its progress bars: what is printed of what a program writes."""

from __future__ import annotations

import contextlib
import itertools
import os
import pty
import re
import termios

import pytest

from treadle.distributed.lines import Lines
from treadle.distributed.log import EACH, Log

UP = b"\x1b[A"
# What tqdm writes of two bars below each other, the inner one of which is cleared, and after them.
NESTED = [
    b"\router 0", b"\n", b"\rinner 0", UP, b"\n", b"\rinner 1", UP, b"\n", b"\r       ", UP,
    b"\router 1", b"\n", b"\rinner 0", UP, b"\n", b"\r       ", UP, b"\router 2", b"\n",
]  # fmt: skip


def printed(written: list[bytes], shows_progress: bool = True) -> list[bytes]:
    """What is printed, unit by unit, with a mark that is left out here."""
    lines = Lines(b"> ", shows_progress)
    text = b"".join([*map(lines.of, written), lines.rest()])
    units = text.replace(b"\r", b"\r\n").split(b"\n")
    assert units.pop() == b""
    assert all(unit.startswith(b"> ") for unit in units)
    return [unit[2:] for unit in units]


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ([b"one\ntw", b"o\n\nthree"], [b"one", b"two", b"", b"three"]),
        ([b"one\r\ntwo\r", b"\nthree\r"], [b"one", b"two", b"three"]),
        ([b"\r 1", b"\r 2", b"\n", b"text\n"], [b" 1\r", b" 2\r", b" 2", b"text", b"\r"]),
        ([b"\r 1\r 2\n"], [b" 2"]),
        # Carriage returns behind each step; then a shorter line, which ends at once.
        ([b"10 %\r", b"20 %\r", b"end\n"], [b"20 %\r", b"end", b"\r"]),
        # A bar that is cleared at its end leaves nothing.
        ([b"\r 1", b"\r  ", b"\r", b"text\n"], [b" 1\r", b"\r", b"text"]),
        # One bar after the other.
        ([b"\ra 1", b"\ra 2", b"\n", b"\rb 1", b"\rb 2", b"\n"],
         [b"a 1\r", b"a 2\r", b"a 2  b 1\r", b"a 2", b"b 2\r", b"b 2", b"\r"]),
        ([b"\x1b[2Kone\x1b[K\n"], [b"one"]),
    ],
)  # fmt: skip
def test_lines_are_whole_and_progress_ends_by_a_carriage_return(written, found):
    assert printed(written) == found
    without = [unit for unit in found if not unit.endswith(b"\r")]
    assert printed(written, shows_progress=False) == without


def test_bars_below_each_other_are_one_line_of_progress():
    found = printed([*NESTED, b"text\n"])
    assert found == [
        b"outer 0\r", b"outer 0  inner 0\r", b"outer 0  inner 1\r", b"outer 0\r", b"outer 1\r",
        b"outer 1  inner 0\r", b"outer 1\r", b"outer 2\r", b"outer 2", b"text", b"\r",
    ]  # fmt: skip
    assert printed([*NESTED, b"text\n"], shows_progress=False) == [b"outer 2", b"text"]


def test_it_does_not_matter_where_plain_text_is_torn():
    text = b"one\ntwo\r\n\nthree"
    for cut in range(len(text)):
        assert printed([text[:cut], text[cut:]]) == [b"one", b"two", b"", b"three"], cut


def copied(data: bytes, write: int, seconds: float = 0.0) -> list[bytes]:
    """Give `data` to a log on `write`, whose clock goes on by `seconds` a look; the lines seen."""
    read, given = os.pipe()
    os.write(given, data)
    os.close(given)
    looks = itertools.count()
    seen: list[bytes] = []
    Log(lambda: seconds * next(looks)).copy(read, write, seen.append)
    os.close(read)
    return seen


def in_a_file(data: bytes, seconds: float = 0.0) -> bytes:
    read, write = os.pipe()
    copied(data, write, seconds)
    os.close(write)
    text = os.read(read, 1 << 16)
    os.close(read)
    return text


def on_a_terminal(data: bytes) -> list[str]:
    """The rows of a terminal of 30 columns when all is printed."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 30))
    copied(data, slave)
    os.close(slave)
    return rows_of(all_of(master).decode())


def all_of(master: int) -> bytes:
    """What a terminal is given until its other end is closed, which Linux calls an error."""
    text = b""
    with contextlib.suppress(OSError):
        while data := os.read(master, 1 << 12):
            text += data
    os.close(master)
    return text


def rows_of(text: str) -> list[str]:
    """What a terminal shows of text with carriage returns and lines that are erased."""
    rows, column = [""], 0
    for token in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+", text):
        if token == "\n":
            rows.append("")
        elif token == "\r":
            column = 0
        elif token == "\x1b[K":
            rows[-1] = rows[-1][:column]
        else:
            rows[-1] = rows[-1][:column] + token + rows[-1][column + len(token) :]
            column += len(token)
    return rows


BAR = b"[0] 1 %\r[1] one\n[0] 2 %\r[0] two\n[0] 3 %\r"


def test_a_file_has_whole_lines_and_the_last_progress():
    assert in_a_file(BAR) == b"[1] one\n[0] two\n[0] 3 %\n"
    assert in_a_file(BAR + b"[0] 3 %\n[0] \r") == b"[1] one\n[0] two\n[0] 3 %\n"


def test_a_file_has_progress_from_time_to_time():
    steps = b"".join(b"[0] %d %%\r" % n for n in range(7))
    assert in_a_file(steps, EACH / 2) == b"[0] 2 %\n[0] 4 %\n[0] 6 %\n"


def test_a_terminal_shows_progress_below_all_lines():
    assert on_a_terminal(BAR) == ["[1] one", "[0] two", "[0] 3 %", ""]
    assert on_a_terminal(BAR + b"[0] 3 %\n[0] \r") == ["[1] one", "[0] two", "[0] 3 %", ""]
    wide = b"[0] " + "█".encode() * 40 + b"\r[1] one\n"
    assert on_a_terminal(wide) == ["[1] one", "[0] " + "█" * 25, ""]


def test_each_line_is_seen_and_a_last_one_that_has_no_end_is_printed():
    read, write = os.pipe()
    assert copied(b"[1] one\n[0] 1 %\rend", write) == [b"[1] one\n"]
    assert os.read(read, 100) == b"[1] one\n[0] 1 %\nend"
    os.close(read)
    with pytest.raises(BrokenPipeError):
        copied(b"[1] one\n", write)
    os.close(write)
