"""The functions behind cp.async, which all kernels call, as LLVM IR.

A warp's copies on their way are a ring of QUEUED records behind its registers:

    line, lanes that are still on their way, words of each lane; per lane its place in shared
    memory, the group that it belongs to, and the data

When the ring is full its oldest copy lands, as it may.
"""

from __future__ import annotations

from treadle.emulate.ptx.machine import MACHINE
from treadle.emulate.simt.code import RECORDS, Code
from treadle.emulate.simt.machine import STORE

__all__ = ["ASYNC_SYMBOLS", "QUEUE_BYTES", "async_functions"]

ASYNC_SYMBOLS = ("treadle_ptx_copy_start", "treadle_ptx_copy_wait")
_QUEUED = 64
_LINE, _MASK, _WORDS, _PLACES, _GROUPS, _DATA, _BYTES = 0, 4, 8, 64, 192, 320, 832
QUEUE_BYTES = _QUEUED * _BYTES
_LANES = "<32 x i32>"


def async_functions() -> list[str]:
    """The definitions of ASYNC_SYMBOLS and of what they call."""
    return [_land(), _start(), _wait()]


def _record(code: Code, number: str) -> str:
    """The record of the `number`th copy that was ever started."""
    slot = code.op(f"zext i32 {code.op(f'and i32 {number}, {_QUEUED - 1}')} to i64")
    return code.at("%queue", code.op(f"mul i64 {slot}, {_BYTES}"))


def _load(code: Code, record: str, place: int) -> str:
    return code.op(f"load i32, ptr {code.at(record, place)}")


def _lanes(code: Code, place: str) -> str:
    return code.op(f"load {_LANES}, ptr {place}, align 64")


def _land() -> str:
    """Writes some lanes of a copy to shared memory, as a store by these threads now."""
    code = Code(MACHINE, "void", "land_copy", f"{RECORDS}, ptr %record, i32 %mask", "noinline")
    rest = code.op(f"and i32 {_load(code, '%record', _MASK)}, {code.op('xor i32 %mask, -1')}")
    code.do(f"store i32 {rest}, ptr {code.at('%record', _MASK)}")
    places = _lanes(code, code.at("%record", _PLACES))
    wide = code.op(f"zext {_LANES} {places} to <32 x i64>")
    code.do(f"store <32 x i64> {wide}, ptr {code.field('warp', 'addresses')}, align 64")
    code.do(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {code.field('warp', 'data')}, "
        f"ptr {code.at('%record', _DATA)}, i64 512, i1 false)"
    )
    line, words = _load(code, "%record", _LINE), _load(code, "%record", _WORDS)
    for count in (1, 2, 4):
        call = (
            f"call void @treadle_simt_store_shared_32x{count}(ptr %block, ptr %warp, i32 %mask, "
            f"i32 {line})"
        )
        code.when(code.op(f"icmp eq i32 {words}, {count}"), lambda call=call: code.do(call))
    code.do("ret void")
    return code.text


def _start() -> str:
    """Puts a copy behind the others. From now on its target is unwritten."""
    code = Code(
        MACHINE, "void", "treadle_ptx_copy_start",
        "ptr %block, ptr %warp, i32 %mask, i32 %site, ptr %queue, i32 %words", "noinline",
    )  # fmt: skip
    places = code.op(f"load <32 x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    nbytes = code.op("shl i32 %words, 2")
    good = code.op(
        "call i32 @treadle_simt_check_shared(ptr %block, ptr %warp, i32 %mask, i32 %site, "
        f"i32 {nbytes}, i32 {STORE})"
    )
    written = code.pointer("block", "written")
    shadow = code.op(f"zext i32 {code.op(f'shl i32 {nbytes}, 2')} to i64")

    def forget(lane: str) -> None:
        at = code.at(written, code.lane_address(lane), 4)
        code.do(f"call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {shadow}, i1 false)")

    code.each_lane(good, forget)
    first, last = code.load("warp", "oldest_copy"), code.load("warp", "next_copy")

    def make_room() -> None:
        # Landing uses the Warp's data, where the new copy's is.
        kept = code.variable("[512 x i8]", "zeroinitializer")
        data = code.field("warp", "data")
        size = "i64 512, i1 false"
        code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {kept}, ptr {data}, {size})")
        oldest = _record(code, first)
        code.do(
            f"call void @land_copy(ptr %block, ptr %warp, ptr {oldest}, "
            f"i32 {_load(code, oldest, _MASK)})"
        )
        code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {kept}, {size})")
        code.save("warp", "oldest_copy", code.op(f"add i32 {first}, 1"))

    waiting = code.op(f"sub i32 {last}, {first}")
    code.when(code.op(f"icmp eq i32 {waiting}, {_QUEUED}"), make_room)
    record = _record(code, last)
    for place, value in ((_LINE, "%site"), (_MASK, good), (_WORDS, "%words")):
        code.do(f"store i32 {value}, ptr {code.at(record, place)}")
    short = code.op(f"trunc <32 x i64> {places} to {_LANES}")
    code.do(f"store {_LANES} {short}, ptr {code.at(record, _PLACES)}, align 64")
    groups = _lanes(code, code.field("warp", "groups"))
    code.do(f"store {_LANES} {groups}, ptr {code.at(record, _GROUPS)}, align 64")
    code.do(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {code.at(record, _DATA)}, "
        f"ptr {code.field('warp', 'data')}, i64 512, i1 false)"
    )
    code.save("warp", "next_copy", code.op(f"add i32 {last}, 1"))
    code.do("ret void")
    return code.text


def _wait() -> str:
    """Lets the copies of a mask of lanes land whose group is older than the `newest` ones."""
    code = Code(
        MACHINE, "void", "treadle_ptx_copy_wait",
        "ptr %block, ptr %warp, i32 %mask, ptr %queue, i32 %newest", "noinline",
    )  # fmt: skip
    first, last = code.load("warp", "oldest_copy"), code.load("warp", "next_copy")
    every = code.op("icmp slt i32 %newest, 0")
    one = code.op(f"insertelement {_LANES} poison, i32 %newest, i32 0")
    spread = code.op(f"shufflevector {_LANES} {one}, {_LANES} poison, {_LANES} zeroinitializer")
    groups = _lanes(code, code.field("warp", "groups"))
    bound = code.op(f"sub {_LANES} {groups}, {spread}")
    oldest = code.variable("i32", last)

    def look(number: str) -> None:
        record = _record(code, number)
        mine = _lanes(code, code.at(record, _GROUPS))
        old = code.op(f"bitcast <32 x i1> {code.op(f'icmp slt {_LANES} {mine}, {bound}')} to i32")
        chosen = code.op(f"select i1 {every}, i32 -1, i32 {old}")
        waiting = _load(code, record, _MASK)
        chosen = code.op(f"and i32 {code.op(f'and i32 {chosen}, {waiting}')}, %mask")
        land = f"call void @land_copy(ptr %block, ptr %warp, ptr {record}, i32 {chosen})"
        code.when(code.op(f"icmp ne i32 {chosen}, 0"), lambda: code.do(land))
        left = code.op(f"icmp ne i32 {_load(code, record, _MASK)}, 0")
        least = code.op(f"call i32 @llvm.umin.i32(i32 {code.get(oldest)}, i32 {number})")
        code.when(left, lambda: code.set(oldest, least))

    code.count(last, look, first)
    code.save("warp", "oldest_copy", code.get(oldest))
    code.do("ret void")
    return code.text
