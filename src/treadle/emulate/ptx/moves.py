"""Between host addresses and the data of a Warp, for all lanes at once, as LLVM IR."""

from __future__ import annotations

from treadle.emulate.ptx.code import Code

__all__ = ["address_of", "move_functions"]

_IOTA = "<" + ", ".join(f"i64 {lane}" for lane in range(32)) + ">"


def address_of(code: Code, lane: str) -> str:
    """The place of a lane's address in the Warp."""
    wide = code.op(f"zext i32 {lane} to i64")
    return code.at(code.field("warp", "addresses"), wide, 8)


def move_functions(bits: int, count: int) -> list[str]:
    """Between host addresses and the Warp's data, where element c of all lanes lies at c * 32."""
    nbytes, kind = bits // 8, f"i{bits}"
    functions = []
    for how in ("load", "store"):
        code = Code("void", f"{how}_{bits}x{count}", "ptr %warp, i32 %mask", "noinline")
        data = code.field("warp", "data")
        if count == 1:
            _fast_moves(code, how, bits, data)

        def lane_move(lane: str, code: Code = code, how: str = how, data: str = data) -> None:
            host = code.op(f"load ptr, ptr {address_of(code, lane)}")
            wide = code.op(f"zext i32 {lane} to i64")
            mine = code.op(f"getelementptr {kind}, ptr {data}, i64 {wide}")
            for c in range(count):
                outer = code.op(f"getelementptr {kind}, ptr {host}, i64 {c}")
                inner = code.op(f"getelementptr {kind}, ptr {mine}, i64 {32 * c}")
                source, target = (outer, inner) if how == "load" else (inner, outer)
                value = code.op(f"load {kind}, ptr {source}, align {nbytes}")
                code.do(f"store {kind} {value}, ptr {target}, align {nbytes}")

        code.each_lane("%mask", lane_move)
        code.do("ret void")
        functions.append(code.text)
    return functions


def _fast_moves(code: Code, how: str, bits: int, data: str) -> None:
    """All lanes there, neighbours in order: one vector. All at one address: one load."""
    nbytes, shape = bits // 8, f"<32 x i{bits}>"
    addresses = code.op(f"load <32 x i64>, ptr {code.field('warp', 'addresses')}, align 64")
    first = code.op(f"extractelement <32 x i64> {addresses}, i32 0")
    one = code.op(f"insertelement <32 x i64> poison, i64 {first}, i32 0")
    base = code.op(f"shufflevector <32 x i64> {one}, <32 x i64> poison, <32 x i32> zeroinitializer")
    full = code.op("icmp eq i32 %mask, -1")
    host = code.op(f"inttoptr i64 {first} to ptr")

    def in_order() -> None:
        steps = code.op(f"mul <32 x i64> {_IOTA}, splat (i64 {nbytes})")
        apart = code.op(f"sub <32 x i64> {addresses}, {base}")
        same = code.op(f"icmp eq <32 x i64> {apart}, {steps}")
        good = code.op(f"call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> {same})")

        def move() -> None:
            source, target = (host, data) if how == "load" else (data, host)
            value = code.op(f"load {shape}, ptr {source}, align {nbytes}")
            code.do(f"store {shape} {value}, ptr {target}, align {nbytes}")
            code.leave("ret void")

        code.when(good, move)
        if how == "load":
            flat = code.op(f"icmp eq <32 x i64> {addresses}, {base}")
            single = code.op(f"call i1 @llvm.vector.reduce.and.v32i1(<32 x i1> {flat})")
            code.when(single, everywhere)

    def everywhere() -> None:
        value = code.op(f"load i{bits}, ptr {host}, align {nbytes}")
        put = code.op(f"insertelement {shape} poison, i{bits} {value}, i32 0")
        spread = code.op(f"shufflevector {shape} {put}, {shape} poison, <32 x i32> zeroinitializer")
        code.do(f"store {shape} {spread}, ptr {data}, align {nbytes}")
        code.leave("ret void")

    code.when(full, in_order)
