"""The function behind cp.async.bulk.tensor, which all kernels call, as LLVM IR.

A lane's box is moved row by row in pieces of 16 bytes, the unit of swizzles. What lies outside of
the tensor is zeros on the way in, and stays as it is on the way out. NVIDIA does not say how the
copy engine rounds tf32; to the nearest is what CUTLASS relies on.
"""

from __future__ import annotations

from treadle.emulate.ptx.machine import (
    BULK,
    MACHINE,
    TENSOR_MAP,
    TENSOR_MAP_BYTES,
    TENSOR_MAP_SIGN,
    PTXFault,
)
from treadle.emulate.simt.code import LANES, RECORDS, Code
from treadle.emulate.simt.machine import LOAD, STORE, Fault
from treadle.emulate.simt.moves import host_of
from treadle.emulate.simt.shadow import check_name

__all__ = ["BOX_BYTES", "INWARDS", "MAP", "SHARED", "TENSOR_SYMBOLS", "tensor_functions"]

TENSOR_SYMBOLS = ("treadle_ptx_tensor",)
# Parts of the Warp's `data`, 64 bits a lane; coordinates are parts of `more`, 32 bits a lane.
MAP, SHARED, BOX_BYTES = 0, 1, 2
INWARDS = 256  # added to the instruction's dimensions
_ROUNDS = 512  # added where elements become tf32
_MAP_ALIGN, _SHARED_ALIGN = 64, 128
_OUTER = range(1, 5)


def tensor_functions() -> list[str]:
    """The definitions of TENSOR_SYMBOLS and of what they call."""
    return [_rounding(), _piece(), _box(), _tensor_function()]


def _wide(code: Code, value: str, bits: int = 32) -> str:
    return code.op(f"zext i{bits} {value} to i64")


def _wide_word(code: Code, value: str) -> str:
    return code.op(f"zext i16 {value} to i32")


def _in_map(code: Code, name: str, bits: int) -> str:
    return code.op(f"load i{bits}, ptr {code.at('%map', TENSOR_MAP[name])}")


def _report(code: Code, kind: int, address: str, nbytes: str, extra: str = "0"):
    code.report(kind, "%lane", address, nbytes, extra)
    code.leave("ret void")


def _host(code: Code, address: str, nbytes: str, how: str) -> str:
    """The host's address of bytes in global memory; returns where they may not be accessed."""
    host = code.op(
        "call i64 @treadle_simt_host(ptr %block, ptr %warp, i32 %site, i32 %lane, "
        f"i64 {address}, i32 {nbytes}, i32 {how})"
    )
    code.when(code.op(f"icmp eq i64 {host}, 0"), lambda: code.leave("ret void"))
    return host


def _rounding() -> str:
    """Four float32 become the nearest tf32; NaNs stay."""
    code = Code(MACHINE, "void", "round_to_tf32", "ptr %place", "noinline")
    four, lost = "<4 x i32>", [f"splat (i32 {n})" for n in (0x1000, ~0x1FFF)]
    value = code.op(f"load {four}, ptr %place, align 16")
    near = code.op(f"and {four} {code.op(f'add {four} {value}, {lost[0]}')}, {lost[1]}")
    floats = code.op(f"bitcast {four} {value} to <4 x float>")
    is_nan = code.op(f"fcmp uno <4 x float> {floats}, {floats}")
    near = code.op(f"select <4 x i1> {is_nan}, {four} {value}, {four} {near}")
    code.do(f"store {four} {near}, ptr %place, align 16")
    code.do("ret void")
    return code.text


_PIECE = (
    f"{RECORDS}, i32 %site, i32 %lane, i64 %offset, i64 %outside, i64 %skip, i64 %nbytes, "
    "i32 %inwards"
)


def _piece() -> str:
    """Sixteen bytes of shared memory: `nbytes` of them, from `skip` on, are in the tensor."""
    code = Code(MACHINE, "void", "move_tensor_piece", _PIECE, "noinline")
    some = code.op("icmp ne i64 %nbytes, 0")
    inwards = code.op("icmp ne i32 %inwards, 0")

    outer = code.variable("i64", "0")

    def look() -> None:
        how = code.op(f"select i1 {inwards}, i32 {LOAD}, i32 {STORE}")
        nbytes = code.op("trunc i64 %nbytes to i32")
        code.set(outer, _host(code, "%outside", nbytes, how))

    code.when(some, look)
    nothing = code.op(f"or i1 {some}, {inwards}")
    code.when(code.op(f"xor i1 {nothing}, true"), lambda: code.leave("ret void"))
    code.do(f"store i64 %offset, ptr {code.slot('warp', 'addresses', '%lane', 64)}")
    bit = code.op("shl i32 1, %lane")
    proxy = f"call void @treadle_ptx_check_proxy(ptr %block, ptr %warp, i32 {bit}, i32 %site)"
    code.when(code.op(f"xor i1 {inwards}, true"), lambda: code.do(proxy))
    good = code.variable("i32", "0")
    for condition, how in ((inwards, STORE), (code.op(f"xor i1 {inwards}, true"), LOAD)):
        call = f"call i32 @{check_name(how, 16)}(ptr %block, ptr %warp, i32 {bit}, i32 %site)"
        code.when(condition, lambda call=call: code.set(good, code.op(call)))
    bad = code.op(f"icmp eq i32 {code.get(good)}, 0")
    code.when(bad, lambda: code.leave("ret void"))
    inner = code.op(f"load ptr, ptr {host_of(code, '%lane')}")
    there = code.op(f"inttoptr i64 {code.get(outer)} to ptr")
    part = code.at(inner, "%skip")

    def take() -> None:
        code.do("call void @note_asynchronous(ptr %block, i64 %offset)")
        code.do(f"store i128 0, ptr {inner}, align 16")
        code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {part}, ptr {there}, i64 %nbytes, i1 false)")
        rounds = code.op(f"icmp uge i32 %inwards, {_ROUNDS}")
        code.when(rounds, lambda: code.do(f"call void @round_to_tf32(ptr {inner})"))

    def put() -> None:
        code.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {there}, ptr {part}, i64 %nbytes, i1 false)")

    code.when(inwards, take, put)
    code.do("ret void")
    return code.text


def _box() -> str:
    """One lane's box; how many bytes it has is left in `data`."""
    code = Code(
        MACHINE, "void", "move_tensor_box", "ptr %block, ptr %warp, i32 %site, i32 %lane, i32 %how",
        "noinline",
    )  # fmt: skip
    row = code.op("zext i32 %lane to i64")

    def lane_word(part: int) -> str:
        return code.at(code.at("%warp", MACHINE.warp["data"] + 256 * part), row, 8)

    address = code.op(f"load i64, ptr {lane_word(MAP)}")
    shared = code.op(f"load i64, ptr {lane_word(SHARED)}")
    rank = code.op("and i32 %how, 255")
    inwards = code.op(f"and i32 %how, {INWARDS}")
    host = _host(code, address, str(TENSOR_MAP_BYTES), str(LOAD))
    code.do(f"%map = inttoptr i64 {host} to ptr")
    for value, align in ((address, _MAP_ALIGN), (shared, _SHARED_ALIGN)):
        odd = code.op(f"icmp ne i64 {code.op(f'and i64 {value}, {align - 1}')}, 0")
        code.when(odd, lambda v=value, a=align: _report(code, Fault.MISALIGNED, v, str(a), str(a)))
    strange = code.op(f"icmp ne i32 {_in_map(code, 'sign', 32)}, {TENSOR_MAP_SIGN}")
    other = code.op(f"icmp ne i32 {_in_map(code, 'rank', 32)}, {rank}")
    code.when(
        code.op(f"or i1 {strange}, {other}"),
        lambda: _report(code, PTXFault.BAD_TENSOR_MAP, address, "0", code.as_extra(rank, "i32")),
    )
    each = _wide(code, _in_map(code, "nbytes", 32))
    pieces = _wide(code, _in_map(code, "pieces", 32))
    sizes = [_in_map(code, f"size{d}", 64) for d in range(5)]
    boxes = [_wide(code, _in_map(code, f"box{d}", 16), 16) for d in range(5)]
    strides = {d: _in_map(code, f"stride{d}", 64) for d in _OUTER}
    places = [code.at("%warp", MACHINE.warp["more"] + 128 * d) for d in range(5)]
    numbers = [code.op(f"load i32, ptr {code.at(place, row, 4)}") for place in places]
    firsts = [code.op(f"sext i32 {number} to i64") for number in numbers]
    inner = code.op(f"mul i64 {boxes[0]}, {each}")
    end = code.op(f"mul i64 {sizes[0]}, {each}")
    begin = code.op(f"mul i64 {firsts[0]}, {each}")
    rows = boxes[1]
    for d in _OUTER[1:]:
        rows = code.op(f"mul i64 {rows}, {boxes[d]}")
    code.do(f"store i64 {code.op(f'mul i64 {rows}, {inner}')}, ptr {lane_word(BOX_BYTES)}")
    base = _in_map(code, "address", 64)
    rounds = _wide_word(code, _in_map(code, "rounds", 16))
    rounding = code.op(f"add i32 {inwards}, {code.op(f'mul i32 {rounds}, {_ROUNDS}')}")
    is_inwards = code.op(f"icmp ne i32 {inwards}, 0")
    way = code.op(f"select i1 {is_inwards}, i32 {rounding}, i32 0")

    def one_row(number: str) -> None:
        wide = _wide(code, number)
        rest, host, inside = wide, base, "true"
        for d in _OUTER:
            step = code.op(f"urem i64 {rest}, {boxes[d]}")
            rest = code.op(f"udiv i64 {rest}, {boxes[d]}")
            at = code.op(f"add i64 {firsts[d]}, {step}")
            fits = code.op(f"icmp ult i64 {at}, {sizes[d]}")
            inside = code.op(f"and i1 {inside}, {fits}")
            host = code.op(f"add i64 {host}, {code.op(f'mul i64 {at}, {strides[d]}')}")
        start = code.op(f"add i64 {shared}, {code.op(f'mul i64 {wide}, {inner}')}")

        def piece(i: str) -> None:
            along = code.op(f"shl i64 {_wide(code, i)}, 4")
            first = code.op(f"add i64 {begin}, {along}")
            last = code.op(f"add i64 {first}, 16")
            low = code.op(f"call i64 @llvm.smax.i64(i64 {first}, i64 0)")
            high = code.op(f"call i64 @llvm.smin.i64(i64 {last}, i64 {end})")
            nbytes = code.op(f"sub i64 {high}, {low}")
            nbytes = code.op(f"call i64 @llvm.smax.i64(i64 {nbytes}, i64 0)")
            nbytes = code.op(f"select i1 {inside}, i64 {nbytes}, i64 0")
            offset = code.op(f"add i64 {start}, {along}")
            bits = code.op(f"and i64 {code.op(f'lshr i64 {offset}, 7')}, {pieces}")
            offset = code.op(f"xor i64 {offset}, {code.op(f'shl i64 {bits}, 4')}")
            code.do(
                f"call void @move_tensor_piece(ptr %block, ptr %warp, i32 %site, i32 %lane, "
                f"i64 {offset}, i64 {code.op(f'add i64 {host}, {low}')}, "
                f"i64 {code.op(f'sub i64 {low}, {first}')}, i64 {nbytes}, i32 {way})"
            )

        code.count(code.op(f"trunc i64 {code.op(f'lshr i64 {inner}, 4')} to i32"), piece)

    code.count(code.op(f"trunc i64 {rows} to i32"), one_row)
    outwards = code.op(f"icmp eq i32 {inwards}, 0")
    high = code.op(f"add i64 {shared}, {code.op(f'mul i64 {rows}, {inner}')}")
    start = f"call void @treadle_simt_flight_start(ptr %block, ptr %warp, i32 1, i32 {BULK}, "
    code.when(outwards, lambda: code.do(f"{start}i64 {shared}, i64 {high})"))
    code.do("ret void")
    return code.text


def _tensor_function() -> str:
    """The boxes of all lanes of a mask."""
    code = Code(
        MACHINE, "void", "treadle_ptx_tensor", f"{LANES}, i32 %how",
        "noinline",
    )  # fmt: skip
    code.each_lane(
        "%mask",
        lambda lane: code.do(
            f"call void @move_tensor_box(ptr %block, ptr %warp, i32 %site, i32 {lane}, i32 %how)"
        ),
    )
    code.do("ret void")
    return code.text
