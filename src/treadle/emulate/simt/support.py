"""The functions that translated kernels call, as LLVM IR: memory with its checks, barriers, blocks.

    load_object(compile(support_ir(front_end)), support_symbols(front_end))

They are the same for all kernels of a front end, so they are compiled once. Their arguments are
records (see machine) and scalars; addresses and data of the lanes lie in the Warp. An access that
is wrong reports a fault and is not made: the kernel goes on for its other lanes to the next
backward branch, where it sees the fault and returns.

A `site` is the front end's number of the instruction, which a fault names. Small numbers that
follow each other are best: by their low bits the region that was found last is remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.barriers import BARRIER_SYMBOLS, barrier_functions
from treadle.emulate.simt.code import LANES, RECORDS, Code, declarations
from treadle.emulate.simt.footprint import footprint_functions
from treadle.emulate.simt.global_shadow import GLOBAL_SYMBOLS, global_functions
from treadle.emulate.simt.machine import (
    KNOWN,
    KNOWN_BYTES,
    LOAD,
    REGION_WORDS,
    STORE,
    TOUCH,
    Fault,
)
from treadle.emulate.simt.moves import host_of, move_functions, save_hosts
from treadle.emulate.simt.pending_reads import FLIGHT_SYMBOLS, flight_functions
from treadle.emulate.simt.shadow import check_name, reduce_lanes, shadow_functions

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.simt.front_end import FrontEnd
    from treadle.emulate.simt.machine import Machine

__all__ = ["ACCESSES", "access_name", "support_ir", "support_symbols"]

# (bits of an element, elements) of the accesses that a thread makes in one instruction.
ACCESSES = (
    (8, 1), (16, 1), (32, 1), (64, 1), (128, 1), (8, 2), (16, 2), (32, 2), (64, 2), (8, 4),
    (16, 4), (32, 4), (64, 4), (32, 8), (16, 8),
)  # fmt: skip
_THREE_WORDS = (32, 3)  # where accesses need not be on a multiple of their bytes
_SPACES = ("global", "shared", "local", "generic")
_SIZED = f"{LANES}, i32 %nbytes"
_START, _END, _DELTA, _ACCESS, _FOOTPRINT = range(REGION_WORDS)


def accesses(machine: Machine) -> tuple[tuple[int, int], ...]:
    """Those of a machine."""
    return ACCESSES if machine.needs_alignment else (*ACCESSES, _THREE_WORDS)


def access_name(kind: str, space: str, bits: int, count: int) -> str:
    """The function that makes one access: `load` or `store`."""
    return f"treadle_simt_{kind}_{space}_{bits}x{count}"


_CORE = (
    "treadle_simt_fault",
    "treadle_simt_host",
    "treadle_simt_check_global",
    "treadle_simt_check_shared",
    "treadle_simt_check_local",
    "treadle_simt_check_generic",
    *BARRIER_SYMBOLS,
    *FLIGHT_SYMBOLS,
    *GLOBAL_SYMBOLS,
)


def support_symbols(front: FrontEnd) -> tuple[str, ...]:
    """What kernels and Python call: the core's functions and the front end's."""
    moves = (
        access_name(kind, space, bits, count)
        for kind in ("load", "store")
        for space in _SPACES
        for bits, count in accesses(front.machine)
    )
    return (*_CORE, *moves, *front.symbols)


def support_ir(front: FrontEnd) -> str:
    """All of them, as one module."""
    m = front.machine
    functions = [_fault(m), _check_global(m), _check_global_each(m), _host(m), _find(m)]
    functions += [*footprint_functions(m), *shadow_functions(m), _check_local(m), _check_generic(m)]
    functions += [*barrier_functions(front), *flight_functions(m), *global_functions(m)]
    functions += front.functions()
    for bits, count in accesses(m):
        functions += move_functions(m, bits, count)
        for kind in ("load", "store"):
            functions += [_access(m, kind, space, bits, count) for space in _SPACES]
    return declarations(m) + "\n".join(functions)


def _fault(m: Machine) -> str:
    """Records the first fault of a launch, and makes the warp return soon."""
    code = Code(
        m, "void", "treadle_simt_fault",
        f"{RECORDS}, i32 %kind, i32 %site, i32 %lane, i64 %address, i32 %nbytes, i128 %extra",
        "noinline cold",
    )  # fmt: skip
    code.do(f"%launch = load ptr, ptr {code.field('block', 'launch')}")
    place = code.field("launch", "fault")
    swap = code.op(f"cmpxchg ptr {place}, i32 0, i32 %kind seq_cst seq_cst")

    def fill() -> None:
        thread = code.op(f"shl i32 {code.load('warp', 'number')}, {m.shift}")
        code.save("launch", "thread", code.op(f"add i32 {thread}, %lane"))
        code.save("launch", "site", "%site")
        code.save("launch", "nbytes", "%nbytes")
        code.save("launch", "address", "%address", 64)
        code.save("launch", "in_block", code.load("block", "number", 64), 64)
        code.save("launch", "extra", "%extra", 128)

    code.when(code.op(f"extractvalue {{i32, i1}} {swap}, 1"), fill)
    code.save("warp", "slice", "0")
    code.do("ret void")
    return code.text


def _check_global(m: Machine) -> str:
    """The lanes of the mask whose addresses are aligned and inside a region that allows it."""
    code = Code(m, "MASK", "treadle_simt_check_global", f"{_SIZED}, i32 %how", "noinline")
    code.when(code.is_empty("%mask"), lambda: code.leave("ret MASK 0"))
    addresses = code.op(f"load <W x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    low = reduce_lanes(code, "umin", addresses)
    high = reduce_lanes(code, "umax", addresses)
    every = reduce_lanes(code, "or", addresses)
    nbytes = code.wide("%nbytes")
    last = code.op(f"add i64 {high}, {nbytes}")
    align = code.alignment(nbytes, "%how")
    odd = code.op(f"and i64 {every}, {code.op(f'add i64 {align}, -1')}")
    aligned = code.op(f"icmp eq i64 {odd}, 0")
    known = _known(code)

    def fits() -> str:
        inside = code.op(f"icmp uge i64 {low}, {_of_region(code, known, _START)}")
        before = code.op(f"icmp ule i64 {last}, {_of_region(code, known, _END)}")
        good = code.op(f"and i1 {code.op(f'and i1 {inside}, {before}')}, {aligned}")
        return code.op(f"and i1 {good}, {_is_allowed(code, known)}")

    def all_right() -> None:
        save_hosts(code, addresses, _of_region(code, known, _DELTA))
        _when_noted(
            code, known,
            lambda record: f"@mark_lanes(ptr {record}, ptr %block, ptr %warp, MASK %mask, "
            "i32 %site, i32 %nbytes, i32 %how)",
        )  # fmt: skip
        code.leave("ret MASK %mask")

    code.when(fits(), all_right)
    code.op(f"call i1 @find_region(ptr %block, ptr {known}, i64 {low}, i64 {nbytes})")
    code.when(fits(), all_right)
    found = code.op(
        "call MASK @check_global_each(ptr %block, ptr %warp, MASK %mask, i32 %site, i32 %nbytes, "
        "i32 %how)"
    )
    code.do(f"ret MASK {found}")
    return code.text


def _when_noted(code: Code, known: str, call: Callable[[str], str]) -> None:
    """Calls a function with the footprint's record of a region, if the region has one."""
    record = _of_region(code, known, _FOOTPRINT)

    def note() -> None:
        code.do(f"call void {call(code.op(f'inttoptr i64 {record} to ptr'))}")

    code.when(code.op(f"icmp ne i64 {record}, 0"), note)


def _known(code: Code) -> str:
    """Where the region that the instruction of this site found last is kept."""
    row = code.op(f"and i32 %site, {KNOWN - 1}")
    offset = code.op(f"mul i32 {row}, {KNOWN_BYTES}")
    return code.at(code.field("block", "known"), code.wide(offset))


def _of_region(code: Code, row: str, word: int) -> str:
    return code.op(f"load i64, ptr {code.at(row, word, 8)}")


def _is_allowed(code: Code, row: str) -> str:
    """Whether a region allows what %how says. LOAD, STORE and TOUCH are bits of Access, less 1."""
    need = code.wide(code.op("add i32 %how, 1"))
    allowed = code.op(f"and i64 {_of_region(code, row, _ACCESS)}, {need}")
    return code.op(f"icmp eq i64 {allowed}, {need}")


def _check_global_each(m: Machine) -> str:
    code = Code(m, "MASK", "check_global_each", f"{_SIZED}, i32 %how", "noinline")
    good = code.variable("MASK", "0")
    align = code.alignment(code.wide("%nbytes"), "%how")
    odd = code.op(f"add i64 {align}, -1")

    def lane_check(lane: str) -> None:
        address = code.lane_address(lane)
        rest = code.op(f"and i64 {address}, {odd}")

        def inside() -> None:
            host = code.op(
                f"call i64 @treadle_simt_host(ptr %block, ptr %warp, i32 %site, i32 {lane}, "
                f"i64 {address}, i32 %nbytes, i32 %how)"
            )

            def found() -> None:
                code.do(f"store i64 {host}, ptr {host_of(code, lane)}")
                code.add_lane(good, lane)

            code.when(code.op(f"icmp ne i64 {host}, 0"), found)

        code.when(
            code.op(f"icmp eq i64 {rest}, 0"),
            inside,
            lambda: code.report_misaligned(lane, address, align),
        )

    code.each_lane("%mask", lane_check)
    code.do(f"ret MASK {code.get(good)}")
    return code.text


def _host(m: Machine) -> str:
    """The host's address of bytes at a global address; 0, and a fault, where it is not allowed."""
    code = Code(
        m, "i64", "treadle_simt_host",
        f"{RECORDS}, i32 %site, i32 %lane, i64 %address, i32 %nbytes, i32 %how", "noinline",
    )  # fmt: skip
    known = _known(code)
    find = f"ptr %block, ptr {known}, i64 %address, i64 {code.wide('%nbytes')}"
    found = code.op(f"call i1 @find_region({find})")

    def fault(kind: Fault) -> None:
        how = code.as_extra("%how", "i32")
        code.report(kind, "%lane", "%address", "%nbytes", how)
        code.leave("ret i64 0")

    code.when(code.op(f"xor i1 {found}, true"), lambda: fault(Fault.GLOBAL))
    forbidden = code.op(f"xor i1 {_is_allowed(code, known)}, true")
    code.when(forbidden, lambda: fault(Fault.FORBIDDEN))
    nbytes = code.wide("%nbytes")
    _when_noted(
        code, known,
        lambda record: f"@mark_bytes(ptr {record}, i64 %address, i64 {nbytes}, i32 %how)",
    )  # fmt: skip
    host = code.op(f"add i64 %address, {_of_region(code, known, _DELTA)}")
    code.do(f"ret i64 {host}")
    return code.text


def _find(m: Machine) -> str:
    """Whether a region holds the bytes; `%known` is a copy of its row from then on."""
    code = Code(
        m, "i1", "find_region", "ptr %block, ptr %known, i64 %address, i64 %nbytes", "noinline"
    )
    code.do(f"%launch = load ptr, ptr {code.field('block', 'launch')}")
    table = code.pointer("launch", "table")
    low = code.variable("i64", "0")
    high = code.variable("i64", code.load("launch", "table_count", 64))

    def row_at(number: str) -> str:
        return code.at(table, code.op(f"mul i64 {number}, {REGION_WORDS}"), 8)

    def step() -> None:
        middle = code.op(f"lshr i64 {code.op(f'add i64 {code.get(low)}, {code.get(high)}')}, 1")
        start = _of_region(code, row_at(middle), _START)
        code.when(
            code.op(f"icmp ule i64 {start}, %address"),
            lambda: code.set(low, code.op(f"add i64 {middle}, 1")),
            lambda: code.set(high, middle),
        )

    code.loop(lambda: code.op(f"icmp ult i64 {code.get(low)}, {code.get(high)}"), step)
    count = code.get(low)
    code.when(code.op(f"icmp eq i64 {count}, 0"), lambda: code.leave("ret i1 false"))
    row = row_at(code.op(f"add i64 {count}, -1"))
    last = code.op("add i64 %address, %nbytes")
    behind = code.op(f"icmp ugt i64 {last}, {_of_region(code, row, _END)}")
    code.when(behind, lambda: code.leave("ret i1 false"))
    for word in range(REGION_WORDS):
        code.do(f"store i64 {_of_region(code, row, word)}, ptr {code.at('%known', word, 8)}")
    code.do("ret i1 true")
    return code.text


def _thread(code: Code, lane: str) -> str:
    """The number of a lane's thread in its block, an i64."""
    first = code.op(f"shl i32 {code.load('warp', 'number')}, {code.machine.shift}")
    return code.wide(code.op(f"add i32 {first}, {lane}"))


def _check_local(m: Machine) -> str:
    """The lanes whose offsets in local memory are aligned and inside, which get host addresses."""
    code = Code(m, "MASK", "treadle_simt_check_local", _SIZED, "noinline")
    good = code.variable("MASK", "0")
    wide = code.wide("%nbytes")
    align = code.alignment(wide, str(LOAD))
    odd = code.op(f"add i64 {align}, -1")
    base, limit = (code.load("block", name, 64) for name in ("local", "local_bytes"))

    def lane_check(lane: str) -> None:
        address = code.lane_address(lane)
        last = code.op(f"add i64 {address}, {wide}")
        inside = code.op(f"icmp ule i64 {last}, {limit}")
        small = code.op(f"icmp ult i64 {address}, {limit}")

        def move() -> None:
            mine = code.op(f"mul i64 {_thread(code, lane)}, {limit}")
            host = code.op(f"add i64 {address}, {code.op(f'add i64 {base}, {mine}')}")
            code.do(f"store i64 {host}, ptr {host_of(code, lane)}")
            code.add_lane(good, lane)

        def aligned() -> None:
            rest = code.op(f"and i64 {address}, {odd}")
            code.when(
                code.op(f"icmp eq i64 {rest}, 0"),
                move,
                lambda: code.report_misaligned(lane, address, align),
            )

        code.when(
            code.op(f"and i1 {inside}, {small}"),
            aligned,
            lambda: code.report(Fault.LOCAL, lane, address, "%nbytes"),
        )

    code.each_lane("%mask", lane_check)
    code.do(f"ret MASK {code.get(good)}")
    return code.text


def _check_generic(m: Machine) -> str:
    """Sorts generic addresses by the space that they fall in, and checks each there."""
    code = Code(m, "MASK", "treadle_simt_check_generic", f"{_SIZED}, i32 %how", "noinline")
    shared, local = code.variable("MASK", "0"), code.variable("MASK", "0")
    window = {
        name: code.load("block", name, 64)
        for name in ("shared_window", "shared_window_bytes", "local_window", "local_window_bytes",
                     "local_window_step")
    }  # fmt: skip

    def sort(lane: str) -> None:
        place = code.slot("warp", "addresses", lane, 64)
        address = code.op(f"load i64, ptr {place}")
        offset = code.op(f"sub i64 {address}, {window['shared_window']}")
        near = code.op(f"sub i64 {address}, {window['local_window']}")

        def is_shared() -> None:
            code.do(f"store i64 {offset}, ptr {place}")
            code.add_lane(shared, lane)

        def is_local() -> None:
            step = code.op(f"mul i64 {_thread(code, lane)}, {window['local_window_step']}")
            code.do(f"store i64 {code.op(f'sub i64 {near}, {step}')}, ptr {place}")
            code.add_lane(local, lane)

        code.when(
            code.op(f"icmp ult i64 {offset}, {window['shared_window_bytes']}"),
            is_shared,
            lambda: code.when(
                code.op(f"icmp ult i64 {near}, {window['local_window_bytes']}"), is_local
            ),
        )

    code.each_lane("%mask", sort)
    arguments = "ptr %block, ptr %warp, MASK {}, i32 %site, i32 %nbytes"
    special = code.op(f"or MASK {code.get(shared)}, {code.get(local)}")
    rest = code.without("%mask", special)
    outer = code.variable("MASK", "0")

    def touch() -> None:
        call = f"call MASK @treadle_simt_touch_global({arguments.format(rest)})"
        code.set(outer, code.op(call))

    def access() -> None:
        call = f"call MASK @treadle_simt_check_global({arguments.format(rest)}, i32 %how)"
        code.set(outer, code.op(call))
        is_load = code.op(f"icmp eq i32 %how, {LOAD}")
        mine = code.get(outer)
        code.when(is_load, lambda: _look(code, LOAD, mine), lambda: _look(code, STORE, mine))

    code.when(code.op(f"icmp eq i32 %how, {TOUCH}"), touch, access)
    good = code.get(outer)
    code.save("block", "outer", good, m.width)
    code.when(code.is_empty(special), lambda: code.leave(f"ret MASK {good}"))
    # What makes the host addresses of some lanes spoils those of others.
    hosts = code.field("warp", "hosts")
    before = code.op(f"load <W x i64>, ptr {hosts}, align 64")
    inner = code.op(
        f"call MASK @treadle_simt_check_shared({arguments.format(code.get(shared))}, i32 %how)"
    )
    after = code.op(f"load <W x i64>, ptr {hosts}, align 64")
    in_shared = code.op(f"bitcast MASK {inner} to <W x i1>")
    both = code.op(f"select <W x i1> {in_shared}, <W x i64> {after}, <W x i64> {before}")
    code.do(f"store <W x i64> {both}, ptr {hosts}, align 64")
    mine = code.op(f"call MASK @treadle_simt_check_local({arguments.format(code.get(local))})")
    special = code.op(f"or MASK {inner}, {mine}")
    code.do(f"ret MASK {code.op(f'or MASK {good}, {special}')}")
    return code.text


def _access(m: Machine, kind: str, space: str, bits: int, count: int) -> str:
    """Checks the lanes of a mask and moves the data of those that pass."""
    code = Code(m, "void", access_name(kind, space, bits, count), LANES)
    nbytes, how = bits // 8 * count, STORE if kind == "store" else LOAD
    check, more = f"treadle_simt_check_{space}", f", i32 {nbytes}, i32 {how}"
    if space == "shared":
        check, more = check_name(how, nbytes), ""
    elif space == "local":
        more = f", i32 {nbytes}"
    if kind == "store":
        code.save("block", "element", str(bits // 8))
    good = code.op(f"call MASK @{check}(ptr %block, ptr %warp, MASK %mask, i32 %site{more})")
    if space == "global":
        _look(code, how, good, str(nbytes))
    code.do(f"call void @{kind}_{bits}x{count}(ptr %warp, MASK {good})")
    if kind == "store" and space in ("global", "generic"):
        outer = good if space == "global" else code.load("block", "outer", m.width)
        arguments = f"MASK {outer}, i32 %site, i32 {nbytes}"
        code.do(f"call void @note_global_write(ptr %block, ptr %warp, {arguments})")
    code.do("ret void")
    return code.text


def _look(code: Code, how: int, mask: str, nbytes: str = "%nbytes") -> None:
    """Races of an access to global memory; stores are noted when they have been made."""
    arguments = f"ptr %block, ptr %warp, MASK {mask}, i32 %site, i32 {nbytes}"
    name = "load" if how == LOAD else "store"
    code.do(f"call void @look_global_{name}({arguments}, i32 {how})")
    if how == LOAD:
        code.do(f"call void @note_global_read({arguments}, i64 0)")
