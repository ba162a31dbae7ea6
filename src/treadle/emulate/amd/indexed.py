"""Moves between vector registers whose numbers are sums with M0: v_movrels and v_movreld.

M0 is the same in all lanes, so one register moves. Registers lie in the Warp in the order of their
numbers; what the basic block has written is stored before, and read again afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.operands import Operand
    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []

_LAST = 255  # the number of the last vector register


def _place(w: Wave, of: Operand) -> str:
    """Where the register lies that is M0 behind an operand's."""
    if of.kind is not Kind.VGPR:
        raise Unsupported("a register behind one that is no vector register")
    w.registers.leave()
    number = w.s.op("u32", "add", w.scalar(w.chip.m0), str(of.index))
    return w.registers.behind("v0", w.s.op("u32", "and", number, str(_LAST)))


def _load(w: Wave, place: str) -> str:
    return w.e.op(f"load {w.x.type('u32')}, ptr {place}, align 64")


def _store(w: Wave, place: str, value: str) -> None:
    """In the lanes that act."""
    kept = w.x.select("u32", w.lanes, value, _load(w, place))
    w.e.do(f"store {w.x.type('u32')} {kept}, ptr {place}, align 64")
    w.enter()


@MEANINGS.of("v_movrels_b32")
def _from_behind(w: Wave) -> None:
    w.set_vector(w.item.operands["vdst"], _load(w, _place(w, w.item.operands["src0"])))


@MEANINGS.of("v_movreld_b32")
def _to_behind(w: Wave) -> None:
    value = w.source("src0", "u32")
    _store(w, _place(w, w.item.operands["vdst"]), value)


@MEANINGS.of("v_movrelsd_b32")
def _between(w: Wave) -> None:
    value = _load(w, _place(w, w.item.operands["src0"]))
    _store(w, _place(w, w.item.operands["vdst"]), value)
