"""What workgroups do: all work items of one in step, on the machine for linear programs.

    run(lower(ast, slots, target).phases, {0: x, 1: y}, target)  ->  the memory afterwards

A value is an array over the work items, and over the lanes of a vector behind that; what is the
same for all of them need not be. The work items of a subgroup multiply matrices that they hold
together: each word is where its unit's map says.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np
from ml_dtypes import bfloat16, float8_e4m3fn, float8_e5m2

from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.lower.linearize import Phase
from treadle.target import Fragment, MatrixUnit, Target

from .programs import Array, Memory, _Machine

_NUMBERS = {"bfloat16": bfloat16, "fp8e4m3": float8_e4m3fn, "fp8e5m2": float8_e5m2}


def run(phases: Sequence[Phase], memory: Memory, target: Target) -> dict[int, Array]:
    """The memory after linear programs for a target with workgroups."""
    after = {slot: array.copy() for slot, array in memory.items()}
    for phase in phases:
        verify_linear(phase.program)
        for steps in itertools.product(*(range(loop_size(r)) for r in phase.grid)):
            workgroup = {r: np.asarray(step) for r, step in zip(phase.grid, steps, strict=True)}
            machine = _Workgroup(phase, after, target)
            machine.block(0, len(phase.program.src), workgroup)
    return after


class _Workgroup(_Machine):
    def __init__(self, phase: Phase, memory: dict[int, Array], target: Target) -> None:
        super().__init__(phase.program.src, memory)
        assert target.workgroup is not None
        assert target.workgroup.subgroup is not None
        self.width, _ = target.workgroup.subgroup
        self.work_item = np.arange(phase.work_items)
        self.units = {unit.name: unit for unit in (*target.matrix_units, *target.rounding_units)}

    def _step(self, node: Node, known: dict[Node, Array]) -> None:
        if node.op is Op.WORK_ITEM:
            is_lane = node.arg.name == "lane"
            known[node] = self.work_item % self.width if is_lane else self.work_item
        elif node.op is Op.FRAGMENT:
            known[node] = self._words(node, known)
        elif node.op is Op.MMA:
            known[node] = self._product(node, known)
        elif node.op is Op.SUBGROUP:
            value = np.broadcast_to(self._value(node.src[0], known), self.work_item.shape)
            of_lanes = {node.src[0]: value.reshape(-1, self.width)}
            known[node] = self._value(node, of_lanes).reshape(-1)
        else:
            super()._step(node, known)

    def _words(self, node: Node, known: dict[Node, Array]) -> Array:
        """The words that each work item reads for itself: they begin at multiples of their size."""
        assert node.arg == "own"
        array, count = self._array(node.src[0]).view(np.uint32), node.dtype.count
        place = self._value(node.src[1], known) * node.src[0].dtype.itemsize
        assert not np.any(place % (4 * count))
        words = array[place[:, None] // 4 + np.arange(count)]
        return words if count > 1 else words[:, 0]

    def _product(self, node: Node, known: dict[Node, Array]) -> Array:
        unit = self.units[node.arg]
        words = [np.broadcast_to(self._value(s, known), self.work_item.shape) for s in node.src]
        of_x, of_y, _ = unit.held
        assert len(words) == of_x.count + of_y.count
        sums = []
        for first in range(0, self.work_item.size, self.width):
            mine = np.stack([w[first : first + self.width] for w in words], 1).astype(np.uint32)
            sums.append(_multiplied(unit, mine[:, : of_x.count], mine[:, of_x.count :]))
        return np.concatenate(sums)

    def _places(self, index: Node, count: int, known: dict[Node, Array]) -> Array:
        return self._value(index, known)[..., None] + np.arange(count)

    def _lanes(self, node: Node, known: dict[Node, Array]) -> Array:
        value = self._value(node, known)
        return value if node.dtype.count > 1 else value[..., None]

    def _load(self, node: Node, known: dict[Node, Array]) -> Array:
        array, count = self._array(node.src[0]), node.dtype.count
        places = self._places(node.src[1], count, known)
        gate = np.asarray(True)
        if len(node.src) == 4:
            gate = self._lanes(node.src[2], known)
        places, gate = np.broadcast_arrays(places, gate)
        assert np.all((places[gate] >= 0) & (places[gate] < array.size))
        found = array[np.where(gate, places, 0)]
        if len(node.src) == 4:
            found = np.where(gate, found, self._lanes(node.src[3], known)).astype(array.dtype)
        return found if count > 1 else found[..., 0]

    def _store(self, node: Node, known: dict[Node, Array]) -> None:
        array, value = self._array(node.src[0]), self._lanes(node.src[2], known)
        places, gate = self._places(node.src[1], value.shape[-1], known), np.asarray(True)
        if len(node.src) == 4:
            gate = self._lanes(node.src[3], known)
        places, value, gate = np.broadcast_arrays(places, value, gate)
        assert np.all((places[gate] >= 0) & (places[gate] < array.size))
        array[places[gate]] = value[gate]


def _multiplied(unit: MatrixUnit, x: Array, y: Array) -> Array:
    """The sums of a subgroup from its words, each lane's in a row."""
    assert unit.x is not None
    assert unit.y is not None
    assert unit.out is not None
    kind = np.dtype(_NUMBERS.get(unit.dtype.name) or unit.dtype.name)
    wide = np.int64 if unit.sums.is_int else np.float64
    matrices = []
    for words, held in ((x, unit.x), (y, unit.y)):
        matrix = np.full(held.shape, 99, wide)
        matrix[_places(held)] = np.ascontiguousarray(words).view(kind).astype(wide)
        matrices.append(matrix)
    product = matrices[0] @ matrices[1].T
    return product[_places(unit.out)].astype(np.int32 if unit.sums.is_int else np.float32)


@functools.cache
def _places(held: Fragment) -> tuple[Array, Array]:
    """The row and the column of each element of each lane."""
    lanes, elements = range(held.width), range(held.count)
    places = np.array([[held.place(lane, number) for number in elements] for lane in lanes])
    return places[..., 0], places[..., 1]
