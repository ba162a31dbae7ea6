"""The two ways to shared memory, and the fence between them, as LLVM IR.

Ordinary stores go by the generic proxy; wgmma and bulk copies by the asynchronous one, which need
not see them without a `fence.proxy.async` between: by the writer, or by the reader once a barrier
has told of the writes. A fence by one thread is taken for its warp's.
"""

from __future__ import annotations

from treadle.emulate.ptx.machine import MACHINE, PTXFault
from treadle.emulate.simt.code import Code
from treadle.emulate.simt.shadow import ASYNCHRONOUS, ID_BITS

__all__ = ["PROXY_SYMBOLS", "proxy_functions"]

PROXY_SYMBOLS = ("treadle_ptx_proxy_fence", "treadle_ptx_check_proxy")


def proxy_functions() -> list[str]:
    """The definitions of PROXY_SYMBOLS, and a note that an asynchronous copy has written."""
    return [_fence(), _check(), _note()]


def _stamp_of(code: Code, warp: str) -> str:
    return code.slot("block", "proxy_stamps", warp)


def _fence() -> str:
    code = Code(
        MACHINE, "void", "treadle_ptx_proxy_fence", "ptr %block, ptr %warp, i32 %mask", "noinline"
    )
    code.when(code.op("icmp eq i32 %mask, 0"), lambda: code.leave("ret void"))
    place = _stamp_of(code, code.load("warp", "number"))
    code.do(f"store i32 {code.load('block', 'stamp')}, ptr {place}")
    code.do("call void @tick(ptr %block)")
    code.do("ret void")
    return code.text


def _check() -> str:
    """Reports a byte at a lane's offset that was stored, with no fence since."""
    code = Code(
        MACHINE,
        "void",
        "treadle_ptx_check_proxy",
        "ptr %block, ptr %warp, i32 %mask, i32 %site",
        "noinline",
    )
    written, limit = code.pointer("block", "written"), code.load("block", "shared_bytes", 64)
    own = code.op(f"load i32, ptr {_stamp_of(code, code.load('warp', 'number'))}")

    def look(lane: str) -> None:
        offset = code.lane_address(lane)

        def judge() -> None:
            word = code.op(f"load i32, ptr {code.at(written, offset, 4)}")
            stamp = code.op(f"lshr i32 {word}, {ID_BITS}")
            id = code.op(f"and i32 {word}, {(1 << ID_BITS) - 1}")
            first = code.op(f"icmp uge i32 {stamp}, {code.load('block', 'first_stamp')}")
            thread = code.op(f"icmp ult i32 {id}, 1024")
            warp = code.op(f"and i32 {code.op(f'lshr i32 {id}, 5')}, 31")
            theirs = code.op(f"load i32, ptr {_stamp_of(code, warp)}")
            fenced = code.op(f"call i32 @llvm.umax.i32(i32 {own}, i32 {theirs})")
            wrong = code.op(f"icmp ugt i32 {stamp}, {fenced}")
            for other in (first, thread):
                wrong = code.op(f"and i1 {wrong}, {other}")
            who = code.as_extra(id, "i32")
            code.when(wrong, lambda: code.report(PTXFault.PROXY, lane, offset, "1", who))

        code.when(code.op(f"icmp ult i64 {offset}, {limit}"), judge)

    code.each_lane("%mask", look)
    code.do("ret void")
    return code.text


def _note() -> str:
    """Sixteen bytes at an offset have been written by an asynchronous copy, no thread's store."""
    code = Code(MACHINE, "void", "note_asynchronous", "ptr %block, i64 %offset", "noinline")
    stamp = code.op(f"shl i32 {code.load('block', 'stamp')}, {ID_BITS}")
    word = code.op(f"or i32 {stamp}, {ASYNCHRONOUS}")
    words = code.spread("i32", word, 16)
    place = code.at(code.pointer("block", "written"), "%offset", 4)
    code.do(f"store <16 x i32> {words}, ptr {place}, align 4")
    code.do("ret void")
    return code.text
