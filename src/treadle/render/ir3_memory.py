"""Loads and stores for Adreno: where an element is, and how memory's types become registers'.

    ldg.a.u32 %5, %2:2, %4, 0, 3, 1      the word at the address %2 + (%4 + 3) * 4
    ldg.u16 %h7, %6:2, 8, 4              four halves from the address %6 + 8

Elements of 4 and 8 bytes are found by an index. Smaller ones have an address each, of 64 bits.
Shared memory has addresses of 32 bits. A load behind a gate reads element 0 where the gate is
closed, since memory is never empty; a branch goes around it where somebody may write that.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from ..dtype import DType, dtypes
from ..ir.node import Node, behind_after
from ..ir.op import Op
from ..ir.views import Load, Store, operands
from . import ir3_int64 as int64
from .ir3_values import Lane, Values, is_pair, word

__all__ = ["Memory"]

_MOST_DWORDS = 3  # beside an index
_MOST_BYTES = 4095  # beside an address
_FAR = 1 << 24  # elements beside an index, which a sum adds to it
_WORDS = 4  # registers of one access


class _Place(NamedTuple):
    """Element `index + beside` of memory; without an index it is element `beside`."""

    index: Lane | None
    beside: int

    def plus(self, elements: int) -> _Place:
        """So many elements further on."""
        return self._replace(beside=self.beside + elements)


class Memory(Values):
    """How a function reads and writes its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.entry: list[str] = []  # what stands before all else
        self.known: list[dict[object, str]] = [{}]  # results, for each open loop and condition
        self.changing: set[str] = set()  # registers that get other values
        self.bases: dict[Node, str] = {}
        self.shared = 0

    @abstractmethod
    def lanes(self, node: Node) -> list[Lane]:
        """The lanes of a value."""

    @abstractmethod
    def is_index(self, node: Node) -> bool:
        """Whether a value is one that was printed, and never below 0."""

    @abstractmethod
    def is_written(self, memory: Node) -> bool:
        """Whether the phase writes a piece of memory."""

    @abstractmethod
    def parameter(self, memory: Node) -> tuple[str, str]:
        """The constants with a PARAM's address."""

    def open(self, code: str) -> None:
        super().open(code)
        self.known.append({})

    def close(self, code: str = "end") -> None:
        self.known.pop()
        super().close(code)

    # -- addresses --------------------------------------------------------------------------------

    def emit(self, op: str, *srcs: str, half: bool = False) -> str:
        """The result of an instruction, which is not printed again where it is known."""
        key = op, srcs, half
        for scope in self.known:
            if key in scope:
                return scope[key]
        name = super().emit(op, *srcs, half=half)
        if not any(source.rpartition(")")[2] in self.changing for source in srcs):
            self.known[-1][key] = name
        return name

    def copy(self, target: Lane, source: Lane) -> None:
        super().copy(target, source)
        if isinstance(target, str):
            self.changing.add(target)

    def _base(self, memory: Node) -> str:
        """The address of a PARAM in two registers, or where a LOCAL begins."""
        if memory not in self.bases:
            if memory.op is Op.LOCAL:
                alignment = memory.arg.alignment
                start = -(-self.shared // alignment) * alignment
                self.bases[memory] = str(start)
                self.shared = start + memory.arg.size * memory.dtype.itemsize
            else:
                name = self.new()
                low, high = self.parameter(memory)
                self.entry += [
                    f"  vector {name} 2",
                    f"  mov.u32u32 {name}.0, {low}",
                    f"  mov.u32u32 {name}.1, {high}",
                ]
                self.bases[memory] = f"{name}:2"
        return self.bases[memory]

    def _place(self, memory: Node, index: Node) -> _Place:
        """An index as a value and a constant beside it.

        An instruction may take the value as one without a sign, so none below 0 is parted.
        """
        if index.op is Op.CONST:
            return _Place(None, index.arg)
        if index.op is Op.ADD and not is_pair(index.dtype):
            value, beside = operands(index)
            most = _MOST_BYTES // 8 if memory.op is Op.LOCAL or memory.dtype.itemsize < 4 else _FAR
            if beside.op is Op.CONST and 0 <= beside.arg <= most and self.is_index(value):
                return _Place(self.lanes(value)[0], beside.arg)
        return _Place(self.lanes(index)[0], 0)

    def _where(self, memory: Node, place: _Place) -> tuple[str, str]:
        """The letter of an instruction that finds an element, and its operands."""
        if memory.op is Op.LOCAL:
            return "", self._in_shared(memory, place)
        size, base = memory.dtype.itemsize, self._base(memory)
        if isinstance(place.index, tuple):
            return "", self._by_address(memory, place)
        if place.index is None and place.beside * size <= _MOST_BYTES:
            return "", f"{base}; {place.beside * size}"
        if size < 4:
            return "", self._by_address(memory, place)
        dwords = place.beside * (size // 4)
        index = place.index
        if index is None:
            index, dwords = word(place.beside), 0
        elif dwords > _MOST_DWORDS:  # neighbours share a sum, and become one access
            near = place.beside % _WORDS if size == 4 else 0
            index, dwords = self.emit("add.u", index, word(place.beside - near)), near
        return ".a", f"{base}; {index}, {size // 8}, {dwords}"

    def _in_shared(self, memory: Node, place: _Place) -> str:
        size, start = memory.dtype.itemsize, int(self._base(memory))
        start += place.beside * size
        index = place.index[0] if isinstance(place.index, tuple) else place.index
        if index is None:
            index = word(0)
        elif size > 1:
            index = self.emit("shl.b", index, word(size.bit_length() - 1))
        if start > _MOST_BYTES:
            index, start = self.emit("add.u", index, word(start)), 0
        return f"{index}; {start}"

    def _by_address(self, memory: Node, place: _Place) -> str:
        """The address of an element in two registers, and the bytes beside it."""
        size = memory.dtype.itemsize
        low, high = self.parameter(memory)
        index, beside = place.index, place.beside
        if index is None:
            index, beside = word(beside), 0
        key = memory, index
        found = next((scope[key] for scope in self.known if key in scope), None)
        if found is None:
            found = self._address((low, high), index, size)
            self.known[-1][key] = found
        return f"{found}; {beside * size}"

    def _address(self, base: tuple[str, str], index: Lane, size: int) -> str:
        shift = word(size.bit_length() - 1)
        name = self.vector(2)
        if isinstance(index, tuple):
            offset = int64.arithmetic(self, Op.SHL, dtypes.int64, index, (shift, "0x0"))
            self.copy((f"{name}.0", f"{name}.1"),
                      int64.arithmetic(self, Op.ADD, dtypes.int64, offset, base))  # fmt: skip
            return f"{name}:2"
        offset = self.emit("shl.b", index, shift) if size > 1 else index
        self.line(f"add.u {name}.0, {offset}, {base[0]}")
        carry = self.emit("cmps.u.lt", f"{name}.0", base[0])
        self.line(f"add.u {name}.1, {carry}, {base[1]}")
        return f"{name}:2"

    # -- loads ------------------------------------------------------------------------------------

    def _load(self, node: Node) -> list[Lane]:
        load = Load.of(node)
        memory, dtype = behind_after(load.memory), node.dtype
        if not load.is_gated:
            return self._loaded(memory, dtype, self._place(memory, load.index))
        others = self.lanes(load.other)
        gates = [gate for gate in self.lanes(load.gate) if isinstance(gate, str)]
        if self.is_written(memory):
            return self._behind_branches(load, memory, gates, others)
        if len(gates) == 1 and _holds(memory, dtype.count):
            place = self._gated(load.index, gates[0], 0)
            found = self._loaded(memory, dtype, place)
            return [self.choose(gates[0], a, b) for a, b in zip(found, others, strict=True)]
        if len(gates) == 1:
            gates *= dtype.count
        lanes: list[Lane] = []
        for n, (gate, other) in enumerate(zip(gates, others, strict=True)):
            (found,) = self._loaded(memory, dtype.scalar, self._gated(load.index, gate, n))
            lanes.append(self.choose(gate, found, other))
        return lanes

    def _behind_branches(
        self, load: Load, memory: Node, gates: list[str], others: list[Lane]
    ) -> list[Lane]:
        """What is loaded where a gate holds, one gate for all lanes or for each its own."""
        lanes = [self.fresh(load.dtype.scalar) for _ in others]
        for lane, other in zip(lanes, others, strict=True):
            self.copy(lane, other)
        place, each = self._place(memory, load.index), len(lanes) // len(gates)
        for n, gate in enumerate(gates):
            self.open(f"if {gate}")
            found = self._loaded(memory, load.dtype.scalar.vec(each), place.plus(n))
            for lane, value in zip(lanes[n * each :], found, strict=False):
                self.copy(lane, value)
            self.close()
        return lanes

    def _gated(self, index: Node, gate: str, further: int) -> _Place:
        """An element where the gate holds, and the first one where it does not."""
        (lane,) = self.lanes(index)
        if further:
            more: Lane = (word(further), "0x0") if isinstance(lane, tuple) else word(further)
            lane = self.sum_of(index.dtype, lane, more)
        zero: Lane = int64.ZERO if isinstance(lane, tuple) else "0x0"
        return _Place(self.choose(gate, lane, zero), 0)

    def choose(self, gate: str, yes: Lane, no: Lane) -> Lane:
        """One of two numbers."""
        if isinstance(yes, tuple) and isinstance(no, tuple):
            return int64.select(self, gate, yes, no)
        assert isinstance(yes, str)
        assert isinstance(no, str)
        return self.select(gate, yes, no)

    def sum_of(self, dtype: DType, a: Lane, b: Lane) -> Lane:
        """The sum of two integers."""
        if isinstance(a, tuple) and isinstance(b, tuple):
            return int64.arithmetic(self, Op.ADD, dtype, a, b)
        assert isinstance(a, str)
        assert isinstance(b, str)
        return self.emit("add.u", a, b)

    def _loaded(self, memory: Node, dtype: DType, place: _Place) -> list[Lane]:
        """The lanes of what is in memory."""
        kind, half, each = _access(memory.dtype)
        lanes: list[Lane] = []
        for first in range(0, dtype.count, each):
            count = min(each, dtype.count - first)
            words = count * (2 if is_pair(dtype) else 1)
            letter, where = self._where(memory, place.plus(first))
            name = self.vector(words, half)
            base, rest = where.split("; ")
            space = "l" if memory.op is Op.LOCAL else "g"
            result = f"{name}:{words}" if words > 1 else name
            self.line(f"ld{space}{letter}.{kind} {result}, {base}, {rest}, {words}")
            parts = [f"{name}.{n}" for n in range(words)] if words > 1 else [name]
            lanes += self._decoded(memory.dtype, parts)
        return lanes

    def _decoded(self, dtype: DType, parts: list[str]) -> list[Lane]:
        """Numbers as registers hold them."""
        if is_pair(dtype):
            return [(parts[n], parts[n + 1]) for n in range(0, len(parts), 2)]
        return [self._decoded_one(dtype, part) for part in parts]

    def _decoded_one(self, dtype: DType, part: str) -> str:
        if dtype.bits == 32 or dtype.scalar is dtypes.float16:
            return part
        if dtype.bits == 16:
            return self.emit("cov.u16u32" if dtype.is_unsigned else "cov.s16s32", part)
        whole = self.emit("cov.u16u32", part)
        if dtype.is_bool:  # any byte but 0 is true
            return self.emit("cmps.u.ne", self.wrapped(dtypes.uint8, whole), "0x0")
        return self.wrapped(dtype, whole)

    # -- stores -----------------------------------------------------------------------------------

    def _store(self, node: Node) -> None:
        store = Store.of(node)
        memory = behind_after(store.memory)
        values = self.lanes(store.value)
        gates = [gate for gate in self.lanes(store.gate) if isinstance(gate, str)]
        place = self._place(memory, store.index)
        if not store.is_gated:
            self._stored(memory, values, place)
        elif len(gates) == 1:
            self.open(f"if {gates[0]}")
            self._stored(memory, values, place)
            self.close()
        else:
            for n, (gate, value) in enumerate(zip(gates, values, strict=True)):
                self.open(f"if {gate}")
                self._stored(memory, [value], place.plus(n))
                self.close()

    def _stored(self, memory: Node, values: list[Lane], place: _Place) -> None:
        kind, half, each = _access(memory.dtype)
        for first in range(0, len(values), each):
            parts = self._encoded(memory.dtype, values[first : first + each])
            letter, where = self._where(memory, place.plus(first))
            value = self._together(parts, half)
            base, rest = where.split("; ")
            space = "l" if memory.op is Op.LOCAL else "g"
            self.line(f"st{space}{letter}.{kind} {base}, {value}, {rest}, {len(parts)}")

    def _encoded(self, dtype: DType, values: list[Lane]) -> list[str]:
        """Registers as memory holds numbers."""
        parts: list[str] = []
        for value in values:
            if isinstance(value, tuple):
                parts += value
            elif dtype.bits == 32 or dtype.scalar is dtypes.float16:
                parts.append(value)
            else:
                parts.append(self.emit("cov.u32u16", value, half=True))
        return parts

    def _together(self, parts: list[str], half: bool) -> str:
        """Registers side by side with these values."""
        if len(parts) == 1:
            return parts[0]
        name = self.vector(len(parts), half)
        for n, part in enumerate(parts):
            self.line(f"mov.{'u16u16' if half else 'u32u32'} {name}.{n}, {part}")
        return f"{name}:{len(parts)}"


def _access(dtype: DType) -> tuple[str, bool, int]:
    """The type of an instruction, whether its registers are halves, and its most elements."""
    if dtype.bits == 64:
        return "u32", False, _WORDS // 2
    if dtype.bits == 32:
        return "u32", False, _WORDS
    if dtype.bits == 16:
        return "u16", True, _WORDS
    return "u8", True, 1


def _holds(memory: Node, count: int) -> bool:
    """Whether so many elements are in memory for certain."""
    size = memory.arg.size
    return count == 1 or (isinstance(size, int) and size >= count)
