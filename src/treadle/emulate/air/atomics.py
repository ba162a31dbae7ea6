"""Atomic operations, and copies of memory of known size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.arithmetic import is_float
from treadle.emulate.air.emit import Emitter
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.lexer import signed
from treadle.emulate.air.machine import splat
from treadle.emulate.air.memory import load, store
from treadle.emulate.air.names import called
from treadle.emulate.air.syntax import AIRError, Array, Constant, Scalar, bits_of
from treadle.emulate.simt import accesses
from treadle.emulate.simt.atomics import atomic_function

if TYPE_CHECKING:
    from treadle.emulate.air.syntax import Instruction, Value

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
_OPERATIONS = {"add": "add", "sub": "sub", "and": "and", "or": "or", "xor": "xor", "min": "min",
               "max": "max", "xchg": "exch"}  # fmt: skip


def _space(e: Emitter, pointer: Value) -> str:
    space = e.space_of(pointer)
    if space == "local":
        raise AIRError("an atomic operation on a thread's own memory is not emulated")
    return space


def _change(
    e: Emitter, operation: str, kind: str, pointer: Value, value: str, other: str = ""
) -> str:
    """What was there before."""
    function = atomic_function(e, operation, kind)
    if function is None:
        raise AIRError(f"atomic {operation} of {kind} is not emulated")
    bits = int(kind.lstrip("bfus"))
    return accesses.read_modify_write(
        e, function, _space(e, pointer), e.one(pointer), bits, value, other
    )


@HANDLERS.of(*(f"atomic.{name}" for name in _OPERATIONS))
def _modify(e: Emitter, item: Instruction) -> None:
    """air.atomic.global.add.u.i32(pointer, value, order, scope, volatile)."""
    name = called(item.words[0])
    operation = _OPERATIONS[name.name.split(".")[1]]
    pointer, value = item.operands[:2]
    bits = bits_of(value.type)
    letter = "f" if is_float(value.type) else name.sign or "u"
    if operation in ("and", "or", "xor", "exch"):
        letter = "b"
    e.write(item, [_change(e, operation, f"{letter}{bits}", pointer, e.one(value))])


@HANDLERS.of("atomic.load")
def _atomic_load(e: Emitter, item: Instruction) -> None:
    bits = bits_of(item.type)
    e.write(item, [_change(e, "or", f"b{bits}", item.operands[0], splat(bits, 0))])


@HANDLERS.of("atomic.store")
def _atomic_store(e: Emitter, item: Instruction) -> None:
    pointer, value = item.operands[:2]
    space, bits = _space(e, pointer), bits_of(value.type)
    if space == "global":
        _change(e, "exch", f"b{bits}", pointer, e.one(value))
    else:  # an exchange reads what nobody may have written
        accesses.store(e, space, e.one(pointer), bits, [e.one(value)])


@HANDLERS.of("atomic.cmpxchg")
def _compare_exchange(e: Emitter, item: Instruction) -> None:
    """(pointer, pointer to what is expected, new value, ...): what was there goes back there."""
    pointer, expected, value = item.operands[:3]
    bits = bits_of(value.type)
    (wanted,) = load(e, expected, value.type, bits // 8)
    before = _change(e, "cas", f"b{bits}", pointer, wanted, e.one(value))
    store(e, expected, value.type, [before], bits // 8)
    if bits_of(item.type) == 1:
        e.write(item, [e.op(f"icmp eq {e.lanes(f'i{bits}')} {before}, {wanted}")])
    else:
        e.write(item, [before])


# -- copies

_MOST = 4096  # bytes that are copied in line


def _size(value: Value) -> int:
    if not isinstance(value, Constant) or signed(value) > _MOST:
        raise AIRError("a copy of a variable size, or of very much, is not emulated")
    return signed(value)


def _row(nbytes: int) -> Array:
    return Array(nbytes, Scalar("i8"))


@HANDLERS.of("llvm.memcpy", "llvm.memmove")
def _copy(e: Emitter, item: Instruction) -> None:
    target, source, size = item.operands[:3]
    # Nobody may ever have written what lies between the members of a struct.
    pieces = [piece for node in item.words[1:] for piece in e.layout.members(node)]
    pieces = pieces or [(0, _size(size))]
    # All is read before anything is written, so that areas may overlap.
    values = [load(e, source, _row(nbytes), 1, at) for at, nbytes in pieces]
    for (at, nbytes), value in zip(pieces, values, strict=True):
        store(e, target, _row(nbytes), value, 1, at)


@HANDLERS.of("llvm.memset")
def _fill(e: Emitter, item: Instruction) -> None:
    target, value, size = item.operands[:3]
    nbytes = _size(size)
    store(e, target, _row(nbytes), [e.one(value)] * nbytes, 1)
