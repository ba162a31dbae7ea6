"""Arguments of kernels: buffers' addresses, and where a thread is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.emit import Emitter
from treadle.emulate.air.machine import LANES, splat
from treadle.emulate.air.simdgroup import iota
from treadle.emulate.air.syntax import AIRError, bits_of, parts

if TYPE_CHECKING:
    from treadle.emulate.air.kernels import Argument
    from treadle.emulate.air.syntax import Parameter

__all__ = ["argument_values"]


def argument_values(e: Emitter, number: int, argument: Argument, parameter: Parameter) -> list[str]:
    """The parts of an argument. Raises AIRError for a kind that is not emulated."""
    if argument.kind == "buffer":
        return [e.spread_scalar("i64", _bound(e, number))]
    if argument.kind not in _POSITIONS:
        raise AIRError(f"an argument {argument.kind} is not emulated")
    values = []
    for axis, (_, kind) in zip("xyz", parts(parameter.type), strict=False):
        value, bits = _POSITIONS[argument.kind](e, axis), bits_of(kind)
        if bits != 32:
            opcode = "trunc" if bits < 32 else "zext"
            value = e.op(f"{opcode} {e.lanes('i32')} {value} to {e.lanes(f'i{bits}')}")
        values.append(value)
    return values


def _bound(e: Emitter, number: int) -> str:
    """What the launch gave for an argument, an i64."""
    params = e.op(f"inttoptr i64 {e.launch_value('params', 64)} to ptr")
    place = e.op(f"getelementptr i64, ptr {params}, i64 {number}")
    return e.op(f"load i64, ptr {place}")


def _in_block(e: Emitter, axis: str) -> str:
    return e.op(f"load {e.lanes('i32')}, ptr {e.warp_field(f'tid_{axis}')}, align 64")


def _block(e: Emitter, axis: str) -> str:
    return e.spread_scalar("i32", e.block_value(f"index_{axis}"))


def _block_size(e: Emitter, axis: str) -> str:
    return e.spread_scalar("i32", e.launch_value(f"block_{axis}"))


def _grid(e: Emitter, axis: str) -> str:
    return e.spread_scalar("i32", e.launch_value(f"grid_{axis}"))


def _in_grid(e: Emitter, axis: str) -> str:
    shape = e.lanes("i32")
    before = e.op(f"mul {shape} {_block(e, axis)}, {_block_size(e, axis)}")
    return e.op(f"add {shape} {before}, {_in_block(e, axis)}")


def _threads(e: Emitter, axis: str) -> str:
    return e.op(f"mul {e.lanes('i32')} {_grid(e, axis)}, {_block_size(e, axis)}")


def _simdgroup(e: Emitter, axis: str) -> str:
    return e.spread_scalar("i32", e.op(f"load i32, ptr {e.warp_field('number')}"))


def _simdgroups(e: Emitter, axis: str) -> str:
    return e.spread_scalar("i32", e.block_value("warp_count"))


def _index(e: Emitter, axis: str) -> str:
    shape = e.lanes("i32")
    before = e.op(f"mul {shape} {_simdgroup(e, axis)}, {splat(32, LANES)}")
    return e.op(f"add {shape} {before}, {iota()}")


def _quadgroup(e: Emitter, axis: str) -> str:
    return e.op(f"lshr {e.lanes('i32')} {_index(e, axis)}, {splat(32, 2)}")


def _in_quadgroup(e: Emitter, axis: str) -> str:
    return e.op(f"and {e.lanes('i32')} {iota()}, {splat(32, 3)}")


_POSITIONS = {
    "thread_position_in_grid": _in_grid,
    "thread_position_in_threadgroup": _in_block,
    "threadgroup_position_in_grid": _block,
    "threads_per_grid": _threads,
    "threads_per_threadgroup": _block_size,
    "dispatch_threads_per_threadgroup": _block_size,
    "threadgroups_per_grid": _grid,
    "thread_index_in_threadgroup": _index,
    "thread_index_in_simdgroup": lambda e, axis: iota(),
    "simdgroup_index_in_threadgroup": _simdgroup,
    "simdgroups_per_threadgroup": _simdgroups,
    "threads_per_simdgroup": lambda e, axis: splat(32, LANES),
    "thread_execution_width": lambda e, axis: splat(32, LANES),
    "thread_index_in_quadgroup": _in_quadgroup,
    "quadgroup_index_in_threadgroup": _quadgroup,
}
