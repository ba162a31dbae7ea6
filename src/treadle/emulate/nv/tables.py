"""NVIDIA's own tables, read once: structures of calls, methods of classes, queue meta data.

    structure("NVOS21_PARAMETERS", 580).get(block, "hClass")
    number("NV_ESC_RM_ALLOC")                        -> 0x2B
    methods("compute", 0xC6C0)[0x2B4]                -> Method("SEND_PCAS_A", {...})
    qmd("3.0").decode(data)                          -> {"GRID_WIDTH": 8, ...}

See `tables/README.md` for where they come from.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from treadle.emulate.machine.layout import Layout

__all__ = ["QMD", "Method", "methods", "number", "qmd", "structure"]

_FOLDER = Path(__file__).parent / "tables"
_RELEASES = (570, 580, 590)


@functools.cache
def _table(name: str) -> dict[str, Any]:
    return json.loads(gzip.decompress((_FOLDER / name).read_bytes()))


@functools.cache
def structure(name: str, release: int) -> Layout:
    """A structure of the driver's headers, as a release has it: 570, 580 or 590."""
    table = _table("rm.json.gz")
    assert release in _RELEASES
    found = table["drift"].get(str(release), {}).get(name) or table["structs"][name]
    return Layout(found["size"], found["fields"])


def number(name: str) -> int:
    """A constant of the driver's headers."""
    return _table("rm.json.gz")["constants"][name]


class Method(NamedTuple):
    """A method of a class, and the bits of its value that have a name: (lowest, highest) each."""

    name: str
    fields: Mapping[str, tuple[int, int]]

    def decode(self, value: int) -> dict[str, int]:
        """The fields of a value. Raises ValueError for bits that are none's."""
        left = value
        found: dict[str, int] = {}
        for name, (low, high) in self.fields.items():
            mask = (1 << high - low + 1) - 1
            found[name] = value >> low & mask
            left &= ~(mask << low)
        if left:
            raise ValueError(f"{self.name} has no bits {left:#x}")
        return found


@functools.cache
def methods(kind: str, class_number: int) -> dict[int, Method]:
    """The methods of a class by their numbers; `kind` is "host", "compute" or "copy"."""
    table = _table("classes.json.gz")[kind][f"{class_number:x}"]
    return {
        int(at): Method(name, {field: (low, high) for field, (low, high) in fields.items()})
        for at, (name, fields) in table.items()
    }


class QMD:
    """One version of queue meta data: `nbytes`, and where fields are, in bits."""

    def __init__(self, fields: Mapping[str, list[int]]) -> None:
        self.fields: dict[str, tuple[int, int]] = {}
        for name, (low, high, step) in fields.items():
            for n in range(_COUNTS.get(name.rpartition("_")[0], _BANKS) if step else 1):
                key = f"{name}[{n}]" if step else name
                self.fields[key] = low + n * step, high + n * step
        top = max(high for _, high in self.fields.values()) + 1
        self.nbytes = next(size for size in (256, 384) if 8 * size >= top)
        self._masks = [
            (name, low, (1 << high - low + 1) - 1) for name, (low, high) in self.fields.items()
        ]
        self._known = 0
        for _, low, mask in self._masks:
            self._known |= mask << low

    def decode(self, data: bytes) -> dict[str, int]:
        """All fields; bits that are none's under the name ""."""
        bits = int.from_bytes(data[: self.nbytes], "little")
        found = {name: bits >> low & mask for name, low, mask in self._masks}
        return found | {"": bits & ~self._known}


_BANKS = 8  # elements of an array, unless _COUNTS says another number
_COUNTS = {
    "RELEASE": 3, "RELEASE_STRUCTURE": 3, "RELEASE_MEMBAR": 3, "RELEASE_REDUCTION": 3,
    "RELEASE_TRAP": 3, "RELEASE_RESERVED": 3, "DEPENDENT_QMD": 2, "TPC_DISABLE": 8,
}  # fmt: skip


@functools.cache
def qmd(version: str) -> QMD:
    """Queue meta data of "3.0", "4.0" or "5.0"."""
    return QMD(_table("qmd.json.gz")[version])
