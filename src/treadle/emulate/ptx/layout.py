"""Where things of a kernel are: registers in a warp's memory, variables in their spaces."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Protocol

from treadle.emulate.ptx.machine import LANES, MACHINE
from treadle.emulate.ptx.syntax import WIDTHS, Immediate, PTXError, Symbol
from treadle.emulate.simt.registers import Place

if TYPE_CHECKING:
    from treadle.emulate.ptx.flow import Flow
    from treadle.emulate.ptx.syntax import Module, Variable

__all__ = ["Layout"]

_FORMS = {16: "<e", 32: "<f", 64: "<d"}


def _place(variables: list[Variable], at: int = 0) -> tuple[dict[str, int], int]:
    """Offsets of variables one behind the other, and the bytes of all."""
    places = {}
    for variable in variables:
        at = -(-at // variable.align) * variable.align
        places[variable.name] = at
        at += variable.nbytes
    return places, at


class _Code(Protocol):
    """What writes the code that reads a place, an Emitter."""

    def op(self, text: str) -> str: ...
    def intrinsic(self, name: str, result: str, *arguments: str) -> str: ...
    def warp_field(self, name: str) -> str: ...
    def block_value(self, name: str, bits: int = 32) -> str: ...
    def launch_value(self, name: str, bits: int = 32) -> str: ...
    def spread(self, scalar: str, bits: int = 32) -> str: ...


class Layout:
    """The places that one kernel's code is written for.

    `shared_bytes` counts static shared memory, behind which the dynamic part begins;
    `local_bytes` what each thread has for itself. Variables in global and constant memory are
    numbered: their addresses are in the launch's table.
    """

    def __init__(self, module: Module, flow: Flow) -> None:
        self.flow, self.registers, self.line = flow, flow.registers, 0
        mine = [v for v in flow.variables if v.space == "shared"]
        used = _symbols(flow)
        mine += [v for v in module.variables.values() if v.space == "shared" and v.name in used]
        static = [v for v in mine if v.nbytes]
        self.shared, self.shared_bytes = _place(static)
        dynamic = -(-self.shared_bytes // 16) * 16
        self.shared |= {v.name: dynamic for v in mine if not v.nbytes}
        local = [v for v in flow.variables if v.space in ("local", "param")]
        local += [v for v in module.variables.values() if v.space == "local"]
        self.local, nbytes = _place(local)
        self.local_bytes = -(-nbytes // 16) * 16
        self.params, self.params_bytes = _place(flow.function.parameters)
        self.globals = module_globals(module) | {
            v.name: -1 for v in flow.variables if v.space in ("global", "const")
        }
        self.places, self.warp_bytes = self._places()
        self._queue: int | None = None

    def queue(self, nbytes: int) -> int:
        """Where a warp of this kernel has `nbytes` for copies on their way; made when asked for."""
        if self._queue is None:
            self._queue = self.warp_bytes
            self.warp_bytes += nbytes
        return self._queue

    def _places(self) -> tuple[dict[str, Place], int]:
        crossing: dict[str, None] = {}
        for block in self.flow.blocks:
            crossing |= dict.fromkeys(sorted(block.live_in))
        kinds = {name: f"i{WIDTHS[kind]}" for name, kind in self.registers.items()}
        places, at = {name: Place(None, kind) for name, kind in kinds.items()}, MACHINE.warp_bytes
        for name in crossing:
            place = places[name] = Place(at, kinds[name])
            at += -(-place.nbytes(LANES) // 64) * 64
        return places, at

    def error(self, message: str) -> PTXError:
        """An error at the line that is being translated."""
        return PTXError(self.line, message)

    def kind(self, name: str) -> str:
        """The type of a register."""
        if name not in self.registers:
            raise self.error(f"{name} is declared nowhere, and no special register emulated here")
        return self.registers[name]

    def convert(self, constant: Immediate, bits: int) -> int:
        """A float constant as the pattern of a type of other width."""
        if bits not in _FORMS:
            raise self.error(f"a float is no operand of {bits} bits")
        data = constant.value.to_bytes(constant.width // 8, "little")
        number = struct.unpack(_FORMS[constant.width], data)[0]
        return int.from_bytes(struct.pack(_FORMS[bits], number), "little")

    def address(self, e: _Code, symbol: Symbol) -> str:
        """The address of a variable in its own space, in lanes of 64 bits."""
        for places in (self.shared, self.local, self.params):
            if symbol.name in places:
                return f"splat (i64 {places[symbol.name] + symbol.offset})"
        number = self.globals.get(symbol.name, -1)
        if number < 0:
            raise self.error(f"{symbol.name} is declared nowhere")
        table = e.op(f"inttoptr i64 {e.launch_value('globals', 64)} to ptr")
        place = e.op(f"getelementptr i64, ptr {table}, i64 {number}")
        base = e.op(f"load i64, ptr {place}")
        return e.spread(e.op(f"add i64 {base}, {symbol.offset}"), 64)

    def special(self, e: _Code, name: str) -> tuple[str, int] | None:
        """The value and width of a special register, None if `name` is not one."""
        if name in self.registers or name not in _SPECIAL:
            return None
        return _SPECIAL[name](e)


def module_globals(module: Module) -> dict[str, int]:
    """The numbers of a module's variables in global and constant memory."""
    names = [v.name for v in module.variables.values() if v.space in ("global", "const")]
    return {name: number for number, name in enumerate(names)}


def _symbols(flow: Flow) -> set[str]:
    """Every name that an instruction mentions."""
    found = set()
    for block in flow.blocks:
        for item in block.instructions:
            for operand in item.operands:
                base = getattr(operand, "base", operand)
                if isinstance(base, Symbol):
                    found.add(base.name)
    return found


def _lane_vector(name: str):
    def read(e: _Code) -> tuple[str, int]:
        return e.op(f"load <32 x i32>, ptr {e.warp_field(name)}, align 64"), 32

    return read


def _of_block(name: str):
    return lambda e: (e.spread(e.block_value(name)), 32)


def _of_launch(name: str):
    return lambda e: (e.spread(e.launch_value(name)), 32)


def _constant(value: int, bits: int = 32):
    return lambda e: (f"splat (i{bits} {value})" if value else "zeroinitializer", bits)


def _lane_masks(value):
    items = ", ".join(f"i32 {value(lane) & 0xFFFFFFFF}" for lane in range(LANES))
    return lambda e: (f"<{items}>", 32)


def _warp_number(e: _Code) -> tuple[str, int]:
    return e.spread(e.op(f"load i32, ptr {e.warp_field('number')}")), 32


def _clock(bits: int):
    def read(e: _Code) -> tuple[str, int]:
        count = e.intrinsic("llvm.readcyclecounter", "i64")
        if bits == 32:
            count = e.op(f"trunc i64 {count} to i32")
        return e.spread(count, bits), bits

    return read


def _warps(e: _Code) -> tuple[str, int]:
    return e.spread(e.block_value("warp_count")), 32


def _shared_size(e: _Code) -> tuple[str, int]:
    return e.spread(e.op(f"trunc i64 {e.block_value('shared_bytes', 64)} to i32")), 32


_SPECIAL = {
    **{f"%tid.{axis}": _lane_vector(f"tid_{axis}") for axis in "xyz"},
    **{f"%ntid.{axis}": _of_launch(f"block_{axis}") for axis in "xyz"},
    **{f"%ctaid.{axis}": _of_block(f"index_{axis}") for axis in "xyz"},
    **{f"%nctaid.{axis}": _of_launch(f"grid_{axis}") for axis in "xyz"},
    # Without clusters each block is a cluster of its own.
    **{f"%clusterid.{axis}": _of_block(f"index_{axis}") for axis in "xyz"},
    **{f"%nclusterid.{axis}": _of_launch(f"grid_{axis}") for axis in "xyz"},
    **{f"%cluster_ctaid.{axis}": _constant(0) for axis in "xyz"},
    **{f"%cluster_nctaid.{axis}": _constant(1) for axis in "xyz"},
    "%cluster_ctarank": _constant(0),
    "%cluster_nctarank": _constant(1),
    "%laneid": _lane_masks(lambda lane: lane),
    "%lanemask_eq": _lane_masks(lambda lane: 1 << lane),
    "%lanemask_lt": _lane_masks(lambda lane: (1 << lane) - 1),
    "%lanemask_le": _lane_masks(lambda lane: (2 << lane) - 1),
    "%lanemask_gt": _lane_masks(lambda lane: -(2 << lane)),
    "%lanemask_ge": _lane_masks(lambda lane: -(1 << lane)),
    "%warpid": _warp_number,
    "%nwarpid": _warps,
    "%smid": _constant(0),
    "%nsmid": _constant(1),
    "%gridid": _constant(0, 64),
    "%clock": _clock(32),
    "%clock_hi": _constant(0),
    "%clock64": _clock(64),
    "%globaltimer": _clock(64),
    "%globaltimer_lo": _clock(32),
    "%dynamic_smem_size": _of_launch("dynamic_shared"),
    "%total_smem_size": _shared_size,
    "%envreg0": _constant(0),
}
