"""Memory by way of a resource: four scalar registers that say where a buffer lies and how.

An element is found by an index (a record of `stride` bytes) and an offset into the record. In a
swizzled buffer the records of `index_stride` neighbours take turns after each element: that is how
scratch memory has the same word of all lanes side by side. Where the offset or the index is outside
of the buffer, loads give 0 and stores do nothing.

    offset, index -> addresses, and the lanes that are inside

The fields and rules are in the manuals of the instruction sets ("Buffer resource descriptor",
"Range checking"); offsets by a scalar register count where ranges are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.emulate.amd.wave import Unsupported
from treadle.emulate.simt.emit import Emitter
from treadle.emulate.simt.values import Values

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__ = ["Buffer", "swizzled"]

_ADDS_LANE = 23  # the bit of the fourth word that adds the lane's number to the index


@dataclass(frozen=True)
class Buffer:
    """What a buffer instruction accesses: four words, a scalar offset, an offset for each lane."""

    words: list[str]
    scalar: str
    index: str
    offset: str

    @classmethod
    def of(cls, w: Wave) -> Buffer:
        """That of the instruction."""
        x, item = w.x, w.item
        asm = item.row.asm
        if any(flag in asm for flag in (" lds", "$tfe", " tfe")):
            raise Unsupported(f"{item.mnemonic} with lds or tfe")
        resource, place = item.operands["srsrc"], item.operands.get("vaddr")
        index = offset = x.const("u32", 0)
        if place is not None:
            has_index = "idxen" in asm
            index = w.vector(place) if has_index else index
            offset = w.vector(place, int(has_index)) if "offen" in asm else offset
        offset = x.op("u32", "add", offset, x.const("u32", item.modifiers.get("offset", 0)))
        words = [w.scalar(resource, part=part) for part in range(4)]
        return cls(words, w.scalar(item.operands["soffset"]), index, offset)

    @property
    def _arguments(self) -> list[str]:
        return [f"i32 {value}" for value in (*self.words, self.scalar)]

    def at(self, w: Wave, byte: int, nbytes: int) -> tuple[str, str]:
        """Addresses of so many bytes from the access's `byte` on, and the mask of lanes inside."""
        e, shape = w.e, w.e.lanes("i32")
        pair = f"{{{e.lanes('i64')}, {e.machine.mask}}}"
        offset = w.x.op("u32", "add", self.offset, w.x.const("u32", byte))
        arguments = [*self._arguments, f"{shape} {self.index}", f"{shape} {offset}"]
        function = _places(w, nbytes)
        found = e.op(f"call {pair} {function}({', '.join(arguments)})")
        inside = e.op(f"extractvalue {pair} {found}, 1")
        inside = e.op(f"and {e.machine.mask} {inside}, {e.mask_bits}")
        return e.op(f"extractvalue {pair} {found}, 0"), inside

    def is_private(self, w: Wave) -> str:
        """1 where the buffer has a part for each lane, else 0."""
        return w.s.bits(self.words[3], _ADDS_LANE, 1)


def _places(w: Wave, nbytes: int) -> str:
    """A function of the words, the scalar offset, indices and offsets: addresses and a mask."""
    e = Emitter(w.e.machine)
    x, s = Values(e, is_scalar=False), Values(e, is_scalar=True)
    generation = w.chip.generation
    field = lambda word, low, count: s.bits(f"%w{word}", low, count)
    stride, size = field(1, 16, 14), "%w2"
    adds_lane = s.truth("u32", field(3, _ADDS_LANE, 1))
    if generation == 9:
        # Where lanes are added, the format is no format.
        more = s.op("u32", "shl", field(3, 15, 4), "14")
        stride = s.select("u32", adds_lane, s.op("u32", "or", stride, more), stride)
    swizzle = field(1, 31, 1) if generation < 11 else field(1, 30, 2)
    is_swizzled = s.truth("u32", swizzle)
    element = s.op("u32", "shl", "2", swizzle)  # 4, or by two bits 4, 8 or 16
    neighbours = s.op("u32", "shl", "8", field(3, 21, 2))
    lanes = x.select("u32", e.spread_scalar("i1", adds_lane), _lane_numbers(e), x.const("u32", 0))
    index = x.op("u32", "add", "%index", lanes)
    spread = lambda value: e.spread_scalar("i32", value)
    linear = x.op("u32", "add", "%offset", x.op("u32", "mul", spread(stride), index))
    turned = swizzled(x, "%offset", index, *(map(spread, (stride, element, neighbours))))
    within = x.select("u32", e.spread_scalar("i1", is_swizzled), turned, linear)
    base = s.pair("%w0", field(1, 0, 16))
    base = s.op("u64", "add", base, s.resize("u32", "u64", "%scalar"))
    wide = x.resize("u32", "u64", within)
    address = x.op("u64", "add", e.spread_scalar("i64", base), wide)
    check = _is_inside9 if generation == 9 else _is_inside
    inside = check(x, s, linear, index, stride, size, is_swizzled, nbytes)
    pair = f"{{{e.lanes('i64')}, {e.machine.mask}}}"
    first = e.op(f"insertvalue {pair} poison, {e.lanes('i64')} {address}, 0")
    found = e.op(f"insertvalue {pair} {first}, {e.machine.mask} {e.as_mask(inside)}, 1")
    e.do(f"ret {pair} {found}")
    name, shape = f"amd_buffer_{nbytes}", e.lanes("i32")
    for helper, text in e.helpers.items():
        w.e.need(helper, text)
    words = ", ".join(f"i32 %w{n}" for n in range(4))
    head = f"define internal {pair} @{name}({words}, i32 %scalar, {shape} %index, {shape} %offset)"
    return w.e.need(name, f"{head} noinline {{\n" + "\n".join(e.lines) + "\n}")


def _lane_numbers(e: Emitter) -> str:
    return e.machine.constants("i32", range(e.machine.width))


def swizzled(x: Values, offset: str, index: str, stride: str, element: str, neighbours: str) -> str:
    """Where an element of a swizzled buffer lies; `element` and `neighbours` are powers of two."""
    each = lambda opcode, a, b: x.op("u32", opcode, a, b)
    group, place = each("udiv", index, neighbours), each("urem", index, neighbours)
    row, byte = each("udiv", offset, element), each("urem", offset, element)
    before = each("add", each("mul", group, stride), each("mul", row, element))
    return each(
        "add", each("mul", before, neighbours), each("add", each("mul", place, element), byte)
    )


def _is_inside9(
    x: Values, s: Values, linear: str, index: str, stride: str, size: str, swizzle: str, _: int
) -> str:
    """By index in swizzled buffers of records, else by the first byte's offset."""
    e = x.e
    has_records = s.both(swizzle, s.truth("u32", stride))
    by_index = x.compare("u32", "ult", index, e.spread_scalar("i32", size))
    by_offset = _below(x, linear, size, 1)
    return e.op(f"select i1 {has_records}, {x.flag} {by_index}, {x.flag} {by_offset}")


def _is_inside(
    x: Values, s: Values, linear: str, index: str, stride: str, size: str, swizzle: str, nbytes: int
) -> str:
    """As two bits of the resource say: by index and record, by index, not at all, or by offset."""
    e = x.e
    how = s.bits("%w3", 28, 2)
    by_index = x.compare("u32", "ult", index, e.spread_scalar("i32", size))
    in_record = _ends_by(x, "%offset", e.spread_scalar("i32", stride), nbytes)
    some = e.spread_scalar("i1", s.truth("u32", size))
    has_records = s.both(swizzle, s.truth("u32", stride))
    by_offset = e.op(
        f"select i1 {has_records}, {x.flag} {_below(x, '%offset', size, 1)}, "
        f"{x.flag} {_below(x, linear, size, nbytes)}"
    )
    found = by_offset
    for number, test in ((2, some), (1, by_index), (0, x.both(by_index, in_record))):
        chosen = s.compare("u32", "eq", how, str(number))
        found = e.op(f"select i1 {chosen}, {x.flag} {test}, {x.flag} {found}")
    return found


def _below(x: Values, offset: str, size: str, nbytes: int) -> str:
    """Whether bytes end within a size, the scalar offset added."""
    wide = x.resize("u32", "u64", offset)
    more = x.e.op("zext i32 %scalar to i64")
    last = x.op("u64", "add", wide, x.e.spread_scalar("i64", more))
    limit = x.e.spread_scalar("i64", x.e.op(f"zext i32 {size} to i64"))
    end = x.op("u64", "add", last, x.const("u64", nbytes))
    return x.compare("u64", "ule", end, limit)


def _ends_by(x: Values, offset: str, limit: str, nbytes: int) -> str:
    end = x.op("u64", "add", x.resize("u32", "u64", offset), x.const("u64", nbytes))
    return x.compare("u64", "ule", end, x.resize("u32", "u64", limit))
