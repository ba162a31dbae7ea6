"""Decomposed ops keep their meaning when what is left of them is machine arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.dtype import DType, dtypes
from treadle.ir import elementwise
from treadle.ir.elementwise import cast_array, numpy_dtype
from treadle.ir.interpret import evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel
from treadle.lower.decompose import decompose
from treadle.lower.math import lower_math

from ..complaints import complaint

INTS = dtypes.ints


def leaf(dtype: DType, name: str) -> Node:
    return Node(Op.WILDCARD, dtype, (), (name, False))


def samples(dtype: DType, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    edges = [0, 1, 2, 3, 7, 8, dtype.max, dtype.max - 1, dtype.min, dtype.min + 1, -1, -2, -7, -8]
    edges = [dtype.as_const(e) for e in edges]
    raw = rng.integers(0, 256, (4000, dtype.itemsize), dtype=np.uint8).view(numpy_dtype(dtype))
    kind = numpy_dtype(dtype)
    small = rng.integers(-9 if dtype.min else 0, 9, 1000).astype(kind)
    return np.concatenate([np.repeat(np.array(edges, kind), len(edges)), raw.reshape(-1), small])


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    a, b = samples(dtype, 1), samples(dtype, 2)
    b[:196] = np.tile(b[:196:14], 14)
    return a, b


def machine_division(mod: bool):
    """C's / and %, which must not meet a zero or an overflowing quotient."""

    def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a, b = np.broadcast_arrays(a, b)
        assert (b != 0).all()
        if a.dtype.kind == "i":
            assert not ((a == np.iinfo(a.dtype).min) & (b == -1)).any()
        rest = np.fmod(a, b)
        return rest if mod else ((a - rest) // b).astype(a.dtype)

    return divide


@pytest.fixture
def machine(monkeypatch):
    """Evaluation as a renderer may do it after the pass."""

    def bounded(function):
        def shift(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            assert (b < a.dtype.itemsize * 8).all()
            assert (b >= 0).all()
            return function(a, b)

        return shift

    table = elementwise.ELEMENTWISE
    monkeypatch.setitem(table, Op.IDIV, machine_division(mod=False))
    monkeypatch.setitem(table, Op.MOD, machine_division(mod=True))
    monkeypatch.setitem(table, Op.SHL, bounded(np.left_shift))
    monkeypatch.setitem(table, Op.SHR, bounded(np.right_shift))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", [Op.IDIV, Op.MOD, Op.SHL, Op.SHR])
def test_integer_division_and_shifts_have_no_undefined_case(dtype, op, request):
    a, b = pairs(dtype)
    if op in (Op.SHL, Op.SHR):
        b = np.where(np.arange(b.size) % 2, b, b % 80).astype(b.dtype)
    x, y = leaf(dtype, "x"), leaf(dtype, "y")
    wanted = evaluate(x.alu(op, y), {x: a, y: b})
    request.getfixturevalue("machine")
    got = evaluate(decompose(x.alu(op, y)), {x: a, y: b})
    assert got.dtype == wanted.dtype
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("divisor", [0, 1, 2, 3, 7, 64, -1, -2, -8, -5])
def test_division_by_constants_floors(dtype, divisor):
    a = samples(dtype, 3)
    x = leaf(dtype, "x")
    for graph in (x // divisor, x % divisor):
        wanted = np.broadcast_to(evaluate(graph, {x: a}), a.shape)
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(elementwise.ELEMENTWISE, Op.IDIV, machine_division(mod=False))
            patch.setitem(elementwise.ELEMENTWISE, Op.MOD, machine_division(mod=True))
            got = np.broadcast_to(evaluate(decompose(graph), {x: a}), a.shape)
        assert np.array_equal(got, wanted)


def test_index_division_of_what_is_never_negative_stays_one_op():
    r = Node.range(64, 0)
    assert decompose(r // 8) is r // 8
    assert decompose((r + 3) % 5) is (r + 3) % 5


def test_index_division_of_what_may_be_negative_floors(machine):
    r = Node.range(64, 0)
    lowered = decompose((r - 20) // 8)
    assert np.array_equal(evaluate(lowered, {r: np.arange(64)}), (np.arange(64) - 20) // 8)
    lowered = decompose((r - 20) % 8)
    assert np.array_equal(evaluate(lowered, {r: np.arange(64)}), (np.arange(64) - 20) % 8)


def test_only_emulated_float64_keeps_its_modulo():
    for dtype, is_kept in ((dtypes.float64, True), (dtypes.float32, False)):
        x, y = leaf(dtype, "x"), leaf(dtype, "y")
        assert (decompose(x % y, emulates_float64=True) is x % y) == is_kept


@pytest.mark.parametrize(
    ("dtype", "strict"),
    [(dtypes.float32, True), (dtypes.float64, True), (dtypes.float32, False)],
)
def test_float_modulo_is_exact(dtype, strict):
    kind = numpy_dtype(dtype)
    rng = np.random.default_rng(6)
    count = 4000 if dtype is dtypes.float32 else 150  # float64's FMA is slow to interpret
    bits = rng.integers(0, 256, (2 * count, dtype.itemsize), dtype=np.uint8).view(kind).reshape(-1)
    near = (rng.normal(size=2 * count) * 10).astype(kind)
    edges = kind.type([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 5, -5, 0.1])
    a = np.concatenate([bits[:count], near[:count], np.repeat(edges, 10)])
    b = np.concatenate([bits[count:], near[count:], np.tile(edges, 10)])
    x, y = leaf(dtype, "x"), leaf(dtype, "y")
    lowered = decompose(x % y, strict_floats=strict)
    steps = {n.op for n in lowered.toposort() if n.dtype.is_float}
    assert (Op.FMA in steps and Op.FDIV in steps) == strict
    got = evaluate(lowered, {x: a, y: b})
    with np.errstate(all="ignore"):
        wanted = np.remainder(a, b)
    assert np.array_equal(got, wanted, equal_nan=True)


@pytest.mark.parametrize("source", [dtypes.float32, dtypes.float64])
@pytest.mark.parametrize("target", [*INTS, dtypes.bool])
def test_float_to_integer_casts_saturate_then_wrap(source, target):
    rng = np.random.default_rng(8)
    kind = numpy_dtype(source)
    bits = rng.integers(0, 256, (3000, source.itemsize), dtype=np.uint8).view(kind).reshape(-1)
    powers = np.concatenate([2.0 ** np.arange(70), 2.0 ** np.arange(70) - 1, [1e30, np.inf]])
    with np.errstate(invalid="ignore"):
        a = np.concatenate([bits, powers, -powers, rng.normal(size=500) * 300, [np.nan, -0.0]])
    with np.errstate(all="ignore"):
        a = a.astype(kind)
    x = leaf(source, "x")
    lowered = decompose(x.cast(target))
    left = [n for n in lowered.toposort() if n.op is Op.CAST and n.src[0].dtype.is_float]
    assert all(n.dtype in (dtypes.int32, dtypes.int64) for n in left)
    assert np.array_equal(evaluate(lowered, {x: a}), cast_array(a, target))


def test_float_to_unsigned_casts_reach_the_whole_range():
    x = leaf(dtypes.float64, "x")
    a = np.array([2.0**64, 2.0**63, 2.0**64 - 2048, -1.0, -(2.0**64)])
    wanted = np.array([2**64 - 1, 2**63, 2**64 - 2048, 2**64 - 1, 2**63], np.uint64)
    assert np.array_equal(evaluate(decompose(x.cast(dtypes.uint64)), {x: a}), wanted)


@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.MAX, Op.MIN, Op.CMPLT])
def test_bools_need_logic_alone(op):
    x, y = leaf(dtypes.bool, "x"), leaf(dtypes.bool, "y")
    a, b = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    lowered = decompose(x.alu(op, y))
    left = {n.op for n in lowered.toposort()}
    assert left <= {Op.WILDCARD, Op.AND, Op.OR, Op.XOR, Op.CONST}
    assert np.array_equal(evaluate(lowered, {x: a, y: b}), evaluate(x.alu(op, y), {x: a, y: b}))


def test_vectors_are_decomposed_like_scalars(machine):
    x = leaf(dtypes.int32.vec(4), "x")
    a = np.arange(-6, 6, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(evaluate(decompose(x // 4), {x: a}), a // 4)
    assert np.array_equal(evaluate(decompose(x % 3), {x: a}), a % 3)
    assert np.array_equal(evaluate(decompose(x << x), {x: a % 40}), (a % 40) * 0 + shifted(a % 40))
    reciprocal = leaf(dtypes.float32.vec(4), "r").alu(Op.RECIP)
    assert decompose(reciprocal).op is Op.FDIV


def shifted(a: np.ndarray) -> np.ndarray:
    return np.where(a < 32, a << np.minimum(a, 31), 0)


def test_the_result_is_a_legal_kernel_expression():
    r, s = Node.range(9, 0), Node.range(5, 1)
    assert complaint(verify_kernel, decompose((r - s) // 3 + (r % s))) == ""
    value = (r - 4).cast(dtypes.float32)
    power = (value % 2.5).alu(Op.POW, value).cast(dtypes.uint8)
    assert complaint(verify_kernel, decompose(lower_math(power))) == ""
