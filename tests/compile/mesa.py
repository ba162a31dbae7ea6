"""Mesa as a judge of Adreno's words (`.ci/judges` fetches it): its description and disassembler."""

from __future__ import annotations

import ctypes
import functools
import re
import struct
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.emulate.judges import judge

GENERATION = 600


@functools.cache
def bitsets() -> dict[str, ET.Element]:
    """The bitsets of this generation by their names."""
    found = {}
    for path in sorted((judge("mesa") / "src" / "freedreno" / "isa").glob("ir3*.xml")):
        for bitset in ET.parse(path).getroot().iter("bitset"):
            gen = bitset.find("gen")
            low = int(gen.get("min", "0")) if gen is not None else 0
            high = int(gen.get("max", "9999")) if gen is not None else 9999
            if low <= GENERATION <= high:
                found[bitset.get("name")] = bitset
    return found


def _bits(element: ET.Element) -> tuple[int, int]:
    """The lowest bit of a field or pattern, and how many it has."""
    low = int(element.get("pos", element.get("low")))
    return low, int(element.get("pos", element.get("high"))) - low + 1


def described(name: str) -> tuple[dict[str, tuple[int, int]], int, int]:
    """The fields of a bitset, the bits that are fixed, and those of them that are 1."""
    fields: dict[str, tuple[int, int]] = {}
    known = ones = 0
    while name is not None:
        bitset = bitsets()[name]
        for element in bitset:
            if element.tag == "field":
                fields.setdefault(element.get("name"), _bits(element))
            elif element.tag == "pattern":
                low, width = _bits(element)
                text = element.text.strip()
                assert len(text) == width
                for place, bit in enumerate(reversed(text)):
                    if bit != "x":
                        known |= 1 << (low + place)
                        ones |= int(bit) << (low + place)
        name = bitset.get("extends")
    return fields, known, ones


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(judge("tinymesa") / "tinymesa" / "libtinymesa.so"))


def disassemble(words: list[int], gpu: int = 630) -> list[str]:
    """A line for each word, without labels; branches name the number of the word they go to."""
    library, libc = _library(), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    libc.fclose.argtypes = [ctypes.c_void_p]
    code = (ctypes.c_uint32 * (2 * len(words))).from_buffer_copy(
        struct.pack(f"<{len(words)}Q", *words)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        stream = libc.fopen(str(path).encode(), b"w")
        library.disasm_a3xx(code, len(code), 0, ctypes.c_void_p(stream), gpu)
        libc.fclose(stream)
        lines = path.read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not re.fullmatch(r"l\d+:", line)]
