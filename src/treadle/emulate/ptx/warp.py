"""What the threads of a warp do together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ptx.emit import Handlers, float_lanes, lanes, splat
from treadle.emulate.ptx.flow import VOTED
from treadle.emulate.ptx.machine import LANES
from treadle.emulate.ptx.syntax import Immediate, Operand, Pair, Sink
from treadle.emulate.simt.accesses import warp_sync

if TYPE_CHECKING:
    from treadle.emulate.ptx.emit import Emitter, Modifiers
    from treadle.emulate.ptx.syntax import Instruction

__all__ = ["HANDLERS", "member_mask", "permute"]

HANDLERS = Handlers()
_IOTA = "<" + ", ".join(f"i32 {lane}" for lane in range(LANES)) + ">"
_FULL = Immediate(-1)


def member_mask(e: Emitter, item: Instruction) -> str:
    """The lanes that execute an instruction together, a scalar i32."""
    if item.opcode in ("shfl", "vote", "match", "redux", "elect"):
        return e.first(item.operands[-1], 32)
    if item.opcode == "bar":
        return e.first(item.operands[0] if item.operands else _FULL, 32)
    return "-1"


def _pair(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, Sink())


def permute(e: Emitter, value: str, source: str, bits: int = 32) -> str:
    """value[source] in each lane; `source` is lanes of 0 to 31."""
    shape, name = lanes(bits), f"permute{bits}"
    function = e.need(
        name,
        f"""define internal {shape} @{name}({shape} %v, <32 x i32> %s) noinline {{
entry:
  %from = alloca {shape}
  %at = alloca <32 x i32>
  %to = alloca {shape}
  store {shape} %v, ptr %from
  store <32 x i32> %s, ptr %at
  br label %loop
loop:
  %n = phi i64 [0, %entry], [%next, %loop]
  %pi = getelementptr i32, ptr %at, i64 %n
  %i = load i32, ptr %pi
  %w = zext i32 %i to i64
  %px = getelementptr i{bits}, ptr %from, i64 %w
  %x = load i{bits}, ptr %px
  %po = getelementptr i{bits}, ptr %to, i64 %n
  store i{bits} %x, ptr %po
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, 32
  br i1 %more, label %loop, label %done
done:
  %r = load {shape}, ptr %to
  ret {shape} %r
}}
""",
    )
    return e.op(f"call {shape} {function}({shape} {value}, <32 x i32> {source})")


@HANDLERS.of("shfl")
def _shuffle(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b32",))
    m.flag("sync")
    mode = m.one_of(("up", "down", "bfly", "idx"))
    result, value, b, c = item.operands[:4]
    if not mode:
        raise m.fail()
    first, second = _pair(result)
    data = e.read(value, 32)
    if isinstance(b, Immediate) and isinstance(c, Immediate):
        rows = [_source(mode, lane, b.value, c.value) for lane in range(LANES)]
        places = ", ".join(f"i32 {source}" for source, _ in rows)
        moved = e.op(f"shufflevector {lanes(32)} {data}, {lanes(32)} poison, <32 x i32> <{places}>")
        bits = sum(inside << lane for lane, (_, inside) in enumerate(rows))
        inside = e.op(f"bitcast i32 {bits} to {lanes(1)}")
    else:
        source, inside = _sources(e, mode, e.read(b, 32), e.read(c, 32))
        moved = permute(e, data, source)
    e.write_predicate(second, inside)
    e.write(first, moved, 32)


def _source(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The lane that one lane reads, and whether it is inside its segment."""
    b, segment, limit = b & 31, c >> 8 & 31, c & 31
    most = (lane & segment) | (limit & ~segment)
    least = lane & segment
    if mode == "up":
        source = lane - b
        inside = source >= most
    else:
        source = {"down": lane + b, "bfly": lane ^ b, "idx": least | (b & ~segment)}[mode]
        inside = source <= most
    return (source & 31 if inside else lane), inside


def _sources(e: Emitter, mode: str, b: str, c: str) -> tuple[str, str]:
    """The same with operands that differ from lane to lane."""
    shape = lanes(32)

    def both(a: str, b: str) -> str:
        return e.op(f"and {shape} {a}, {b}")

    b = both(b, splat(32, 31))
    segment = both(e.op(f"lshr {shape} {c}, {splat(32, 8)}"), splat(32, 31))
    others = e.op(f"xor {shape} {segment}, {splat(32, -1)}")
    least = both(_IOTA, segment)
    most = e.op(f"or {shape} {least}, {both(both(c, splat(32, 31)), others)}")
    if mode == "idx":
        source = e.op(f"or {shape} {least}, {both(b, others)}")
    else:
        opcode = {"up": "sub", "down": "add", "bfly": "xor"}[mode]
        source = e.op(f"{opcode} {shape} {_IOTA}, {b}")
    inside = e.op(f"icmp {'sge' if mode == 'up' else 'sle'} {shape} {source}, {most}")
    chosen = e.op(f"select {lanes(1)} {inside}, {shape} {source}, {shape} {_IOTA}")
    return both(chosen, splat(32, 31)), inside


@HANDLERS.of("vote")
def _vote(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("pred", "b32"))
    if not m.flag("sync"):
        raise m.fail("needs .sync")
    mode = m.one_of(("all", "any", "uni", "ballot"))
    result, predicate, member = item.operands
    here = e.op(f"and i32 {e.mask_bits}, {e.first(member, 32)}")
    bits = e.op(f"bitcast {lanes(1)} {e.read_predicate(predicate)} to i32")
    bits = e.op(f"and i32 {bits}, {here}")
    if mode == "ballot" and kind == "b32":
        e.write(result, e.spread(bits), 32)
        return
    every, none = e.op(f"icmp eq i32 {bits}, {here}"), e.op(f"icmp eq i32 {bits}, 0")
    found = {
        "all": lambda: every,
        "any": lambda: e.op(f"xor i1 {none}, true"),
        "uni": lambda: e.op(f"or i1 {every}, {none}"),
    }.get(mode)
    if found is None or kind != "pred":
        raise m.fail()
    e.write_predicate(result, e.spread(found(), 1))


@HANDLERS.of("activemask")
def _active(e: Emitter, item: Instruction, m: Modifiers) -> None:
    m.type(("b32",))
    e.write(item.operands[0], e.spread(e.mask_bits), 32)


@HANDLERS.of("match")
def _match(e: Emitter, item: Instruction, m: Modifiers) -> None:
    bits = {"b32": 32, "b64": 64}[m.type(("b32", "b64"))]
    mode = m.one_of(("any", "all"))
    if not m.flag("sync") or not mode:
        raise m.fail()
    result, value, member = item.operands
    here = e.op(f"and i32 {e.mask_bits}, {e.first(member, 32)}")
    data = e.read(value, bits)
    found = e.op(f"call {lanes(32)} {_matches(e, bits)}({lanes(bits)} {data}, i32 {here})")
    first, second = _pair(result)
    if mode == "any":
        e.write(first, found, 32)
        return
    same = e.op(f"icmp eq {lanes(32)} {found}, {e.spread(here)}")
    e.write_predicate(second, same)
    e.write(first, e.op(f"select {lanes(1)} {same}, {lanes(32)} {found}, "
                        f"{lanes(32)} zeroinitializer"), 32)  # fmt: skip


def _matches(e: Emitter, bits: int) -> str:
    """A function that gives each lane the lanes of a mask whose value is the same as its own."""
    shape, name = lanes(bits), f"matches{bits}"
    return e.need(
        name,
        f"""define internal <32 x i32> @{name}({shape} %v, i32 %mask) noinline {{
entry:
  %from = alloca {shape}
  store {shape} %v, ptr %from
  br label %loop
loop:
  %n = phi i32 [0, %entry], [%next, %loop]
  %all = phi <32 x i32> [zeroinitializer, %entry], [%more, %loop]
  %w = zext i32 %n to i64
  %px = getelementptr i{bits}, ptr %from, i64 %w
  %x = load i{bits}, ptr %px
  %one = insertelement {shape} poison, i{bits} %x, i32 0
  %every = shufflevector {shape} %one, {shape} poison, <32 x i32> zeroinitializer
  %same = icmp eq {shape} %every, %v
  %moved = shl i32 1, %n
  %bit = and i32 %moved, %mask
  %put = insertelement <32 x i32> poison, i32 %bit, i32 0
  %bits = shufflevector <32 x i32> %put, <32 x i32> poison, <32 x i32> zeroinitializer
  %mine = select <32 x i1> %same, <32 x i32> %bits, <32 x i32> zeroinitializer
  %more = or <32 x i32> %all, %mine
  %next = add i32 %n, 1
  %again = icmp ult i32 %next, 32
  br i1 %again, label %loop, label %done
done:
  ret <32 x i32> %more
}}
""",
    )


_REDUCTIONS = {
    ("add", "u32"): ("add", 0), ("add", "s32"): ("add", 0), ("min", "u32"): ("umin", -1),
    ("max", "u32"): ("umax", 0), ("min", "s32"): ("smin", (1 << 31) - 1),
    ("max", "s32"): ("smax", 1 << 31), ("and", "b32"): ("and", -1), ("or", "b32"): ("or", 0),
    ("xor", "b32"): ("xor", 0),
}  # fmt: skip


@HANDLERS.of("redux")
def _reduce(e: Emitter, item: Instruction, m: Modifiers) -> None:
    kind = m.type(("u32", "s32", "b32", "f32"))
    if not m.flag("sync"):
        raise m.fail()
    if kind == "f32":
        _reduce_floats(e, item, m)
        return
    row = _REDUCTIONS.get((m.one_of(("add", "min", "max", "and", "or", "xor")), kind))
    if row is None:
        raise m.fail()
    result, value, member = item.operands
    here = e.op(f"and i32 {e.mask_bits}, {e.first(member, 32)}")
    mask = e.op(f"bitcast i32 {here} to {lanes(1)}")
    shape = lanes(32)
    data = e.op(
        f"select {lanes(1)} {mask}, {shape} {e.read(value, 32)}, {shape} {splat(32, row[1])}"
    )
    total = e.intrinsic(f"llvm.vector.reduce.{row[0]}.v32i32", "i32", f"{shape} {data}")
    e.write(result, e.spread(total), 32)


def _reduce_floats(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """The least or greatest of float32, -0 before +0; NaN is passed over unless .NaN asks for it.

    Bits of floats are in the order of signed integers once those of negative ones are inverted, but
    for the sign. Nobody's number has the neutral one's place.
    """
    name = m.one_of(("min", "max"))
    is_absolute, keeps_nan = m.flag("abs"), m.flag("NaN")
    if not name:
        raise m.fail()
    result, value, member = item.operands
    shape, neutral = lanes(32), 0x7FFFFFFF if name == "min" else 0x80000000
    here = e.op(f"and i32 {e.mask_bits}, {e.first(member, 32)}")
    mask = e.op(f"bitcast i32 {here} to {lanes(1)}")
    bits = e.read(value, 32)
    if is_absolute:
        bits = e.op(f"and {shape} {bits}, {splat(32, 0x7FFFFFFF)}")
    numbers = e.as_float(bits, "f32")
    wrong = e.op(f"fcmp uno {float_lanes('f32')} {numbers}, {numbers}")
    negative = e.op(f"ashr {shape} {bits}, {splat(32, 31)}")
    inverted = e.op(f"and {shape} {negative}, {splat(32, 0x7FFFFFFF)}")
    ordered = e.op(f"xor {shape} {bits}, {inverted}")
    right = e.op(f"xor {lanes(1)} {wrong}, {splat(1, 1)}")
    counted = e.op(f"and {lanes(1)} {mask}, {right}")
    data = e.op(f"select {lanes(1)} {counted}, {shape} {ordered}, {shape} {splat(32, neutral)}")
    total = e.intrinsic(f"llvm.vector.reduce.s{name}.v32i32", "i32", f"{shape} {data}")
    sign = e.op(f"ashr i32 {total}, 31")
    found = e.op(f"xor i32 {total}, {e.op(f'and i32 {sign}, {0x7FFFFFFF}')}")
    is_none = e.op(f"icmp eq i32 {total}, {neutral}")
    if keeps_nan:
        some = e.op(f"bitcast {lanes(1)} {e.op(f'and {lanes(1)} {mask}, {wrong}')} to i32")
        is_none = e.op(f"or i1 {is_none}, {e.op(f'icmp ne i32 {some}, 0')}")
    e.write(result, e.spread(e.op(f"select i1 {is_none}, i32 {0x7FFFFFFF}, i32 {found}")), 32)


@HANDLERS.of("elect")
def _elect(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not m.flag("sync"):
        raise m.fail()
    first, second = _pair(item.operands[0])
    here = e.op(f"and i32 {e.mask_bits}, {e.first(item.operands[1], 32)}")
    everywhere = e.spread(e.first_lane(here))
    e.write(first, everywhere, 32)
    e.write_predicate(second, e.op(f"icmp eq {lanes(32)} {everywhere}, {_IOTA}"))


@HANDLERS.of("bar")
def _warp_barrier(e: Emitter, item: Instruction, m: Modifiers) -> None:
    if not m.flag("warp") or not m.flag("sync"):
        raise m.fail()
    warp_sync(e)


@HANDLERS.of(VOTED)
def _voted(e: Emitter, item: Instruction, m: Modifiers) -> None:
    """The result of the bar.red that the block has just passed."""
    m.rest = [word for word in m.rest if word in ("popc", "and", "or")]
    mode = m.rest.pop()
    result, barrier = item.operands
    number = e.op(f"zext i32 {e.first(barrier, 32)} to i64")
    counts = []
    for name in ("last_voted", "last_arrived"):
        place = e.op(f"getelementptr i32, ptr {e.block_field(name)}, i64 {number}")
        counts.append(e.op(f"load i32, ptr {place}"))
    if mode == "popc":
        e.write(result, e.spread(counts[0]), 32)
        return
    compare = (
        f"icmp eq i32 {counts[0]}, {counts[1]}" if mode == "and" else f"icmp ne i32 {counts[0]}, 0"
    )
    e.write_predicate(result, e.spread(e.op(compare), 1))
