"""Loads, stores, atomics and addresses.

Global and constant memory are the host's own addresses; shared memory and a thread's local memory
are numbered from 0, and generic addresses of them lie in the host memory that the block has for
them. A kernel's parameters are one piece of memory that all threads read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import Handlers, lanes, splat
from treadle.emulate.ptx.machine import LANES
from treadle.emulate.ptx.syntax import WIDTHS, Address, Operand, Symbol, Vector
from treadle.emulate.simt.accesses import (
    fence,
    load,
    read_modify_write,
    set_addresses,
    store,
    strong,
)
from treadle.emulate.simt.atomics import atomic_function
from treadle.emulate.simt.support import ACCESSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = [
    "HANDLERS", "address_lanes", "check_proxy", "copy_hint", "shared_base", "store_param",
]  # fmt: skip

HANDLERS = Handlers()
_SPACES = {
    "global": "global", "const": "global", "shared": "shared", "shared::cta": "shared",
    "shared::cluster": "shared", "local": "local", "param": "param", "param::entry": "param",
    "param::func": "param",
}  # fmt: skip
_SCOPES = ("cta", "cluster", "gpu", "sys")
_SEMANTICS = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc")
_CACHES = (
    "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified",
    *(f"L1::{how}" for how in ("evict_normal", "evict_unchanged", "evict_first", "evict_last",
                               "no_allocate")),
    *(f"L2::{how}" for how in ("evict_first", "evict_last", "evict_normal", "cache_hint", "64B",
                               "128B", "256B")),
)  # fmt: skip
_TYPES = (
    "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
    "f16", "bf16", "f16x2", "bf16x2", "f32", "f64",
)  # fmt: skip


# -- addresses


def address_lanes(e: Emitter, operand: Operand) -> str:
    """The address of `[base+offset]` in each lane, in the space of its base."""
    if not isinstance(operand, Address):
        raise e.layout.error(f"{operand} is no address")
    base = operand.base
    if isinstance(base, Symbol):
        base = Symbol(base.name, base.offset + operand.offset)
        return e.read(base, 64)
    bits = e.width(base) or 64
    value = e.read(base, bits)
    if operand.offset:  # of an address of 32 bits the sum has as many: it may be below 0 before
        value = e.op(f"add {lanes(bits)} {value}, {splat(bits, operand.offset)}")
    return value if bits == 64 else e.op(f"zext {lanes(bits)} {value} to {lanes(64)}")


def check_proxy(e: Emitter, addresses: str) -> None:
    """What is read at these offsets of shared memory has been fenced for the asynchronous proxy."""
    set_addresses(e, addresses)
    e.intrinsic(
        "treadle_ptx_check_proxy", "void", "ptr %block", "ptr %warp", f"i32 {e.mask_bits}",
        f"i32 {e.site}",
    )  # fmt: skip


def shared_base(e: Emitter) -> str:
    """The host address of the block's shared memory, in each lane."""
    return e.spread(e.block_value("shared", 64), 64)


def _local_base(e: Emitter) -> str:
    """The host address of each thread's local memory."""
    first = e.op(f"load i32, ptr {e.warp_field('number')}")
    start = e.op(f"shl i32 {first}, 5")
    nbytes = e.block_value("local_bytes", 64)
    offset = e.op(f"mul i64 {e.op(f'zext i32 {start} to i64')}, {nbytes}")
    base = e.op(f"add i64 {e.block_value('local', 64)}, {offset}")
    steps = ", ".join(f"i64 {lane}" for lane in range(LANES))
    apart = e.op(f"mul {lanes(64)} <{steps}>, {e.spread(nbytes, 64)}")
    return e.op(f"add {lanes(64)} {e.spread(base, 64)}, {apart}")


def _param_base(e: Emitter) -> str:
    return e.spread(e.launch_value("params", 64), 64)


# -- ld and st


def _strength(e: Emitter, semantics: str) -> contextlib.AbstractContextManager[None]:
    """In this block of code accesses are as strong as their semantics."""
    return contextlib.nullcontext() if semantics in ("", "weak") else strong(e)


def _manner(e: Emitter, m: Modifiers) -> tuple[str, str]:
    """The space ('generic' if none is named) and the memory semantics of an access."""
    semantics = m.one_of(_SEMANTICS)
    m.one_of(_SCOPES)
    copy_hint(m)
    return _SPACES.get(m.one_of(_SPACES), "generic"), semantics


def copy_hint(m: Modifiers) -> None:
    """Takes what is said about caches."""
    while m.one_of(_CACHES):
        pass


def _elements(m: Modifiers) -> tuple[str, int]:
    kind = m.type(_TYPES)
    return kind, int((m.one_of(("v2", "v4", "v8")) or "v1")[1:])


@HANDLERS.of("ld", "ldu")
def _load(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind, count = _elements(m)
    space, semantics = _manner(e, m)
    bits = WIDTHS[kind]
    result, address = item.operands[:2]
    if (bits, count) not in ACCESSES:
        raise m.fail()
    if semantics == "acquire":
        fence(e)
    if space == "param":
        values = _load_param(e, address, bits, count)
    else:
        with _strength(e, semantics):
            values = load(e, space, address_lanes(e, address), bits, count)
    targets = result.items if isinstance(result, Vector) else (result,)
    if len(targets) != count:
        raise m.fail(f"needs {count} destinations")
    for target, value in zip(targets, values, strict=True):
        e.write(target, value, bits, signed=kind[0] == "s")


def _load_param(e: Emitter, address: Operand, bits: int, count: int) -> list[str]:
    """A kernel's parameter is the same in all lanes; one of a call lies in local memory."""
    if isinstance(address, Address) and isinstance(address.base, Symbol):
        name = address.base.name
        if name in e.layout.local:
            return load(e, "local", address_lanes(e, address), bits, count)
        at = e.layout.params.get(name)
        if at is None:
            raise e.layout.error(f"{name} is no parameter")
        base = e.op(f"inttoptr i64 {e.launch_value('params', 64)} to ptr")
        at += address.base.offset + address.offset
        values = []
        for part in range(count):
            place = e.op(f"getelementptr i8, ptr {base}, i64 {at + part * bits // 8}")
            values.append(e.spread(e.op(f"load i{bits}, ptr {place}, align 1"), bits))
        return values
    offset = address_lanes(e, address)
    return load(e, "global", e.op(f"add {lanes(64)} {offset}, {_param_base(e)}"), bits, count)


@HANDLERS.of("st")
def _store(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind, count = _elements(m)
    space, semantics = _manner(e, m)
    bits = WIDTHS[kind]
    address, source = item.operands[:2]
    if (bits, count) not in ACCESSES:
        raise m.fail()
    sources = source.items if isinstance(source, Vector) else (source,)
    if len(sources) != count:
        raise m.fail(f"needs {count} values")
    if semantics == "release":
        fence(e)
    values = [e.read(operand, bits) for operand in sources]
    where = "local" if space == "param" else space
    with _strength(e, semantics):
        store(e, where, address_lanes(e, address), bits, values)


def store_param(e: Emitter, place: Symbol, value: str, bits: int) -> None:
    """Sets a .param variable of a call."""
    store(e, "local", e.read(place, 64), bits, [value])


# -- atomics

_OPERATIONS = ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")


@HANDLERS.of("atom", "red")
def _atomic(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind, count = _elements(m)
    space, semantics = _manner(e, m)
    operation = m.one_of(_OPERATIONS)
    m.flag("noftz")
    if not operation or space not in ("global", "shared", "generic"):
        raise m.fail()
    # min.u32 of .relaxed is read as a space, a scope and a semantics in any order.
    m.one_of(_SCOPES)
    copy_hint(m)
    bits = WIDTHS[kind]
    operands = list(item.operands)
    result = operands.pop(0) if item.opcode == "atom" else None
    address, values = operands[0], _parts(operands[1])
    results = [None] * len(values) if result is None else _parts(result)
    if len(values) != count or len(results) != count:
        raise m.fail(f"needs {count} values")
    function = atomic_function(e, operation, kind)
    if function is None:
        raise m.fail()
    if semantics in ("acquire", "release", "acq_rel"):
        fence(e)
    start = address_lanes(e, address)
    for part, (target, value) in enumerate(zip(results, values, strict=True)):  # each by itself
        step = splat(64, part * bits // 8)
        place = e.op(f"add {lanes(64)} {start}, {step}") if part else start
        other = e.read(operands[2], bits) if operation == "cas" else ""
        mine = e.read(value, bits)
        found = read_modify_write(e, function, space, place, bits, mine, other)
        if target is not None:
            e.write(target, found, bits, kind[0] == "s")


def _parts(operand: Operand) -> Sequence[Operand]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@HANDLERS.of("membar", "fence")
def _fence(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if "proxy" in m.rest and "async" in m.rest:
        mask = f"i32 {e.mask_bits}"
        e.intrinsic("treadle_ptx_proxy_fence", "void", "ptr %block", "ptr %warp", mask)
    m.rest = [word for word in m.rest if not _is_fence_word(word)]
    fence(e)


def _is_fence_word(word: str) -> bool:
    head = word.split("::")[0]
    return head in {
        *_SCOPES, *_SEMANTICS, "gl", "proxy", "alias", "async", "tensormap", "mbarrier_init",
        "shared", "global", "sync_restrict", "from", "to", "generic",
    }  # fmt: skip


# -- addresses


@HANDLERS.of("cvta")
def _convert_address(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = WIDTHS[m.type(("u32", "u64"))]
    to_space = m.flag("to")
    space = _SPACES.get(m.one_of(_SPACES), "")
    result, source = item.operands
    value = e.read(source, 64)
    bases = {"shared": shared_base, "local": _local_base, "param": _param_base}
    if space in bases:
        opcode = "sub" if to_space else "add"
        value = e.op(f"{opcode} {lanes(64)} {value}, {bases[space](e)}")
    elif space != "global":
        raise m.fail()
    if bits == 32:
        value = e.op(f"trunc {lanes(64)} {value} to {lanes(32)}")
    e.write(result, value, bits)


@HANDLERS.of("isspacep")
def _is_in_space(e: Emitter, item: Instruction, m: Modifiers) -> None:
    space = _SPACES.get(m.one_of(_SPACES), "")
    value = e.read(item.operands[1], 64)
    inside = {
        "shared": lambda: _between(e, value, shared_base(e), e.block_value("shared_bytes", 64)),
        "local": lambda: _between(e, value, _local_base(e), e.block_value("local_bytes", 64)),
    }
    if space == "global":
        either = e.op(f"or {lanes(1)} {inside['shared']()}, {inside['local']()}")
        e.write_predicate(item.operands[0], e.op(f"xor {lanes(1)} {either}, {splat(1, 1)}"))
    elif space in inside:
        e.write_predicate(item.operands[0], inside[space]())
    else:
        raise m.fail()


def _between(e: Emitter, value: str, base: str, nbytes: str) -> str:
    offset = e.op(f"sub {lanes(64)} {value}, {base}")
    return e.op(f"icmp ult {lanes(64)} {offset}, {e.spread(nbytes, 64)}")


@HANDLERS.of("mapa", "getctarank")
def _other_block(e: Emitter, item: Instruction, m: Modifiers) -> None:
    raise m.fail("is not emulated: there are no clusters")
