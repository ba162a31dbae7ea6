"""Between host addresses and the data of a Warp, for all lanes at once, as LLVM IR."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.simt.code import Code

if TYPE_CHECKING:
    from treadle.emulate.simt.machine import Machine

__all__ = ["host_of", "move_functions", "save_hosts"]


def host_of(code: Code, lane: str) -> str:
    """The place of a lane's host address in the Warp."""
    return code.slot("warp", "hosts", lane, 64)


def save_hosts(code: Code, addresses: str, delta: str) -> None:
    """Makes the host addresses of all lanes: their addresses plus one i64."""
    hosts = code.op(f"add <W x i64> {addresses}, {code.spread('i64', delta)}")
    code.do(f"store <W x i64> {hosts}, ptr {code.field('warp', 'hosts')}, align 64")


def move_functions(machine: Machine, bits: int, count: int) -> list[str]:
    """Between host addresses and the Warp's data, where element c of all lanes lies at c * W."""
    align, kind = machine.align(bits // 8), f"i{bits}"
    functions = []
    for how in ("load", "store"):
        code = Code(machine, "void", f"{how}_{bits}x{count}", "ptr %warp, MASK %mask", "noinline")
        data = code.field("warp", "data")
        if count == 1:
            _fast_moves(code, how, bits, data)

        def lane_move(lane: str, code: Code = code, how: str = how, data: str = data) -> None:
            host = code.op(f"load ptr, ptr {host_of(code, lane)}")
            mine = code.op(f"getelementptr {kind}, ptr {data}, i64 {code.wide(lane)}")
            for c in range(count):
                outer = code.op(f"getelementptr {kind}, ptr {host}, i64 {c}")
                inner = code.op(f"getelementptr {kind}, ptr {mine}, i64 {machine.width * c}")
                source, target = (outer, inner) if how == "load" else (inner, outer)
                value = code.op(f"load {kind}, ptr {source}, align {align}")
                code.do(f"store {kind} {value}, ptr {target}, align {align}")

        code.each_lane("%mask", lane_move)
        code.do("ret void")
        functions.append(code.text)
    return functions


def _fast_moves(code: Code, how: str, bits: int, data: str) -> None:
    """All lanes there, neighbours in order: one vector. All at one address: one load."""
    nbytes, shape = bits // 8, f"<W x i{bits}>"
    align = code.machine.align(nbytes)
    hosts = code.op(f"load <W x i64>, ptr {code.field('warp', 'hosts')}, align 64")
    first = code.op(f"extractelement <W x i64> {hosts}, i32 0")
    base = code.spread("i64", first)
    full = code.op("icmp eq MASK %mask, -1")
    host = code.op(f"inttoptr i64 {first} to ptr")

    def in_order() -> None:
        steps = code.op(f"mul <W x i64> {code.machine.iota}, splat (i64 {nbytes})")
        apart = code.op(f"sub <W x i64> {hosts}, {base}")
        same = code.op(f"icmp eq <W x i64> {apart}, {steps}")
        good = code.op(f"call i1 @llvm.vector.reduce.and.vWi1(<W x i1> {same})")

        def move() -> None:
            source, target = (host, data) if how == "load" else (data, host)
            value = code.op(f"load {shape}, ptr {source}, align {align}")
            code.do(f"store {shape} {value}, ptr {target}, align {align}")
            code.leave("ret void")

        code.when(good, move)
        if how == "load":
            flat = code.op(f"icmp eq <W x i64> {hosts}, {base}")
            single = code.op(f"call i1 @llvm.vector.reduce.and.vWi1(<W x i1> {flat})")
            code.when(single, everywhere)

    def everywhere() -> None:
        value = code.op(f"load i{bits}, ptr {host}, align {align}")
        spread = code.spread(f"i{bits}", value)
        code.do(f"store {shape} {spread}, ptr {data}, align {nbytes}")
        code.leave("ret void")

    code.when(full, in_order)
