"""Moves between vector registers whose numbers are sums with M0: v_movrels and v_movreld.

On generation 9, plain moves are such between s_set_gpr_idx_on and s_set_gpr_idx_off. M0 is the same
in all lanes, so one register moves. Registers lie in the Warp in the order of their numbers; what
the basic block has written is stored before, and read again afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.wave import Unsupported

if TYPE_CHECKING:
    from treadle.emulate.amd.operands import Operand
    from treadle.emulate.amd.wave import Wave

__all__ = ["indexed_name"]

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


# -- the mode of generation 9

# What a move is in a mode: bit 0 means the first source, bit 3 the destination.
_MOVES = {1: "v_movrels_b32", 8: "v_movreld_b32", 9: "v_movrelsd_b32"}


def indexed_name(operation: str, mode: int) -> str:
    """The operation that another is in a mode; 0 is no mode."""
    if not mode or not operation.startswith("v_"):
        return operation
    if operation != "v_mov_b32" or mode not in _MOVES:
        raise Unsupported(f"{operation} with registers behind others, mode {mode}")
    return _MOVES[mode]


@MEANINGS.of("s_set_gpr_idx_on")
def _begin(w: Wave) -> None:
    w.index_mode = w.item.modifiers["src1"] & 15
    low = w.s.op("u32", "and", w.scalar(w.item.operands["src0"]), "255")
    w.set_scalar(w.chip.m0, w.s.op("u32", "or", low, str(w.index_mode << 12)))


@MEANINGS.of("s_set_gpr_idx_off")
def _end(w: Wave) -> None:
    w.index_mode = 0
