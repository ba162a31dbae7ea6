"""Vectors of every dtype and width: loads, stores, masks, arithmetic, casts, accumulators."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.dtype import DType
from treadle.engine.devices import Opened
from treadle.engine.realized import current
from treadle.errors import InternalError
from treadle.ir.args import ReduceArg
from treadle.ir.elementwise import cast_array, numpy_dtype
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.schedule.passes import schedule

from .conftest import PRINTING, need
from .kernels import apply, elementwise, empty, load, param, run, source

KINDS = [
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32,
    dtypes.float64,
]  # fmt: skip
STORED = [
    dtypes.bool, dtypes.int8, dtypes.uint16, dtypes.int64, dtypes.float16, dtypes.float32,
    dtypes.float64,
]  # fmt: skip
WORKGROUPS = 6


@pytest.fixture(params=[*PRINTING, "CL:OPENCL:gpu"])
def backend(request: pytest.FixtureRequest) -> Opened:
    """Each backend; OpenCL also as for a GPU, where vectors are loaded and stored otherwise."""
    return need(request.param)


def usable(backend: Opened, dtype: DType, lanes: int) -> None:
    if lanes > backend.target.max_lanes:
        pytest.skip(f"{backend.name} is handed at most {backend.target.max_lanes} lanes")
    if not backend.target.supports(dtype):
        pytest.skip(f"{backend.name} has no float64")


def numbers(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Small whole numbers, which every dtype holds."""
    rng = np.random.default_rng(seed)
    return rng.integers(0 if dtype.min == 0 else -8, 9, count).astype(numpy_dtype(dtype))


def several(x: Node, y: Node) -> list[Node]:
    mask = (x < y) | x.eq(0)
    return [mask.where(x, y), mask & (y < x).ne(mask), x * y + x, x.maximum(y), x.cast(
        dtypes.int64), x.cast(dtypes.float32), x.cast(dtypes.bool)]  # fmt: skip


def several_of_bools(x: Node, y: Node) -> list[Node]:
    return [x ^ y, x < y, x & y, x | y, x.cast(dtypes.int64), x.cast(dtypes.float32), ~x]


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_vectors_hold_what_single_values_hold(backend, dtype, lanes):
    usable(backend, dtype, lanes)
    x, y = numbers(dtype, WORKGROUPS * lanes, 1), numbers(dtype, WORKGROUPS * lanes, 2)
    kinds = [dtype, dtypes.bool, dtype, dtype, dtypes.int64, dtypes.float32, dtypes.bool]
    arrays = [(dtype, x), (dtype, y)]
    casts = [cast_array(x, kind) for kind in (dtypes.int64, dtypes.float32)]
    if dtype.is_bool:
        kinds = [dtypes.bool] * 4 + [dtypes.int64, dtypes.float32, dtypes.bool]
        expected = [x ^ y, ~x & y, x & y, x | y, *casts, ~x]
        results = apply(backend, several_of_bools, kinds, arrays, lanes)
    else:
        mask = (x < y) | (x == 0)
        expected = [np.where(mask, x, y), mask & ((y < x) != mask), x * y + x, np.maximum(x, y)]
        expected += [*casts, x != 0]
        results = apply(backend, several, kinds, arrays, lanes)
    for result, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.astype(np.float64), want.astype(np.float64))


def sums_and_rows(dtype: DType, lanes: int) -> Node:
    """out0[g] and out1[g] reduce four vectors of x; out2 holds their vector sums."""
    workgroup = Node.range(WORKGROUPS, 0, "grid")
    lane = [Node.range(lanes, number, "vector") for number in (1, 2, 3)]
    step = [Node.range(4, number) for number in (4, 5, 6)]

    def reduced(op: Op, number: int, *ranges: Node) -> Node:
        place = (workgroup * 4 + step[number]) * lanes + lane[number]
        value = load(param(3, dtype, WORKGROUPS * 4 * lanes), place)
        return Node(Op.REDUCE, dtype, (value, *ranges), ReduceArg(op))

    def stored(slot: int, size: int, place: Node, value: Node) -> Node:
        return Node(Op.STORE, dtypes.void, (param(slot, dtype, size), place, value))

    total = stored(0, WORKGROUPS, workgroup, reduced(Op.ADD, 0, step[0], lane[0]))
    most = stored(1, WORKGROUPS, workgroup, reduced(Op.MAX, 1, step[1], lane[1]))
    sums = reduced(Op.ADD, 2, step[2])
    rows = stored(2, WORKGROUPS * lanes, workgroup * lanes + lane[2], sums)
    rows = Node(Op.END, dtypes.void, (rows, lane[2]), 1)
    return Node.sink([Node(Op.END, dtypes.void, (total, most, rows, workgroup), 3)])


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_vectors_accumulate_and_are_reduced(backend, dtype, lanes):
    usable(backend, dtype, lanes)
    x = numbers(dtype, WORKGROUPS * 4 * lanes, 3)
    if lanes == 16 and dtype.bits == 8 and not dtype.is_bool:
        x //= x.dtype.type(4)
    rooms = [empty(dtype, WORKGROUPS), empty(dtype, WORKGROUPS), empty(dtype, WORKGROUPS * lanes)]
    results = run(backend, sums_and_rows(dtype, lanes), [*rooms, x])
    rows = x.reshape(WORKGROUPS, 4, lanes).astype(np.float64)
    expected = [rows.sum(axis=(1, 2)), rows.max(axis=(1, 2)), rows.sum(axis=1).reshape(-1)]
    if dtype.is_bool:
        expected = [e > 0 for e in expected]
    for result, want in zip(results[:3], expected, strict=True):
        kind = numpy_dtype(dtype)
        np.testing.assert_array_equal(result, want.astype(np.int64).astype(kind))


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_a_gate_for_each_lane_leaves_the_rest_alone(backend, dtype, lanes):
    usable(backend, dtype, lanes)
    size = WORKGROUPS * lanes
    ranges = [Node.range(WORKGROUPS, 0, "grid"), Node.range(lanes, 1, "vector")]
    at = ranges[0] * lanes + ranges[1]
    gate = at < size - 1
    other = Node.const(dtype, 1)
    value = load(param(1, dtype, size - 1), at, gate, other)
    first = Node(Op.STORE, dtypes.void, (param(0, dtype, size), at, value))
    second = Node(Op.STORE, dtypes.void, (param(2, dtype, size), at, value, gate))
    ast = Node.sink([Node(Op.END, dtypes.void, (first, second, *ranges), 2)])
    x = numbers(dtype, size - 1, 4)
    held = numbers(dtype, size, 5)
    whole, _, part = run(backend, ast, [empty(dtype, size), x, held])
    np.testing.assert_array_equal(whole, np.append(x, np.array(1, x.dtype)))
    np.testing.assert_array_equal(part, np.append(x, held[-1]))


@pytest.mark.parametrize("name", ["CL", "WEBGPU"])
def test_no_schedule_makes_wider_vectors_than_the_target_takes(name):
    backend = need(name)
    makers = {
        "int8": lambda x: x * 3, "float16": lambda x: x.softmax(), "bool": lambda x: x.any(axis=1),
        "float32": lambda x: x @ x, "uint8": lambda x: x.sum(axis=0), "int64": lambda x: x * 2,
        "bfloat16": lambda x: x.T.contiguous(), "int16": lambda x: x.max(axis=1),
    }  # fmt: skip
    widest = 0
    for kind, make in makers.items():
        x = Tensor.zeros(64, 64, dtype=getattr(dtypes, kind), device=name).contiguous().realize()
        for kernel in schedule(current([make(x).node])[0], name)[0]:
            ast, _ = optimize(kernel.ast, backend.target)
            for phase in lower(ast, len(kernel.buffers), backend.target).phases:
                widest = max(widest, *(n.dtype.count for n in phase.program.toposort()))
    assert 1 < widest <= backend.target.max_lanes


@pytest.mark.parametrize(("name", "lanes"), [("CL", 32), ("WEBGPU", 8)])
def test_a_vector_that_a_language_cannot_have_is_named(name, lanes):
    backend = need(name)
    ast = elementwise([dtypes.int32], [dtypes.int32], lambda x: [x + 1], 64, lanes)
    with pytest.raises(InternalError, match=f"no vectors of {lanes} lanes"):
        source(backend, ast)


@pytest.mark.parametrize("name", ["float32", "int32", "float16", "uint32"])
def test_memory_that_is_not_only_read_in_aligned_vectors(name):
    dtype, size = getattr(dtypes, name), 64
    data = (np.arange(size) * 3 % 50).astype(name)

    def beside(x):
        memory, at = x.src[0], x.src[1]
        following = load(memory, at + 1, at + 1 < size, Node.const(dtype, 7))
        return [x + x, x + load(memory, Node.index(5)), x + following]

    backend = need("WEBGPU")
    doubled, shifted, summed = apply(backend, beside, [dtype] * 3, [(dtype, data)], lanes=4)
    np.testing.assert_array_equal(doubled, data * 2)
    np.testing.assert_array_equal(shifted, data + data[5])
    np.testing.assert_array_equal(summed, data + np.append(data[1:], data.dtype.type(7)))
