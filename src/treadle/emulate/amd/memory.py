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
from treadle.emulate.amd.wave import Unsupported
from treadle.emulate.simt.accesses import (
    load,
    load_data,
    load_scalars,
    set_data,
    store,
)
from treadle.emulate.simt.emit import Emitter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.amd.wave import Wave

__all__ = ["Memory", "memory_of", "shared_at", "stored", "two_places", "where"]


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


def _buffer_values(w: Wave, bits: int, count: int) -> list[str]:
    """Values in a row of a buffer, or 0 where one is outside; records do not matter but for that.

    A resource is the scalar operand: see buffers.
    """
    s, operands = w.s, w.item.operands
    words = [w.scalar(operands["sbase"], part=part) for part in range(4)]
    stride = s.resize("u32", "u64", s.bits(words[1], 16, 14))
    size = s.resize("u32", "u64", words[2])
    all_records = s.op("u64", "mul", size, stride)
    size = s.select("u64", s.truth("u64", stride), all_records, size)
    offset, more = str(_offset(w)), operands.get("soffset")
    if more is not None and not _is_off(w, more):
        offset = s.op("u64", "add", s.resize("u32", "u64", w.scalar(more)), offset)
    offset, base = (
        s.op("u64", "and", value, str(-(bits // 8)))
        for value in (offset, s.pair(words[0], s.bits(words[1], 0, 16)))
    )
    found = []
    for number in range(count):
        at = s.op("u64", "add", offset, str(bits // 8 * number))
        end = s.op("u64", "add", at, str(bits // 8))
        inside = s.compare("u64", "ule", end, size)
        arguments = f"i32 {w.e.site}, i64 {s.op('u64', 'add', base, at)}, i1 {inside}"
        function = _load_inside(w, bits)
        found.append(w.e.op(f"call i{bits} {function}(ptr %block, ptr %warp, {arguments})"))
    return found


def _load_inside(w: Wave, bits: int) -> str:
    """A function of a site, an address and whether that is to be loaded from."""
    e = Emitter(w.e.machine)
    e.site = "%site"
    e.do("br i1 %inside, label %there, label %outside")
    e.label("outside")
    e.do(f"ret i{bits} 0")
    e.label("there")
    (value,) = load_scalars(e, "%address", bits)
    e.do(f"ret i{bits} {value}")
    for helper, text in e.helpers.items():
        w.e.need(helper, text)
    name = f"amd_load_inside_{bits}"
    head = f"define internal i{bits} @{name}(ptr %block, ptr %warp, i32 %site, i64 %address"
    return w.e.need(name, f"{head}, i1 %inside) noinline {{\n" + "\n".join(e.lines) + "\n}")


def _buffer_load(count: int) -> None:
    @MEANINGS.of(f"s_buffer_load_b{32 * count}")
    def meaning(w: Wave) -> None:
        for part, value in enumerate(_buffer_values(w, 32, count)):
            w.set_scalar(w.item.operands["sdst"], value, part=part)


def _small_buffer_load(letter: str, bits: int) -> None:
    @MEANINGS.of(f"s_buffer_load_{letter}{bits}")
    def meaning(w: Wave) -> None:
        (value,) = _buffer_values(w, bits, 1)
        w.set_scalar(w.item.operands["sdst"], w.s.resize(f"{letter}{bits}", "u32", value))


for _count in (1, 2, 3, 4, 8, 16):
    _scalar_load(_count)
    _buffer_load(_count)
for _letter in "ui":
    for _bits in (8, 16):
        _small_scalar_load(_letter, _bits)
        _small_buffer_load(_letter, _bits)

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
class Memory:
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
def _privately(w: Wave, memory: Memory) -> Iterator[None]:
    if memory.private:
        w.e.do(f"store i32 {memory.private}, ptr {w.e.block_field('strong')}")
    yield
    if memory.private:
        w.e.do(f"store i32 0, ptr {w.e.block_field('strong')}")


def _pieces(memory: Memory, words: int) -> list[tuple[int, int]]:
    """First words and counts of accesses that the core makes at a time: 3 are 2 and 1."""
    if not memory.is_whole:
        return [(word, 1) for word in range(words)]
    return [(0, 2), (2, 1)] if words == 3 else [(0, words)]


def _load(w: Wave, memory: Memory, first: int, bits: int, count: int = 1) -> list[str]:
    """Elements from the access's byte `first` on."""
    at, mask = memory.at(first, bits // 8 * count)
    with _privately(w, memory):
        if memory.is_whole or bits == 8:
            found = load(w.e, memory.space, at, bits, count, mask)
        else:
            found = [_load_apart(w, memory, first, bits, at, mask)]
    return [where(w, mask, bits, value) for value in found]


def where(w: Wave, mask: str, bits: int, value: str) -> str:
    """What was loaded where a mask holds, and 0 elsewhere."""
    kind = f"u{bits}"
    return w.x.select(kind, w.e.as_lanes(mask), value, w.x.const(kind, 0)) if mask else value


def _store(w: Wave, memory: Memory, first: int, bits: int, values: Sequence[str]) -> None:
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


def _load_apart(w: Wave, memory: Memory, first: int, bits: int, at: str, mask: str) -> str:
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
    w: Wave, memory: Memory, first: int, value: str, bits: int, at: str, mask: str
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


def _load_words(w: Wave, memory: Memory, words: int) -> list[str]:
    pieces = _pieces(memory, words)
    return [v for first, count in pieces for v in _load(w, memory, 4 * first, 32, count)]


def _store_words(w: Wave, memory: Memory, values: Sequence[str]) -> None:
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


def memory_of(w: Wave, kind: str) -> Memory:
    """The memory that an access reaches."""
    if kind == "ds":
        return shared(w, w.item.modifiers.get("offset", 0))
    if kind == "buffer":
        buffer = Buffer.of(w)
        at = lambda byte, nbytes: buffer.at(w, byte, nbytes)
        return Memory("global", at, is_whole=False, private=buffer.is_private(w))
    address = _address(w, _SPACES[kind])
    if w.chip.has_scratch_register or kind == "global":
        return linear(w, _SPACES[kind], address)
    return _with_scratch(w, kind, address)


def shared(w: Wave, offset: int) -> Memory:
    """Shared memory at a register and an offset, whose sum has 32 bits."""
    base = w.lanes_of(w.item.operands["addr"])
    return shared_at(w, w.x.op("u32", "add", base, w.x.const("u32", offset)))


def shared_at(w: Wave, address: str) -> Memory:
    """Shared memory at an address of 32 bits for each lane."""
    if w.item.modifiers.get("gds"):
        raise Unsupported(f"{w.item.mnemonic} of memory that all workgroups share")
    return linear(w, "shared", w.x.resize("u32", "u64", address))


def linear(w: Wave, space: str, address: str) -> Memory:
    return Memory(
        space, lambda byte, _: (w.x.op("u64", "add", address, w.x.const("u64", byte)), "")
    )


def _with_scratch(w: Wave, kind: str, address: str) -> Memory:
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

    return Memory("global" if kind == "scratch" else "generic", at, is_whole=False, private=one)


def _small_load(name: str, kind: str, bits: int, has_sign: bool, half: bool | None) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        (value,) = _load(w, memory_of(w, kind), 0, bits)
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
        _set_words(w, _load_words(w, memory_of(w, kind), words))


def _small_store(name: str, kind: str, bits: int, is_high: bool) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        of = stored(w, kind)
        value = w.lanes_of(of)
        if is_high or of.high:
            value = w.x.op("u32", "lshr", value, w.x.const("u32", 16))
        _store(w, memory_of(w, kind), 0, bits, [w.x.resize("u32", f"u{bits}", value)])


def stored(w: Wave, kind: str) -> Operand:
    return w.item.operands[_DATA.get(kind, "vdata")]


def _word_store(name: str, kind: str, words: int) -> None:
    @MEANINGS.of(name)
    def meaning(w: Wave) -> None:
        of = stored(w, kind)
        _store_words(w, memory_of(w, kind), [w.lanes_of(of, part) for part in range(words)])


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


def two_places(w: Wave, words: int, stride: int) -> list[Memory]:
    offsets = (w.item.modifiers[name] * 4 * words * stride for name in ("offset0", "offset1"))
    return [shared(w, offset) for offset in offsets]


def _pair(words: int, stride: int) -> None:
    suffix = f"2addr_{'stride64_' if stride > 1 else ''}b{32 * words}"

    @MEANINGS.of(f"ds_load_{suffix}")
    def read(w: Wave) -> None:
        places = two_places(w, words, stride)
        _set_words(w, [v for at in places for v in _load_words(w, at, words)])

    @MEANINGS.of(f"ds_store_{suffix}")
    def write(w: Wave) -> None:
        for at, name in zip(two_places(w, words, stride), ("data0", "data1"), strict=True):
            of = w.item.operands[name]
            _store_words(w, at, [w.lanes_of(of, i) for i in range(words)])


for _words in (1, 2):
    for _stride in (1, 64):
        _pair(_words, _stride)


# -- lanes by way of LDS's crossbar


def _other_lanes(w: Wave) -> str:
    """The lane that each lane names: a quarter of an address, around the end of the wave."""
    x = w.x
    address = x.op("u32", "add", w.lanes_of(w.item.operands["addr"]),
                   x.const("u32", w.item.modifiers.get("offset", 0)))  # fmt: skip
    return x.bits(address, 2, w.width.bit_length() - 1)


@MEANINGS.of("ds_bpermute_b32")
def _fetch(w: Wave) -> None:
    x, lanes = w.x, _other_lanes(w)
    moved = gather(w, w.lanes_of(w.item.operands["data0"]), lanes)
    active = x.truth("u32", gather(w, x.from_flag("u32", w.e.mask), lanes))
    w.set_bits(32, x.select("u32", active, moved, x.const("u32", 0)))


@MEANINGS.of("ds_bpermute_fi_b32")
def _fetch_from_any(w: Wave) -> None:
    """Also from lanes that do not act."""
    w.set_bits(32, gather(w, w.lanes_of(w.item.operands["data0"]), _other_lanes(w)))


@MEANINGS.of("ds_permute_b32")
def _send(w: Wave) -> None:
    """Each lane sends to another; of several the last one counts, and who gets nothing gets 0."""
    x, e, lanes, shape = w.x, w.e, _other_lanes(w), w.e.lanes("i32")
    sent, found = w.lanes_of(w.item.operands["data0"]), x.const("u32", 0)
    for lane in range(w.width):
        value = e.op(f"extractelement {shape} {sent}, i32 {lane}")
        to = e.op(f"extractelement {shape} {lanes}, i32 {lane}")
        acts = e.op(f"extractelement {e.lanes('i1')} {e.mask}, i32 {lane}")
        put = e.op(f"insertelement {shape} {found}, i32 {value}, i32 {to}")
        found = e.op(f"select i1 {acts}, {shape} {put}, {shape} {found}")
    w.set_bits(32, found)


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
