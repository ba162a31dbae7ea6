"""Loads, stores and atomic operations (cat6), and what a lane knows of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ir3.meanings import MEANINGS
from treadle.emulate.ir3.operands import Kind, Operand, Unsupported
from treadle.emulate.simt import accesses
from treadle.emulate.simt.atomics import atomic_function

if TYPE_CHECKING:
    from treadle.emulate.ir3.wave import Wave

__all__ = ["ATOMICS", "element_bits", "read_width"]

_OPERATIONS = {"add": "add", "sub": "sub", "xchg": "exch", "cmpxchg": "cas", "min": "min",
               "max": "max", "and": "and", "or": "or", "xor": "xor"}  # fmt: skip
ATOMICS = tuple(f"atomic.{space}{name}" for space in ("", "g.") for name in _OPERATIONS)


def element_bits(kind: str) -> int:
    """The bits of an element of a type in memory."""
    return 8 if kind.startswith("u8") else int(kind[1:])


def read_width(name: str) -> int:
    """How many components the operand of an atomic operation has."""
    return 2 if name.endswith("cmpxchg") else 1


def _register(w: Wave, of: Operand, part: int = 0) -> str:
    """A component behind a register or constant, or a number."""
    if of.kind is Kind.NUMBER:
        return w.bits(of)
    return w.bits(Operand(of.kind, of.number + part, of.is_half))


def _address(w: Wave, of: Operand) -> str:
    """The 64 bits of two components."""
    return w.x.pair(_register(w, of), _register(w, of, 1))


def _moved(w: Wave, kind: str, address: str, offset: int) -> str:
    return w.x.op(kind, "add", address, w.x.const(kind, offset)) if offset else address


def _place(w: Wave, base: str) -> tuple[str, str]:
    """The space of an access and where it begins: the address plus a number of bytes."""
    item = w.item
    of, offset = item.register(base), item.number("OFF")
    letter = item.name[2]
    if letter == "g":
        return "global", _moved(w, "u64", _address(w, of), offset)
    near = _moved(w, "u32", _register(w, of), offset)
    return "shared" if letter == "l" else "local", w.x.resize("u32", "u64", near)


def _indexed(w: Wave) -> str:
    """The address of ldg.a and stg.a: the index is moved up, then counts elements."""
    x, item = w.x, w.item
    index = x.resize("u32", "u64", _register(w, item.register("SRC2")))
    bits = element_bits(item.type)
    shift = item.number("SRC2_ADD_DWORD_SHIFT") if bits > 8 else 0
    index = x.op("u64", "shl", index, x.const("u64", shift))
    index = _moved(w, "u64", index, item.number("OFF"))
    index = x.op("u64", "mul", index, x.const("u64", bits // 8))
    return x.op("u64", "add", _address(w, item.register("SRC1")), index)


def _load_elements(w: Wave, space: str, address: str) -> None:
    x, item = w.x, w.item
    bits, is_half = element_bits(item.type), item.type_is_half
    first = item.register("DST").number
    with w.only(w.lanes):
        for i in range(item.number("SIZE")):
            place = _moved(w, "u64", address, i * bits // 8)
            (value,) = accesses.load(w.e, space, place, bits)
            value = x.resize(f"u{bits}", "u16" if is_half else "u32", value)
            w.set_component(first + i, is_half, value)


def _store_elements(w: Wave, space: str, address: str, source: str) -> None:
    x, item = w.x, w.item
    bits, is_half = element_bits(item.type), item.type_is_half
    of = item.register(source, is_half)
    with w.only(w.lanes):
        for i in range(item.number("SIZE")):
            value = x.resize("u16" if is_half else "u32", f"u{bits}", _register(w, of, i))
            place = _moved(w, "u64", address, i * bits // 8)
            accesses.store(w.e, space, place, bits, [value])


@MEANINGS.of("ldg")
def _load_global(w: Wave) -> None:
    _load_elements(w, *_place(w, "SRC1"))


@MEANINGS.of("ldl", "ldp")
def _load_near(w: Wave) -> None:
    _load_elements(w, *_place(w, "SRC"))


@MEANINGS.of("ldg.a")
def _load_indexed(w: Wave) -> None:
    _load_elements(w, "global", _indexed(w))


@MEANINGS.of("stg")
def _store_global(w: Wave) -> None:
    _store_elements(w, *_place(w, "SRC1"), "SRC3")


@MEANINGS.of("stl", "stp")
def _store_near(w: Wave) -> None:
    _store_elements(w, *_place(w, "DST"), "SRC")


@MEANINGS.of("stg.a")
def _store_indexed(w: Wave) -> None:
    _store_elements(w, "global", _indexed(w), "SRC3")


@MEANINGS.of(*ATOMICS)
def _atomic(w: Wave) -> None:
    """What was there before goes to DST. cmpxchg has the expected value first, then the new one."""
    item, e = w.item, w.e
    name = item.name.rsplit(".", 1)[1]
    kind = {"u32": "u32", "i32": "s32"}.get(item.type)
    if kind is None or item.number("TYPE_SIZE") != 1 or item.number("TYPED"):
        raise Unsupported("an atomic operation that is not of one 32-bit integer")
    if name in ("xchg", "cmpxchg", "and", "or", "xor"):
        kind = "b32"
    function = atomic_function(e, _OPERATIONS[name], kind)
    if function is None:
        raise Unsupported(f"an atomic {name} of {kind}")
    of, value = item.register("SRC1"), item.register("SRC2")
    space, address = (
        ("global", _address(w, of))
        if ".g." in item.name
        else ("shared", w.x.resize("u32", "u64", _register(w, of)))
    )
    other = _register(w, value, 1) if name == "cmpxchg" else ""
    with w.only(w.lanes):
        before = accesses.read_modify_write(
            e, function, space, address, 32, _register(w, value), other
        )
        w.set_component(item.register("DST").number, False, before)


@MEANINGS.of("getfiberid")
def _lane(w: Wave) -> None:
    """The lane's number in the wave."""
    kind = "u16" if w.item.type_is_half else "u32"
    value = w.e.machine.constants(f"i{kind[1:]}", range(w.e.machine.width))
    w.set_component(w.item.register("DST").number, w.item.type_is_half, value)


@MEANINGS.of("fence")
def _fence(w: Wave) -> None:
    accesses.fence(w.e)
