"""AMD's own tables, read once: packets, registers, and arguments of ioctls as named fields.

    sdma("6.0").decode("COPY_LINEAR", words)     -> {"count": 63, "src_addr_31_0": 4096, ...}
    pm4("gfx9").decode("wait_reg_mem", words)    -> {"function": 3, ...}
    registers("gc/gc_11_0_0", (0x1260, 0xA000))  -> {0x2E12: "COMPUTE_PGM_RSRC1", ...}

See `tables/README.md` for where they come from.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from treadle.emulate.machine.layout import Fields, Layout

__all__ = [
    "Ioctl", "Layout", "Packets", "Registers", "field", "ioctl", "ioctls", "layout", "pm4",
    "registers", "sdma", "set_reg_start",
]  # fmt: skip

_FOLDER = Path(__file__).parent / "tables"


@functools.cache
def _table(name: str) -> dict[str, Any]:
    data = (_FOLDER / name).read_bytes()
    return json.loads(gzip.decompress(data) if name.endswith(".gz") else data)


def _decoded(fields: Fields, words: Sequence[int]) -> dict[str, int]:
    """The fields that lie inside of the words."""
    return {
        name: words[dword] >> low & (1 << high - low + 1) - 1
        for name, (dword, low, high) in fields.items()
        if dword < len(words)
    }


# -- packets --------------------------------------------------------------------------------------


class Packets:
    """Packets of one kind of queue: `names` has the names of opcodes by their numbers."""

    def __init__(self, names: Mapping[int, str], fields: Mapping[str, Fields]) -> None:
        self.names, self._fields = names, fields

    def decode(self, packet: str, words: Sequence[int]) -> dict[str, int]:
        """The fields of a packet, by the names of AMD's headers."""
        return _decoded(self._fields[packet], words)

    def length(self, packet: str) -> int:
        """The words of a packet that has no list of data in it."""
        return 1 + max(dword for dword, _, _ in self._fields[packet].values())


@functools.cache
def sdma(version: str) -> Packets:
    """SDMA packets of "4.4", "5.2" or "6.0", by name: "COPY_LINEAR"."""
    table = _table("amd_packets.json.gz")["sdma"][version]
    names = {number: name for name, number in table["op"].items() if not name.startswith("aql_")}
    fields = {packet: _fields(packet, table["packets"]) for packet in _SDMA_PACKETS}
    return Packets(names, {packet: found for packet, found in fields.items() if found})


def _fields(packet: str, words: Mapping[str, Fields]) -> Fields:
    """The fields of all words of a packet, and of no other whose name begins alike."""
    longer = tuple(f"{packet}_{variant}_" for variant in ("BC", "SUBWIN", "LARGE"))
    mine = [word for word in words if word.startswith(packet + "_") and not word.startswith(longer)]
    return {name: place for word in mine for name, place in words[word].items()}


_SDMA_PACKETS = (
    "COPY_LINEAR", "WRITE_UNTILED", "FENCE", "TRAP", "POLL_REGMEM", "CONSTANT_FILL", "NOP",
    "TIMESTAMP_GET_GLOBAL", "INDIRECT", "ATOMIC", "GCR_REQ",
    "COPY_LINEAR_SUBWIN",
)  # fmt: skip


@functools.cache
def pm4(family: str) -> Packets:
    """PM4 packets of "gfx9" or "gfx10-12"."""
    table, more = _table("amd_packets.json.gz"), _table("pm4_packets.json")
    names: dict[int, str] = {}
    for name, number in table["pm4"][family]["op"].items():
        names.setdefault(number, name)  # some have a second name, for graphics
    fields = {**more["all"], **more[family]}
    if family == "gfx9":
        release = table["struct"]["gfx9"]["pm4_mec_release_mem"]
        head = {name: place for name, place in release.items() if place[0] in (1, 2)}
        fields["release_mem"] = {**head, **fields["release_mem"]}
    return Packets(names, fields)


def set_reg_start(family: str, kind: str) -> int:
    """The register that SET_SH_REG ("sh") or SET_UCONFIG_REG ("uconfig") counts from."""
    return _table("amd_packets.json.gz")["pm4"][family]["set_reg_range"][f"set_{kind}_reg_start"]


def field(family: str, name: str, word: int) -> int:
    """One bit of a word by its name in AMD's header: "acquire_mem_gcr_cntl_glv_inv"."""
    low = _table("amd_packets.json.gz")["pm4"][family]["field_low_bit"][name]
    return word >> low & 1


# -- registers ------------------------------------------------------------------------------------


class Registers:
    """The registers of one block: names by their dword address, and their fields."""

    def __init__(self, block: str, bases: Sequence[int]) -> None:
        table = _table("amd_regs.json.gz")["regs"][block]
        self.names = {
            bases[base] + offset: name
            for name, (offset, base, _) in table.items()
            if base < len(bases) and not name.startswith("COMPUTE_DESTINATION_EN")
        }
        self._fields = {name: fields for name, (_, _, fields) in table.items()}

    def decode(self, name: str, value: int) -> dict[str, int]:
        """A register's fields."""
        return {
            one: value >> low & (1 << high - low + 1) - 1
            for one, (low, high) in self._fields[name].items()
        }


@functools.cache
def registers(block: str, bases: tuple[int, ...]) -> Registers:
    """The registers of a block, at the bases that the chip has for its segments."""
    return Registers(block, bases)


# -- ioctls ---------------------------------------------------------------------------------------


class Ioctl(NamedTuple):
    """A call of /dev/kfd, and its argument."""

    name: str
    layout: Layout


@functools.cache
def layout(struct: str) -> Layout:
    """A struct of kfd_ioctl.h."""
    found = _table("kfd_ioctl.json")["structs"][struct]
    return Layout(found["size"], found["fields"])


def ioctl(request: int) -> Ioctl | None:
    """The call of /dev/kfd that a number means to its driver, which looks at the lowest byte."""
    return _by_place().get(request & 0xFF)


@functools.cache
def _by_place() -> dict[int, Ioctl]:
    return {number & 0xFF: one for number, one in ioctls().items()}


@functools.cache
def ioctls() -> dict[int, Ioctl]:
    """The calls of /dev/kfd by their numbers."""
    table = _table("kfd_ioctl.json")["ioctls"]
    return {
        number: Ioctl(name.removeprefix("AMDKFD_IOC_").lower(), layout(struct))
        for name, (number, struct) in table.items()
    }
