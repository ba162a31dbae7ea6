"""What kernels do, step by step: a machine for linear programs, beside the meaning of their AST.

    run(linearize(root), {0: x, 1: y}) == meaning(ast, {0: x, 1: y})

Both take flat arrays by slot and give them as they are afterwards. An
asynchronous STORE happens as late as it may: at the WAIT that asks for its group. A value is known
in the block that computes it alone, so that what stands in the wrong loop is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from treadle.ir.elementwise import apply_alu, numpy_dtype
from treadle.ir.evaluate import evaluate
from treadle.ir.interpret_kernel import KernelMeaning
from treadle.ir.loops import loop_size
from treadle.ir.node import Node, behind_after
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.lower.linearize import Phase
from treadle.lower.multi_buffering import ASYNCHRONOUS

Array = np.ndarray
Memory = Mapping[int, Array]
ALL = 1 << 20  # steps of the loops around a store
_ORDER = frozenset((Op.SINK, Op.BARRIER))


def meaning(sink: Node, memory: Memory) -> dict[int, Array]:
    """The memory after a kernel whose loops are of whatever kind."""
    after = {slot: array.copy() for slot, array in memory.items()}
    for stored in KernelMeaning(sink, memory, {}).stores(ALL):
        after[stored.slot][stored.places] = stored.value.value
    return after


def run(phases: Sequence[Phase], memory: Memory) -> dict[int, Array]:
    """The memory after linear programs, of which each workgroup or worker has one work item.

    A workgroup runs the program for one step of the grid, a worker one program for all of them.
    """
    after = {slot: array.copy() for slot, array in memory.items()}
    for phase in phases:
        verify_linear(phase.program)
        grid = phase.grid if phase.work_items > 1 else ()
        for steps in itertools.product(*(range(loop_size(r)) for r in grid)):
            workgroup = {r: np.asarray(step) for r, step in zip(grid, steps, strict=True)}
            _Machine(phase.program.src, after).block(0, len(phase.program.src), workgroup)
    return after


class _Machine:
    def __init__(self, program: Sequence[Node], memory: dict[int, Array]) -> None:
        self.program, self.memory = program, memory
        self.locals: dict[Node, Array] = {}
        self.registers: dict[Node, Array] = {}
        self.started: list[tuple[Array, Array, Array]] = []  # since the last COMMIT
        self.groups: list[list[tuple[Array, Array, Array]]] = []

    def block(self, begin: int, end: int, around: dict[Node, Array]) -> None:
        known, at = dict(around), begin
        while at < end:
            node = self.program[at]
            if node.op is Op.RANGE and node not in known:
                close = self._close(node, at, end)
                for step in range(loop_size(node)):
                    self.block(at + 1, close, {**known, node: np.asarray(step)})
                at = close
            elif node.op not in (Op.RANGE, Op.END, *_ORDER):
                self._step(node, known)
            at += 1

    def _close(self, loop: Node, at: int, end: int) -> int:
        """Where a loop's END stands; a grid's steps go on to the end."""
        ends = (n for n in range(at, end) if self.program[n].op is Op.END)
        return next((n for n in ends if self.program[n].src == (loop,)), end)

    def _step(self, node: Node, known: dict[Node, Array]) -> None:
        if node.op in (Op.PARAM, Op.LOCAL):
            return
        if node.op is Op.COMMIT:
            self.groups.append(self.started)
            self.started = []
        elif node.op is Op.WAIT:
            while len(self.groups) > node.arg:
                for array, places, values in self.groups.pop(0):
                    array[places] = values
        elif node.op is Op.REGISTER:
            self.registers[node] = self._value(node.src[0], known)
        elif node.op is Op.UPDATE:
            self._update(node, known)
        elif node.op is Op.STORE:
            self._store(node, known)
        elif node.op is Op.LOAD:
            known[node] = self._load(node, known)
        elif node.op is not Op.AFTER:
            known[node] = self._value(node, known)
        elif behind_after(node).op is Op.REGISTER:
            known[node] = self.registers[behind_after(node)]

    def _value(self, node: Node, known: dict[Node, Array]) -> Array:
        return evaluate(node, known)

    def _update(self, node: Node, known: dict[Node, Array]) -> None:
        register, value = behind_after(node.src[0]), self._value(node.src[1], known)
        if node.arg is not None:
            types = [register.dtype] * 2
            old = self.registers[register]
            value = apply_alu(node.arg, register.dtype, types, [old, value])
        self.registers[register] = value

    def _array(self, memory: Node) -> Array:
        memory = behind_after(memory)
        if memory.op is Op.PARAM:
            return self.memory[memory.arg.slot]
        kind = numpy_dtype(memory.dtype)
        return self.locals.setdefault(memory, np.full(memory.arg.size, 99, kind))

    def _places(self, index: Node, count: int, known: dict[Node, Array]) -> Array:
        return np.atleast_1d(self._value(index, known) + np.arange(count))

    def _load(self, node: Node, known: dict[Node, Array]) -> Array:
        array, count = self._array(node.src[0]), node.dtype.count
        places = self._places(node.src[1], count, known)
        if len(node.src) == 2:
            assert 0 <= places.min() <= places.max() < array.size
            found = array[places]
        else:
            gate = np.broadcast_to(self._value(node.src[2], known), places.shape)
            assert np.all((places[gate] >= 0) & (places[gate] < array.size))
            read = array[np.where(gate, places, 0)]
            found = np.where(gate, read, self._value(node.src[3], known)).astype(array.dtype)
        return found if count > 1 else found[0]

    def _store(self, node: Node, known: dict[Node, Array]) -> None:
        value = np.atleast_1d(self._value(node.src[2], known))
        places = self._places(node.src[1], len(value), known)
        gate = np.ones(places.shape, bool)
        if len(node.src) == 4:
            gate = np.broadcast_to(self._value(node.src[3], known), places.shape)
        array = self._array(node.src[0])
        assert np.all((places[gate] >= 0) & (places[gate] < array.size))
        stored = array, places[gate], value[gate]
        if node.arg == ASYNCHRONOUS:
            self.started.append(stored)
        else:
            array[stored[1]] = stored[2]
