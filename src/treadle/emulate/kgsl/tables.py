"""Mesa's description of A6XX, read once: opcodes, packets and registers as named fields.

packet("CP_EXEC_CS", words)           -> {"NGROUPS_X": 4, "NGROUPS_Y": 1, "NGROUPS_Z": 1}
register(0xB990)                      -> "HLSQ_CS_NDRANGE_0"
fields("HLSQ_CS_NDRANGE_0", 0xFD)     -> {"KERNELDIM": 1, "LOCALSIZEX": 63, ...}
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["event", "fields", "image_format", "opcode", "packet", "register"]

_Place = tuple[int, int, int]  # lowest bit, highest bit, by how much the number is moved up


@dataclass(frozen=True)
class _Tables:
    opcodes: dict[int, str]
    events: dict[int, str]
    formats: dict[int, str]
    packets: dict[str, dict[str, tuple[int, _Place]]]  # the word of a field, and its place
    registers: dict[int, str]
    fields: dict[str, dict[str, _Place]]


@cache
def _tables() -> _Tables:
    data = resources.files("treadle.emulate.kgsl").joinpath("packets.json.gz").read_bytes()
    read = json.loads(gzip.decompress(data))
    return _Tables(
        {int(number): name for number, name in read["opcodes"].items()},
        {int(number): name for number, name in read["events"].items()},
        {int(number): name for number, name in read["formats"].items()},
        {
            name: {field: (row[0], (row[1], row[2], row[3])) for field, row in rows.items()}
            for name, rows in read["packets"].items()
        },
        {int(address): name for address, name in read["registers"].items()},
        {
            name: {field: (row[0], row[1], row[2]) for field, row in rows.items()}
            for name, rows in read["fields"].items()
        },
    )


def _number(word: int, place: _Place) -> int:
    low, high, shift = place
    return (word >> low & (1 << (high - low + 1)) - 1) << shift


def opcode(number: int) -> str | None:
    """The name of a packet of type 7; None where A6XX has none of that number."""
    return _tables().opcodes.get(number)


def event(number: int) -> str | None:
    """The name of an event; None where A6XX has none of that number."""
    return _tables().events.get(number)


def image_format(number: int) -> str | None:
    """The name of an image's format; None where A6XX has none of that number."""
    return _tables().formats.get(number)


def packet(name: str, words: Sequence[int]) -> dict[str, int]:
    """The fields of the words behind a packet's first one, or of an image: those that are there."""
    rows = _tables().packets[name].items()
    return {field: _number(words[at], place) for field, (at, place) in rows if at < len(words)}


def register(address: int) -> str | None:
    """The name of a register; None where A6XX has none at that address."""
    return _tables().registers.get(address)


def fields(name: str, value: int) -> dict[str, int]:
    """The fields of a register's value. What is nothing but a number has the name ""."""
    return {field: _number(value, place) for field, place in _tables().fields[name].items()}
