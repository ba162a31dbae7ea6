"""Running the blocks of a grid: warps in turn, barriers between them, as LLVM IR.

A translated kernel runs one warp until its threads have exited, all wait, or its turn is over.
`treadle_simt_run` gives each warp of a block its turns and takes the next block when one is done;
any number of host threads may be in it. Threads that have exited no longer count at a barrier,
as on hardware. When nobody can go on, that is a deadlock and reported as one.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from treadle.emulate.simt.code import LANES, Code
from treadle.emulate.simt.global_rows import stamp_epoch
from treadle.emulate.simt.machine import (
    BARRIERS,
    ORDERS_ALL,
    ORDERS_GLOBAL,
    ORDERS_SHARED,
    SLICE,
    Fault,
)

if TYPE_CHECKING:
    from treadle.emulate.simt.front_end import FrontEnd
    from treadle.emulate.simt.machine import Machine

__all__ = ["BARRIER_SYMBOLS", "barrier_functions"]

BARRIER_SYMBOLS = (
    "treadle_simt_arrive", "treadle_simt_barrier_wait", "treadle_simt_exit", "treadle_simt_fence",
    "treadle_simt_warp_sync", "treadle_simt_run",
)  # fmt: skip


def barrier_functions(front: FrontEnd) -> list[str]:
    """The definitions; of BARRIER_SYMBOLS the last is for Python, the others for kernels."""
    m = front.machine
    return [
        _arrive(m), _wait(m), _complete(m), _exit(m), _fence(m), _warp_sync(m), _start_block(front),
        _turns(m), _run(m),
    ]  # fmt: skip


def _add(code: Code, place: str, value: str) -> str:
    total = code.op(f"add i32 {code.op(f'load i32, ptr {place}')}, {value}")
    code.do(f"store i32 {total}, ptr {place}")
    return total


def _warp_at(code: Code, index: str) -> str:
    offset = code.op(f"mul i64 {code.wide(index)}, {code.load('block', 'warp_bytes', 64)}")
    return code.at(code.pointer("block", "warps"), offset)


def _arrive(m: Machine) -> str:
    """Threads of a mask arrive at a barrier; `%wait` is 0, 1, or 2 where warps may be diverged."""
    code = Code(
        m, "void", "treadle_simt_arrive",
        f"{LANES}, i32 %id, i32 %count, i32 %wait, MASK %votes",
        "noinline",
    )  # fmt: skip

    _check_number(code)
    place = code.slot("warp", "signalled", "%id")
    mine, before = _this_phase(code), code.op(f"load i32, ptr {place}")
    if not m.has_lane_counters:
        again = code.op(f"icmp eq i32 {mine}, {before}")
        code.when(again, lambda: _report(code, Fault.ARRIVED_TWICE))
    code.do(f"store i32 {mine}, ptr {place}")
    _add(code, code.slot("block", "arrived", "%id"), code.count_lanes("%mask"))
    _add(code, code.slot("block", "voted", "%id"), code.count_lanes("%votes"))
    expected = code.slot("block", "expected", "%id")
    code.do(f"store i32 %count, ptr {expected}")

    code.when(code.op("icmp ne i32 %wait, 0"), lambda: _hold(code))
    loose = code.slot("block", "loose", "%id")
    code.when(code.op("icmp eq i32 %wait, 2"), lambda: code.do(f"store i32 1, ptr {loose}"))
    code.op("call i1 @complete(ptr %block, ptr %warp, i32 %id, i32 %site)")
    code.do("ret void")
    return code.text


def _check_number(code: Code) -> None:
    """Reports a barrier that there is not, and returns."""
    outside = code.op(f"icmp uge i32 %id, {BARRIERS}")
    code.when(outside, lambda: _report(code, Fault.BAD_BARRIER))


def _report(code: Code, fault: Fault) -> None:
    """Reports a fault about the barrier, and returns."""
    code.report(fault, "0", code.wide("%id"), "0")
    code.leave("ret void")


def _this_phase(code: Code) -> str:
    """The number of the barrier's phase that has not ended: the first one's is 1."""
    ended = code.op(f"load i32, ptr {code.slot('block', 'phases', '%id')}")
    return code.op(f"add i32 {ended}, 1")


def _hold(code: Code) -> None:
    """The lanes of the mask wait at the barrier."""
    for place in (
        code.slot("warp", "barriers", "%id", code.machine.width),
        code.field("warp", "waiting"),
    ):
        now = code.op(f"load MASK, ptr {place}")
        code.do(f"store MASK {code.op(f'or MASK {now}, %mask')}, ptr {place}")


def _wait(m: Machine) -> str:
    """Threads of a mask, which have arrived at a barrier before, wait for the others there."""
    code = Code(m, "void", "treadle_simt_barrier_wait", f"{LANES}, i32 %id", "noinline")
    _check_number(code)
    mine = code.op(f"load i32, ptr {code.slot('warp', 'signalled', '%id')}")
    code.when(code.op(f"icmp eq i32 {_this_phase(code)}, {mine}"), lambda: _hold(code))
    code.do("ret void")
    return code.text


def _complete(m: Machine) -> str:
    """Lets the threads at a barrier go on if all have arrived; says whether they do."""
    code = Code(m, "i1", "complete", "ptr %block, ptr %warp, i32 %id, i32 %site", "noinline")
    places = {
        name: code.slot("block", name, "%id")
        for name in ("arrived", "expected", "voted", "last_voted", "last_arrived", "loose")
    }
    arrived = code.op(f"load i32, ptr {places['arrived']}")
    asked = code.op(f"load i32, ptr {places['expected']}")
    everyone = code.op(f"icmp eq i32 {asked}, 0")
    need = code.op(f"select i1 {everyone}, i32 {code.load('block', 'live')}, i32 {asked}")
    few = code.op(f"icmp ult i32 {arrived}, {need}")
    none = code.op(f"icmp eq i32 {arrived}, 0")
    code.when(code.op(f"or i1 {few}, {none}"), lambda: code.leave("ret i1 false"))
    loose = code.op(f"load i32, ptr {places['loose']}")
    strict = code.op(f"icmp eq i32 {loose}, 0")
    code.do(f"store i32 {arrived}, ptr {places['last_arrived']}")
    votes = code.op(f"load i32, ptr {places['voted']}")
    code.do(f"store i32 {votes}, ptr {places['last_voted']}")
    for name in ("arrived", "expected", "voted", "loose"):
        code.do(f"store i32 0, ptr {places[name]}")
    _add(code, code.slot("block", "phases", "%id"), "1")

    def release(index: str) -> None:
        other = _warp_at(code, index)
        base = code.at(other, m.warp["barriers"])
        place = code.at(base, code.op(f"mul i64 {code.wide('%id')}, {m.width // 8}"))
        here = code.op(f"load MASK, ptr {place}")
        code.do(f"store MASK 0, ptr {place}")
        waiting = code.at(other, m.warp["waiting"])
        rest = code.without(code.op(f"load MASK, ptr {waiting}"), here)
        code.do(f"store MASK {rest}, ptr {waiting}")
        if m.has_lane_counters:
            code.when(
                code.op(f"and i1 {strict}, {code.op(f'icmp ne MASK {here}, 0')}"),
                lambda: together(other, here, index),
            )

    def together(other: str, here: str, index: str) -> None:
        """Threads of one warp that wait at several places are a diverged barrier."""
        pcs = code.op(f"load <W x i32>, ptr {code.at(other, m.warp['pc'])}, align 64")
        lanes = code.op(f"bitcast MASK {here} to <W x i1>")
        low = code.op(f"select <W x i1> {lanes}, <W x i32> {pcs}, <W x i32> splat (i32 -1)")
        high = code.op(f"select <W x i1> {lanes}, <W x i32> {pcs}, <W x i32> zeroinitializer")
        least = code.op(f"call i32 @llvm.vector.reduce.umin.vWi32(<W x i32> {low})")
        most = code.op(f"call i32 @llvm.vector.reduce.umax.vWi32(<W x i32> {high})")
        code.when(
            code.op(f"icmp ne i32 {least}, {most}"),
            lambda: code.report(
                Fault.DIVERGED_BARRIER, "0", code.wide("%id"), "0", code.as_extra(index, "i32")
            ),
        )

    code.count(code.load("block", "warp_count"), release)
    code.do(
        f"call void @treadle_simt_fence(ptr %block, i32 {code.load('block', 'barrier_orders')})"
    )
    code.do("ret i1 true")
    return code.text


def _exit(m: Machine) -> str:
    """Threads of a mask are done."""
    code = Code(m, "void", "treadle_simt_exit", "ptr %block, ptr %warp, MASK %mask", "noinline")
    rest = code.without(code.load("warp", "live", m.width), "%mask")
    code.save("warp", "live", rest, m.width)
    # Who waited for them to arrive at an instruction of the warp looks again.
    code.save("warp", "held", "0", m.width)
    count = code.count_lanes("%mask")
    code.save("block", "live", code.op(f"sub i32 {code.load('block', 'live')}, {count}"))
    code.do("ret void")
    return code.text


def _fence(m: Machine) -> str:
    """What the block did to memory so far is ordered before what it does from now on.

    `%orders` says to which memory: ORDERS_SHARED, ORDERS_GLOBAL, both or none.
    """
    code = Code(m, "void", "treadle_simt_fence", "ptr %block, i32 %orders", "noinline")
    _order(code, *(code.field("block", f"{which}barrier_stamp") for which in ("", "global_")))
    return code.text


def _warp_sync(m: Machine) -> str:
    """The same for the threads of one warp among themselves."""
    parameters = "ptr %block, ptr %warp, i32 %orders"
    code = Code(m, "void", "treadle_simt_warp_sync", parameters, "noinline")
    number = code.load("warp", "number")
    _order(code, *(code.slot("block", f"{which}warp_stamps", number) for which in ("", "global_")))
    return code.text


def _order(code: Code, of_shared: str, of_global: str) -> None:
    """Makes the stamps at two places the newest, where `%orders` says so, and returns."""
    stamp = code.load("block", "stamp")
    for place, flag in ((of_shared, ORDERS_SHARED), (of_global, ORDERS_GLOBAL)):
        asked = code.op(f"icmp ne i32 {code.op(f'and i32 %orders, {flag}')}, 0")
        code.when(asked, functools.partial(code.do, f"store i32 {stamp}, ptr {place}"))
    code.do("call void @tick(ptr %block)")
    code.do("ret void")


def _start_block(front: FrontEnd) -> str:
    """Makes the records those of a fresh block; shared memory is filled with 0xFF."""
    m = front.machine
    code = Code(m, "void", "start_block", "ptr %launch, ptr %block, i64 %number", "noinline")
    code.save("block", "number", "%number", 64)
    x = code.wide(code.load("launch", "grid_x"))
    y = code.wide(code.load("launch", "grid_y"))
    rows = code.op(f"udiv i64 %number, {x}")
    for axis, value in (
        ("x", code.op(f"urem i64 %number, {x}")),
        ("y", code.op(f"urem i64 {rows}, {y}")),
        ("z", code.op(f"udiv i64 {rows}, {y}")),
    ):
        code.save("block", f"index_{axis}", code.op(f"trunc i64 {value} to i32"))
    threads = code.load("block", "threads")
    code.save("block", "live", threads)
    code.save("block", "turns", code.load("launch", "limit", 64), 64)
    code.do("call void @tick(ptr %block)")
    stamp = code.load("block", "stamp")
    code.save("block", "first_stamp", stamp)
    for name in ("barrier_stamp", "global_barrier_stamp"):
        code.save("block", name, stamp)
    code.save("block", "barrier_orders", str(ORDERS_ALL))
    epoch = stamp_epoch(code, stamp)
    place = code.at(code.pointer("block", "owners"), epoch, 4)
    owner = code.op(f"add i32 {code.op('trunc i64 %number to i32')}, 1")
    code.do(f"store i32 {owner}, ptr {place}")
    for name in ("ordered", "strong"):
        code.save("block", name, "0")
    code.do("call void @tick(ptr %block)")
    base, nbytes = code.pointer("block", "shared"), code.load("block", "shared_bytes", 64)
    code.do(f"call void @llvm.memset.p0.i64(ptr {base}, i8 -1, i64 {nbytes}, i1 false)")
    code.save("block", "flight_count", "0")
    first = code.field("block", "arrived")
    code.do(f"call void @llvm.memset.p0.i64(ptr {first}, i8 0, i64 {7 * 4 * BARRIERS}, i1 false)")

    def start_warp(index: str) -> None:
        code.do("; one warp")
        warp = _warp_at(code, index)
        left = code.op(f"sub i32 {threads}, {code.op(f'shl i32 {index}, {m.shift}')}")
        full = code.op(f"icmp uge i32 {left}, {m.width}")
        some = code.op(f"select i1 {full}, i32 0, i32 {left}")
        part = code.op(f"sub MASK {code.lane_bit(some)}, 1")
        live = code.op(f"select i1 {full}, MASK -1, MASK {part}")
        code.do(
            f"call void @llvm.memset.p0.i64(ptr {code.at(warp, m.warp['barriers'])}, i8 0, "
            f"i64 {m.zeroed_bytes}, i1 false)"
        )
        masks = {"live": live, "waiting": "0", "held": "0"}
        if not m.has_lane_counters:
            masks["exec"] = live
        for name, value in masks.items():
            code.do(f"store MASK {value}, ptr {code.at(warp, m.warp[name])}")
        for name, value in (("slice", str(SLICE)), ("number", index), ("flip", "0")):
            code.do(f"store i32 {value}, ptr {code.at(warp, m.warp[name])}")
        front.start_warp(code, warp)

    front.start_block(code)
    code.count(code.load("block", "warp_count"), start_warp)
    code.do("ret void")
    return code.text


def _turns(m: Machine) -> str:
    """Gives the warps of a block their turns until all threads have exited or a fault is found."""
    code = Code(m, "void", "take_turns", "ptr %launch, ptr %block, ptr %kernel", "noinline")
    alive, moved = code.variable("i32", "1"), code.variable("i32", "0")
    count = code.load("block", "warp_count")

    def turn(index: str) -> None:
        warp = _warp_at(code, index)
        live, waiting, held = (
            code.op(f"load MASK, ptr {code.at(warp, m.warp[name])}")
            for name in ("live", "waiting", "held")
        )
        ready = code.without(live, code.op(f"or MASK {waiting}, {held}"))

        def run() -> None:
            code.set(moved, "1")
            code.do(f"store i32 {SLICE}, ptr {code.at(warp, m.warp['slice'])}")
            code.do(f"call void %kernel(ptr %block, ptr {warp})")
            fault = code.load("launch", "fault")
            code.when(code.op(f"icmp ne i32 {fault}, 0"), lambda: code.leave("ret void"))
            left = code.op(f"add i64 {code.load('block', 'turns', 64)}, -1")
            code.save("block", "turns", left, 64)
            code.when(code.op(f"icmp eq i64 {left}, 0"), lambda: runaway(warp))

        code.when(code.op(f"icmp ne MASK {ready}, 0"), run)
        now = code.op(f"load MASK, ptr {code.at(warp, m.warp['live'])}")
        code.when(code.op(f"icmp ne MASK {now}, 0"), lambda: code.set(alive, "1"))

    def runaway(warp: str) -> None:
        limit = code.as_extra(code.load("launch", "limit", 64))
        code.report(Fault.RUNAWAY, "0", "0", "0", limit, site="0", warp=warp)
        code.leave("ret void")

    def round() -> None:
        code.set(alive, "0")
        code.set(moved, "0")
        code.count(count, turn)
        still = code.op(f"icmp eq i32 {code.get(moved)}, 0")
        left = code.op(f"icmp ne i32 {code.get(alive)}, 0")
        code.when(code.op(f"and i1 {still}, {left}"), unlock)

    def unlock() -> None:
        """Threads that exited may have been the last that a barrier waited for."""
        first = code.pointer("block", "warps")
        released = code.variable("i32", "0")

        def attempt(id: str) -> None:
            gone = code.op(f"call i1 @complete(ptr %block, ptr {first}, i32 {id}, i32 0)")
            code.when(gone, lambda: code.set(released, "1"))

        code.count(str(BARRIERS), attempt)
        stuck = code.op(f"icmp eq i32 {code.get(released)}, 0")
        code.when(stuck, deadlock)

    def deadlock() -> None:
        def look(index: str) -> None:
            warp = _warp_at(code, index)
            held = code.op(f"load MASK, ptr {code.at(warp, m.warp['held'])}")

            def tell() -> None:
                lanes = code.as_extra(held, "MASK")
                code.report(Fault.WARP_DEADLOCK, "0", "0", "0", lanes, site="0", warp=warp)

            code.when(code.op(f"icmp ne MASK {held}, 0"), tell)

        code.count(count, look)
        first = code.pointer("block", "warps")
        code.report(Fault.DEADLOCK, "0", "0", "0", site="0", warp=first)
        code.leave("ret void")

    code.loop(lambda: code.op(f"icmp ne i32 {code.get(alive)}, 0"), round)
    code.do("ret void")
    return code.text


def _run(m: Machine) -> str:
    """Runs blocks of the grid, the next that nobody has, until none is left or one faults."""
    code = Code(m, "void", "treadle_simt_run", "ptr %launch, ptr %block, ptr %kernel")
    blocks = code.load("launch", "blocks", 64)
    next = code.field("launch", "next")

    def take() -> str:
        return code.op(f"atomicrmw add ptr {next}, i64 1 seq_cst")

    number = code.variable("i64", take())

    def one() -> None:
        code.do(f"call void @start_block(ptr %launch, ptr %block, i64 {code.get(number)})")
        code.do("call void @take_turns(ptr %launch, ptr %block, ptr %kernel)")
        fault = code.load("launch", "fault")
        code.when(code.op(f"icmp ne i32 {fault}, 0"), lambda: code.leave("ret void"))
        code.set(number, take())

    code.loop(lambda: code.op(f"icmp ult i64 {code.get(number)}, {blocks}"), one)
    code.do("ret void")
    return code.text
