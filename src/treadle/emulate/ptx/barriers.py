"""Running the blocks of a grid: warps in turn, barriers between them, as LLVM IR.

A translated kernel runs one warp until its threads have exited, all wait, or its turn is over.
`treadle_ptx_run` gives each warp of a block its turns and takes the next block when one is done;
any number of host threads may be in it. Threads that have exited no longer count at a barrier,
as on hardware. When nobody can go on, that is a deadlock and reported as one.
"""

from __future__ import annotations

from treadle.emulate.ptx.code import Code
from treadle.emulate.ptx.global_rows import stamp_epoch
from treadle.emulate.ptx.machine import BLOCK, SLICE, WARP, Fault

__all__ = ["BARRIER_SYMBOLS", "barrier_functions"]

BARRIER_SYMBOLS = (
    "treadle_ptx_arrive", "treadle_ptx_exit", "treadle_ptx_fence", "treadle_ptx_warp_sync",
    "treadle_ptx_run",
)  # fmt: skip
_BARRIERS = 16


def barrier_functions() -> list[str]:
    """The definitions; of BARRIER_SYMBOLS the last is for Python, the others for kernels."""
    return [
        _arrive(), _complete(), _exit(), _fence(), _warp_sync(), _start_block(), _turns(), _run()
    ]  # fmt: skip


def _slot(code: Code, record: str, table: dict[str, int], name: str, index: str) -> str:
    base = code.at(f"%{record}", table[name])
    return code.at(base, code.op(f"zext i32 {index} to i64"), 4)


def _add(code: Code, place: str, value: str) -> str:
    total = code.op(f"add i32 {code.op(f'load i32, ptr {place}')}, {value}")
    code.do(f"store i32 {total}, ptr {place}")
    return total


def _warp_at(code: Code, index: str) -> str:
    wide = code.op(f"zext i32 {index} to i64")
    offset = code.op(f"mul i64 {wide}, {code.load('block', 'warp_bytes', 64)}")
    return code.at(code.pointer("block", "warps"), offset)


def _report(code: Code, kind: Fault, line: str, address: str, extra: str) -> None:
    code.do(
        f"call void @treadle_ptx_fault(ptr %block, ptr %warp, i32 {int(kind)}, i32 {line}, i32 0, "
        f"i64 {address}, i32 0, i64 {extra})"
    )


def _arrive() -> str:
    """Threads of a mask arrive at a barrier; `%wait` is 0, 1, or 2 where warps may be diverged."""
    code = Code(
        "void", "treadle_ptx_arrive",
        "ptr %block, ptr %warp, i32 %mask, i32 %line, i32 %id, i32 %count, i32 %wait, i32 %votes",
        "noinline",
    )  # fmt: skip

    def out_of_range() -> None:
        _report(code, Fault.BAD_BARRIER, "%line", code.op("zext i32 %id to i64"), "0")
        code.leave("ret void")

    code.when(code.op(f"icmp uge i32 %id, {_BARRIERS}"), out_of_range)
    arrived = code.op("call i32 @llvm.ctpop.i32(i32 %mask)")
    _add(code, _slot(code, "block", BLOCK, "arrived", "%id"), arrived)
    yes = code.op("call i32 @llvm.ctpop.i32(i32 %votes)")
    _add(code, _slot(code, "block", BLOCK, "voted", "%id"), yes)
    expected = _slot(code, "block", BLOCK, "expected", "%id")
    code.do(f"store i32 %count, ptr {expected}")

    def wait() -> None:
        mine = _slot(code, "warp", WARP, "barriers", "%id")
        for place in (mine, code.field("warp", "waiting")):
            now = code.op(f"load i32, ptr {place}")
            code.do(f"store i32 {code.op(f'or i32 {now}, %mask')}, ptr {place}")

    code.when(code.op("icmp ne i32 %wait, 0"), wait)
    loose = _slot(code, "block", BLOCK, "loose", "%id")
    code.when(code.op("icmp eq i32 %wait, 2"), lambda: code.do(f"store i32 1, ptr {loose}"))
    code.op("call i1 @complete(ptr %block, ptr %warp, i32 %id, i32 %line)")
    code.do("ret void")
    return code.text


def _complete() -> str:
    """Lets the threads at a barrier go on if all have arrived; says whether they do."""
    code = Code("i1", "complete", "ptr %block, ptr %warp, i32 %id, i32 %line", "noinline")
    places = {
        name: _slot(code, "block", BLOCK, name, "%id")
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

    def release(index: str) -> None:
        other = _warp_at(code, index)
        base = code.at(other, WARP["barriers"])
        place = code.at(base, code.op("zext i32 %id to i64"), 4)
        here = code.op(f"load i32, ptr {place}")
        code.do(f"store i32 0, ptr {place}")
        waiting = code.at(other, WARP["waiting"])
        rest = code.op(f"and i32 {code.op(f'load i32, ptr {waiting}')}, "
                       f"{code.op(f'xor i32 {here}, -1')}")  # fmt: skip
        code.do(f"store i32 {rest}, ptr {waiting}")
        code.when(
            code.op(f"and i1 {strict}, {code.op(f'icmp ne i32 {here}, 0')}"),
            lambda: together(other, here, index),
        )

    def together(other: str, here: str, index: str) -> None:
        """Threads of one warp that wait at several places are a diverged barrier."""
        pcs = code.op(f"load <32 x i32>, ptr {code.at(other, WARP['pc'])}, align 64")
        lanes = code.op(f"bitcast i32 {here} to <32 x i1>")
        low = code.op(f"select <32 x i1> {lanes}, <32 x i32> {pcs}, <32 x i32> splat (i32 -1)")
        high = code.op(f"select <32 x i1> {lanes}, <32 x i32> {pcs}, <32 x i32> zeroinitializer")
        least = code.op(f"call i32 @llvm.vector.reduce.umin.v32i32(<32 x i32> {low})")
        most = code.op(f"call i32 @llvm.vector.reduce.umax.v32i32(<32 x i32> {high})")
        where = code.op("zext i32 %id to i64")
        code.when(
            code.op(f"icmp ne i32 {least}, {most}"),
            lambda: _report(code, Fault.DIVERGED_BARRIER, "%line", where,
                            code.op(f"zext i32 {index} to i64")),
        )  # fmt: skip

    code.count(code.load("block", "warp_count"), release)
    code.do("call void @treadle_ptx_fence(ptr %block)")
    code.do("ret i1 true")
    return _UMIN + code.text


_UMIN = """declare i32 @llvm.vector.reduce.umin.v32i32(<32 x i32>)
declare i32 @llvm.vector.reduce.umax.v32i32(<32 x i32>)
"""


def _exit() -> str:
    """Threads of a mask are done."""
    code = Code("void", "treadle_ptx_exit", "ptr %block, ptr %warp, i32 %mask", "noinline")
    rest = code.op(f"and i32 {code.load('warp', 'live')}, {code.op('xor i32 %mask, -1')}")
    code.save("warp", "live", rest)
    # Who waited for them to arrive at an instruction of the warp looks again.
    code.save("warp", "held", "0")
    count = code.op("call i32 @llvm.ctpop.i32(i32 %mask)")
    code.save("block", "live", code.op(f"sub i32 {code.load('block', 'live')}, {count}"))
    code.do("ret void")
    return code.text


def _fence() -> str:
    """What the block did to shared memory so far is ordered before what it does from now on."""
    code = Code("void", "treadle_ptx_fence", "ptr %block", "noinline")
    code.save("block", "barrier_stamp", code.load("block", "stamp"))
    code.do("call void @tick(ptr %block)")
    code.do("ret void")
    return code.text


def _warp_sync() -> str:
    """The same for the threads of one warp among themselves."""
    code = Code("void", "treadle_ptx_warp_sync", "ptr %block, ptr %warp", "noinline")
    place = _slot(code, "block", BLOCK, "warp_stamps", code.load("warp", "number"))
    code.do(f"store i32 {code.load('block', 'stamp')}, ptr {place}")
    code.do("call void @tick(ptr %block)")
    code.do("ret void")
    return code.text


def _start_block() -> str:
    """Makes the records those of a fresh block; shared memory is filled with 0xFF."""
    code = Code("void", "start_block", "ptr %launch, ptr %block, i64 %number", "noinline")
    code.save("block", "number", "%number", 64)
    x = code.op(f"zext i32 {code.load('launch', 'grid_x')} to i64")
    y = code.op(f"zext i32 {code.load('launch', 'grid_y')} to i64")
    rows = code.op(f"udiv i64 %number, {x}")
    for axis, value in (
        ("x", code.op(f"urem i64 %number, {x}")),
        ("y", code.op(f"urem i64 {rows}, {y}")),
        ("z", code.op(f"udiv i64 {rows}, {y}")),
    ):
        code.save("block", f"ctaid_{axis}", code.op(f"trunc i64 {value} to i32"))
    threads = code.load("block", "threads")
    code.save("block", "live", threads)
    code.save("block", "turns", code.load("launch", "limit", 64), 64)
    code.do("call void @tick(ptr %block)")
    stamp = code.load("block", "stamp")
    code.save("block", "first_stamp", stamp)
    code.save("block", "barrier_stamp", stamp)
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
    code.do(f"call void @llvm.memset.p0.i64(ptr {first}, i8 0, i64 {6 * 64}, i1 false)")

    def start_warp(index: str) -> None:
        code.do("; one warp")
        warp = _warp_at(code, index)
        left = code.op(f"sub i32 {threads}, {code.op(f'shl i32 {index}, 5')}")
        part = code.op(f"sub i32 {code.op(f'shl i32 1, {left}')}, 1")
        full = code.op(f"icmp uge i32 {left}, 32")
        live = code.op(f"select i1 {full}, i32 -1, i32 {part}")
        code.do(
            f"call void @llvm.memset.p0.i64(ptr {code.at(warp, WARP['barriers'])}, i8 0, "
            f"i64 {WARP['pc'] + 128 - WARP['barriers']}, i1 false)"
        )
        for name, value in (
            ("live", live), ("waiting", "0"), ("held", "0"), ("slice", str(SLICE)),
            ("number", index), ("flip", "0"),
        ):  # fmt: skip
            code.do(f"store i32 {value}, ptr {code.at(warp, WARP[name])}")

    code.count(code.load("block", "warp_count"), start_warp)
    code.do("ret void")
    return code.text


def _turns() -> str:
    """Gives the warps of a block their turns until all threads have exited or a fault is found."""
    code = Code("void", "take_turns", "ptr %launch, ptr %block, ptr %kernel", "noinline")
    alive, moved = code.variable("i32", "1"), code.variable("i32", "0")
    count = code.load("block", "warp_count")

    def turn(index: str) -> None:
        warp = _warp_at(code, index)
        live = code.op(f"load i32, ptr {code.at(warp, WARP['live'])}")
        waiting = code.op(f"load i32, ptr {code.at(warp, WARP['waiting'])}")
        held = code.op(f"load i32, ptr {code.at(warp, WARP['held'])}")
        stuck = code.op(f"xor i32 {code.op(f'or i32 {waiting}, {held}')}, -1")
        ready = code.op(f"and i32 {live}, {stuck}")

        def run() -> None:
            code.set(moved, "1")
            code.do(f"store i32 {SLICE}, ptr {code.at(warp, WARP['slice'])}")
            code.do(f"call void %kernel(ptr %block, ptr {warp})")
            fault = code.load("launch", "fault")
            code.when(code.op(f"icmp ne i32 {fault}, 0"), lambda: code.leave("ret void"))
            left = code.op(f"add i64 {code.load('block', 'turns', 64)}, -1")
            code.save("block", "turns", left, 64)
            code.when(code.op(f"icmp eq i64 {left}, 0"), lambda: runaway(warp))

        code.when(code.op(f"icmp ne i32 {ready}, 0"), run)
        now = code.op(f"load i32, ptr {code.at(warp, WARP['live'])}")
        code.when(code.op(f"icmp ne i32 {now}, 0"), lambda: code.set(alive, "1"))

    def runaway(warp: str) -> None:
        code.do(
            f"call void @treadle_ptx_fault(ptr %block, ptr {warp}, i32 {int(Fault.RUNAWAY)}, "
            f"i32 0, i32 0, i64 0, i32 0, i64 {code.load('launch', 'limit', 64)})"
        )
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

        code.count(str(_BARRIERS), attempt)
        stuck = code.op(f"icmp eq i32 {code.get(released)}, 0")
        code.when(stuck, deadlock)

    def deadlock() -> None:
        def look(index: str) -> None:
            warp = _warp_at(code, index)
            held = code.op(f"load i32, ptr {code.at(warp, WARP['held'])}")
            wide = code.op(f"zext i32 {held} to i64")
            code.when(
                code.op(f"icmp ne i32 {held}, 0"),
                lambda: code.do(
                    f"call void @treadle_ptx_fault(ptr %block, ptr {warp}, "
                    f"i32 {int(Fault.WARP_DEADLOCK)}, i32 0, i32 0, i64 0, i32 0, i64 {wide})"
                ),
            )

        code.count(count, look)
        code.do(
            f"call void @treadle_ptx_fault(ptr %block, ptr {code.pointer('block', 'warps')}, "
            f"i32 {int(Fault.DEADLOCK)}, i32 0, i32 0, i64 0, i32 0, i64 0)"
        )
        code.leave("ret void")

    code.loop(lambda: code.op(f"icmp ne i32 {code.get(alive)}, 0"), round)
    code.do("ret void")
    return code.text


def _run() -> str:
    """Runs blocks of the grid, the next that nobody has, until none is left or one faults."""
    code = Code("void", "treadle_ptx_run", "ptr %launch, ptr %block, ptr %kernel")
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
