"""Which words of constant bank 0 machine code reads, as NVIDIA's disassembler lists it.

    disassembler = Disassembler(".../nvdisasm")
    disassembler(cubin)["k"].words       -> frozenset({0x0, 0x28, 0x118, 0x11C, 0x160, 0x164})

An instruction names a constant as c[0x0][0x160], and by its name it says how many bytes it reads
there. What it reads by an index is not known word by word.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

__all__ = ["Disassembler", "Reads", "reads_of", "words_read"]

_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?);")
_BANK0 = re.compile(r"\bc\[0x0\]\[([^\]]*)\]")
_DOUBLE = re.compile(r"D(ADD|MUL|FMA|SETP|MNMX)\b|.*\.64\b|F2[FI].*\.F64\b|I2F.*\.[US]64\b")
_QUAD = re.compile(r".*\.128\b")


@dataclass(frozen=True)
class Reads:
    """Offsets of the words that a kernel reads; `is_indexed` where it reads others by an index."""

    words: frozenset[int]
    is_indexed: bool = False


class Disassembler:
    """nvdisasm at a path. Raises CalledProcessError for what it does not read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, cubin: bytes) -> dict[str, Reads]:
        """By the name of each kernel."""
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            command = [self._path, "-c", file.name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        return words_read(done.stdout)


def words_read(listing: str) -> dict[str, Reads]:
    """By the name of each function of a listing, `nvdisasm -c`."""
    functions: dict[str, list[str]] = {}
    lines: list[str] = []  # those before the first function are nobody's
    for line in listing.splitlines():
        if section := _SECTION.match(line):
            lines = functions.setdefault(section[1], [])
        lines.append(line)
    return {name: reads_of(lines) for name, lines in functions.items()}


def reads_of(lines: Iterable[str]) -> Reads:
    """What the instructions of some lines of a listing read."""
    words: set[int] = set()
    is_indexed = False
    for line in lines:
        if one := _INSTRUCTION.match(line):
            for at, nbytes in _places(one[1], one[2]):
                if at is None:
                    is_indexed = True
                else:
                    words.update(range(at, at + nbytes, 4))
    return Reads(frozenset(words), is_indexed)


def _places(operation: str, operands: str) -> Iterator[tuple[int | None, int]]:
    """Where an instruction reads bank 0, None where an index says it, and how many bytes."""
    for number, operand in enumerate(operands.split(",")):
        for place in _BANK0.findall(operand):
            nbytes = 16 if _QUAD.match(operation) else 8 if _DOUBLE.match(operation) else 4
            if operation.startswith(("IMAD.WIDE", "UIMAD.WIDE")) and number == 3:
                nbytes = 8  # what is added has 64 bits, what is multiplied 32
            parts = [part for part in place.split("+") if part not in ("RZ", "URZ")]
            try:
                yield sum(int(part, 16) for part in parts), nbytes
            except ValueError:
                yield None, nbytes
