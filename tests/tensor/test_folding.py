"""What folds has the meaning of kernels: each elementwise operation on the special values of each
dtype, on constants and on memory.

The operations are those of the op table, and every public method of Tensor that works element by
element, so a new one is here without being named.
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from typing import Any

import numpy as np
import pytest

from treadle import Context, Tensor, dtypes
from treadle.dtype import DType, finfo
from treadle.errors import TreadleError
from treadle.ir.node import Node, alu
from treadle.ir.op import ALU, COMPARE, OF_COMPLEX, TRANSCENDENTAL, Op
from treadle.lower.decompose import decompose
from treadle.lower.emulated_floats import emulate_dtypes
from treadle.lower.math import lower_math

from ..devices import has_float64
from .specials import REAL, combinations, same, special_array

FULL = os.environ.get("FULL_TESTS") == "1"
FLOATS_ALONE = TRANSCENDENTAL | {
    Op.RECIP, Op.SQRT, Op.FDIV, Op.FMA, Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND,
}  # fmt: skip
BITS_ALONE = frozenset((Op.AND, Op.OR, Op.XOR))
INTEGERS_ALONE = frozenset((Op.IDIV, Op.SHL, Op.SHR))
OF_BOOLS = COMPARE | BITS_ALONE | {Op.CAST, Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.WHERE}
PARTS = frozenset((Op.REAL, Op.IMAG))
OPS = sorted(ALU, key=lambda op: op.name)


def has_meaning(op: Op, dtype: DType) -> bool:
    """Whether `op` computes with sources of `dtype`."""
    if dtype.is_complex or op in PARTS:
        return dtype.is_complex and op in OF_COMPLEX - {Op.CAST}
    if op is Op.COMPLEX:
        return dtype in (dtypes.float32, dtypes.float64)
    if dtype.is_bool:
        return op in OF_BOOLS
    if dtype.is_float:
        return op not in BITS_ALONE | INTEGERS_ALONE
    return op not in FLOATS_ALONE


def built(op: Op, sources: list[Node], is_narrow: bool = False) -> list[Node]:
    """`op` of these nodes; for CAST and BITCAST to each dtype, float64 only if not `is_narrow`."""
    targets = [d for d in REAL if not (is_narrow and d is dtypes.float64)]
    if op is Op.CAST:
        return [sources[0].cast(dtype) for dtype in targets]
    if op is Op.BITCAST:
        bits = sources[0].dtype.bits
        return [sources[0].bitcast(d) for d in targets if d.bits == bits and not d.is_bool]
    return [alu(op, *sources)]


def arity(op: Op) -> int:
    from treadle.ir.op import INFO

    return INFO[op].arity


def columns_of(op: Op, dtype: DType) -> list[np.ndarray]:
    values = special_array(dtype)
    if op is Op.WHERE:
        return combinations([np.array([True, False]), values, values])
    few = 3 if arity(op) == 3 else 2 if op is Op.POW else 1
    return combinations([values[::few]] * arity(op))


def constants(row: tuple[Any, ...], op: Op, dtype: DType) -> list[Node]:
    types = [dtypes.bool, dtype, dtype] if op is Op.WHERE else [dtype] * len(row)
    return [Node.const(t, v.item() if v.dtype.kind != "V" else float(v))
            for t, v in zip(types, row, strict=True)]  # fmt: skip


def lowered(node: Node) -> Node:
    """A constant expression as kernels for processors have it."""
    return decompose(lower_math(emulate_dtypes(node, frozenset((dtypes.float16,)))))


def kernel_results(op: Op, dtype: DType, columns: list[np.ndarray], device: str) -> list[Any]:
    tensors = [Tensor(c, device=device) for c in columns]
    nodes = built(op, [t.node for t in tensors], not has_float64(device))
    results = [Tensor._of(node, tensors[0].device) for node in nodes]
    Tensor.realize(*results)
    return [result.numpy() for result in results]


def op_cases() -> list[Any]:
    every = [(op, dtype) for op in OPS for dtype in (*REAL, *dtypes.complexes)]
    return [pytest.param(op, d, id=f"{op.name}-{d.name}") for op, d in every if has_meaning(op, d)]


@pytest.mark.parametrize(("op", "dtype"), op_cases())
def test_an_op_of_constants_is_what_the_interpreter_computes(op, dtype):
    columns = columns_of(op, dtype)
    wanted = kernel_results(op, dtype, columns, "REF")
    for i, row in enumerate(zip(*columns, strict=True)):
        for node, want in zip(built(op, constants(row, op, dtype)), wanted, strict=True):
            if node.op is Op.CONST:
                assert same(np.array(node.arg, want.dtype), want[i]), (op.name, row, node.arg)
            else:  # by a formula for kernels: see below
                assert op in TRANSCENDENTAL or dtype.is_complex


@functools.cache  # most of this test's time, and the same for all devices
def folded(
    op: Op, dtype: DType, number: int, is_narrow: bool, is_flushed: bool = False
) -> list[Any]:
    """Result `number` of each row of constants, flushed ones if asked, as lowering folds it."""
    columns, values = columns_of(op, dtype), []
    for row in zip(*(map(flushed, columns) if is_flushed else columns), strict=True):
        node = lowered(built(op, constants(row, op, dtype), is_narrow)[number])
        assert node.op is Op.CONST, (op.name, row, node)
        values.append(node.arg)
    return values


# What runs without --full: compiling all operations takes seconds a dtype, most of all on CL.
OFTEN = {
    "CPU": (dtypes.float32, dtypes.int32, dtypes.uint8, dtypes.float16),
    "REF": (dtypes.float32, dtypes.int32, dtypes.uint8, dtypes.float16),
    "CL": (dtypes.uint8,),
}


def device_cases() -> list[Any]:
    return [pytest.param(dtype, id=dtype.name) for dtype in REAL]


@pytest.mark.parametrize("dtype", device_cases())
def test_ops_fold_as_devices_compute_them(dtype, device):
    if not (FULL or dtype in OFTEN.get(device, (dtypes.float32,))):
        pytest.skip("dtypes that are rarer: with --full")
    is_narrow = not has_float64(device)
    if is_narrow and dtype is dtypes.float64:
        pytest.skip(f"float64 does not exist on {device}")
    wrong = []
    with Context(REPRODUCIBLE=1):
        for op in OPS:
            if not has_meaning(op, dtype) or op in PARTS | {Op.COMPLEX}:
                continue
            columns = columns_of(op, dtype)
            for number, got in enumerate(kernel_results(op, dtype, columns, device)):
                want = np.array(folded(op, dtype, number, is_narrow), got.dtype)
                right = agrees(op, dtype, device, got, want)
                if device.partition(":")[0] in FLUSHING:
                    small = folded(op, dtype, number, is_narrow, is_flushed=True)
                    other = np.array(small, got.dtype)
                    right |= agrees(op, dtype, device, flushed(got), flushed(other))
                    if (  # which lose what they compute on the way, too
                        op in TRANSCENDENTAL and dtype in (dtypes.float32, dtypes.bfloat16)
                    ):
                        right |= np.isclose(got, want, 0, finfo(dtypes.float32).smallest_normal)
                for i in np.nonzero(~right)[0]:
                    row = tuple(c[i].item() for c in columns)
                    wrong.append((op.name, row, got[i].item(), want[i].item()))
    assert not wrong, wrong[:20]


FLUSHING = ("METAL", "QCOM")  # whose arithmetic takes subnormal float32 for zeros: docs/devices.md
# What a device's own language does not round as IEEE 754 has it.
ROUNDED_ELSEWHERE = {
    "WEBGPU": TRANSCENDENTAL | {Op.FMA},
    "QCOM": TRANSCENDENTAL | {Op.FMA, Op.FDIV, Op.RECIP, Op.SQRT},
}


def flushed(values: np.ndarray) -> np.ndarray:
    """Subnormal float32, and bfloat16 which is computed as that, as zeros of their sign."""
    if values.dtype.kind not in "fV" or values.dtype == np.float16:
        return values
    wide = values.astype(np.float32)
    is_small = np.abs(wide) < np.finfo(np.float32).smallest_normal
    return np.where(is_small, np.copysign(np.float32(0), wide), wide).astype(values.dtype)


def agrees(op: Op, dtype: DType, device: str, got: Any, want: Any) -> np.ndarray:
    equal = same(got, want)
    if device == "REF" and op in TRANSCENDENTAL:  # NumPy's functions instead of the formulas
        return equal | np.isclose(got.astype(float), want.astype(float), 1e-3, 0)
    if op in ROUNDED_ELSEWHERE.get(device, ()):  # see docs/devices.md
        least, most = finfo(dtypes.float32).smallest_normal, finfo(dtype).max
        found, wanted = got.astype(np.float32), want.astype(np.float32)
        overflows = np.isinf(found) & (np.abs(wanted) >= 0.999 * most)
        near = 1e-6 if dtype is dtypes.float32 else finfo(dtype).eps  # a half's neighbour
        return equal | np.isclose(found, wanted, near, least) | overflows
    return equal


# -- public methods -------------------------------------------------------------------------------

# Two columns share values in other places, so that what looks at all elements is seen.
PROBES = {
    "float32": ([0.7, 0.3, -0.5], [0.3, 0.7, -0.4], [0.25, 0.35, 0.15]),
    "int32": ([7, 3, 5], [2, 7, 4], [1, 2, 3]),
}
OPERATORS = frozenset(
    f"__{name}__" for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
        "rshift", "lt", "gt", "le", "ge", "eq", "ne", "neg", "abs", "invert", "radd", "rsub",
        "rmul", "rtruediv", "rfloordiv", "rmod", "rpow", "rand", "ror", "rxor", "rlshift",
        "rrshift",
    )
)  # fmt: skip


def public_methods() -> list[str]:
    """Names of what can be called on a tensor."""
    kinds = (property, staticmethod, classmethod)
    return [
        name for name in sorted(dir(Tensor))
        if (not name.startswith("_") or name in OPERATORS)
        and not isinstance(inspect.getattr_static(Tensor, name), kinds)
        and callable(getattr(Tensor, name))
    ]  # fmt: skip


def attempt(name: str, columns: list[Any], dtype: DType, device: str = "REF") -> Any:
    """What the method gives for these operands, as an array, where it takes them."""
    first, *others = [Tensor(np.array(c), dtype=dtype, device=device) for c in columns]
    try:
        with Context(CHECK_INDEX=0), warnings.catch_warnings(action="ignore"):
            result = getattr(first, name)(*others)
    except (TreadleError, TypeError, ValueError, AttributeError, IndexError):
        return None
    if not isinstance(result, Tensor) or result.shape != first.shape or result is first:
        return None
    with Context(CHECK_INDEX=0):
        return result.numpy()


def is_elementwise(name: str, columns: list[Any], dtype: DType) -> bool:
    """Whether each result depends on the operands in its place alone, and on nothing else."""
    whole = attempt(name, columns, dtype)
    if whole is None:
        return False
    alone = [attempt(name, list(row), dtype) for row in zip(*columns, strict=True)]
    if any(x is None for x in alone) or not np.all(same(np.stack(alone), whole)):
        return False
    return bool(np.all(same(attempt(name, columns, dtype), whole)))  # nothing random


@functools.cache
def elementwise_methods(kind: str) -> dict[str, int]:
    """The methods that work element by element, with how many operands they take."""
    found = {}
    for name in public_methods():
        for count in (1, 2, 3):
            if is_elementwise(name, list(PROBES[kind][:count]), getattr(dtypes, kind)):
                found[name] = count
                break
    return found


def test_methods_that_work_element_by_element_are_found():
    floats, integers = elementwise_methods("float32"), elementwise_methods("int32")
    assert {"exp": 1, "relu": 1, "__mod__": 2, "fmod": 2, "where": 3}.items() <= floats.items()
    assert {"gcd": 2, "__lshift__": 2, "sign": 1}.items() <= integers.items()
    assert not {"softmax", "cumsum", "sort", "isin"} & {*floats, *integers}
    assert len(floats) > 180
    assert len(integers) > 180


def method_columns(count: int, dtype: DType) -> list[np.ndarray]:
    values = special_array(dtype)
    if count == 2:  # zeros, ones, fractions or sevens, what follows, NaN, extremes
        values = values[[0, 1, 2, 8, 11, 13, 15, 18, 20]] if dtype.is_float else values[::2]
    return combinations([values[1::4] if count == 3 else values] * count)


def disagreements(name: str, count: int, dtype: DType, device: str) -> list[Any]:
    """Where `name` of constants is not what it is of memory."""
    columns = method_columns(count, dtype)
    first, *others = [Tensor(c, device=device) for c in columns]
    run = getattr(first, name)(*others).numpy()
    results = []
    for row in zip(*columns, strict=True):
        numbers = [v.item() if v.dtype.kind != "V" else float(v) for v in row]
        one, *rest = [Tensor.full((), v, dtype=dtype, device=device) for v in numbers]
        results.append(getattr(one, name)(*rest))
    found = results[0].stack(*results[1:]).numpy()
    return [
        (name, tuple(c[i].item() for c in columns), run[i].item(), found[i].item())
        for i in np.nonzero(~same(run, found))[0]
    ]


METHODS_RUN = [("REF", "float32"), ("REF", "int32"), ("CPU", "float32"), ("CPU", "int8")]
METHODS_FULL = [
    (device, dtype.name) for device in ("REF", "CPU") for dtype in REAL
    if (device, dtype.name) not in METHODS_RUN and dtype.bits > 8
]  # fmt: skip


@pytest.mark.parametrize(("device", "kind"), METHODS_RUN + (METHODS_FULL if FULL else []))
def test_methods_of_constants_are_those_of_memory(device, kind):
    dtype = getattr(dtypes, kind)
    methods = elementwise_methods("float32" if dtype.is_float else "int32")
    wrong = []
    with Context(REPRODUCIBLE=1):
        for name, count in methods.items():
            if name in SLOW or (device == "CPU" and count > 1 and not FULL):
                continue
            wrong += disagreements(name, count, dtype, device)
    assert not wrong, wrong[:20]


# Made of the others, in hundreds of steps for each pair: with --full only.
SLOW = () if FULL else ("igamma", "igammac", "zeta", "gcd", "lcm", "__pow__", "__rpow__")
