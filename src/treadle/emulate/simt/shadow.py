"""What is known of each byte of shared memory: who wrote and read it, and when.

Two shadows hold one word for each byte: `stamp << 11 | id` of its last write, and of its last read.
The stamp counts the block's synchronisations; it never goes back, so a new block needs no clearing:
what is older than its first stamp was not written by it. The id is the thread's number, or
1024 + warp where several threads of a warp did it, 1056 for threads of several warps, or 1057 for
an asynchronous copy, which is nobody's.

Two accesses, one a write, by different threads race if nothing orders them: the stamp of the
earlier one is later than the block's last barrier, or, within a warp whose lanes have counters of
their own, than their last synchronisation; a warp with one counter keeps its program's order.
Fences, acquires and releases count as barriers (what they order cannot be seen here), two writes
of one value are no race, and neither are lanes of one instruction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.code import LANES, Code, Variable
from treadle.emulate.simt.machine import LAST_STAMP, LOAD, STORE, TOUCH, Fault
from treadle.emulate.simt.moves import save_hosts

if TYPE_CHECKING:
    from treadle.emulate.simt.machine import Machine

__all__ = [
    "ASYNCHRONOUS", "ID_BITS", "OF_MANY", "OF_WARP", "check_name", "groups", "holds_value",
    "reduce_lanes", "shadow_functions",
]  # fmt: skip

ID_BITS = 11
OF_WARP, OF_MANY, ASYNCHRONOUS = 1024, 1056, 1057


def shadow_functions(m: Machine) -> list[str]:
    """check_shared for any access, and what it calls."""
    sized = [_check_sized(m, how, nbytes) for how in (LOAD, STORE, TOUCH) for nbytes in _sizes(m)]
    return [_check(m), *sized, _bounds(m), _judge(m), _races(m), _tick(m)]


def _sizes(m: Machine) -> tuple[int, ...]:
    """The bytes that a thread may access in one instruction."""
    return (1, 2, 4, 8, 16, 32) if m.needs_alignment else (1, 2, 4, 8, 12, 16, 32)


def _tick(m: Machine) -> str:
    """The next stamp; at the last one nothing is a race any more."""
    code = Code(m, "void", "tick", "ptr %block", "noinline")
    stamp = code.load("block", "stamp")

    def more() -> None:
        code.save("block", "stamp", code.op(f"add i32 {stamp}, 1"))

    def last() -> None:
        for name in ("barrier_stamp", "global_barrier_stamp"):
            code.save("block", name, stamp)

    code.when(code.op(f"icmp ult i32 {stamp}, {LAST_STAMP}"), more, last)
    code.do("ret void")
    return code.text


def check_name(how: int, nbytes: int) -> str:
    """The function that checks accesses of one kind and size."""
    return f"check_shared_{('load', 'store', 'touch')[how]}_{nbytes}"


def _check(m: Machine) -> str:
    """The lanes of the mask that may access shared memory; their host addresses are made."""
    code = Code(
        m, "MASK", "treadle_simt_check_shared", f"{LANES}, i32 %nbytes, i32 %how", "noinline"
    )
    for how in (LOAD, STORE, TOUCH):
        for nbytes in _sizes(m):
            is_how = code.op(f"icmp eq i32 %how, {how}")
            is_size = code.op(f"icmp eq i32 %nbytes, {nbytes}")
            call = f"call MASK @{check_name(how, nbytes)}({LANES})"
            code.when(
                code.op(f"and i1 {is_how}, {is_size}"),
                lambda call=call: code.leave(f"ret MASK {code.op(call)}"),
            )
    code.do("ret MASK 0")
    return code.text


def _bounds(m: Machine) -> str:
    """The lanes whose addresses are aligned and inside; reports the others."""
    code = Code(m, "MASK", "check_bounds", f"{LANES}, i32 %nbytes, i32 %how", "noinline cold")
    good = code.variable("MASK", "0")
    wide = code.wide("%nbytes")
    align = code.alignment(wide, "%how")
    odd = code.op(f"add i64 {align}, -1")
    limit = code.load("block", "shared_bytes", 64)

    def check(lane: str) -> None:
        address = code.lane_address(lane)
        last = code.op(f"add i64 {address}, {wide}")
        inside = code.op(f"icmp ule i64 {last}, {limit}")
        start = code.op(f"icmp ult i64 {address}, {limit}")
        rest = code.op(f"and i64 {address}, {odd}")

        def aligned() -> None:
            code.when(
                code.op(f"icmp eq i64 {rest}, 0"),
                lambda: code.add_lane(good, lane),
                lambda: code.report_misaligned(lane, address, align),
            )

        code.when(
            code.op(f"and i1 {inside}, {start}"),
            aligned,
            lambda: code.report(Fault.SHARED, lane, address, "%nbytes", code.as_extra(limit)),
        )

    code.each_lane("%mask", check)
    code.do(f"ret MASK {code.get(good)}")
    return code.text


def _check_sized(m: Machine, how: int, nbytes: int) -> str:
    """The checks for one kind and size: first all lanes are looked at, then all are noted."""
    code = Code(m, "MASK", check_name(how, nbytes), LANES, "noinline")
    code.when(code.is_empty("%mask"), lambda: code.leave("ret MASK 0"))
    good = code.variable("MASK", "%mask")
    addresses = code.op(f"load <W x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    high, every = (reduce_lanes(code, name, addresses) for name in ("umax", "or"))
    room = code.op(f"sub i64 {code.load('block', 'shared_bytes', 64)}, {nbytes}")
    outside = code.op(f"icmp sgt i64 {high}, {room}")
    wild = code.op(f"icmp slt i64 {high}, 0")
    align = nbytes if how == TOUCH else m.align(nbytes)
    odd = code.op(f"icmp ne i64 {code.op(f'and i64 {every}, {align - 1}')}, 0")
    wrong = code.op(f"or i1 {code.op(f'or i1 {outside}, {wild}')}, {odd}")
    bounds = f"call MASK @check_bounds({LANES}, i32 {nbytes}, i32 {how})"
    code.when(wrong, lambda: code.set(good, code.op(bounds)))
    shadows = _Shadows(code, how, nbytes)
    mask = code.get(good)
    leaders, grouped = groups(code, addresses, mask) if how == LOAD else (mask, "0")
    code.each_lane(leaders, lambda lane: shadows.look(code.lane_address(lane)))
    code.when(shadows.is_suspicious(), lambda: _judge_each(code, mask, how, nbytes))
    if how == STORE:
        some = code.op(f"icmp ne i32 {code.load('block', 'flight_count')}, 0")
        code.when(some, lambda: _check_flights(code, mask, nbytes))
    code.each_lane(
        leaders,
        lambda lane: shadows.note(
            code.lane_address(lane), *shadows.who(lane, grouped if how == LOAD else "")
        ),
    )
    save_hosts(code, addresses, code.load("block", "shared", 64))
    code.do(f"ret MASK {mask}")
    return code.text


def reduce_lanes(code: Code, how: str, addresses: str) -> str:
    """umin, umax or or of the addresses of the lanes of %mask."""
    otherwise = "splat (i64 -1)" if how == "umin" else "zeroinitializer"
    here = code.op("bitcast MASK %mask to <W x i1>")
    chosen = code.op(f"select <W x i1> {here}, <W x i64> {addresses}, <W x i64> {otherwise}")
    return code.op(f"call i64 @llvm.vector.reduce.{how}.vWi64(<W x i64> {chosen})")


def _check_flights(code: Code, mask: str, nbytes: int) -> None:
    code.each_lane(
        mask,
        lambda lane: code.do(
            f"call void @check_flights(ptr %block, ptr %warp, i32 %site, i32 {lane}, "
            f"i64 {code.lane_address(lane)}, i32 {nbytes})"
        ),
    )


def _judge_each(code: Code, mask: str, how: int, nbytes: int) -> None:
    code.each_lane(
        mask,
        lambda lane: code.do(
            f"call void @judge(ptr %block, ptr %warp, i32 %site, i32 {lane}, "
            f"i64 {code.lane_address(lane)}, i32 {nbytes}, i32 {how})"
        ),
    )


def groups(code: Code, addresses: str, mask: str) -> tuple[str, str]:
    """Lanes that load from elsewhere than the lane before, and those whose followers do not."""
    before_lane = [max(lane - 1, 0) for lane in range(code.machine.width)]
    picks = code.machine.constants("i32", before_lane)
    before = code.op(f"shufflevector <W x i64> {addresses}, <W x i64> poison, <W x i32> {picks}")
    same = code.op(f"icmp eq <W x i64> {addresses}, {before}")
    bits = code.op(f"bitcast <W x i1> {same} to MASK")
    both = code.op(f"and MASK {mask}, {code.op(f'shl MASK {mask}, 1')}")
    follows = code.op(f"and MASK {bits}, {both}")
    return code.without(mask, follows), code.op(f"lshr MASK {follows}, 1")


class _Shadows:
    """The shadows of some bytes in a row, as a check looks at them and notes an access."""

    def __init__(self, code: Code, how: int, nbytes: int) -> None:
        self.code, self.how, self.nbytes = code, how, nbytes
        self.shape, self.flags = f"<{nbytes} x i32>", f"<{nbytes} x i1>"
        self.written, self.read = code.pointer("block", "written"), code.pointer("block", "read")
        first = code.op(f"shl i32 {code.load('block', 'first_stamp')}, {ID_BITS}")
        self.before = code.op(f"shl i32 {code.load('block', 'barrier_stamp')}, {ID_BITS}")
        self.now = code.op(f"shl i32 {code.load('block', 'stamp')}, {ID_BITS}")
        self.warp = code.load("warp", "number")
        group = code.op(f"add i32 {self.warp}, {OF_WARP}")
        self.together = code.op(f"or i32 {self.now}, {group}")
        self.firsts = self._spread(first)
        self.limits = self._spread(code.op(f"or i32 {self.before}, {(1 << ID_BITS) - 1}"))
        self.oldest = code.variable(self.shape, "splat (i32 -1)")
        self.newest = code.variable(self.shape, "zeroinitializer")

    def _spread(self, value: str) -> str:
        return self.code.spread("i32", value, self.nbytes)

    def who(self, lane: str, grouped: str) -> tuple[str, str]:
        """The number of a lane's thread and the word that notes an access by it.

        Of a lane in the mask `grouped`, which stands for several, -1 and the word of the warp.
        """
        code = self.code
        id = code.op(f"or i32 {code.op(f'shl i32 {self.warp}, {code.machine.shift}')}, {lane}")
        own = code.op(f"or i32 {self.before if self.how == TOUCH else self.now}, {id}")
        if not grouped:
            return id, own
        several = code.has_lane(grouped, lane)
        return (
            code.op(f"select i1 {several}, i32 -1, i32 {id}"),
            code.op(f"select i1 {several}, i32 {self.together}, i32 {own}"),
        )

    def _words(self, table: str, offset: str) -> tuple[str, str]:
        place = self.code.at(table, offset, 4)
        return place, self.code.op(f"load {self.shape}, ptr {place}, align 4")

    def look(self, offset: str) -> None:
        """Takes the bytes at an offset into account."""
        _, w = self._words(self.written, offset)
        if self.how != STORE:
            self._keep("umin", self.oldest, w)
        if self.how != TOUCH:
            self._keep("umax", self.newest, w)
        if self.how == STORE:
            self._keep("umax", self.newest, self._words(self.read, offset)[1])

    def _keep(self, how: str, variable: Variable, value: str) -> None:
        code, shape = self.code, self.shape
        old = code.get(variable)
        compare = "ult" if how == "umin" else "ugt"
        better = code.op(f"icmp {compare} {shape} {value}, {old}")
        chosen = code.op(f"select {self.flags} {better}, {shape} {value}, {shape} {old}")
        code.set(variable, chosen)

    def is_suspicious(self) -> str:
        """Whether something that was looked at is unwritten, or as new as the last barrier."""
        code, shape = self.code, self.shape
        early = code.op(f"icmp ult {shape} {code.get(self.oldest)}, {self.firsts}")
        late = code.op(f"icmp ugt {shape} {code.get(self.newest)}, {self.limits}")
        either = code.op(f"or {self.flags} {early}, {late}")
        bits = code.op(f"bitcast {self.flags} {either} to i{self.nbytes}")
        return code.op(f"icmp ne i{self.nbytes} {bits}, 0")

    def note(self, offset: str, id: str, own: str) -> None:
        """Notes an access by the thread `id` (-1 for several of the warp) with its word."""
        code, mine = self.code, self._spread(own)
        if self.how != LOAD:
            place = code.at(self.written, offset, 4)
            code.do(f"store {self.shape} {mine}, ptr {place}, align 4")
            return
        shape, flags = self.shape, self.flags
        place, r = self._words(self.read, offset)
        ids, warps = self._spread(id), self._spread(self.warp)
        old = code.op(f"icmp ule {shape} {r}, {self.limits}")
        reader = code.op(f"and {shape} {r}, splat (i32 {(1 << ID_BITS) - 1})")
        same = code.op(f"icmp eq {shape} {reader}, {ids}")
        alone = code.op(f"or {flags} {old}, {same}")
        of_thread = code.op(f"lshr {shape} {reader}, splat (i32 {code.machine.shift})")
        of_warp = code.op(f"sub {shape} {reader}, splat (i32 {OF_WARP})")
        one = code.op(f"icmp eq {shape} {of_thread}, {warps}")
        several = code.op(f"icmp eq {shape} {of_warp}, {warps}")
        near = code.op(f"or {flags} {one}, {several}")
        together = self._spread(self.together)
        many = self._spread(code.op(f"or i32 {self.now}, {OF_MANY}"))
        group = code.op(f"select {flags} {near}, {shape} {together}, {shape} {many}")
        value = code.op(f"select {flags} {alone}, {shape} {mine}, {shape} {group}")
        code.do(f"store {shape} {value}, ptr {place}, align 4")


def _judge(m: Machine) -> str:
    """Reports what is wrong with one thread's access, byte by byte, if anything is."""
    code = Code(
        m, "void", "judge",
        "ptr %block, ptr %warp, i32 %site, i32 %lane, i64 %address, i32 %nbytes, i32 %how",
        "noinline cold",
    )  # fmt: skip
    written, read = code.pointer("block", "written"), code.pointer("block", "read")
    first = code.op(f"shl i32 {code.load('block', 'first_stamp')}, {ID_BITS}")
    is_store = code.op(f"icmp eq i32 %how, {STORE}")
    is_plain = code.op(f"icmp ne i32 %how, {TOUCH}")

    def fault(kind: Fault, extra: str) -> None:
        code.report(kind, "%lane", "%address", "%nbytes", extra)
        code.leave("ret void")

    def race(word: str, was_read: int) -> None:
        id = code.op(f"zext i32 {code.op(f'and i32 {word}, {(1 << ID_BITS) - 1}')} to i64")
        found = code.op(f"call i1 @races(ptr %block, ptr %warp, i32 %lane, i32 {word})")
        extra = code.as_extra(code.op(f"or i64 {id}, {was_read << 32}"))
        if was_read:
            code.when(found, lambda: fault(Fault.RACE, extra))
            return

        def unless_same() -> None:
            code.when(is_store, lambda: code.when(same_value(), lambda: code.leave("ret void")))
            fault(Fault.RACE, extra)

        code.when(found, unless_same)

    def same_value() -> str:
        return holds_value(code, code.at(code.pointer("block", "shared"), "%address"))

    def step(i: str) -> None:
        at = code.op(f"add i64 %address, {code.op(f'zext i32 {i} to i64')}")
        w = code.op(f"load i32, ptr {code.at(written, at, 4)}")
        r = code.op(f"load i32, ptr {code.at(read, at, 4)}")

        def unwritten() -> None:
            code.when(
                code.op(f"icmp ult i32 {w}, {first}"), lambda: fault(Fault.UNINITIALISED, "0")
            )

        code.when(is_store, lambda: race(r, 1), unwritten)
        code.when(is_plain, lambda: race(w, 0))

    code.count("%nbytes", step)
    code.do("ret void")
    return code.text


def holds_value(code: Code, there: str) -> str:
    """Whether all that a lane stores is at `there` already. Elements of all lanes lie together."""
    nbytes = code.op(f"call i32 @llvm.umax.i32(i32 {code.load('block', 'element')}, i32 1)")
    wide, lane = code.wide(nbytes), code.wide("%lane")
    differ = code.variable("i32", "0")

    def compare(i: str) -> None:
        part = code.wide(i)
        row = code.op(f"add i64 {code.op(f'shl i64 {part}, {code.machine.shift}')}, {lane}")
        mine = code.at(code.field("warp", "data"), code.op(f"mul i64 {row}, {wide}"))
        other = code.at(there, code.op(f"mul i64 {part}, {wide}"))
        found = code.op(f"call i32 @memcmp(ptr {mine}, ptr {other}, i64 {wide})")
        code.set(differ, code.op(f"or i32 {code.get(differ)}, {found}"))

    code.count(code.op(f"udiv i32 %nbytes, {nbytes}"), compare)
    return code.op(f"icmp eq i32 {code.get(differ)}, 0")


def _races(m: Machine) -> str:
    """Whether a noted access by another thread is ordered by nothing before this one."""
    code = Code(m, "i1", "races", "ptr %block, ptr %warp, i32 %lane, i32 %word", "noinline")
    warp = code.load("warp", "number")
    stamp = code.op(f"lshr i32 %word, {ID_BITS}")
    id = code.op(f"and i32 %word, {(1 << ID_BITS) - 1}")
    mine = code.op(f"or i32 {code.op(f'shl i32 {warp}, {m.shift}')}, %lane")
    barrier = code.load("block", "barrier_stamp")
    own = code.op(f"load i32, ptr {code.slot('block', 'warp_stamps', warp)}")
    later = code.op(f"icmp ugt i32 {own}, {barrier}")
    newest = code.op(f"select i1 {later}, i32 {own}, i32 {barrier}")
    near = code.op(f"icmp eq i32 {code.op(f'lshr i32 {id}, {m.shift}')}, {warp}")
    group = code.op(f"icmp eq i32 {code.op(f'sub i32 {id}, {OF_WARP}')}, {warp}")
    same_warp = code.op(f"or i1 {near}, {group}")
    # What one counter steps through is in the order of the program.
    newest = newest if m.has_lane_counters else "-1"
    since = code.op(f"select i1 {same_warp}, i32 {newest}, i32 {barrier}")
    unordered = code.op(f"icmp ugt i32 {stamp}, {since}")
    other = code.op(f"icmp ne i32 {id}, {mine}")
    code.do(f"ret i1 {code.op(f'and i1 {unordered}, {other}')}")
    return code.text
