"""Addresses, loads and stores.

Accesses go in pieces that the alignment allows, so a place that is not aligned as the module says
is a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.arithmetic import join, split
from treadle.emulate.air.emit import Emitter
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.lexer import signed
from treadle.emulate.air.machine import splat
from treadle.emulate.air.syntax import (
    AIRError,
    Constant,
    Struct,
    Vector,
    bits_of,
    offset_of,
    parts,
    size_of,
    type_at,
)
from treadle.emulate.simt import accesses
from treadle.emulate.simt.support import ACCESSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.emulate.air.syntax import Instruction, Type, Value

__all__ = ["HANDLERS", "load", "moved", "store"]

HANDLERS = Handlers()


@HANDLERS.of("alloca")
def _alloca(e: Emitter, item: Instruction) -> None:
    e.write(item, [splat(64, e.layout.allocas[item.result])])


@HANDLERS.of("getelementptr")
def _address(e: Emitter, item: Instruction) -> None:
    base, *indices = item.operands
    if isinstance(item.type, Vector) or item.source is None:
        raise AIRError("vectors of addresses are not emulated")
    address, constant = e.one(base), 0
    kind: Type = item.source
    shape = e.lanes("i64")
    for i, index in enumerate(indices):
        if isinstance(index, Constant):
            number = signed(index)
            if i == 0:
                constant += number * size_of(kind)
                continue
            constant += offset_of(kind, number)
            kind = type_at(kind, number)
            continue
        if i:
            if isinstance(kind, Struct):
                raise AIRError("a member of a struct has a variable number")
            kind = type_at(kind, 0)
        number, bits = e.one(index), bits_of(index.type)
        if bits < 64:
            number = e.op(f"sext {e.lanes(f'i{bits}')} {number} to {shape}")
        step = e.op(f"mul {shape} {number}, {splat(64, size_of(kind))}")
        address = e.op(f"add {shape} {address}, {step}")
    e.write(item, [moved(e, address, constant)])


def moved(e: Emitter, address: str, offset: int) -> str:
    """Addresses plus a number of bytes."""
    return e.op(f"add {e.lanes('i64')} {address}, {splat(64, offset)}") if offset else address


def _memory_bits(bits: int) -> int:
    """Bits that a value has in memory."""
    return max(8, 1 << (bits - 1).bit_length())


def _pieces(kind: Type, align: int) -> Iterator[tuple[int, int, int, int]]:
    """(first part, parts, offset, bits of a part) of accesses that an alignment allows."""
    rows = [(at, _memory_bits(bits_of(scalar))) for at, scalar in parts(kind)]
    first = 0
    while first < len(rows):
        at, bits = rows[first]
        nbytes = bits // 8
        allowed = min(align, at & -at) if at else align
        count = 1
        for more in (2, 4, 8):
            together = rows[first : first + more]
            if (
                (bits, more) in ACCESSES
                and together == [(at + i * nbytes, bits) for i in range(more)]
                and more * nbytes <= allowed
            ):
                count = more
        yield first, count, at, bits
        first += count


def load(e: Emitter, pointer: Value, kind: Type, align: int, offset: int = 0) -> list[str]:
    """The parts of a value of `kind` in memory."""
    space, address = e.space_of(pointer), e.one(pointer)
    values: list[str] = []
    for _, count, at, bits in _pieces(kind, align):
        place = moved(e, address, offset + at)
        allowed = min(align, at & -at) if at else align
        if count == 1 and allowed < bits // 8:
            values.append(_load_small(e, space, place, bits, allowed))
        else:
            values += accesses.load(e, space, place, bits, count)
    return [_from_memory(e, value, part) for value, part in zip(values, parts(kind), strict=True)]


def _load_small(e: Emitter, space: str, place: str, bits: int, align: int) -> str:
    """A value whose alignment is less than its size."""
    each = 8 * align
    found = [
        accesses.load(e, space, moved(e, place, i * align), each)[0] for i in range(bits // each)
    ]
    return join(e, found, each)


def _from_memory(e: Emitter, value: str, part) -> str:
    bits = bits_of(part[1])
    wide = _memory_bits(bits)
    if bits == wide:
        return value
    return e.op(f"trunc {e.lanes(f'i{wide}')} {value} to {e.lanes(f'i{bits}')}")


def _to_memory(e: Emitter, value: str, part) -> str:
    bits = bits_of(part[1])
    wide = _memory_bits(bits)
    if bits == wide:
        return value
    return e.op(f"zext {e.lanes(f'i{bits}')} {value} to {e.lanes(f'i{wide}')}")


def store(
    e: Emitter, pointer: Value, kind: Type, values: list[str], align: int, offset: int = 0
) -> None:
    """Stores the parts of a value of `kind`."""
    space, address = e.space_of(pointer), e.one(pointer)
    values = [_to_memory(e, value, part) for value, part in zip(values, parts(kind), strict=True)]
    for first, count, at, bits in _pieces(kind, align):
        place = moved(e, address, offset + at)
        allowed = min(align, at & -at) if at else align
        if count == 1 and allowed < bits // 8:
            each = 8 * allowed
            for i, piece in enumerate(split(e, values[first], bits, each)):
                accesses.store(e, space, moved(e, place, i * allowed), each, [piece])
        else:
            accesses.store(e, space, place, bits, values[first : first + count])


@HANDLERS.of("load")
def _load(e: Emitter, item: Instruction) -> None:
    e.write(item, load(e, item.operands[0], item.type, item.align))


@HANDLERS.of("store")
def _store(e: Emitter, item: Instruction) -> None:
    value, pointer = item.operands
    store(e, pointer, value.type, e.read(value), item.align)
