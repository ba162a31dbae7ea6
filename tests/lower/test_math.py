"""Lowered transcendentals stay within the errors that `lower/math` states, contracted or not."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from treadle.dtype import DType, dtypes
from treadle.ir.args import ParamRef
from treadle.ir.interpret import ELEMENTWISE, evaluate
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.rewrite import rewrite_with
from treadle.ir.verify import verify_kernel
from treadle.lower.math import MATH, lower_math

UNARY = tuple(op for op in MATH if op is not Op.POW)
ULP32, ULP64 = 2.0, 4.0
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -3.0, 1e-40, -1e-40, math.inf, -math.inf, math.nan]
BITS = {Op.SIN: 200, Op.COS: 200, Op.TAN: 200}  # digits that mpmath needs; others need no more


def leaf(dtype: DType, name: str) -> Node:
    return Node(Op.WILDCARD, dtype, (), (name, False))


def contracted(root: Node) -> Node:
    """`root` with every product that feeds a sum fused into an FMA, as a renderer may do."""

    def step(node: Node) -> Node | None:
        if node.op not in (Op.ADD, Op.SUB) or not node.dtype.is_float:
            return None
        a, b = node.src
        minus = (lambda n: n.alu(Op.NEG)) if node.op is Op.SUB else (lambda n: n)
        if a.op is Op.MUL:
            return Node(Op.FMA, node.dtype, (*a.src, minus(b)))
        if b.op is Op.MUL:
            return Node(Op.FMA, node.dtype, (minus(b.src[0]), b.src[1], a))
        return None

    return rewrite_with(root, step)


FORMS = {"plain": lambda n: n, "contracted": contracted}


def error_in_ulp(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors of float32 results against float64 references."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        step = np.spacing(np.abs(nearest)).astype(np.float64)
        step = np.where(np.isfinite(step), step, 2.0**104)
        error = np.abs(got - np.clip(exact, -(2.0**128), 2.0**128)) / step
    same = (got == nearest) | (np.isnan(got) & np.isnan(exact))
    return np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))


def float32_samples(count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    near = rng.normal(size=count) * rng.choice([0.3, 3, 40], count)
    return np.concatenate([bits, near, SPECIAL]).astype(np.float32)


@pytest.fixture(autouse=True)
def quiet():
    """The references overflow and meet NaNs on purpose."""
    with np.errstate(all="ignore"):
        yield


def check32(op: Op, x: np.ndarray, graph: Node, source: Node) -> None:
    got = evaluate(graph, {source: x})
    exact = np.asarray(ELEMENTWISE[op](x), np.float64)
    error = error_in_ulp(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= ULP32, f"{op.name}({x[worst]!r}) = {got[worst]!r}, not {exact[worst]!r}"
    zero = (got == 0) & (exact == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", UNARY)
def test_float32_is_within_two_ulp(op, form):
    source = leaf(dtypes.float32, "x")
    graph = FORMS[form](lower_math(source.alu(op)))
    assert not {n.op for n in graph.toposort()} & set(MATH)
    check32(op, float32_samples(60_000), graph, source)


@pytest.mark.parametrize("form", FORMS)
def test_float32_power_is_within_two_ulp(form):
    x, y = leaf(dtypes.float32, "x"), leaf(dtypes.float32, "y")
    graph = FORMS[form](lower_math(x.alu(Op.POW, y)))
    rng = np.random.default_rng(2)
    base = np.concatenate([float32_samples(40_000), np.exp(rng.normal(size=40_000) / 8)])
    size = base.size
    power = np.concatenate([
        rng.normal(size=size // 2) * rng.choice([1, 20], size // 2),
        rng.integers(-20, 20, size // 4),
        float32_samples(size)[: size - size // 2 - size // 4],
    ])  # fmt: skip
    a, b = base.astype(np.float32), rng.permutation(power).astype(np.float32)
    got, exact = evaluate(graph, {x: a, y: b}), np.power(a.astype(np.float64), b)
    error = error_in_ulp(got, exact)
    worst = int(np.argmax(error))
    assert error[worst] <= ULP32, (a[worst], b[worst], got[worst], exact[worst])


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64])
def test_power_has_the_special_cases_of_c(dtype):
    x, y = leaf(dtype, "x"), leaf(dtype, "y")
    values = np.array([*SPECIAL, -0.5, -2.0, 1.5, -1.5, 1e30, -1e30, 2.0**24 + 2], dtype.name)
    a, b = (m.reshape(-1) for m in np.meshgrid(values, values))
    got = evaluate(lower_math(x.alu(Op.POW, y)), {x: a, y: b})
    exact = np.power(a, b)
    close = np.isclose(got, exact, rtol=1e-6, atol=0, equal_nan=True)
    found = (a, b, got, exact)
    assert close.all(), [(p, q, g, e) for p, q, g, e in zip(*found, strict=True) if g != e][:5]
    number = ~np.isnan(exact)
    assert np.array_equal(np.signbit(got[number]), np.signbit(exact[number]))


EXACT = {
    Op.EXP: mp.exp, Op.EXP2: lambda v: mp.mpf(2) ** v, Op.LOG: mp.log,
    Op.LOG2: lambda v: mp.log(v, 2), Op.LOG10: mp.log10, Op.LOG1P: mp.log1p, Op.SIN: mp.sin,
    Op.COS: mp.cos, Op.TAN: mp.tan, Op.TANH: mp.tanh, Op.ASINH: mp.asinh, Op.ACOSH: mp.acosh,
    Op.ATANH: mp.atanh, Op.ERF: mp.erf, Op.ERFC: mp.erfc, Op.ERFINV: mp.erfinv,
}  # fmt: skip
DOMAINS = {  # where results are real and finite, if not everywhere
    Op.LOG: (0, math.inf), Op.LOG2: (0, math.inf), Op.LOG10: (0, math.inf),
    Op.LOG1P: (-1, math.inf), Op.ACOSH: (1, math.inf), Op.ATANH: (-1, 1), Op.ERFC: (-30, 30),
    Op.ERFINV: (-1, 1),
}  # fmt: skip


def assert_within64(got: float, exact: mp.mpf, *inputs: float) -> None:
    nearest = float(exact)
    if got == nearest:
        return
    assert math.isfinite(got), (*inputs, got, nearest)
    error = abs(mp.mpf(got) - exact) / mp.mpf(float(np.spacing(abs(nearest))))
    assert error <= ULP64, (*inputs, got, nearest, float(error))


def float64_samples(op: Op, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    scales = rng.choice([1e-3, 1, 10, 300], count)
    edges = [5e-324, 1e-310, 709.78, -708.5, -744.4, -745.2, 0.625, 1.0, -0.99999, 0.75, 26.6]
    edges = [*edges, 0.5, 1 - 2**-53, 2**-53, 1 + 2**-52, 2.0**28, 27.3, 1e-8, 0.99665]
    hard = [6381956970095103 * 2.0**797, math.pi, 2 * math.pi, 1e22]  # close to multiples of pi/2
    x = np.concatenate([bits, rng.normal(size=count) * scales, rng.uniform(0.5, 2, count), edges])
    x = np.concatenate([x[np.isfinite(x)], hard, rng.uniform(-1, 1, count)])
    near = np.concatenate(
        [x, 1 + np.abs(x), np.nextafter(1, 0) - 2.0 ** -rng.uniform(1, 50, count)]
    )
    low, high = DOMAINS.get(op, (-math.inf, math.inf))
    return near[(near > low) & (near < high)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("op", UNARY)
def test_float64_is_within_four_ulp(op, form):
    source = leaf(dtypes.float64, "x")
    x = float64_samples(op, 400 if form == "plain" else 60)
    got = evaluate(FORMS[form](lower_math(source.alu(op))), {source: x})
    with mp.workprec(BITS.get(op, 130)):
        for value, result in zip(x, got, strict=True):
            assert_within64(float(result), EXACT[op](mp.mpf(float(value))), float(value))


@pytest.mark.parametrize("form", FORMS)
def test_float64_power_is_within_four_ulp(form):
    x, y = leaf(dtypes.float64, "x"), leaf(dtypes.float64, "y")
    graph = FORMS[form](lower_math(x.alu(Op.POW, y)))
    rng = np.random.default_rng(4)
    count = 1500 if form == "plain" else 150
    a = np.exp(rng.normal(size=count) * rng.choice([1e-3, 1, 100], count))
    b = rng.normal(size=count) * rng.choice([1, 10, 700], count)
    got = evaluate(graph, {x: a, y: b})
    with mp.workprec(200):
        for p, q, result in zip(a, b, got, strict=True):
            exact = mp.mpf(float(p)) ** mp.mpf(float(q))
            if mp.mpf(2) ** -1070 < exact < mp.mpf(2) ** 1024:
                assert_within64(float(result), exact, float(p), float(q))
            else:
                assert float(result) == (math.inf if exact > 1 else pytest.approx(float(exact)))


@pytest.mark.parametrize("op", UNARY)
def test_float64_special_values_are_those_of_numpy(op):
    source = leaf(dtypes.float64, "x")
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, -1e308])
    x = x[:5] if op in (Op.SIN, Op.COS, Op.TAN) else x
    got, exact = evaluate(lower_math(source.alu(op)), {source: x}), ELEMENTWISE[op](x)
    assert np.allclose(got, exact, rtol=1e-15, atol=0, equal_nan=True)
    zero = exact == 0
    assert np.array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


def vector_load(slot: int) -> Node:
    memory = Node(Op.PARAM, dtypes.float32, (), ParamRef(slot, 4))
    return Node(Op.LOAD, dtypes.float32.vec(4), (memory, Node.index(0)))


@pytest.mark.parametrize("op", MATH)
def test_vectors_give_what_scalars_give(op):
    count = 2 if op is Op.POW else 1
    scalars = [leaf(dtypes.float32, f"x{i}") for i in range(count)]
    vectors = [vector_load(slot) for slot in range(count)]
    a = [float32_samples(1000, seed)[:2000] for seed in range(count)]
    one = evaluate(lower_math(scalars[0].alu(op, *scalars[1:])), dict(zip(scalars, a, strict=True)))
    graph = lower_math(vectors[0].alu(op, *vectors[1:]))
    verify_kernel(graph)
    lanes = [v.reshape(-1, 4) for v in a]
    four = evaluate(graph, dict(zip(vectors, lanes, strict=True)))
    assert np.array_equal(one, four.reshape(-1), equal_nan=True)


def test_narrow_floats_are_left_alone():
    h = leaf(dtypes.float16, "h")
    assert lower_math(h.alu(Op.EXP)) is h.alu(Op.EXP)


def test_float32_math_needs_no_64_bit_type():
    x = leaf(dtypes.float32, "x")
    for op in MATH:
        graph = lower_math(x.alu(op, x) if op is Op.POW else x.alu(op))
        assert all(n.dtype.bits <= 32 for n in graph.toposort())


@pytest.mark.parametrize(("op", "limit"), [(Op.EXP, 24), (Op.LOG, 34), (Op.TANH, 34), (Op.ERF, 40)])
def test_the_common_functions_stay_short(op, limit):
    graph = lower_math(leaf(dtypes.float32, "x").alu(op))
    costly = [n for n in contracted(graph).toposort() if n.src and n.op is not Op.BITCAST]
    assert len(costly) <= limit
