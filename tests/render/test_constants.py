"""Operations on nothing but constants, which some languages compute, and refuse, when compiling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.dtype import DType
from treadle.ir.elementwise import apply_alu, constant_array
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.lower.linearize import Phase
from treadle.lower.passes import Lowered

from .kernels import apply, empty, launch, load, loops, param, run

LOW, HIGH = -(1 << 31), (1 << 31) - 1
HUGE, TINY = 3.0e38, 1e-45
INTEGER = [
    (Op.ADD, HIGH, 1), (Op.SUB, LOW, 1), (Op.MUL, HIGH, HIGH), (Op.NEG, LOW), (Op.IDIV, LOW, -1),
    (Op.IDIV, 7, 0), (Op.MOD, LOW, -1), (Op.MOD, 7, 0), (Op.SHL, 1, 31), (Op.SHL, HIGH, 1),
    (Op.SHL, 1, 32), (Op.SHL, 1, 100), (Op.SHR, LOW, 32), (Op.SHR, LOW, -1), (Op.MAX, LOW, HIGH),
    (Op.XOR, LOW, HIGH),
]  # fmt: skip
FLOAT = [
    (Op.ADD, HUGE, HUGE), (Op.MUL, HUGE, HUGE), (Op.MUL, -HUGE, HUGE), (Op.FDIV, 1.0, 0.0),
    (Op.FDIV, 0.0, 0.0), (Op.FDIV, HUGE, 0.5), (Op.SUB, math.inf, math.inf), (Op.SQRT, -1.0),
    (Op.ADD, math.nan, 1.0), (Op.MAX, math.nan, 1.0), (Op.MIN, 1.0, math.nan), (Op.NEG, math.inf),
    (Op.RECIP, 0.0), (Op.FLOOR, -0.5), (Op.FMA, HUGE, 2.0, -1.0), (Op.MOD, HUGE, 0.75),
]  # fmt: skip


def wide(dtype: DType, value, lanes: int) -> Node:
    """A constant that Node cannot fold into what uses it."""
    node = Node.const(dtype, value)
    return node if lanes == 1 else Node(Op.BROADCAST, dtype.vec(lanes), (node,))


def unfolded(op: Op, dtype: DType, values, lanes: int, result: DType | None = None) -> Node:
    sources = tuple(wide(dtype, v, lanes) for v in values)
    return Node(op, (result or dtype).vec(lanes), sources)


def check(backend, cases, lanes):
    """Cases are (op, dtype of operands, dtype of result, operands)."""
    kinds = [result for _, _, result, _ in cases]
    nodes = [unfolded(op, d, values, lanes, result) for op, d, result, values in cases]
    arrays = [(dtypes.int32, np.zeros(8, np.int32))]
    results = apply(backend, lambda x: nodes, kinds, arrays, lanes)
    for (op, dtype, kind, values), result in zip(cases, results, strict=True):
        operands = [constant_array(dtype, Node.const(dtype, v).arg) for v in values]
        want = apply_alu(op, kind, [dtype] * len(values), operands)
        np.testing.assert_array_equal(result, np.full(8, want), err_msg=f"{op.name} {values}")


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["int32", "int64", "int8", "uint32", "uint64"])
def test_integer_operations_on_constants_wrap(backend, name, lanes):
    dtype = getattr(dtypes, name)
    shift = dtype.bits - 32  # the same edges in another width
    edges = {LOW: dtype.min, HIGH: dtype.max, 31: 31 + shift, 32: 32 + shift}
    cases = [
        (op, dtype, dtype, [dtype.as_const(edges.get(v, v)) for v in values])
        for op, *values in INTEGER
    ]
    check(backend, cases[:8], lanes)
    check(backend, cases[8:], lanes)


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("name", ["float32", "float16"])
def test_float_operations_on_constants_may_overflow(backend, name, lanes):
    dtype = getattr(dtypes, name)
    most = HUGE if dtype is dtypes.float32 else 60000.0
    cases = [
        (op, dtype, dtype, [math.copysign(most, v) if abs(v) == HUGE else v for v in values])
        for op, *values in FLOAT
    ]
    if not backend.target.strict_floats:  # its compiler takes x - x for 0, infinite or not
        cases = [case for case in cases if case[0] is not Op.SUB]
    check(backend, cases[:8], lanes)
    check(backend, cases[8:], lanes)


def by_hand(dtype: DType, code: Node) -> Lowered:
    """The linear program that stores one value."""
    store = Node(Op.STORE, dtypes.void, (param(0, dtype, 1), Node.const(dtypes.int32, 0), code))
    nodes = [n for n in store.toposort() if n.op not in (Op.CONST, Op.PARAM)]
    return Lowered((Phase(Node(Op.LINEAR, dtypes.void, tuple(nodes)), ()),), (), ())


@pytest.mark.parametrize(
    ("op", "name", "values", "expected"),
    [
        (Op.ADD, "int32", (HIGH, 1), LOW),
        (Op.MUL, "int32", (LOW, -1), LOW),
        (Op.MUL, "float32", (HUGE, HUGE), math.inf),
        (Op.FDIV, "float32", (-1.0, 0.0), -math.inf),
        (Op.SQRT, "float32", (-1.0,), math.nan),
        (Op.SHL, "uint32", (0xFFFF, 31), 1 << 31),
    ],
)
def test_a_renderer_may_be_handed_constants_only(backend, op, name, values, expected):
    dtype = getattr(dtypes, name)
    low = by_hand(dtype, unfolded(op, dtype, values, 1))
    np.testing.assert_array_equal(launch(backend, low, [empty(dtype, 1)])[0], [expected])


CASTS = [
    (dtypes.float32, dtypes.float16, 1e30), (dtypes.float32, dtypes.int32, 1e30),
    (dtypes.float32, dtypes.uint32, -1.0), (dtypes.float32, dtypes.int64, math.nan),
    (dtypes.int32, dtypes.uint32, LOW), (dtypes.uint32, dtypes.int32, 0xFFFFFFFF),
    (dtypes.int64, dtypes.int32, 1 << 40), (dtypes.int32, dtypes.int8, 300),
    (dtypes.uint64, dtypes.float32, (1 << 64) - 1),
]  # fmt: skip
BITCASTS = [
    (dtypes.int32, dtypes.float32, 0x7FC00000), (dtypes.uint32, dtypes.float32, 0xFF800000),
    (dtypes.float32, dtypes.uint32, math.inf), (dtypes.float32, dtypes.int32, -0.0),
    (dtypes.int16, dtypes.uint16, -1), (dtypes.int64, dtypes.uint64, -1),
]  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 4])
def test_conversions_of_constants(backend, lanes):
    check(backend, [(Op.CAST, source, target, [v]) for source, target, v in CASTS], lanes)
    check(backend, [(Op.BITCAST, source, target, [v]) for source, target, v in BITCASTS], lanes)


@pytest.mark.parametrize("name", ["float32", "float16", "float64"])
def test_constants_of_any_size_arrive_as_they_are(backend, name):
    dtype = getattr(dtypes, name)
    if not backend.target.supports(dtype):
        pytest.skip(f"{backend.name} has no float64")
    top = {"float16": 65504.0, "float32": 3.4028234663852886e38}.get(name, 1.7976931348623157e308)
    values = [0.1, -0.1, top, -top, 6.103515625e-05, 1 / 3, math.inf, -math.inf]
    nodes = [Node.const(dtype, v) for v in values]
    arrays = [(dtypes.int32, np.zeros(4, np.int32))]
    results = apply(backend, lambda x: nodes, [dtype] * 8, arrays)
    np.testing.assert_array_equal([r[0] for r in results], [n.arg for n in nodes])


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("place", [-1, 1 << 20])
def test_a_constant_place_outside_of_memory_is_never_read_behind_its_gate(backend, place, lanes):
    at, ranges = loops(8, lanes)
    gate = load(param(1, dtypes.int32, 8), at) < 4
    outside = load(param(2, dtypes.int32, 8), Node.index(place), gate, Node.const(dtypes.int32, 5))
    store = Node(Op.STORE, dtypes.void, (param(0, dtypes.int32, 8), at, outside))
    ast = Node.sink([Node(Op.END, dtypes.void, (store, *ranges), 1)])
    high = np.full(8, 9, np.int32)
    result = run(backend, ast, [empty(dtypes.int32, 8), high, np.arange(8, dtype=np.int32)])[0]
    np.testing.assert_array_equal(result, 5)


def test_programs_whose_constants_meet_are_accepted(device):
    """Sizes and scalars that a kernel holds as constants, in vectors and alone."""
    ours = Tensor(np.arange(8, dtype=np.int32), device=device)
    theirs = np.arange(8, dtype=np.int32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((ours + HIGH + 1).numpy(), theirs + HIGH + np.int32(1))
        np.testing.assert_array_equal((ours * LOW - HIGH).numpy(), theirs * LOW - np.int32(HIGH))
        assert (ours.float() % 0.0).isnan().numpy().all()
        np.testing.assert_array_equal((ours.float() * 1e30 * 1e30)[1:].numpy(), np.inf)
        full = Tensor.full((8,), 1e30, device=device)
        np.testing.assert_array_equal((full * full).half().numpy(), np.inf)
        np.testing.assert_array_equal((ours // 0).numpy(), 0)
        np.testing.assert_array_equal((ours.cast(dtypes.uint32) << 31 << 1).numpy(), 0)
