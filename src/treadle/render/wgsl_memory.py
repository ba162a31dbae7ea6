"""How a WGSL function binds, reads and writes memory.

Each piece of memory is one binding, or several where it is larger than a binding may be: accessor
functions put those together. Elements smaller than a word share words, and a store that does not
own a whole word is atomic, so that no neighbour is lost.

Where every access of a function to a piece of memory is to whole aligned vectors, its binding is an
array of vectors:

    array<vec4<f32>>, arg0[i >> 2u]    in place of    array<f32>, arg0[i], arg0[i + 1], ...

Dawn checks each index against the size of the buffer, and behind such a check drivers do not merge
neighbouring loads by themselves: one vector is one check and one load.
"""

from __future__ import annotations

from ..dtype import DType
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.shape import size_max
from ..ir.views import Load, Store
from ..lower.linearize import Phase
from ..lower.overflow_analysis import is_multiple
from ..target import Target
from .clike import Function

__all__ = ["WORD_BITS", "WGSLMemory", "is_pair"]

WORD_BITS = 32


def is_pair(dtype: DType) -> bool:
    """Whether a value is a pair of words."""
    return dtype.is_int and dtype.bits == 2 * WORD_BITS


def _per_word(dtype: DType) -> int:
    """How many elements share a word of memory: 1 if they have whole words, or are halves."""
    return 1 if dtype.is_float else max(1, WORD_BITS // (8 * dtype.scalar.itemsize))


class WGSLMemory(Function):
    """The half of a WGSL function that deals with memory; `module` gets its declarations."""

    def __init__(self, name: str, phase: Phase, target: Target, prefix: str) -> None:
        super().__init__(name, phase, phase.variables)
        self.target, self.prefix = target, prefix
        self.module: list[str] = []
        self.written = {param for param, is_written in phase.params if is_written}
        self.lanes = _vector_lanes(phase.program)
        self.parts: dict[Node, int] = {}
        self.bindings = 0
        for param, _ in phase.params:
            self._bind(param)

    def _bind(self, param: Node) -> None:
        """Bindings for a PARAM, and accessors if it takes several."""
        dtype = param.dtype
        name = f"{self.prefix}arg{param.arg.slot}"
        nbytes = size_max(param.arg.size) * dtype.itemsize
        largest = self.target.max_binding or nbytes
        self.parts[param] = count = max(1, -(-nbytes // largest))
        access = "read_write" if param in self.written else "read"
        kind = self._stored(param)
        for number in range(count):
            part = name if count == 1 else f"{name}_{number}"
            self.module.append(
                f"@group(0) @binding({self.bindings}) var<storage, {access}> {part}: array<{kind}>;"
            )
            self.bindings += 1
        if count > 1:
            unit = self.lanes.get(param, 1) * dtype.itemsize
            size = largest // (unit if _per_word(dtype) == 1 else 4)
            self.module += _accessors(name, kind, count, size, param in self.written)

    def _stored(self, memory: Node) -> str:
        """The type of an element, word or vector in memory."""
        if memory.op is Op.PARAM and _per_word(memory.dtype) > 1:
            return "atomic<u32>" if memory in self.written else "u32"
        return self.type(memory.dtype.vec(self.lanes.get(memory, 1)))

    def declare_memory(self, node: Node) -> tuple[str, list[str]]:
        if node.op is Op.PARAM:
            return f"{self.prefix}arg{node.arg.slot}", []
        name = f"{self.prefix}local{node.arg.number}"
        kind = self.type(node.dtype)
        self.module.append(f"var<workgroup> {name}: array<{kind}, {node.arg.size}>;")
        return name, []

    def _get(self, memory: Node, place: str) -> str:
        """The element, word or vector at a place."""
        name = self.memory(memory)
        if self.parts.get(memory, 1) > 1:
            return f"{name}_get({place})"
        is_atomic = self._stored(memory) == "atomic<u32>"
        return f"atomicLoad(&{name}[{place}])" if is_atomic else f"{name}[{place}]"

    def _element(self, memory: Node, place: str) -> str:
        """The value at a place: a vector where memory holds nothing else."""
        if memory in self.lanes:
            return self._get(memory, self._vector_place(memory, place))
        dtype = memory.dtype
        count = _per_word(dtype)
        if memory.op is Op.LOCAL or count == 1:
            return self._get(memory, place)
        word = self._get(memory, f"({place} / {count}i)")
        bits = WORD_BITS // count
        offset = f"u32({place} % {count}i) * {bits}u"
        if not dtype.is_unsigned and not dtype.is_bool:
            word = f"bitcast<i32>({word})"
        code = f"extractBits({word}, {offset}, {bits}u)"
        return f"({code} != 0u)" if dtype.is_bool else code

    def load(self, node: Node) -> str:
        load, dtype = Load.of(node), node.dtype
        memory, place = behind_after(load.memory), self._place(load)
        if load.is_gated:
            return self._gated_load(load, memory, place)
        if dtype.count == 1 or memory in self.lanes:
            return self.let(dtype, self._element(memory, place))
        lanes = [self._element(memory, _plus(place, i)) for i in range(dtype.count)]
        return self.let(dtype, self.vector(dtype, lanes))

    def _vector_place(self, memory: Node, place: str) -> str:
        """The number of the vector that begins at a place."""
        return f"({place} >> {self.lanes[memory].bit_length() - 1}u)"

    def _place(self, access: Load | Store) -> str:
        """The index of a LOAD or STORE; behind a gate it may be out of range, so no constant."""
        index = access.index
        code = self.value(index)
        return self.let(index.dtype, code) if access.is_gated and index.op is Op.CONST else code

    def _gated_load(self, load: Load, memory: Node, place: str) -> str:
        dtype, gate = load.dtype, load.gate
        held, other = self.value(gate), self.value(load.other)
        self.counter += 1
        name = f"v{self.counter}"
        self.line(f"var {name}: {self.type(dtype)} = {other};")
        if dtype.count == 1 or memory in self.lanes:
            self.line(f"if ({held}) {{ {name} = {self._element(memory, place)}; }}")
            return name
        for i in range(dtype.count):
            test = held if gate.dtype.count == 1 else self.lane(gate.dtype, held, i)
            value = self._element(memory, _plus(place, i))
            self.line(f"if ({test}) {{ {self.lane(dtype, name, i)} = {value}; }}")
        return name

    def store(self, node: Node) -> None:
        store = Store.of(node)
        memory, gate, dtype = behind_after(store.memory), store.gate, store.value.dtype
        place, stored = self._place(store), self.value(store.value)
        if gate.dtype.count == 1:
            statements = self._statements(memory, store.index, place, dtype, stored)
            self._guarded(self.value(gate) if store.is_gated else None, statements)
            return
        for i in range(dtype.count):
            lane = self._assign(memory, _plus(place, i), self.lane(dtype, stored, i))
            self._guarded(self.lane(gate.dtype, self.value(gate), i), lane)

    def _guarded(self, gate: str | None, statements: list[str]) -> None:
        if gate is None:
            for statement in statements:
                self.line(statement)
        else:
            self.line(f"if ({gate}) {{ {' '.join(statements)} }}")

    def _statements(
        self, memory: Node, index: Node, place: str, dtype: DType, stored: str
    ) -> list[str]:
        if memory in self.lanes:
            return [self._put(memory, self._vector_place(memory, place), stored)]
        if dtype.count == 1:
            return self._assign(memory, place, stored)
        count = _per_word(memory.dtype)
        lanes = [self.lane(dtype, stored, i) for i in range(dtype.count)]
        if memory.op is Op.PARAM and count == dtype.count and is_multiple(index, count):
            bits = WORD_BITS // count
            shifted = (f"({_field(memory.dtype, v, bits)} << {i * bits}u)"
                       for i, v in enumerate(lanes))  # fmt: skip
            return [self._put(memory, f"{place} / {count}i", " | ".join(shifted))]
        return [s for i, v in enumerate(lanes) for s in self._assign(memory, _plus(place, i), v)]

    def _assign(self, memory: Node, place: str, value: str) -> list[str]:
        """The statements that store one element."""
        dtype = memory.dtype
        count = _per_word(dtype)
        if memory.op is Op.LOCAL or count == 1:
            return [self._put(memory, place, value)]
        bits = WORD_BITS // count
        word, offset = f"({place} / {count}i)", f"(u32({place} % {count}i) * {bits}u)"
        field = f"{_field(dtype, value, bits)} << {offset}"
        clear = f"~({(1 << bits) - 1}u << {offset})"
        name = self.memory(memory)
        if self.parts[memory] > 1:
            return [f"{name}_and({word}, {clear});", f"{name}_or({word}, {field});"]
        return [f"atomicAnd(&{name}[{word}], {clear});", f"atomicOr(&{name}[{word}], {field});"]

    def _put(self, memory: Node, place: str, value: str) -> str:
        name = self.memory(memory)
        if self.parts.get(memory, 1) > 1:
            return f"{name}_set({place}, {value});"
        if self._stored(memory) == "atomic<u32>":
            return f"atomicStore(&{name}[{place}], {value});"
        return f"{name}[{place}] = {value};"


def _vector_lanes(program: Node) -> dict[Node, int]:
    """The PARAMs that are accessed in whole aligned vectors only, and how many lanes those have."""
    found: dict[Node, int] = {}
    for node in program.src:
        if node.op is Op.LOAD:
            access, dtype = Load.of(node), node.dtype
        elif node.op is Op.STORE:
            access = Store.of(node)
            dtype = access.value.dtype
        else:
            continue
        memory = behind_after(access.memory)
        if memory.op is Op.PARAM:
            lanes = _aligned_lanes(access, dtype)
            found[memory] = lanes if found.get(memory, lanes) == lanes else 1
    return {memory: lanes for memory, lanes in found.items() if lanes > 1}


def _aligned_lanes(access: Load | Store, dtype: DType) -> int:
    """The lanes of a LOAD or STORE of `dtype` that is one vector in memory, 1 if it is none."""
    if dtype.count not in (2, 4) or _per_word(dtype) > 1 or is_pair(dtype):
        return 1
    is_one = access.gate.dtype.count == 1 and is_multiple(access.index, dtype.count)
    return dtype.count if is_one else 1


def _plus(place: str, number: int) -> str:
    return place if number == 0 else f"({place} + {number}i)"


def _field(dtype: DType, value: str, bits: int) -> str:
    """A value as the bits of its part of a word."""
    return f"u32({value})" if dtype.is_bool else f"(bitcast<u32>({value}) & {(1 << bits) - 1}u)"


def _accessors(name: str, kind: str, count: int, size: int, is_written: bool) -> list[str]:
    """Functions over the parts of one piece of memory, each of `size` elements or words."""
    is_atomic = kind == "atomic<u32>"
    value = "u32" if is_atomic else kind

    def choose(result: str, arguments: str, statement: str) -> str:
        lines = [f"fn {name}_{arguments}{result} {{"]
        for number in range(count):
            at = f"{name}_{number}[i - {number * size}i]"
            inner = statement.format(at=at)
            last = number == count - 1
            test = "" if last else f"if (i < {(number + 1) * size}i) "
            lines.append(f"  {test}{{ {inner} }}" if test else f"  {inner}")
        return "\n".join([*lines, "}"])

    get = "return atomicLoad(&{at});" if is_atomic else "return {at};"
    put = "atomicStore(&{at}, v); return;" if is_atomic else "{at} = v; return;"
    functions = [choose(f" -> {value}", "get(i: i32)", get)]
    if is_written:
        functions.append(choose("", f"set(i: i32, v: {value})", put))
    if is_atomic:
        functions.append(choose("", "and(i: i32, v: u32)", "atomicAnd(&{at}, v); return;"))
        functions.append(choose("", "or(i: i32, v: u32)", "atomicOr(&{at}, v); return;"))
    return functions
