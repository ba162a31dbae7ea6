"""Emulated narrow floats have the values of ml_dtypes and NumPy, bit for bit (NaN as NaN)."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import DType, dtypes
from treadle.ir.args import ParamRef, ReduceArg, RegisterRef
from treadle.ir.elementwise import cast_array, numpy_dtype
from treadle.ir.interpret import evaluate
from treadle.ir.node import Node
from treadle.ir.op import ALU, Op
from treadle.ir.verify import verify_kernel
from treadle.lower.emulated_floats import emulate_dtypes

NARROW = (dtypes.bfloat16, dtypes.float16, dtypes.fp8e5m2, dtypes.fp8e4m3)
NATIVE = (frozenset(), frozenset((dtypes.float16,)))


@pytest.fixture(autouse=True)
def quiet():
    """The references overflow and meet NaNs on purpose."""
    with np.errstate(all="ignore"):
        yield


def every_code(dtype: DType) -> np.ndarray:
    unsigned = np.uint16 if dtype.bits == 16 else np.uint8
    return np.arange(1 << dtype.bits, dtype=np.uint32).astype(unsigned).view(numpy_dtype(dtype))


def bit_patterns(dtype: DType, count: int = 40_000) -> np.ndarray:
    rng = np.random.default_rng(7)
    raw = rng.integers(0, 256, (count, dtype.itemsize), dtype=np.uint8)
    if dtype.is_bool:
        return raw.reshape(-1) > 127
    values = raw.view(numpy_dtype(dtype)).reshape(-1)
    if dtype.is_float:
        near = rng.normal(size=count) * np.exp2(rng.integers(-30, 18, count))
        return np.concatenate([values, near.astype(values.dtype)])
    return np.concatenate([values, rng.integers(0, 100, count).astype(values.dtype)])


def load(dtype: DType, slot: int, size: int) -> Node:
    return Node(Op.LOAD, dtype, (Node(Op.PARAM, dtype, (), ParamRef(slot, size)), Node.index(slot)))


def store(value: Node, slot: int = 9) -> Node:
    out = Node(Op.PARAM, value.dtype, (), ParamRef(slot, 1))
    return Node(Op.STORE, dtypes.void, (out, Node.index(0), value))


def run(value: Node, inputs: list[np.ndarray], native: frozenset[DType]) -> np.ndarray:
    """What the emulated kernel stores for `value` of LOADs whose memory holds `inputs`."""
    kernel = emulate_dtypes(Node.sink([store(value)]), native)
    verify_kernel(kernel)
    nodes = kernel.toposort()
    assert not any(n.dtype.scalar in NARROW and n.dtype.scalar not in native for n in nodes)
    memory = {}
    for node in nodes:
        if node.op is Op.LOAD:
            memory[node] = inputs[node.src[0].arg.slot].view(numpy_dtype(node.dtype))
    stored = next(n for n in nodes if n.op is Op.STORE).src[2]
    return evaluate(stored, memory).view(numpy_dtype(value.dtype))


def assert_same(got: np.ndarray, wanted: np.ndarray) -> None:
    got, wanted = np.broadcast_arrays(got, wanted)
    if wanted.dtype.kind in "biu":
        assert np.array_equal(got, wanted)
        return
    with np.errstate(invalid="ignore"):  # signalling NaNs
        a, b = got.astype(np.float64), wanted.astype(np.float64)
    same = (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))
    assert same.all(), (got[~same][:5], wanted[~same][:5])


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("dtype", NARROW)
def test_every_code_widens_to_the_float32_of_ml_dtypes(dtype, native):
    codes = every_code(dtype)
    got = run(load(dtype, 0, codes.size).cast(dtypes.float32), [codes], native)
    assert_same(got, codes.astype(np.float32))


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("dtype", NARROW)
def test_random_float32_bits_narrow_as_in_ml_dtypes(dtype, native):
    values = bit_patterns(dtypes.float32)
    with np.errstate(all="ignore"):
        wanted = values.astype(numpy_dtype(dtype))
    assert_same(run(load(dtypes.float32, 0, values.size).cast(dtype), [values], native), wanted)


@pytest.mark.parametrize("dtype", NARROW)
def test_every_tie_and_its_neighbours_narrow_to_even(dtype):
    codes = every_code(dtype)
    with np.errstate(all="ignore"):
        codes = np.sort(codes.astype(np.float32)[np.isfinite(codes.astype(np.float32))])
        ties = ((codes[:-1].astype(np.float64) + codes[1:]) / 2).astype(np.float32)
        around = [ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, -ties)]
        top = codes[-1] + (codes[-1] - codes[-2]) / 2
        ends = np.float32([top, np.nextafter(top, np.inf), np.nextafter(top, 0), -top, 1e38])
        values = np.concatenate([*around, ends]).astype(np.float32)
        wanted = values.astype(numpy_dtype(dtype))
    got = run(load(dtypes.float32, 0, values.size).cast(dtype), [values], frozenset())
    assert_same(got, wanted)


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("other", dtypes.all)
def test_casts_between_any_pair_round_once(dtype, other, native):
    for source, target in ((dtype, other), (other, dtype)):
        values = bit_patterns(source)
        got = run(load(source, 0, values.size).cast(target), [values], native)
        assert_same(got, cast_array(values, target))


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_a_float64_just_above_a_tie_is_not_rounded_twice(dtype):
    step = 2.0**-10 if dtype is dtypes.float16 else 2.0**-7
    values = np.array([1 + step / 2 + 2.0**-40, 1 + step / 2, 1 + 1.5 * step - 2.0**-40, -1e308])
    got = run(load(dtypes.float64, 0, 4).cast(dtype), [values], frozenset())
    assert got.astype(np.float64).tolist() == [1 + step, 1.0, 1 + step, -np.inf]


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.FDIV, Op.MAX, Op.MIN])
def test_arithmetic_rounds_after_each_op_like_ml_dtypes(dtype, op, native):
    rng = np.random.default_rng(3)
    codes = every_code(dtype)
    a, b = rng.choice(codes, 30_000), rng.choice(codes, 30_000)
    with np.errstate(all="ignore"):
        ufunc = {
            Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.FDIV: np.divide,
            Op.MAX: np.maximum, Op.MIN: np.minimum,
        }[op]  # fmt: skip
        wanted = ufunc(ufunc(a, b), a)
    x, y = load(dtype, 0, a.size), load(dtype, 1, b.size)
    got = run(x.alu(op, y).alu(op, x), [a, b], native)
    assert got.dtype == wanted.dtype
    if op in (Op.MAX, Op.MIN):  # which of two zeros is larger is not said
        got, wanted = got + numpy_dtype(dtype).type(0), wanted + numpy_dtype(dtype).type(0)
    assert_same(got, wanted)


@pytest.mark.parametrize("dtype", NARROW)
def test_comparison_selection_and_negation_need_no_rounding(dtype):
    rng = np.random.default_rng(4)
    a, b = rng.choice(every_code(dtype), 5000), rng.choice(every_code(dtype), 5000)
    x, y = load(dtype, 0, 5000), load(dtype, 1, 5000)
    assert_same(run(x < y, [a, b], frozenset()), a < b)
    assert_same(run((x < y).where(-x, y), [a, b], frozenset()), np.where(a < b, -a, b))


@pytest.mark.parametrize("dtype", NARROW)
def test_a_copy_moves_bits_without_converting(dtype):
    kernel = emulate_dtypes(store(load(dtype, 0, 4)), frozenset())
    assert kernel.src[2].op is Op.LOAD


@pytest.mark.parametrize("native", NATIVE)
@pytest.mark.parametrize("dtype", NARROW)
def test_bitcasts_see_the_storage(dtype, native):
    codes = every_code(dtype)
    signed = dtypes.int16 if dtype.bits == 16 else dtypes.int8
    x = load(dtype, 0, codes.size)
    assert_same(run(x.bitcast(signed), [codes], native), codes.view(numpy_dtype(signed)))
    back = load(signed, 0, codes.size).bitcast(dtype)
    assert_same(run(back, [codes.view(numpy_dtype(signed))], native), codes)


@pytest.mark.parametrize("dtype", NARROW)
def test_vectors_convert_lane_by_lane(dtype):
    codes = np.random.default_rng(5).choice(every_code(dtype), (500, 4))
    lanes = Node(Op.LOAD, dtype.vec(4), (Node(Op.PARAM, dtype, (), ParamRef(0, 4)), Node.index(0)))
    first, last = (Node(Op.EXTRACT, dtype, (lanes,), i) for i in (0, 3))
    pair = Node(Op.STACK, dtype.vec(2), (last, first + last))
    with np.errstate(all="ignore"):
        wanted = np.stack([codes[:, 3], codes[:, 0] + codes[:, 3]], -1)
        doubled = codes * numpy_dtype(dtype).type(2)
        tree = (codes[:, 0].astype(np.float32) + codes[:, 1].astype(np.float32)) + (
            codes[:, 2].astype(np.float32) + codes[:, 3].astype(np.float32)
        )
    total = Node(Op.HREDUCE, dtype, (lanes,), Op.ADD)
    assert_same(run(pair, [codes], frozenset()), wanted)
    assert_same(run(lanes * 2.0, [codes], frozenset()), doubled)
    assert_same(run(total, [codes], frozenset()), cast_array(tree, dtype))


def test_memory_registers_and_reductions_change_dtype_together():
    half = dtypes.bfloat16
    r = Node.range(4, 0)
    source = Node(Op.PARAM, half, (), ParamRef(0, 4))
    item = Node(Op.LOAD, half, (source, r, r < 3, Node.const(half, 1.0)))
    start = Node(Op.REGISTER, half, (Node.const(half, 0.1),), RegisterRef(0))
    update = Node(Op.UPDATE, dtypes.void, (start, Node(Op.AFTER, half, (start, r)) + item))
    total = Node(Op.AFTER, half, (start, Node(Op.END, dtypes.void, (update, r), 1)))
    reduced = Node(Op.REDUCE, half, (item, r), ReduceArg(Op.ADD))
    kernel = Node.sink([store(total), store(reduced, 8)])
    verify_kernel(kernel)
    lowered = emulate_dtypes(kernel, frozenset())
    verify_kernel(lowered)
    by_op = {n.op: n for n in lowered.toposort()}
    assert by_op[Op.REGISTER].dtype is dtypes.float32
    assert by_op[Op.REGISTER].src[0].arg == float(np.asarray(0.1, numpy_dtype(half)))
    assert by_op[Op.REDUCE].dtype is dtypes.float32
    assert by_op[Op.LOAD].dtype is dtypes.uint16
    assert evaluate(by_op[Op.LOAD].src[3], {}) == 0x3F80
    assert all(n.dtype is not half for n in lowered.toposort())


def test_other_dtypes_stay_as_they_are():
    kernel = store(load(dtypes.float32, 0, 4) * 2.0 + load(dtypes.int32, 1, 4).cast(dtypes.float32))
    assert emulate_dtypes(kernel, frozenset()) is kernel


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("native", NATIVE)
def test_lanes_that_lie_apart_are_widened_together(dtype, native):
    memory = Node(Op.PARAM, dtype, (), ParamRef(0, 64))
    lanes = [Node(Op.LOAD, dtype, (memory, Node.index(3 * n))) for n in range(8)]
    lanes[2] = Node.const(dtype, 1.5)
    value = Node(Op.STACK, dtype.vec(8), tuple(lanes)).cast(dtypes.float32.vec(8))
    found = emulate_dtypes(value, native)
    assert all(n.dtype.count == 8 for n in found.toposort() if n.op in ALU)
    codes = every_code(dtype)[1:65]  # finite ones
    loads = {n: n.src[1].arg for n in found.toposort() if n.op is Op.LOAD}
    memory = {n: codes[at : at + 1].view(numpy_dtype(n.dtype))[0] for n, at in loads.items()}
    expected = codes[0:24:3].astype(np.float32)
    expected[2] = 1.5
    np.testing.assert_array_equal(evaluate(found, memory), expected)
