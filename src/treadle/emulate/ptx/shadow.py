"""What is known of each byte of shared memory: who wrote and read it, and when.

Two shadows hold one word for each byte: `stamp << 11 | id` of its last write, and of its last read.
The stamp counts the block's synchronisations; it never goes back, so a new block needs no clearing:
what is older than its first stamp was not written by it. The id is the thread's number, or
1024 + warp where several threads of a warp did it, or 1056 for threads of several warps.

Two accesses, one a write, by different threads race if nothing orders them: the stamp of the
earlier one is later than the block's last barrier, or, within a warp, than its last `.sync`.
Fences, acquires and releases count as barriers (what they order cannot be seen here), two writes
of one value are no race, and neither are lanes of one instruction.
"""

from __future__ import annotations

from treadle.emulate.ptx.code import Code
from treadle.emulate.ptx.machine import BLOCK, LAST_STAMP, Fault

__all__ = ["LOAD", "STORE", "TOUCH", "shadow_functions"]

LOAD, STORE, TOUCH = 0, 1, 2  # what an access does; TOUCH is atomic
_ID_BITS = 11
_OF_WARP, _OF_MANY = 1024, 1056
_ACCESS = "ptr %block, ptr %warp, i32 %mask, i32 %line, i32 %nbytes, i32 %how"


def shadow_functions() -> list[str]:
    """check_shared for any access, and what it calls."""
    return [_check(), *(_note(chunk) for chunk in (1, 2, 4)), _judge(), _races(), _tick()]


def _tick() -> str:
    """The next stamp; at the last one nothing is a race any more."""
    code = Code("void", "tick", "ptr %block", "noinline")
    stamp = code.load("block", "stamp")

    def more() -> None:
        code.save("block", "stamp", code.op(f"add i32 {stamp}, 1"))

    def last() -> None:
        code.save("block", "barrier_stamp", stamp)

    code.when(code.op(f"icmp ult i32 {stamp}, {LAST_STAMP}"), more, last)
    code.do("ret void")
    return code.text


def _check() -> str:
    """The lanes of the mask that may access shared memory; their addresses become the host's."""
    code = Code("i32", "treadle_ptx_check_shared", _ACCESS, "noinline")
    code.when(code.op("icmp eq i32 %mask, 0"), lambda: code.leave("ret i32 0"))
    good = code.variable("i32", "0")
    wide = code.op("zext i32 %nbytes to i64")
    odd = code.op(f"add i64 {wide}, -1")
    limit = code.load("block", "shared_bytes", 64)
    base = code.load("block", "shared", 64)
    places = code.field("warp", "addresses")
    small = [code.op(f"icmp eq i32 %nbytes, {n}") for n in (1, 2)]

    def fault(kind: Fault, lane: str, address: str) -> None:
        code.do(
            f"call void @treadle_ptx_fault(ptr %block, ptr %warp, i32 {int(kind)}, i32 %line, "
            f"i32 {lane}, i64 {address}, i32 %nbytes, i64 {limit})"
        )

    def bounds(lane: str) -> None:
        place = code.at(places, code.op(f"zext i32 {lane} to i64"), 8)
        address = code.op(f"load i64, ptr {place}")
        last = code.op(f"add i64 {address}, {wide}")
        inside = code.op(f"icmp ule i64 {last}, {limit}")
        start = code.op(f"icmp ult i64 {address}, {limit}")

        def aligned() -> None:
            rest = code.op(f"and i64 {address}, {odd}")
            code.when(
                code.op(f"icmp eq i64 {rest}, 0"), right,
                lambda: fault(Fault.MISALIGNED, lane, address),
            )  # fmt: skip

        def right() -> None:
            bit = code.op(f"shl i32 1, {lane}")
            code.set(good, code.op(f"or i32 {code.get(good)}, {bit}"))

        code.when(
            code.op(f"and i1 {inside}, {start}"), aligned,
            lambda: fault(Fault.SHARED, lane, address),
        )  # fmt: skip

    code.each_lane("%mask", bounds)
    mask = code.get(good)
    arguments = f"ptr %block, ptr %warp, i32 {mask}, i32 %line, i32 %nbytes, i32 %how"

    def call(chunk: int) -> None:
        for update in (0, 1):
            code.do(f"call void @note_{chunk}({arguments}, i1 {update})")

    code.when(
        small[0], lambda: call(1), lambda: code.when(small[1], lambda: call(2), lambda: call(4))
    )
    before = code.op(f"load <32 x i64>, ptr {places}, align 64")
    one = code.op(f"insertelement <32 x i64> poison, i64 {base}, i32 0")
    spread = code.op(
        f"shufflevector <32 x i64> {one}, <32 x i64> poison, <32 x i32> zeroinitializer"
    )
    code.do(f"store <32 x i64> {code.op(f'add <32 x i64> {before}, {spread}')}, ptr {places}")
    code.do(f"ret i32 {mask}")
    return code.text


def _note(chunk: int) -> str:
    """Looks for what is wrong with an access (update 0), or notes it (1), by `chunk` bytes."""
    code = Code("void", f"note_{chunk}", f"{_ACCESS}, i1 %update", "noinline")
    shape, flags = f"<{chunk} x i32>", f"<{chunk} x i1>"
    written, read = code.pointer("block", "written"), code.pointer("block", "read")
    first = code.op(f"shl i32 {code.load('block', 'first_stamp')}, {_ID_BITS}")
    before = code.op(f"shl i32 {code.load('block', 'barrier_stamp')}, {_ID_BITS}")
    limit = code.op(f"or i32 {before}, {(1 << _ID_BITS) - 1}")
    now = code.op(f"shl i32 {code.load('block', 'stamp')}, {_ID_BITS}")
    warp = code.load("warp", "number")
    thread = code.op(f"shl i32 {warp}, 5")
    together = code.op(f"or i32 {now}, {code.op(f'add i32 {warp}, {_OF_WARP}')}")
    many = code.op(f"or i32 {now}, {_OF_MANY}")
    places = code.field("warp", "addresses")
    is_load = code.op(f"icmp eq i32 %how, {LOAD}")
    is_touch = code.op(f"icmp eq i32 %how, {TOUCH}")
    is_store = code.op(f"xor i1 {code.op(f'or i1 {is_load}, {is_touch}')}, true")

    def spread(value: str) -> str:
        one = code.op(f"insertelement {shape} poison, i32 {value}, i32 0")
        return code.op(
            f"shufflevector {shape} {one}, {shape} poison, <{chunk} x i32> zeroinitializer"
        )

    firsts, limits = spread(first), spread(limit)
    togethers, manies = spread(together), spread(many)
    mine = spread(warp)

    def any_of(value: str) -> str:
        bits = code.op(f"bitcast {flags} {value} to i{chunk}")
        return code.op(f"icmp ne i{chunk} {bits}, 0")

    def lane_step(lane: str) -> None:
        place = code.at(places, code.op(f"zext i32 {lane} to i64"), 8)
        offset = code.op(f"load i64, ptr {place}")
        id = code.op(f"or i32 {thread}, {lane}")
        own = spread(code.op(f"or i32 {now}, {id}"))
        ids = spread(id)
        calm = spread(code.op(f"or i32 {before}, {id}"))

        def bytes_step(i: str) -> None:
            at = code.op(f"add i64 {offset}, {code.op(f'zext i32 {i} to i64')}")
            # The loop counts chunks' bytes: i steps by one chunk, see below.
            w_place, r_place = code.at(written, at, 4), code.at(read, at, 4)
            w = code.op(f"load {shape}, ptr {w_place}, align 4")
            r = code.op(f"load {shape}, ptr {r_place}, align 4")
            code.when("%update", lambda: note(w_place, r_place, r), lambda: look(w, r))

        def look(w: str, r: str) -> None:
            raw = code.op(f"icmp ult {shape} {w}, {firsts}")
            new_w = code.op(f"icmp ugt {shape} {w}, {limits}")
            new_r = code.op(f"icmp ugt {shape} {r}, {limits}")
            bad_w, bad_r, bad_raw = any_of(new_w), any_of(new_r), any_of(raw)
            on_load = code.op(f"or i1 {bad_w}, {bad_raw}")
            on_store = code.op(f"or i1 {bad_w}, {bad_r}")
            other = code.op(f"select i1 {is_touch}, i1 {bad_raw}, i1 {on_store}")
            bad = code.op(f"select i1 {is_load}, i1 {on_load}, i1 {other}")
            code.when(
                bad,
                lambda: code.do(
                    f"call void @judge(ptr %block, ptr %warp, i32 %line, i32 {lane}, "
                    f"i64 {offset}, i32 %nbytes, i32 %how)"
                ),
            )

        def note(w_place: str, r_place: str, r: str) -> None:
            code.when(is_load, lambda: note_read(r_place, r))
            code.when(is_store, lambda: code.do(f"store {shape} {own}, ptr {w_place}, align 4"))
            code.when(is_touch, lambda: code.do(f"store {shape} {calm}, ptr {w_place}, align 4"))

        def note_read(r_place: str, r: str) -> None:
            old = code.op(f"icmp ule {shape} {r}, {limits}")
            reader = code.op(f"and {shape} {r}, splat (i32 {(1 << _ID_BITS) - 1})")
            same = code.op(f"icmp eq {shape} {reader}, {ids}")
            alone = code.op(f"or {flags} {old}, {same}")
            of_thread = code.op(f"lshr {shape} {reader}, splat (i32 5)")
            of_warp = code.op(f"sub {shape} {reader}, splat (i32 {_OF_WARP})")
            near = code.op(f"or {flags} {code.op(f'icmp eq {shape} {of_thread}, {mine}')}, "
                           f"{code.op(f'icmp eq {shape} {of_warp}, {mine}')}")  # fmt: skip
            shared = code.op(f"select {flags} {near}, {shape} {togethers}, {shape} {manies}")
            value = code.op(f"select {flags} {alone}, {shape} {own}, {shape} {shared}")
            code.do(f"store {shape} {value}, ptr {r_place}, align 4")

        i = code.variable("i32", "0")

        def step() -> None:
            current = code.get(i)
            bytes_step(current)
            code.set(i, code.op(f"add i32 {current}, {chunk}"))

        code.loop(lambda: code.op(f"icmp ult i32 {code.get(i)}, %nbytes"), step)

    code.each_lane("%mask", lane_step)
    code.do("ret void")
    return code.text


def _judge() -> str:
    """Reports what is wrong with one thread's access, byte by byte, if anything is."""
    code = Code(
        "void", "judge",
        "ptr %block, ptr %warp, i32 %line, i32 %lane, i64 %address, i32 %nbytes, i32 %how",
        "noinline cold",
    )  # fmt: skip
    written, read = code.pointer("block", "written"), code.pointer("block", "read")
    first = code.op(f"shl i32 {code.load('block', 'first_stamp')}, {_ID_BITS}")
    is_store = code.op(f"icmp eq i32 %how, {STORE}")
    is_plain = code.op(f"icmp ne i32 %how, {TOUCH}")

    def fault(kind: Fault, extra: str) -> None:
        code.do(
            f"call void @treadle_ptx_fault(ptr %block, ptr %warp, i32 {int(kind)}, i32 %line, "
            f"i32 %lane, i64 %address, i32 %nbytes, i64 {extra})"
        )
        code.leave("ret void")

    def race(word: str, was_read: int) -> None:
        id = code.op(f"zext i32 {code.op(f'and i32 {word}, {(1 << _ID_BITS) - 1}')} to i64")
        found = code.op(f"call i1 @races(ptr %block, ptr %warp, i32 %lane, i32 {word})")
        extra = code.op(f"or i64 {id}, {was_read << 32}")
        if was_read:
            code.when(found, lambda: fault(Fault.RACE, extra))
            return

        def unless_same() -> None:
            code.when(is_store, lambda: code.when(same_value(), lambda: code.leave("ret void")))
            fault(Fault.RACE, extra)

        code.when(found, unless_same)

    def same_value() -> str:
        base = code.pointer("block", "shared")
        lane = code.op("zext i32 %lane to i64")
        wide = code.op("zext i32 %nbytes to i64")
        mine = code.at(code.field("warp", "data"), code.op(f"mul i64 {lane}, {wide}"))
        there = code.at(base, "%address")
        differ = code.op(f"call i32 @memcmp(ptr {mine}, ptr {there}, i64 {wide})")
        return code.op(f"icmp eq i32 {differ}, 0")

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


def _races(name: str = "races") -> str:
    """Whether a noted access by another thread is ordered by nothing before this one."""
    code = Code("i1", name, "ptr %block, ptr %warp, i32 %lane, i32 %word", "noinline")
    warp = code.load("warp", "number")
    stamp = code.op(f"lshr i32 %word, {_ID_BITS}")
    id = code.op(f"and i32 %word, {(1 << _ID_BITS) - 1}")
    mine = code.op(f"or i32 {code.op(f'shl i32 {warp}, 5')}, %lane")
    barrier = code.load("block", "barrier_stamp")
    place = code.at("%block", BLOCK["warp_stamps"])
    own = code.op(f"load i32, ptr {code.at(place, code.op(f'zext i32 {warp} to i64'), 4)}")
    later = code.op(f"icmp ugt i32 {own}, {barrier}")
    newest = code.op(f"select i1 {later}, i32 {own}, i32 {barrier}")
    near = code.op(f"icmp eq i32 {code.op(f'lshr i32 {id}, 5')}, {warp}")
    group = code.op(f"icmp eq i32 {code.op(f'sub i32 {id}, {_OF_WARP}')}, {warp}")
    same_warp = code.op(f"or i1 {near}, {group}")
    since = code.op(f"select i1 {same_warp}, i32 {newest}, i32 {barrier}")
    unordered = code.op(f"icmp ugt i32 {stamp}, {since}")
    other = code.op(f"icmp ne i32 {id}, {mine}")
    code.do(f"ret i1 {code.op(f'and i1 {unordered}, {other}')}")
    return code.text
