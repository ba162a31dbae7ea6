"""Where the values and variables of a kernel lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.air.kernels import place_all
from treadle.emulate.air.machine import LANES, MACHINE, splat
from treadle.emulate.air.syntax import (
    CONSTANT,
    GENERIC,
    THREADGROUP,
    AIRError,
    Local,
    Pointer,
    Symbol,
    bits_of,
    parts,
    size_of,
)
from treadle.emulate.simt.registers import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.emulate.air.flow import Flow
    from treadle.emulate.air.kernels import Module
    from treadle.emulate.air.syntax import Function, Instruction, Type, Value
    from treadle.emulate.simt.emit import Emitter

__all__ = ["Layout", "Spaces"]


class Layout:
    """`names` are the registers of each value's parts, `allocas` offsets in a thread's memory.

    `flushes` says whether subnormal numbers of float32 are zeros, `members` what a copy of a struct
    copies (see Module.members), and `checks_fences` whether barriers order what they name alone.
    """

    def __init__(self, module: Module, function: Function, flow: Flow, checks_fences: bool) -> None:
        name = function.name
        self.checks_fences = checks_fences
        self.flushes, self.members = module.flushes, module.members
        self.threadgroup, self.static_bytes = place_all(module.variables(name, THREADGROUP))
        self.constants = module.variables(name, CONSTANT)
        self.constant_places, self.constant_bytes = place_all(self.constants)
        self.allocas: dict[str, int] = {}
        self.local_bytes = 0
        items = [item for block in flow.blocks for item in (*block.phis, *block.items)]
        self.spaces = Spaces(items, self._space_of_symbol)
        self._place_allocas(items)
        given = {parameter.name for parameter in function.parameters}
        types: dict[str, Type] = {p.name: p.type for p in function.parameters}
        types |= {item.result: item.type for item in items if item.result}
        self.names = {
            value: tuple(f"{value}.{i}" for i in range(len(parts(kind))))
            for value, kind in types.items()
        }
        self.places: dict[str, Place] = {}
        at = MACHINE.warp_bytes
        for value, kind in types.items():
            for part, (_, scalar) in zip(self.names[value], parts(kind), strict=True):
                place = Place(None, f"i{bits_of(scalar)}")
                if value in flow.crossing and value not in given:
                    place = Place(at, place.kind)
                    at += -(-place.nbytes(LANES) // 64) * 64
                self.places[part] = place
        self.warp_bytes = at
        # What makes the parts of an argument, by its name: arguments are made where they are read.
        self.arguments: dict[str, Callable[[], list[str]]] = {}

    def _place_allocas(self, items: list[Instruction]) -> None:
        at = 0
        for item in items:
            if item.opcode == "alloca" and item.source is not None:
                at = -(-at // item.align) * item.align
                self.allocas[item.result] = at
                at += size_of(item.source)
        self.local_bytes = -(-at // 64) * 64 if at else 0

    def _space_of_symbol(self, name: str) -> int:
        if name in self.threadgroup:
            return THREADGROUP
        if name in self.constant_places:
            return CONSTANT
        raise AIRError(f"{name} is no variable of threadgroup or constant memory")

    def address(self, e: Emitter, symbol: Symbol) -> str:
        """The address of a variable in its own memory."""
        if symbol.name in self.threadgroup:
            return splat(64, self.threadgroup[symbol.name] + symbol.offset)
        if symbol.name in self.constant_places:
            base = e.launch_value("constants", 64)
            place = self.constant_places[symbol.name] + symbol.offset
            return e.spread_scalar("i64", e.op(f"add i64 {base}, {place}"))
        raise AIRError(f"{symbol.name} is no variable of threadgroup or constant memory")


class Spaces:
    """The memory that generic pointers point into: that of the pointers they were made of."""

    def __init__(self, items: list[Instruction], of_symbol) -> None:
        self._of_symbol = of_symbol
        self._made = {item.result: item for item in items if item.result}
        self._known: dict[str, int | None] = {}

    def of(self, value: Value) -> int:
        """Raises AIRError if it is not known before the kernel runs."""
        found = self._of(value)
        if found is None or found == GENERIC:
            raise AIRError("a pointer that may point into several kinds of memory is not emulated")
        return found

    def _of(self, value: Value) -> int | None:
        """None for what is not known yet."""
        if isinstance(value.type, Pointer) and value.type.space != GENERIC:
            return value.type.space
        if not isinstance(value, Local):
            (part,) = value.parts
            return self._of_symbol(part.name) if isinstance(part, Symbol) else None
        if value.name not in self._known:
            self._known[value.name] = None
            self._known[value.name] = self._find(value.name)
        return self._known[value.name]

    def _find(self, name: str) -> int | None:
        item = self._made.get(name)
        sources = () if item is None else item.operands
        if item is not None and item.opcode in ("getelementptr", "addrspacecast"):
            sources = sources[:1]
        elif item is not None and item.opcode == "select":
            sources = sources[1:]
        elif item is None or item.opcode not in ("phi", "freeze", "bitcast"):
            return GENERIC
        found = {space for space in map(self._of, sources) if space is not None}
        if len(found) > 1:
            return GENERIC
        return found.pop() if found else None
