"""Pending reads: of shared memory, after the instruction that asked for them, as LLVM IR.

What is read by somebody else than the thread (a matrix unit, a copy engine) is read until it is
waited for. Here it is read at once; the pieces are kept in the Block until the wait, and whoever
writes there before is at fault. A piece is (first byte, behind the last, warp, number of its group
and kind). There are two kinds, 0 and 1, that a front end gives a meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.code import Code
from treadle.emulate.simt.machine import FLIGHT_BYTES, FLIGHTS, Fault

if TYPE_CHECKING:
    from treadle.emulate.simt.machine import Machine

__all__ = ["FLIGHT_SYMBOLS", "flight_functions"]

FLIGHT_SYMBOLS = ("treadle_simt_flight_start", "treadle_simt_flight_wait")
_LOW, _HIGH, _WARP, _GROUP = 0, 8, 16, 20


def flight_functions(m: Machine) -> list[str]:
    """The definitions of FLIGHT_SYMBOLS, and the check for stores."""
    return [_start(m), _wait(m), _check(m)]


def _record(code: Code, number: str) -> str:
    place = code.op(f"mul i64 {code.wide(number)}, {FLIGHT_BYTES}")
    return code.at(code.field("block", "flights"), place)


def _word(code: Code, record: str, place: int, bits: int = 32) -> str:
    return code.op(f"load i{bits}, ptr {code.at(record, place)}")


def _group(code: Code) -> str:
    """How many groups of a kind the warp has closed, twice, plus the kind."""
    count = code.op(f"load i32, ptr {code.slot('warp', 'flight_groups', '%kind')}")
    return code.op(f"or i32 {code.op(f'shl i32 {count}, 1')}, %kind")


def _start(m: Machine) -> str:
    """A piece is read from now on; one that touches the last of the same group is added to it."""
    code = Code(
        m, "void", "treadle_simt_flight_start",
        "ptr %block, ptr %warp, MASK %mask, i32 %kind, i64 %low, i64 %high", "noinline",
    )  # fmt: skip
    code.when(code.is_empty("%mask"), lambda: code.leave("ret void"))
    group, mine = _group(code), code.load("warp", "number")
    count = code.load("block", "flight_count")

    def add(number: str) -> None:
        record = _record(code, number)
        low, high = (_word(code, record, place, 64) for place in (_LOW, _HIGH))
        same = code.op(f"icmp eq i32 {_word(code, record, _WARP)}, {mine}")
        alike = code.op(f"icmp eq i32 {_word(code, record, _GROUP)}, {group}")
        before = code.op(f"icmp ule i64 %low, {high}")
        behind = code.op(f"icmp uge i64 %high, {low}")
        for other in (alike, before, behind):
            same = code.op(f"and i1 {same}, {other}")

        def join() -> None:
            least = code.op(f"call i64 @llvm.umin.i64(i64 %low, i64 {low})")
            most = code.op(f"call i64 @llvm.umax.i64(i64 %high, i64 {high})")
            code.do(f"store i64 {least}, ptr {code.at(record, _LOW)}")
            code.do(f"store i64 {most}, ptr {code.at(record, _HIGH)}")
            code.leave("ret void")

        code.when(same, join)

    code.count(count, add)
    full = code.op(f"icmp uge i32 {count}, {FLIGHTS}")
    code.when(full, lambda: code.leave("ret void"))
    record = _record(code, count)
    for place, value, bits in (
        (_LOW, "%low", 64), (_HIGH, "%high", 64), (_WARP, mine, 32), (_GROUP, group, 32)
    ):  # fmt: skip
        code.do(f"store i{bits} {value}, ptr {code.at(record, place)}")
    code.save("block", "flight_count", code.op(f"add i32 {count}, 1"))
    code.do("ret void")
    return code.text


def _wait(m: Machine) -> str:
    """All but the `newest` groups of a kind have been read; with a mask of 0 nobody waits."""
    code = Code(
        m, "void", "treadle_simt_flight_wait",
        "ptr %block, ptr %warp, MASK %mask, i32 %kind, i32 %newest", "noinline",
    )  # fmt: skip
    code.when(code.is_empty("%mask"), lambda: code.leave("ret void"))
    bound = code.op(f"sub i32 {_group(code)}, {code.op('shl i32 %newest, 1')}")
    mine = code.load("warp", "number")
    left = code.variable("i32", "0")

    def keep(number: str) -> None:
        record = _record(code, number)
        group = _word(code, record, _GROUP)
        kind = code.op(f"icmp eq i32 {code.op(f'and i32 {group}, 1')}, %kind")
        old = code.op(f"icmp slt i32 {group}, {bound}")
        own = code.op(f"icmp eq i32 {_word(code, record, _WARP)}, {mine}")
        gone = code.op(f"and i1 {own}, {code.op(f'and i1 {old}, {kind}')}")

        def move() -> None:
            to = _record(code, code.get(left))
            code.do(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {record}, "
                    f"i64 {FLIGHT_BYTES}, i1 false)")  # fmt: skip
            code.set(left, code.op(f"add i32 {code.get(left)}, 1"))

        code.when(code.op(f"xor i1 {gone}, true"), move)

    code.count(code.load("block", "flight_count"), keep)
    code.save("block", "flight_count", code.get(left))
    code.do("ret void")
    return code.text


def _check(m: Machine) -> str:
    """Reports a store of `nbytes` at an offset of shared memory that is still being read."""
    code = Code(
        m, "void", "check_flights",
        "ptr %block, ptr %warp, i32 %site, i32 %lane, i64 %address, i32 %nbytes", "noinline",
    )  # fmt: skip
    last = code.op(f"add i64 %address, {code.wide('%nbytes')}")

    def look(number: str) -> None:
        record = _record(code, number)
        before = code.op(f"icmp ult i64 %address, {_word(code, record, _HIGH, 64)}")
        behind = code.op(f"icmp ugt i64 {last}, {_word(code, record, _LOW, 64)}")

        def fault() -> None:
            who = code.as_extra(_word(code, record, _WARP), "i32")
            code.report(Fault.IN_FLIGHT, "%lane", "%address", "%nbytes", who)
            code.leave("ret void")

        code.when(code.op(f"and i1 {before}, {behind}"), fault)

    code.count(code.load("block", "flight_count"), look)
    code.do("ret void")
    return code.text
