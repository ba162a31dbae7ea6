"""Memory: scalar loads; global, flat, scratch, LDS and buffer accesses of lanes; atomics.

Scratch memory is the core's local memory where a register of the hardware's says where it is. On
other chips it is memory like any, in which lanes have every other word (see buffers).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.amd.buffers import Buffer, swizzled
from treadle.emulate.amd.machine import PRIVATE
from treadle.emulate.amd.meanings import MEANINGS
from treadle.emulate.amd.operands import Kind, Operand
from treadle.emulate.amd.vector import gather
from treadle.emulate.simt.accesses import (
    load,
    load_data,
    load_scalars,
    read_modify_write,
    set_data,
    store,
)
from treadle.emulate.simt.atomics import atomic_function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.amd.wave import Wave

__all__: list[str] = []


def _signed(value: int, width: int) -> int:
    return value - ((value & 1 << width - 1) << 1)


def _offset(w: Wave) -> int:
    """The offset of an instruction, which has a sign."""
    width = next((f.width for f in w.item.row.fields if f.name == "offset"), 1)
    return _signed(w.item.modifiers.get("offset", 0), width)


def _is_off(w: Wave, of: Operand | None) -> bool:
    return of is None or (of.kind is Kind.SPECIAL and of.index == w.chip.null)


# -- scalar loads


def _scalar_address(w: Wave) -> str:
    s, operands = w.s, w.item.operands
    address = s.op("u64", "add", w.scalar(operands["sbase"], "u64"), str(_offset(w)))
    more = operands.get("soffset")
    if _is_off(w, more) or more is None:
        return address
    return s.op("u64", "add", address, s.resize("u32", "u64", w.scalar(more)))


def _scalar_load(count: int) -> None:
    @MEANINGS.of(f"s_load_b{32 * count}")
    def meaning(w: Wave) -> None:
        address = w.s.op("u64", "and", _scalar_address(w), "-4")
        for part, value in enumerate(load_scalars(w.e, address, 32, count)):
            w.set_scalar(w.item.operands["sdst"], value, part=part)


def _small_scalar_load(letter: str, bits: int) -> None:
    @MEANINGS.of(f"s_load_{letter}{bits}")
    def meaning(w: Wave) -> None:
        """gfx12 has these."""
        (value,) = load_scalars(w.e, _scalar_address(w), bits)
        w.set_scalar(w.item.operands["sdst"], w.s.resize(f"{letter}{bits}", "u32", value))


for _count in (1, 2, 3, 4, 8, 16):
    _scalar_load(_count)
for _letter in "ui":
    for _bits in (8, 16):
        _small_scalar_load(_letter, _bits)

# -- memory of lanes


def _address(w: Wave, space: str) -> str:
    """An address for each lane, of 64 bits."""
    x, operands = w.x, w.item.operands
    base, offset = operands.get("saddr"), x.const("u64", _offset(w))
    place = operands.get("vaddr")
    if space == "local":
        total = offset
        if place is not None:
            total = x.op("u64", "add", total, x.resize("u32", "u64", w.lanes_of(place)))
        if base is not None and not _is_off(w, base):
            wide = w.s.resize("u32", "u64", w.scalar(base))
            total = x.op("u64", "add", total, w.spread("u64", wide))
        return total
    if place is None:
        raise ValueError("an access without an address")
    if _is_off(w, base) or base is None:
        address = x.pair(w.vector(place), w.vector(place, 1))
    else:
        low = x.resize("u32", "u64", w.vector(place))
        address = x.op("u64", "add", low, w.spread("u64", w.scalar(base, "u64")))
    return x.op("u64", "add", address, offset)


@dataclass(frozen=True)
class _Memory:
    """What an access reaches: `at(byte, nbytes)` gives addresses from its `byte` on, and a mask.

    Lanes that the mask leaves out load 0; without one all load that act. `is_whole` says that bytes
    which follow each other do so in memory. `private`, an i32, tells that each lane has memory of
    its own: nobody can race for that.
    """

    space: str
    at: Callable[[int, int], tuple[str, str]]
    is_whole: bool = True
    private: str = ""


@contextlib.contextmanager
def _privately(w: Wave, memory: _Memory) -> Iterator[None]:
    if memory.private:
        w.e.do(f"store i32 {memory.private}, ptr {w.e.block_field('strong')}")
    yield
    if memory.private:
        w.e.do(f"store i32 0, ptr {w.e.block_field('strong')}")


def _pieces(memory: _Memory, words: int) -> list[tuple[int, int]]:
    """First words and counts of accesses that the core makes at a time: 3 are 2 and 1."""
    if not memory.is_whole:
        return [(word, 1) for word in range(words)]
    return [(0, 2), (2, 1)] if words == 3 else [(0, words)]


def _load(w: Wave, memory: _Memory, first: int, bits: int, count: int = 1) -> list[str]:
    """Elements from the access's byte `first` on."""
    at, mask = memory.at(first, bits // 8 * count)
    with _privately(w, memory):
        if memory.is_whole or bits == 8:
            found = load(w.e, memory.space, at, bits, count, mask)
        else:
            found = [_load_apart(w, memory, first, bits, at, mask)]
    return [_where(w, mask, bits, value) for value in found]


def _where(w: Wave, mask: str, bits: int, value: str) -> str:
    """What was loaded where a mask holds, and 0 elsewhere."""
    kind = f"u{bits}"
    return w.x.select(kind, w.e.as_lanes(mask), value, w.x.const(kind, 0)) if mask else value


def _store(w: Wave, memory: _Memory, first: int, bits: int, values: Sequence[str]) -> None:
    at, mask = memory.at(first, bits // 8 * len(values))
    with _privately(w, memory):
        if memory.is_whole or bits == 8:
            store(w.e, memory.space, at, bits, values, mask)
        else:
            _store_apart(w, memory, first, values[0], bits, at, mask)


def _aligned_lanes(w: Wave, at: str, mask: str, bits: int) -> tuple[str, str]:
    """The lanes of a mask whose addresses are multiples of an element's bytes, and the others."""
    x, e = w.x, w.e
    rest = x.op("u64", "and", at, x.const("u64", bits // 8 - 1))
    odd = e.as_mask(x.both(x.truth("u64", rest), e.as_lanes(mask or e.mask_bits)))
    kind = e.machine.mask
    return e.op(f"xor {kind} {mask or e.mask_bits}, {odd}"), odd


@contextlib.contextmanager
def _if_any(w: Wave, mask: str) -> Iterator[None]:
    """What is written here is done if a mask has a lane."""
    e, number = w.e, len(w.e.lines)
    some = e.op(f"icmp ne {e.machine.mask} {mask}, 0")
    e.do(f"br i1 {some}, label %some{number}, label %none{number}")
    e.label(f"some{number}")
    yield
    e.do(f"br label %none{number}")
    e.label(f"none{number}")


def _load_apart(w: Wave, memory: _Memory, first: int, bits: int, at: str, mask: str) -> str:
    """One element, of lanes at odd addresses byte by byte: the bytes may lie apart."""
    x, e, kind = w.x, w.e, f"u{bits}"
    aligned, odd = _aligned_lanes(w, at, mask, bits)
    load(e, memory.space, at, bits, mask=aligned)
    with _if_any(w, odd):
        others, value = load_data(e, bits), x.const(kind, 0)
        for byte in range(bits // 8):
            place, _ = memory.at(first + byte, 1)
            (part,) = load(e, memory.space, place, 8, mask=odd)
            moved = x.op(kind, "shl", x.resize("u8", kind, part), x.const(kind, 8 * byte))
            value = x.op(kind, "or", value, moved)
        set_data(e, x.select(kind, e.as_lanes(odd), value, others), bits)
    return load_data(e, bits)


def _store_apart(
    w: Wave, memory: _Memory, first: int, value: str, bits: int, at: str, mask: str
) -> None:
    """One element, of lanes at odd addresses byte by byte: the bytes may lie apart."""
    x, e, kind = w.x, w.e, f"u{bits}"
    aligned, odd = _aligned_lanes(w, at, mask, bits)
    store(e, memory.space, at, bits, [value], aligned)
    with _if_any(w, odd):
        for byte in range(bits // 8):
            place, _ = memory.at(first + byte, 1)
            part = x.resize(kind, "u8", x.op(kind, "lshr", value, x.const(kind, 8 * byte)))
            store(e, memory.space, place, 8, [part], odd)


def _load_words(w: Wave, memory: _Memory, words: int) -> list[str]:
    pieces = _pieces(memory, words)
    return [v for first, count in pieces for v in _load(w, memory, 4 * first, 32, count)]


def _store_words(w: Wave, memory: _Memory, values: Sequence[str]) -> None:
    for first, count in _pieces(memory, len(values)):
        _store(w, memory, 4 * first, 32, values[first : first + count])


def _set_words(w: Wave, values: Sequence[str]) -> None:
    for part, value in enumerate(values):
        w.set_vector(w.item.operands[_loaded(w)], value, part)


def _loaded(w: Wave) -> str:
    """The operand that a load sets: buffer instructions have one for loads and stores."""
    return "vdst" if "vdst" in w.item.operands else "vdata"


_SPACES = {"global": "global", "flat": "generic", "scratch": "local"}
_DATA = {"ds": "data0"}
# Name, bits, whether the sign is kept, and the half of the register that is written: low, high or
# all of it.
_SMALL = (
    ("u8", 8, False, None), ("i8", 8, True, None), ("u16", 16, False, None),
    ("i16", 16, True, None), ("d16_b16", 16, False, False), ("d16_hi_b16", 16, False, True),
    ("d16_u8", 8, False, False), ("d16_i8", 8, True, False), ("d16_hi_u8", 8, False, True),
    ("d16_hi_i8", 8, True, True),
)  # fmt: skip


def _place(w: Wave, kind: str) -> _Memory:
    """The memory that an access reaches."""
    if kind == "ds":
        return _shared(w, w.item.modifiers.get("offset", 0))
    if kind == "buffer":
        buffer = Buffer.of(w)
        at = lambda byte, nbytes: buffer.at(w, byte, nbytes)
        return _Memory("global", at, is_whole=False, private=buffer.is_private(w))
    address = _address(w, _SPACES[kind])
    if w.chip.has_scratch_register or kind == "global":
        return _linear(w, _SPACES[kind], address)
    return _with_scratch(w, kind, address)


def _shared(w: Wave, offset: int) -> _Memory:
    """Shared memory at a register and an offset, whose sum has 32 bits."""
    base = w.lanes_of(w.item.operands["addr"])
    address = w.x.op("u32", "add", base, w.x.const("u32", offset))
    return _linear(w, "shared", w.x.resize("u32", "u64", address))


def _linear(w: Wave, space: str, address: str) -> _Memory:
    return _Memory(
        space, lambda byte, _: (w.x.op("u64", "add", address, w.x.const("u64", byte)), "")
    )


def _with_scratch(w: Wave, kind: str, address: str) -> _Memory:
    """Memory by an address of scratch memory, or by one that may be of it."""
    x, e = w.x, w.e
    lanes = e.machine.constants("i32", range(w.width))
    base = w.spread("u64", w.flat_scratch())
    is_mine = x.compare("u64", "eq", x.op("u64", "lshr", address, x.const("u64", 32)),
                        x.const("u64", PRIVATE >> 32))  # fmt: skip
    one = "1"
    if kind == "flat":
        some = e.op(f"icmp ne {e.machine.mask} {e.as_mask(x.both(is_mine, e.mask))}, 0")
        one = e.op(f"zext i1 {some} to i32")

    def at(byte: int, _: int) -> tuple[str, str]:
        there = x.op("u64", "add", address, x.const("u64", byte))
        constants = (x.const("u32", n) for n in (0, 4, w.width))
        turned = swizzled(x, x.resize("u64", "u32", there), lanes, *constants)
        mine = x.op("u64", "add", base, x.resize("u32", "u64", turned))
        return (mine if kind == "scratch" else x.select("u64", is_mine, mine, there)), ""

    return _Memory("global" if kind == "scratch" else "generic", at, is_whole=False, private=one)


def _small_load(name: str, kind: str, bits: int, has_sign: bool, half: bool | None) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        (value,) = _load(w, _place(w, kind), 0, bits)
        of = w.item.operands[_loaded(w)]
        letter = "i" if has_sign else "u"
        if half is None:
            w.set_bits(32, w.x.resize(f"{letter}{bits}", "u32", value), _loaded(w))
        else:
            narrow = w.x.resize(f"{letter}{bits}", "u16", value)
            w.set_half(of, narrow, half or of.high, clears=False)


def _word_load(name: str, kind: str, words: int) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        _set_words(w, _load_words(w, _place(w, kind), words))


def _small_store(name: str, kind: str, bits: int, is_high: bool) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        of = _stored(w, kind)
        value = w.lanes_of(of)
        if is_high or of.high:
            value = w.x.op("u32", "lshr", value, w.x.const("u32", 16))
        _store(w, _place(w, kind), 0, bits, [w.x.resize("u32", f"u{bits}", value)])


def _stored(w: Wave, kind: str) -> Operand:
    return w.item.operands[_DATA.get(kind, "vdata")]


def _word_store(name: str, kind: str, words: int) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        of = _stored(w, kind)
        _store_words(w, _place(w, kind), [w.lanes_of(of, part) for part in range(words)])


for _kind in ("global", "flat", "scratch", "buffer", "ds"):
    for _name, _bits, _has_sign, _half in _SMALL:
        if _kind == "ds" and _name.endswith("b16"):
            _name = _name.replace("b16", "u16") if "hi" not in _name else "u16_d16_hi"
            _name = {"d16_u16": "u16_d16"}.get(_name, _name)
        elif _kind == "ds" and "d16" in _name:
            _name = f"{_name[-2:]}_d16{'_hi' if 'hi' in _name else ''}"
        _small_load(f"{_kind}_load_{_name}", _kind, _bits, _has_sign, _half)
    for _words in (1, 2, 3, 4):
        _word_load(f"{_kind}_load_b{32 * _words}", _kind, _words)
        _word_store(f"{_kind}_store_b{32 * _words}", _kind, _words)
    for _bits in (8, 16):
        _high = f"b{_bits}_d16_hi" if _kind == "ds" else f"d16_hi_b{_bits}"
        _small_store(f"{_kind}_store_b{_bits}", _kind, _bits, is_high=False)
        _small_store(f"{_kind}_store_{_high}", _kind, _bits, is_high=True)


# -- two places of LDS


def _two_places(w: Wave, words: int, stride: int) -> list[_Memory]:
    offsets = (w.item.modifiers[name] * 4 * words * stride for name in ("offset0", "offset1"))
    return [_shared(w, offset) for offset in offsets]


def _pair(words: int, stride: int) -> None:
    suffix = f"2addr_{'stride64_' if stride > 1 else ''}b{32 * words}"

    @MEANINGS.of(f"ds_load_{suffix}")
    def read(w: Wave) -> None:
        places = _two_places(w, words, stride)
        _set_words(w, [v for at in places for v in _load_words(w, at, words)])

    @MEANINGS.of(f"ds_store_{suffix}")
    def write(w: Wave) -> None:
        for at, name in zip(_two_places(w, words, stride), ("data0", "data1"), strict=True):
            of = w.item.operands[name]
            _store_words(w, at, [w.lanes_of(of, i) for i in range(words)])


for _words in (1, 2):
    for _stride in (1, 64):
        _pair(_words, _stride)


# -- atomics

_ATOMICS = {
    "add_u32": ("add", "u32"), "add_u64": ("add", "u64"), "sub_u32": ("sub", "u32"),
    "sub_u64": ("sub", "u64"), "inc_u32": ("inc", "u32"), "dec_u32": ("dec", "u32"),
    "and_b32": ("and", "b32"), "and_b64": ("and", "b64"), "or_b32": ("or", "b32"),
    "or_b64": ("or", "b64"), "xor_b32": ("xor", "b32"), "xor_b64": ("xor", "b64"),
    "min_i32": ("min", "s32"), "max_i32": ("max", "s32"), "min_u32": ("min", "u32"),
    "max_u32": ("max", "u32"), "min_i64": ("min", "s64"), "max_i64": ("max", "s64"),
    "min_u64": ("min", "u64"), "max_u64": ("max", "u64"), "swap_b32": ("exch", "b32"),
    "swap_b64": ("exch", "b64"), "cmpswap_b32": ("cas", "b32"), "cmpswap_b64": ("cas", "b64"),
    "add_f32": ("add", "f32"), "add_f64": ("add", "f64"), "pk_add_f16": ("add", "f16x2"),
    "pk_add_bf16": ("add", "bf16x2"),
}  # fmt: skip


def _atomic(name: str, kind: str, operation: str, type: str) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        function = atomic_function(w.e, operation, type)
        if function is None:
            raise ValueError(f"no atomic {operation} of {type}")
        bits = 64 if "64" in type else 32
        of, words = _stored(w, kind), bits // 32

        def data(first: int) -> str:
            parts = [w.lanes_of(of, first + i) for i in range(words)]
            return parts[0] if words == 1 else w.x.pair(*parts)

        # A comparison's new value is first, and what it must be is behind it.
        operands = (data(words), data(0)) if operation == "cas" else (data(0),)
        memory = _place(w, kind)
        address, mask = memory.at(0, bits // 8)
        found = read_modify_write(w.e, function, memory.space, address, bits, *operands, mask=mask)
        found = _where(w, mask, bits, found)
        if "vdst" in w.item.operands:
            w.set_bits(bits, found)
        elif kind == "buffer" and w.item.modifiers.get("cpol", 0) & 1:
            w.set_bits(bits, found, "vdata")


for _name, (_operation, _type) in _ATOMICS.items():
    for _kind in ("global", "flat", "buffer"):
        _atomic(f"{_kind}_atomic_{_name}", _kind, _operation, _type)


# -- lanes by way of LDS's crossbar


@MEANINGS.of("ds_bpermute_b32")
def _permute(w: Wave) -> None:
    x, e = w.x, w.e
    address = x.op("u32", "add", w.lanes_of(w.item.operands["addr"]),
                   x.const("u32", w.item.modifiers.get("offset", 0)))  # fmt: skip
    lanes = x.bits(address, 2, w.width.bit_length() - 1)
    moved = gather(w, w.lanes_of(w.item.operands["data0"]), lanes)
    active = x.truth("u32", gather(w, x.from_flag("u32", e.mask), lanes))
    w.set_bits(32, x.select("u32", active, moved, x.const("u32", 0)))


@MEANINGS.of("ds_swizzle_b32")
def _swizzle(w: Wave) -> None:
    """A fixed permutation of groups of 4 lanes, or of 32."""
    x, e, offset = w.x, w.e, w.item.modifiers.get("offset", 0)
    if offset & 0x8000:
        order = [i & ~3 | offset >> 2 * (i & 3) & 3 for i in range(w.width)]
    else:
        keep, set_, flip = offset & 31, offset >> 5 & 31, offset >> 10 & 31
        order = [i & ~31 | ((i & keep | set_) ^ flip) & 31 for i in range(w.width)]
    lanes = e.machine.constants("i32", order)
    shape, flags = e.lanes("i32"), e.lanes("i1")
    value = w.lanes_of(w.item.operands["addr"])
    moved = e.op(f"shufflevector {shape} {value}, {shape} poison, {shape} {lanes}")
    active = e.op(f"shufflevector {flags} {e.mask}, {flags} poison, {shape} {lanes}")
    w.set_bits(32, x.select("u32", active, moved, x.const("u32", 0)))


def _nothing(_: Wave) -> None:
    """Memory of this machine is in order, and has no caches."""


for _name in (
    "s_waitcnt", "s_waitcnt_depctr", "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_lgkmcnt",
    "s_waitcnt_expcnt", "s_wait_loadcnt", "s_wait_storecnt", "s_wait_dscnt", "s_wait_kmcnt",
    "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_expcnt", "s_wait_loadcnt_dscnt",
    "s_wait_storecnt_dscnt", "buffer_gl0_inv", "buffer_gl1_inv", "buffer_wbl2", "buffer_inv",
    "buffer_wbinvl1_vol", "global_inv", "global_wb", "global_wbinv",
):  # fmt: skip
    MEANINGS.add(_name, _nothing)
