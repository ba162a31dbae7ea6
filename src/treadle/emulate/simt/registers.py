"""Registers of a warp: values within a basic block, memory of the Warp between blocks.

    places = {"v0": Place(offset, "i32"), "s0": Place(other, "i32", is_scalar=True)}
    places = {"v0": Place(offset, "i32"), "s0": Place(other, "i32", is_scalar=True)}
    registers = Registers(e, places)
    registers.enter()
    registers.write("v0", e.op(f"add {e.lanes('i32')} {registers.read('v0')}, {one}"))
    registers.leave()

A register is loaded when a block first reads it, and stored at its end if the block wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from treadle.emulate.simt.emit import Emitter

__all__ = ["Place", "Registers"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a register lies in the Warp, and the type of a lane's value, or of the only one.

    Lanes of i1 lie there as a mask. Without an offset it lies nowhere: no basic block needs what
    another wrote.
    """

    offset: int | None
    kind: str
    is_scalar: bool = False

    def nbytes(self, width: int) -> int:
        """What it takes, in a warp of so many lanes."""
        bits = int(self.kind[1:])
        return max(bits if self.is_scalar else bits * width, 8) // 8


class Registers:
    """The registers that a kernel's code works on. What is read and was never written is 0."""

    def __init__(self, e: Emitter, places: Mapping[str, Place]) -> None:
        self._e, self._places = e, places
        self._known: dict[str, str] = {}
        self._changed: dict[str, None] = {}

    def shape(self, name: str) -> str:
        """The type of a register's value."""
        place = self._places[name]
        return place.kind if place.is_scalar else self._e.lanes(place.kind)

    def enter(self) -> None:
        """The start of a basic block: nothing is loaded."""
        self._known.clear()
        self._changed.clear()

    def read(self, name: str) -> str:
        """Its value: a vector of all lanes, or a scalar."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._load(name)
        return known

    def write(self, name: str, value: str, lanes: str = "") -> None:
        """Sets it: where the vector of i1 `lanes` holds, if that is given."""
        if lanes:
            shape = self.shape(name)
            value = self._e.op(
                f"select {self._e.lanes('i1')} {lanes}, {shape} {value}, {shape} {self.read(name)}"
            )
        self._known[name] = value
        self._changed[name] = None

    def behind(self, name: str, index: str) -> str:
        """The place of the register so many (an i32) behind another of the same shape.

        What the block wrote must be stored before, and what it read is read anew after a store.
        """
        step = self._places[name].nbytes(self._e.machine.width)
        distance = self._e.op(f"mul i32 {index}, {step}")
        return self._e.op(f"getelementptr i8, ptr {self._at(name)}, i32 {distance}")

    def leave(self, live: Container[str] | None = None, lanes: str = "", bits: str = "") -> None:
        """The end of a basic block: stores what it wrote, or of that what is `live`.

        With `lanes`, and `bits`, which is the same as a mask, the other lanes stay as they were.
        """
        for name in self._changed:
            if self._places[name].offset is not None and (live is None or name in live):
                self._store(name, lanes, bits)
        self._changed.clear()

    def _at(self, name: str) -> str:
        return self._e.op(f"getelementptr i8, ptr %warp, i64 {self._places[name].offset}")

    def _align(self, name: str) -> int:
        place = self._places[name]
        return min(place.nbytes(self._e.machine.width), 64)

    def _load(self, name: str) -> str:
        e = self._e
        if self._places[name].offset is None:
            return "zeroinitializer"
        if self._is_mask(name):
            return e.as_lanes(e.op(f"load {e.machine.mask}, ptr {self._at(name)}"))
        return e.op(f"load {self.shape(name)}, ptr {self._at(name)}, align {self._align(name)}")

    def _is_mask(self, name: str) -> bool:
        place = self._places[name]
        return place.kind == "i1" and not place.is_scalar

    def _store(self, name: str, lanes: str, bits: str) -> None:
        e, place, value = self._e, self._at(name), self._known[name]
        kind = shape = self.shape(name)
        if self._is_mask(name):
            kind = e.machine.mask
            value = e.as_mask(value)
            if lanes:
                mine = e.op(f"and {kind} {value}, {bits}")
                others = e.op(f"xor {kind} {bits}, -1")
                kept = e.op(f"and {kind} {e.op(f'load {kind}, ptr {place}')}, {others}")
                value = e.op(f"or {kind} {mine}, {kept}")
            e.do(f"store {kind} {value}, ptr {place}")
            return
        if lanes and not self._places[name].is_scalar:
            before = e.op(f"load {shape}, ptr {place}, align {self._align(name)}")
            value = e.op(f"select {e.lanes('i1')} {lanes}, {shape} {value}, {shape} {before}")
        e.do(f"store {shape} {value}, ptr {place}, align {self._align(name)}")
