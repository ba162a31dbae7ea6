"""Functions of a simdgroup and a quadgroup: values of other lanes, sums over lanes, votes.

They are about the lanes that run the call together. What a lane gets of one that does not is all
ones, which is no number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.arithmetic import is_float
from treadle.emulate.air.emit import Emitter, float_kind
from treadle.emulate.air.handlers import Handlers
from treadle.emulate.air.machine import LANES, MACHINE, splat
from treadle.emulate.air.names import called
from treadle.emulate.air.syntax import AIRError, Constant, bits_of, parts
from treadle.emulate.simt.accesses import warp_sync
from treadle.emulate.simt.machine import ORDERS_ALL, ORDERS_GLOBAL, ORDERS_SHARED

if TYPE_CHECKING:
    from treadle.emulate.air.syntax import Instruction, Value

__all__ = ["HANDLERS", "iota", "ordered_memory"]

HANDLERS = Handlers()
_MEMORIES = {1: ORDERS_GLOBAL, 2: ORDERS_SHARED}  # mem_device, mem_threadgroup


def iota() -> str:
    """The number of each lane, as i32."""
    return MACHINE.constants("i32", range(LANES))


@HANDLERS.of("simdgroup.barrier")
def _barrier(e: Emitter, item: Instruction) -> None:
    """The lanes are all here: the block is one that gathers them."""
    warp_sync(e, ordered_memory(e, item))


def ordered_memory(e: Emitter, item: Instruction) -> int:
    """What a barrier orders beside who waits there: ORDERS_SHARED, ORDERS_GLOBAL, both or none."""
    if not e.layout.checks_fences:
        return ORDERS_ALL
    flags = item.operands[0]
    if not isinstance(flags, Constant) or not isinstance(flags.parts[0], int):
        raise AIRError(f"the mem_flags of {item.words[0]} are no constant")
    return sum(orders for flag, orders in _MEMORIES.items() if flags.parts[0] & flag)


# -- values of other lanes


def _lane_number(e: Emitter, value: Value) -> str:
    """An operand of any width as i32 lanes."""
    number, bits = e.one(value), bits_of(value.type)
    if bits < 32:
        return e.op(f"zext {e.lanes(f'i{bits}')} {number} to {e.lanes('i32')}")
    return number if bits == 32 else e.op(f"trunc {e.lanes('i64')} {number} to {e.lanes('i32')}")


def _table(e: Emitter, bits: int) -> str:
    """A function that gives each lane the value of the lane of a number."""
    shape, name = e.lanes(f"i{bits}"), f"lanes_from_{bits}"
    return e.need(
        name,
        f"""define internal {shape} @{name}({shape} %v, <{LANES} x i32> %n) noinline {{
entry:
  %from = alloca {shape}
  %numbers = alloca <{LANES} x i32>
  %out = alloca {shape}
  store {shape} %v, ptr %from
  store <{LANES} x i32> %n, ptr %numbers
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %pn = getelementptr i32, ptr %numbers, i64 %i
  %number = load i32, ptr %pn
  %bounded = and i32 %number, {LANES - 1}
  %wide = zext i32 %bounded to i64
  %px = getelementptr i{bits}, ptr %from, i64 %wide
  %x = load i{bits}, ptr %px
  %po = getelementptr i{bits}, ptr %out, i64 %i
  store i{bits} %x, ptr %po
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {LANES}
  br i1 %more, label %loop, label %done
done:
  %r = load {shape}, ptr %out
  ret {shape} %r
}}
""",
    )


def take(e: Emitter, value: str, numbers: str, bits: int) -> str:
    """Each lane's value of the lane of a number; that of a lane that is not here is all ones."""
    if bits == 1:
        wide = e.op(f"zext {e.lanes('i1')} {value} to {e.lanes('i8')}")
        return e.op(f"trunc {e.lanes('i8')} {take(e, wide, numbers, 8)} to {e.lanes('i1')}")
    shape = e.lanes(f"i{bits}")
    seen = e.select(e.mask, value, splat(bits, -1), bits)
    return e.op(f"call {shape} {_table(e, bits)}({shape} {seen}, {e.lanes('i32')} {numbers})")


@HANDLERS.of(
    "simd_shuffle", "simd_shuffle_down", "simd_shuffle_up", "simd_shuffle_xor", "simd_broadcast",
    "simd_shuffle_rotate_down", "simd_shuffle_rotate_up", "quad_shuffle", "quad_shuffle_down",
    "quad_shuffle_up", "quad_shuffle_xor", "quad_broadcast", "quad_shuffle_rotate_down",
    "quad_shuffle_rotate_up",
)  # fmt: skip
def _shuffle(e: Emitter, item: Instruction) -> None:
    group, _, how = called(item.words[0]).name.partition("_")
    size = LANES if group == "simd" else 4
    how = how.removeprefix("shuffle").removeprefix("_")
    shape = e.lanes("i32")
    number = _lane_number(e, item.operands[1])
    place = e.op(f"and {shape} {iota()}, {splat(32, size - 1)}")
    start = e.op(f"and {shape} {iota()}, {splat(32, -size)}")
    if how.endswith("down"):
        wanted = e.op(f"add {shape} {place}, {number}")
    elif how.endswith("up"):
        wanted = e.op(f"sub {shape} {place}, {number}")
    elif how == "xor":
        wanted = e.op(f"xor {shape} {place}, {number}")
    else:  # simd_shuffle and broadcast
        wanted = number
    inside = e.op(f"icmp ult {shape} {wanted}, {splat(32, size)}")
    wanted = e.op(f"and {shape} {wanted}, {splat(32, size - 1)}")
    source = e.op(f"or {shape} {start}, {wanted}")
    values = []
    for value, (_, kind) in zip(e.read(item.operands[0]), parts(item.type), strict=True):
        bits = bits_of(kind)
        found = take(e, value, source, bits)
        if how in ("down", "up"):  # lanes at the edge keep what they have
            found = e.select(inside, found, value, bits)
        values.append(found)
    e.write(item, values)


@HANDLERS.of("simd_shuffle_and_fill_up", "simd_shuffle_and_fill_down")
def _shuffle_and_fill(e: Emitter, item: Instruction) -> None:
    """Lanes move by a number in groups of `modulo`; what comes in is of the second operand."""
    value, filling, delta, modulo = item.operands
    shape = e.lanes("i32")
    step, size = _lane_number(e, delta), _lane_number(e, modulo)
    last = e.op(f"sub {shape} {size}, {splat(32, 1)}")
    place = e.op(f"and {shape} {iota()}, {last}")
    start = e.op(f"sub {shape} {iota()}, {place}")
    opcode = "sub" if item.words[0].startswith("air.simd_shuffle_and_fill_up") else "add"
    wanted = e.op(f"{opcode} {shape} {place}, {step}")
    inside = e.op(f"icmp ult {shape} {wanted}, {size}")
    source = e.op(f"add {shape} {start}, {e.op(f'and {shape} {wanted}, {last}')}")
    values = []
    rows = zip(e.read(value), e.read(filling), parts(item.type), strict=True)
    for mine, other, (_, kind) in rows:
        bits = bits_of(kind)
        moved, filled = take(e, mine, source, bits), take(e, other, source, bits)
        values.append(e.select(inside, moved, filled, bits))
    e.write(item, values)


@HANDLERS.of("simd_broadcast_first", "quad_broadcast_first")
def _broadcast_first(e: Emitter, item: Instruction) -> None:
    if item.words[0].startswith("air.quad"):
        raise AIRError(f"{item.words[0]} is not emulated")
    source = e.spread_scalar("i32", e.first_lane(e.mask_bits))
    kinds = [bits_of(kind) for _, kind in parts(item.type)]
    rows = zip(e.read(item.operands[0]), kinds, strict=True)
    e.write(item, [take(e, value, source, bits) for value, bits in rows])


# -- over all lanes

_IDENTITIES = {
    "sum": 0.0, "product": 1.0, "max": float("-inf"), "min": float("inf"), "and": -1, "or": 0,
    "xor": 0,
}  # fmt: skip
_INTEGERS = {"sum": "add", "product": "mul", "and": "and", "or": "or", "xor": "xor"}
_FLOAT_SPLATS = {0.0: "zeroinitializer", 1.0: "splat (float 1.0)",
                 float("inf"): "splat (float 0x7FF0000000000000)",
                 float("-inf"): "splat (float 0xFFF0000000000000)"}  # fmt: skip


def _rotated(e: Emitter, value: str, shape: str, sources: list[int]) -> str:
    mask = MACHINE.constants("i32", sources)
    return e.op(f"shufflevector {shape} {value}, {shape} poison, {e.lanes('i32')} {mask}")


class _Sum:
    """How two values of a type are combined, and what changes nothing."""

    def __init__(self, e: Emitter, how: str, item: Instruction) -> None:
        self.e, self.how, self.sign = e, how, called(item.words[0]).sign
        self.kind = float_kind(item.type) if is_float(item.type) else ""
        self.bits = bits_of(parts(item.type)[0][1])
        self.shape = e.lanes("float" if self.kind else f"i{self.bits}")

    def open(self, value: str) -> str:
        return self.e.widen(value, self.kind, "float") if self.kind else value

    def close(self, value: str) -> str:
        return self.e.narrow(value, "float", self.kind) if self.kind else value

    @property
    def nothing(self) -> str:
        if self.kind:
            return _FLOAT_SPLATS[_IDENTITIES[self.how]]
        if self.how in ("max", "min"):
            low = 0 if self.sign == "u" else 1 << (self.bits - 1)
            return splat(self.bits, low if self.how == "max" else low - 1)
        return splat(self.bits, int(_IDENTITIES[self.how]))

    def combine(self, a: str, b: str) -> str:
        e = self.e
        if self.how in ("max", "min"):
            letter = "l" if self.how == "min" else "g"
            compare = f"fcmp o{letter}t" if self.kind else f"icmp {self.sign}{letter}t"
            first = e.op(f"{compare} {self.shape} {a}, {b}")
            if self.kind:
                wrong = e.op(f"fcmp uno {self.shape} {b}, {b}")
                first = e.op(f"or {e.lanes('i1')} {first}, {wrong}")
            return e.op(f"select {e.lanes('i1')} {first}, {self.shape} {a}, {self.shape} {b}")
        opcode = _INTEGERS[self.how]
        return e.op(f"{'f' if self.kind else ''}{opcode} {self.shape} {a}, {b}")

    def choose(self, lanes: str, yes: str, no: str) -> str:
        shape = self.shape
        return self.e.op(f"select {self.e.lanes('i1')} {lanes}, {shape} {yes}, {shape} {no}")


@HANDLERS.of(*(f"{group}_{how}" for group in ("simd", "quad") for how in _IDENTITIES))
def _reduce(e: Emitter, item: Instruction) -> None:
    """A tree of neighbours, of floats in float32."""
    group, how = called(item.words[0]).name.split("_")
    way = _Sum(e, how, item)
    values = []
    for value in e.read(item.operands[0]):
        total = way.choose(e.mask, way.open(value), way.nothing)
        step = 1
        while step < (LANES if group == "simd" else 4):
            others = _rotated(e, total, way.shape, [lane ^ step for lane in range(LANES)])
            total = way.combine(total, others)
            step *= 2
        values.append(way.close(total))
    e.write(item, values)


@HANDLERS.of(*(f"simd_prefix_{which}_{how}" for which in ("inclusive", "exclusive")
               for how in ("sum", "product")))  # fmt: skip
def _prefix(e: Emitter, item: Instruction) -> None:
    _, _, which, how = called(item.words[0]).name.split("_")
    way = _Sum(e, how, item)
    values = []
    for value in e.read(item.operands[0]):
        total = way.choose(e.mask, way.open(value), way.nothing)
        for step in (1, 2, 4, 8, 16):
            total = way.combine(_shifted(e, way, total, step), total)
        if which == "exclusive":
            total = _shifted(e, way, total, 1)
        values.append(way.close(total))
    e.write(item, values)


def _shifted(e: Emitter, way: _Sum, value: str, step: int) -> str:
    """Values of lanes `step` before, and what changes nothing in the first ones."""
    moved = _rotated(e, value, way.shape, [max(lane - step, 0) for lane in range(LANES)])
    first = MACHINE.constants("i1", [int(lane >= step) for lane in range(LANES)])
    return way.choose(first, moved, way.nothing)


# -- votes


def _voted(e: Emitter, item: Instruction) -> str:
    """The lanes here whose operand is true, as a mask."""
    flags, value = e.lanes("i1"), e.one(item.operands[0])
    if bits_of(item.operands[0].type) != 1:
        bits = bits_of(item.operands[0].type)
        value = e.op(f"icmp ne {e.lanes(f'i{bits}')} {value}, zeroinitializer")
    return e.as_mask(e.op(f"and {flags} {value}, {e.mask}"))


@HANDLERS.of("simd_any", "simd_all")
def _vote(e: Emitter, item: Instruction) -> None:
    votes = _voted(e, item)
    all_here = item.words[0].startswith("air.simd_all")
    compare = f"icmp eq i32 {votes}, {e.mask_bits}" if all_here else f"icmp ne i32 {votes}, 0"
    e.write(item, [e.spread_scalar("i1", e.op(compare))])


@HANDLERS.of("simd_ballot", "simd_vote_all", "simd_active_threads_mask")
def _ballot(e: Emitter, item: Instruction) -> None:
    votes = _voted(e, item) if item.operands else e.mask_bits
    bits = bits_of(item.type)
    if bits != 32:
        votes = e.op(f"zext i32 {votes} to i{bits}")
    e.write(item, [e.spread_scalar(f"i{bits}", votes)])


@HANDLERS.of("simd_is_first")
def _is_first(e: Emitter, item: Instruction) -> None:
    first = e.spread_scalar("i32", e.first_lane(e.mask_bits))
    e.write(item, [e.op(f"icmp eq {e.lanes('i32')} {iota()}, {first}")])


@HANDLERS.of("get_simdgroup_size")
def _size(e: Emitter, item: Instruction) -> None:
    e.write(item, [splat(bits_of(item.type), LANES)])
