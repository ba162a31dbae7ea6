"""The functions that translated kernels call, as LLVM IR: memory with its checks, barriers, blocks.

    load_object(compile(support_ir()), SUPPORT_SYMBOLS)

They are the same for all kernels, so they are compiled once. Their arguments are records (see
machine) and scalars; addresses and data of the 32 lanes lie in the Warp. An access that is wrong
reports a fault and is not made: the kernel goes on for its other lanes to the next backward
branch, where it sees the fault and returns.
"""

from __future__ import annotations

from treadle.emulate.ptx.async_support import ASYNC_SYMBOLS, async_functions
from treadle.emulate.ptx.barriers import BARRIER_SYMBOLS, barrier_functions
from treadle.emulate.ptx.code import Code
from treadle.emulate.ptx.global_shadow import GLOBAL_SYMBOLS, global_functions
from treadle.emulate.ptx.machine import KNOWN, Fault
from treadle.emulate.ptx.mbarrier_support import MBARRIER_SYMBOLS, mbarrier_functions
from treadle.emulate.ptx.moves import address_of, move_functions
from treadle.emulate.ptx.pending_reads import FLIGHT_SYMBOLS, flight_functions
from treadle.emulate.ptx.proxies import PROXY_SYMBOLS, proxy_functions
from treadle.emulate.ptx.shadow import (
    LOAD,
    STORE,
    TOUCH,
    check_name,
    reduce_lanes,
    shadow_functions,
)
from treadle.emulate.ptx.tensor_support import TENSOR_SYMBOLS, tensor_functions

__all__ = ["ACCESSES", "SUPPORT_SYMBOLS", "access_name", "support_ir"]

# (bits of an element, elements) of the accesses that a thread makes in one instruction.
ACCESSES = (
    (8, 1), (16, 1), (32, 1), (64, 1), (128, 1), (8, 2), (16, 2), (32, 2), (64, 2), (8, 4),
    (16, 4), (32, 4), (64, 4), (32, 8), (16, 8),
)  # fmt: skip
_SPACES = ("global", "shared", "local", "generic")
_RECORDS = "ptr %block, ptr %warp"
_ACCESS = f"{_RECORDS}, i32 %mask, i32 %line"


def access_name(kind: str, space: str, bits: int, count: int) -> str:
    """The function that makes one access: `load` or `store`."""
    return f"treadle_ptx_{kind}_{space}_{bits}x{count}"


SUPPORT_SYMBOLS = (
    "treadle_ptx_fault",
    "treadle_ptx_check_global",
    "treadle_ptx_check_shared",
    "treadle_ptx_check_generic",
    *(
        access_name(kind, space, bits, count)
        for kind in ("load", "store")
        for space in _SPACES
        for bits, count in ACCESSES
    ),
    *BARRIER_SYMBOLS,
    *MBARRIER_SYMBOLS,
    *TENSOR_SYMBOLS,
    *ASYNC_SYMBOLS,
    *FLIGHT_SYMBOLS,
    *PROXY_SYMBOLS,
    *GLOBAL_SYMBOLS,
)


def support_ir() -> str:
    """All of them, as one module."""
    functions = [_fault(), _check_global(), _check_global_each(), _find()]
    functions += [*shadow_functions(), _check_local(), _check_generic(), *barrier_functions()]
    functions += [
        *mbarrier_functions(),
        *tensor_functions(),
        *async_functions(),
        *flight_functions(),
        *proxy_functions(),
        *global_functions(),
    ]
    for bits, count in ACCESSES:
        functions += move_functions(bits, count)
        for kind in ("load", "store"):
            functions += [_access(kind, space, bits, count) for space in _SPACES]
    return _DECLARATIONS + "\n".join(functions)


_DECLARATIONS = """
declare i32 @llvm.cttz.i32(i32, i1)
declare i32 @llvm.ctpop.i32(i32)
declare i64 @llvm.vector.reduce.umin.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.umax.v32i64(<32 x i64>)
declare i64 @llvm.vector.reduce.or.v32i64(<32 x i64>)
declare i1 @llvm.vector.reduce.and.v32i1(<32 x i1>)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.smin.i64(i64, i64)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @llvm.umin.i32(i32, i32)
declare i32 @llvm.umax.i32(i32, i32)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare i32 @memcmp(ptr, ptr, i64)
"""


def _fault() -> str:
    """Records the first fault of a launch, and makes the warp return soon."""
    code = Code(
        "void", "treadle_ptx_fault",
        f"{_RECORDS}, i32 %kind, i32 %line, i32 %lane, i64 %address, i32 %nbytes, i64 %extra",
        "noinline cold",
    )  # fmt: skip
    code.do(f"%launch = load ptr, ptr {code.field('block', 'launch')}")
    place = code.field("launch", "fault")
    swap = code.op(f"cmpxchg ptr {place}, i32 0, i32 %kind seq_cst seq_cst")

    def fill() -> None:
        thread = code.op(f"mul i32 {code.load('warp', 'number')}, 32")
        code.save("launch", "thread", code.op(f"add i32 {thread}, %lane"))
        code.save("launch", "line", "%line")
        code.save("launch", "nbytes", "%nbytes")
        code.save("launch", "address", "%address", 64)
        code.save("launch", "in_block", code.load("block", "number", 64), 64)
        code.save("launch", "extra", "%extra", 64)

    code.when(code.op(f"extractvalue {{i32, i1}} {swap}, 1"), fill)
    code.save("warp", "slice", "0")
    code.do("ret void")
    return code.text


def report(code: Code, kind: Fault, lane: str, address: str, nbytes: str, extra: str = "0") -> None:
    """Calls the fault function from a function that has %line."""
    code.do(
        f"call void @treadle_ptx_fault(ptr %block, ptr %warp, i32 {int(kind)}, i32 %line, "
        f"i32 {lane}, i64 {address}, i32 {nbytes}, i64 {extra})"
    )


def _check_global() -> str:
    """The lanes of the mask whose addresses are aligned and inside a live allocation."""
    code = Code("i32", "treadle_ptx_check_global", f"{_ACCESS}, i32 %nbytes", "noinline")
    code.when(code.op("icmp eq i32 %mask, 0"), lambda: code.leave("ret i32 0"))
    addresses = code.op(f"load <32 x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    low = reduce_lanes(code, "umin", addresses)
    high = reduce_lanes(code, "umax", addresses)
    every = reduce_lanes(code, "or", addresses)
    nbytes = code.op("zext i32 %nbytes to i64")
    last = code.op(f"add i64 {high}, {nbytes}")
    odd = code.op(f"and i64 {every}, {code.op(f'add i64 {nbytes}, -1')}")
    aligned = code.op(f"icmp eq i64 {odd}, 0")
    known = _known(code)

    def fits() -> str:
        start = code.op(f"load i64, ptr {known}")
        end = code.op(f"load i64, ptr {code.at(known, 8)}")
        inside = code.op(f"icmp uge i64 {low}, {start}")
        before = code.op(f"icmp ule i64 {last}, {end}")
        both = code.op(f"and i1 {inside}, {before}")
        return code.op(f"and i1 {both}, {aligned}")

    code.when(fits(), lambda: code.leave("ret i32 %mask"))
    code.op(f"call i1 @find_allocation(ptr %block, ptr {known}, i64 {low}, i64 {nbytes})")
    code.when(fits(), lambda: code.leave("ret i32 %mask"))
    found = code.op(
        "call i32 @check_global_each(ptr %block, ptr %warp, i32 %mask, i32 %line, i32 %nbytes)"
    )
    code.do(f"ret i32 {found}")
    return code.text


def _known(code: Code) -> str:
    """Where the allocation that the instruction of this line found last is kept."""
    row = code.op(f"and i32 %line, {KNOWN - 1}")
    offset = code.op(f"shl i32 {row}, 4")
    return code.at(code.field("block", "known"), code.op(f"zext i32 {offset} to i64"))


def _check_global_each() -> str:
    code = Code("i32", "check_global_each", f"{_ACCESS}, i32 %nbytes", "noinline")
    good = code.variable("i32", "0")
    known = _known(code)
    wide = code.op("zext i32 %nbytes to i64")
    odd = code.op(f"add i64 {wide}, -1")

    def lane_check(lane: str) -> None:
        address = code.op(f"load i64, ptr {address_of(code, lane)}")
        rest = code.op(f"and i64 {address}, {odd}")

        def inside() -> None:
            found = code.op(
                f"call i1 @find_allocation(ptr %block, ptr {known}, i64 {address}, i64 {wide})"
            )
            code.when(
                found,
                lambda: _add_lane(code, good, lane),
                lambda: report(code, Fault.GLOBAL, lane, address, "%nbytes"),
            )

        code.when(
            code.op(f"icmp eq i64 {rest}, 0"),
            inside,
            lambda: report(code, Fault.MISALIGNED, lane, address, "%nbytes"),
        )

    code.each_lane("%mask", lane_check)
    code.do(f"ret i32 {code.get(good)}")
    return code.text


def _add_lane(code: Code, mask, lane: str) -> None:
    code.set(mask, code.op(f"or i32 {code.get(mask)}, {code.op(f'shl i32 1, {lane}')}"))


def _find() -> str:
    """Whether an allocation holds the bytes; `%known` holds its ends from then on."""
    code = Code(
        "i1", "find_allocation", "ptr %block, ptr %known, i64 %address, i64 %nbytes", "noinline"
    )
    code.do(f"%launch = load ptr, ptr {code.field('block', 'launch')}")
    table = code.pointer("launch", "table")
    low = code.variable("i64", "0")
    high = code.variable("i64", code.load("launch", "table_count", 64))

    def step() -> None:
        middle = code.op(f"lshr i64 {code.op(f'add i64 {code.get(low)}, {code.get(high)}')}, 1")
        row = code.at(table, code.op(f"shl i64 {middle}, 1"), 8)
        start = code.op(f"load i64, ptr {row}")
        code.when(
            code.op(f"icmp ule i64 {start}, %address"),
            lambda: code.set(low, code.op(f"add i64 {middle}, 1")),
            lambda: code.set(high, middle),
        )

    code.loop(lambda: code.op(f"icmp ult i64 {code.get(low)}, {code.get(high)}"), step)
    count = code.get(low)
    code.when(code.op(f"icmp eq i64 {count}, 0"), lambda: code.leave("ret i1 false"))
    row = code.at(table, code.op(f"shl i64 {code.op(f'add i64 {count}, -1')}, 1"), 8)
    start = code.op(f"load i64, ptr {row}")
    end = code.op(f"load i64, ptr {code.at(row, 8)}")
    last = code.op("add i64 %address, %nbytes")
    code.when(code.op(f"icmp ugt i64 {last}, {end}"), lambda: code.leave("ret i1 false"))
    code.do(f"store i64 {start}, ptr %known")
    code.do(f"store i64 {end}, ptr {code.at('%known', 8)}")
    code.do("ret i1 true")
    return code.text


def thread_local_base(code: Code, lane: str) -> str:
    """The host address of a thread's local memory."""
    first = code.op(f"mul i32 {code.load('warp', 'number')}, 32")
    thread = code.op(f"zext i32 {code.op(f'add i32 {first}, {lane}')} to i64")
    offset = code.op(f"mul i64 {thread}, {code.load('block', 'local_bytes', 64)}")
    return code.op(f"add i64 {code.load('block', 'local', 64)}, {offset}")


def _check_local() -> str:
    """Makes the lanes' local addresses host addresses; gives the lanes where they are right."""
    code = Code("i32", "check_local", f"{_ACCESS}, i32 %nbytes", "noinline")
    good = code.variable("i32", "0")
    wide = code.op("zext i32 %nbytes to i64")
    odd = code.op(f"add i64 {wide}, -1")
    limit = code.load("block", "local_bytes", 64)

    def lane_check(lane: str) -> None:
        place = address_of(code, lane)
        address = code.op(f"load i64, ptr {place}")
        last = code.op(f"add i64 {address}, {wide}")
        inside = code.op(f"icmp ule i64 {last}, {limit}")
        small = code.op(f"icmp ult i64 {address}, {limit}")

        def move() -> None:
            host = code.op(f"add i64 {address}, {thread_local_base(code, lane)}")
            code.do(f"store i64 {host}, ptr {place}")
            _add_lane(code, good, lane)

        def aligned() -> None:
            rest = code.op(f"and i64 {address}, {odd}")
            code.when(
                code.op(f"icmp eq i64 {rest}, 0"),
                move,
                lambda: report(code, Fault.MISALIGNED, lane, address, "%nbytes"),
            )

        code.when(
            code.op(f"and i1 {inside}, {small}"),
            aligned,
            lambda: report(code, Fault.LOCAL, lane, address, "%nbytes"),
        )

    code.each_lane("%mask", lane_check)
    code.do(f"ret i32 {code.get(good)}")
    return code.text


def _check_generic() -> str:
    """Sorts generic addresses by the space that they fall in, and checks each there."""
    code = Code("i32", "treadle_ptx_check_generic", f"{_ACCESS}, i32 %nbytes, i32 %how", "noinline")
    shared = code.variable("i32", "0")
    local = code.variable("i32", "0")
    base, limit = code.load("block", "shared", 64), code.load("block", "shared_bytes", 64)
    threads = code.op(f"zext i32 {code.load('block', 'threads')} to i64")
    local_base = code.load("block", "local", 64)
    local_limit = code.op(f"mul i64 {threads}, {code.load('block', 'local_bytes', 64)}")

    def sort(lane: str) -> None:
        place = address_of(code, lane)
        address = code.op(f"load i64, ptr {place}")
        offset = code.op(f"sub i64 {address}, {base}")
        near = code.op(f"sub i64 {address}, {local_base}")

        def is_shared() -> None:
            code.do(f"store i64 {offset}, ptr {place}")
            _add_lane(code, shared, lane)

        def is_local() -> None:
            mine = code.op(f"sub i64 {address}, {thread_local_base(code, lane)}")
            code.do(f"store i64 {mine}, ptr {place}")
            _add_lane(code, local, lane)

        code.when(
            code.op(f"icmp ult i64 {offset}, {limit}"),
            is_shared,
            lambda: code.when(code.op(f"icmp ult i64 {near}, {local_limit}"), is_local),
        )

    code.each_lane("%mask", sort)
    arguments = "ptr %block, ptr %warp, i32 {}, i32 %line, i32 %nbytes"
    special = code.op(f"or i32 {code.get(shared)}, {code.get(local)}")
    rest = code.op(f"and i32 %mask, {code.op(f'xor i32 {special}, -1')}")
    outer = code.variable("i32", "0")

    def touch() -> None:
        call = f"call i32 @treadle_ptx_touch_global({arguments.format(rest)})"
        code.set(outer, code.op(call))

    def access() -> None:
        call = f"call i32 @treadle_ptx_check_global({arguments.format(rest)})"
        code.set(outer, code.op(call))
        is_load = code.op(f"icmp eq i32 %how, {LOAD}")
        mine = code.get(outer)
        code.when(is_load, lambda: _look(code, LOAD, mine), lambda: _look(code, STORE, mine))

    code.when(code.op(f"icmp eq i32 %how, {TOUCH}"), touch, access)
    good = code.get(outer)
    code.save("block", "outer", good)
    code.when(code.op(f"icmp eq i32 {special}, 0"), lambda: code.leave(f"ret i32 {good}"))
    inner = code.op(
        f"call i32 @treadle_ptx_check_shared({arguments.format(code.get(shared))}, i32 %how)"
    )
    mine = code.op(f"call i32 @check_local({arguments.format(code.get(local))})")
    special = code.op(f"or i32 {inner}, {mine}")
    code.do(f"ret i32 {code.op(f'or i32 {good}, {special}')}")
    return code.text


_CHECKS = {"global": "treadle_ptx_check_global", "local": "check_local"}


def _access(kind: str, space: str, bits: int, count: int) -> str:
    """Checks the lanes of a mask and moves the data of those that pass."""
    code = Code("void", access_name(kind, space, bits, count), _ACCESS)
    nbytes, how = bits // 8 * count, STORE if kind == "store" else LOAD
    if space == "shared":
        check, more = check_name(how, nbytes), ""
    elif space == "generic":
        check, more = "treadle_ptx_check_generic", f", i32 {nbytes}, i32 {how}"
    else:
        check, more = _CHECKS[space], f", i32 {nbytes}"
    if kind == "store":
        code.save("block", "element", str(bits // 8))
    good = code.op(f"call i32 @{check}(ptr %block, ptr %warp, i32 %mask, i32 %line{more})")
    if space == "global":
        _look(code, how, good, str(nbytes))
    code.do(f"call void @{kind}_{bits}x{count}(ptr %warp, i32 {good})")
    if kind == "store" and space in ("global", "generic"):
        outer = good if space == "global" else code.load("block", "outer")
        arguments = f"i32 {outer}, i32 %line, i32 {nbytes}"
        code.do(f"call void @note_global_write(ptr %block, ptr %warp, {arguments})")
    code.do("ret void")
    return code.text


def _look(code: Code, how: int, mask: str, nbytes: str = "%nbytes") -> None:
    """Races of an access to global memory; stores are noted when they have been made."""
    arguments = f"ptr %block, ptr %warp, i32 {mask}, i32 %line, i32 {nbytes}"
    name = "load" if how == LOAD else "store"
    code.do(f"call void @look_global_{name}({arguments}, i32 {how})")
    if how == LOAD:
        code.do(f"call void @note_global_read({arguments}, i64 0)")
