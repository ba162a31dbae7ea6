"""LLVM's tests of its AMD assembler, read as machine code with the text that LLVM expects.

A file's RUN lines name chips and prefixes; a line with a prefix has the bytes of an instruction,
and its text, or the text stands above it:

    // RUN: llvm-mc -triple=amdgcn -mcpu=gfx1100 %s | FileCheck --check-prefix=GFX11 %s
    v_add3_u32 v5, v1, v2, s3
    // GFX11: encoding: [0x05,0x00,0x55,0xd6,0x01,0x05,0x0e,0x00]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from treadle.emulate.amd.table import wave_sizes

# LLVM's processors, and the chip of the package that has the same instructions.
PROCESSORS = {
    "gfx900": "gfx900", "gfx90a": "gfx90a", "gfx940": "gfx942", "gfx942": "gfx942",
    "gfx950": "gfx950", "gfx1010": "gfx1010",
    **{f"gfx103{n}": "gfx1030" for n in range(7)},
    "gfx1100": "gfx1100",
    **{f"gfx115{n}": "gfx1151" for n in range(3)}, "gfx1200": "gfx1200", "gfx1201": "gfx1201",
}  # fmt: skip
_RUN = re.compile(r"RUN:.*llvm-mc\b.*?-mcpu=(\w+)(.*)")
_PREFIXES = re.compile(r"-check-prefix(?:es)?[= ]([\w,-]+)")
_CHECK = re.compile(r"^\s*(?://|#|;)\s*([\w-]+): *(.*?)(?:[;/]+ *)?(?:encoding: *)?\[(0x[^\]]*)\]")
_TEXT = re.compile(r"^\s*([a-z]\w+)\b(?!:)")


class Vector(NamedTuple):
    """An instruction of a chip and wave size: its bytes, and the name that LLVM gives it."""

    chip: str
    wave: int
    code: bytes
    name: str


def vectors(path: Path) -> Iterator[Vector]:
    """The instructions of a file, for the chips that the package knows."""
    lines = path.read_text(errors="replace").splitlines()
    meant: dict[str, set[tuple[str, int]]] = {}
    for line in lines:
        if (found := _RUN.search(line)) and found[1] in PROCESSORS and " not " not in found[0]:
            chip = PROCESSORS[found[1]]
            wave = 64 if "+wavefrontsize64" in found[2] else wave_sizes(chip)[0]
            prefixes = _PREFIXES.search(found[2])
            for prefix in prefixes[1].split(",") if prefixes else ["CHECK"]:
                if "FileCheck" in line and "ERR" not in prefix:
                    meant.setdefault(prefix, set()).add((chip, wave))
    above = ""
    for line in lines:
        if text := _TEXT.match(line):
            above = text[1]
        found = _CHECK.match(line)
        if not found or found[1] not in meant:
            continue
        own = _TEXT.match(found[2])
        name = own[1] if own else above
        code = bytes(int(byte, 0) for byte in found[3].split(",") if byte.strip())
        for chip, wave in meant[found[1]]:
            yield Vector(chip, wave, code, name)
