"""The functions behind mbarrier and bulk copies, which all kernels call, as LLVM IR.

The 64 bits of a barrier are ours to lay out: PTX calls them opaque.

    bits 0-19 arrivals that are pending, 20-39 arrivals of a phase, 40-61 bytes that are pending,
    63 parity of the phase

A phase ends when nothing is pending; what was done before is seen by whoever waits for it. A thread
that waits in vain gives its turn away, or the warps that it waits for would never run.
"""

from __future__ import annotations

from treadle.emulate.ptx.machine import BULK, MACHINE
from treadle.emulate.simt.code import Code, Variable
from treadle.emulate.simt.machine import LOAD, ORDERS_ALL, STORE, TOUCH

__all__ = [
    "ARRIVE", "ARRIVE_EXPECT", "COMPLETE", "DROP", "EXPECT", "FIELD", "INIT", "MBARRIER_SYMBOLS",
    "WAIT", "WAIT_PARITY", "mbarrier_functions",
]  # fmt: skip

MBARRIER_SYMBOLS = ("treadle_ptx_mbarrier", "treadle_ptx_bulk")
INIT, ARRIVE, DROP, EXPECT, ARRIVE_EXPECT, COMPLETE, WAIT, WAIT_PARITY = range(8)
_COUNT, _EXPECTED, _BYTES, _PARITY = 0, 20, 40, 63
FIELD = (1 << 20) - 1
_BYTES_FIELD = (1 << 22) - 1


def mbarrier_functions() -> list[str]:
    """The definitions of MBARRIER_SYMBOLS."""
    return [_change(), _mbarrier_function(), _bulk_function()]


def _field(code: Code, state: str, place: int, ones: int) -> str:
    return code.op(f"and i64 {code.op(f'lshr i64 {state}, {place}')}, {ones}")


def _change() -> str:
    """Applies one action to a barrier; gives what the instruction gives."""
    code = Code(
        MACHINE,
        "i64",
        "change_mbarrier",
        "ptr %block, ptr %warp, ptr %at, i32 %how, i64 %value",
        "noinline",
    )
    before = code.op("load i64, ptr %at")
    phase = code.op(f"lshr i64 {before}, {_PARITY}")

    def start() -> None:
        count = code.op(f"and i64 %value, {FIELD}")
        state = code.op(f"or i64 {count}, {code.op(f'shl i64 {count}, {_EXPECTED}')}")
        code.do(f"store i64 {state}, ptr %at")
        code.leave("ret i64 0")

    def wait(parity: str) -> None:
        done = code.op(f"icmp ne i64 {phase}, {code.op(f'and i64 {parity}, 1')}")

        def passed() -> None:
            code.do(f"call void @treadle_simt_fence(ptr %block, i32 {ORDERS_ALL})")
            code.leave("ret i64 1")

        code.when(done, passed)
        code.save("warp", "slice", "1")  # others first
        code.leave("ret i64 0")

    def is_how(*numbers: int) -> str:
        found = code.op(f"icmp eq i32 %how, {numbers[0]}")
        for number in numbers[1:]:
            found = code.op(f"or i1 {found}, {code.op(f'icmp eq i32 %how, {number}')}")
        return found

    code.when(is_how(INIT), start)
    code.when(is_how(WAIT), lambda: wait(code.op(f"lshr i64 %value, {_PARITY}")))
    code.when(is_how(WAIT_PARITY), lambda: wait("%value"))
    pending = code.variable("i64", _field(code, before, _COUNT, FIELD))
    expected = code.variable("i64", _field(code, before, _EXPECTED, FIELD))
    nbytes = code.variable("i64", _field(code, before, _BYTES, _BYTES_FIELD))

    def add(variable: Variable, value: str, sign: str = "add") -> None:
        code.set(variable, code.op(f"{sign} i64 {code.get(variable)}, {value}"))

    code.when(is_how(EXPECT, ARRIVE_EXPECT), lambda: add(nbytes, "%value"))
    code.when(is_how(COMPLETE), lambda: add(nbytes, "%value", "sub"))
    code.when(is_how(ARRIVE, DROP), lambda: add(pending, "%value", "sub"))
    code.when(is_how(ARRIVE_EXPECT), lambda: add(pending, "1", "sub"))
    code.when(is_how(DROP), lambda: add(expected, "%value", "sub"))
    parity = code.variable("i64", phase)
    mine = code.op(f"and i64 {code.get(nbytes)}, {_BYTES_FIELD}")
    code.set(nbytes, mine)
    nothing = code.op(f"icmp eq i64 {code.op(f'or i64 {mine}, {code.get(pending)}')}, 0")

    def complete() -> None:
        code.set(parity, code.op(f"xor i64 {code.get(parity)}, 1"))
        code.set(pending, code.get(expected))

    code.when(nothing, complete)
    state = code.op(f"and i64 {code.get(pending)}, {FIELD}")
    for variable, place in ((expected, _EXPECTED), (nbytes, _BYTES), (parity, _PARITY)):
        moved = code.op(f"shl i64 {code.get(variable)}, {place}")
        state = code.op(f"or i64 {state}, {moved}")
    code.do(f"store i64 {state}, ptr %at")
    code.do(f"ret i64 {before}")
    return code.text


def _lane_word(code: Code, area: str, lane: str, part: int = 0) -> str:
    base = code.at("%warp", MACHINE.warp[area] + 256 * part)
    return code.at(base, code.op(f"zext i32 {lane} to i64"), 8)


_ARGUMENTS = "ptr %block, ptr %warp, i32 %mask, i32 %site, i32 %how"


def _mbarrier_function() -> str:
    """Lane after lane: addresses and operands are the Warp's, results replace the operands."""
    code = Code(MACHINE, "void", "treadle_ptx_mbarrier", _ARGUMENTS, "noinline")
    is_init = code.op(f"icmp eq i32 %how, {INIT}")
    access = code.op(f"select i1 {is_init}, i32 {STORE}, i32 {TOUCH}")
    good = code.op(
        "call i32 @treadle_ptx_check_generic_or_shared(ptr %block, ptr %warp, i32 %mask, "
        f"i32 %site, i32 8, i32 {access})"
    )

    def act(lane: str) -> None:
        at = code.op(f"load ptr, ptr {_lane_word(code, 'hosts', lane)}")
        place = _lane_word(code, "data", lane)
        value = code.op(f"load i64, ptr {place}")
        result = code.op(
            f"call i64 @change_mbarrier(ptr %block, ptr %warp, ptr {at}, i32 %how, i64 {value})"
        )
        code.do(f"store i64 {result}, ptr {place}")

    code.each_lane(good, act)
    code.do("ret void")
    return _either() + code.text


def _either() -> str:
    """Barriers are named by their offset in shared memory or by a generic address."""
    code = Code(
        MACHINE, "i32", "treadle_ptx_check_generic_or_shared",
        "ptr %block, ptr %warp, i32 %mask, i32 %site, i32 %nbytes, i32 %how", "noinline",
    )  # fmt: skip
    base = code.load("block", "shared", 64)

    def offset(lane: str) -> None:
        place = _lane_word(code, "addresses", lane)
        address = code.op(f"load i64, ptr {place}")
        apart = code.op(f"sub i64 {address}, {base}")
        limit = code.load("block", "shared_bytes", 64)
        code.when(
            code.op(f"icmp ult i64 {apart}, {limit}"),
            lambda: code.do(f"store i64 {apart}, ptr {place}"),
        )

    code.each_lane("%mask", offset)
    found = code.op(
        "call i32 @treadle_simt_check_shared(ptr %block, ptr %warp, i32 %mask, i32 %site, "
        "i32 %nbytes, i32 %how)"
    )
    code.do(f"ret i32 {found}")
    return code.text


def _bulk_function() -> str:
    """Each lane's row, 16 bytes after 16: `more` has targets and sizes, `data` sources."""
    code = Code(MACHINE, "void", "treadle_ptx_bulk", _ARGUMENTS, "noinline")
    inwards = code.op("icmp ne i32 %how, 0")

    def row(lane: str) -> None:
        target = code.op(f"load i64, ptr {_lane_word(code, 'more', lane)}")
        nbytes = code.op(f"load i64, ptr {_lane_word(code, 'more', lane, 1)}")
        source = code.op(f"load i64, ptr {_lane_word(code, 'data', lane)}")
        place, host = (_lane_word(code, area, lane) for area in ("addresses", "hosts"))
        bit = code.op(f"shl i32 1, {lane}")
        arguments = f"ptr %block, ptr %warp, i32 {bit}, i32 %site, i32 16"

        def checked(space: str, address: str, how: int) -> str:
            code.do(f"store i64 {address}, ptr {place}")
            return code.op(f"call i32 @treadle_simt_check_{space}({arguments}, i32 {how})")

        def piece(i: str) -> None:
            at = code.op(f"zext i32 {code.op(f'shl i32 {i}, 4')} to i64")
            there = code.op(f"add i64 {target}, {at}")
            here = code.op(f"add i64 {source}, {at}")
            value = code.variable("i128", "0")

            def take() -> None:
                pointer = code.op(f"load ptr, ptr {host}")
                code.set(value, code.op(f"load i128, ptr {pointer}, align 16"))

            def put() -> None:
                note = f"call void @note_asynchronous(ptr %block, i64 {there})"
                code.when(inwards, lambda: code.do(note))
                pointer = code.op(f"load ptr, ptr {host}")
                code.do(f"store i128 {code.get(value)}, ptr {pointer}, align 16")

            def move(spaces: tuple[str, str]) -> None:
                read = checked(spaces[0], here, LOAD)
                code.when(code.op(f"icmp ne i32 {read}, 0"), take)
                written = checked(spaces[1], there, STORE)
                code.when(code.op(f"icmp ne i32 {written}, 0"), put)

            def out() -> None:
                code.do(f"store i64 {here}, ptr {place}")
                code.do(
                    f"call void @treadle_ptx_check_proxy(ptr %block, ptr %warp, i32 {bit}, "
                    "i32 %site)"
                )
                move(("shared", "global"))

            code.when(inwards, lambda: move(("global", "shared")), out)

        count = code.op(f"trunc i64 {code.op(f'lshr i64 {nbytes}, 4')} to i32")
        code.count(count, piece)
        high = code.op(f"add i64 {source}, {nbytes}")
        start = f"call void @treadle_simt_flight_start(ptr %block, ptr %warp, i32 1, i32 {BULK}, "
        outwards = code.op(f"xor i1 {inwards}, true")
        code.when(outwards, lambda: code.do(f"{start}i64 {source}, i64 {high})"))

    code.each_lane("%mask", row)
    code.do("ret void")
    return code.text
