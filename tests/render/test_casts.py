"""Every dtype cast to every other on every device, edge values included, gives what REF gives."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.dtype import DType
from treadle.engine.devices import Opened
from treadle.ir.elementwise import cast_array, numpy_dtype

from .kernels import apply

KINDS = [
    dtypes.bool, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8,
    dtypes.uint16, dtypes.uint32, dtypes.uint64, dtypes.float16, dtypes.bfloat16, dtypes.float32,
    dtypes.float64,
]  # fmt: skip
POWERS = [2**n + d for n in (7, 8, 15, 16, 24, 31, 32, 53, 63, 64) for d in (-1, 0, 1)]
WHOLE = [
    0, 1, 2, 100, *POWERS, 2049, 65504, 65519, 65520, 2**33 + 2**9 + 1, 0x7FFFFF8000000001,
    0x8000008000000001,
]  # fmt: skip
FRACTIONS = [
    0.5, 0.99, 1.5, 127.9, 255.9, 65519.9, 1.00048828125, 1.0004882812500002, 1.00146484375, 3e9,
    2.0**31 - 128, 2.0**32 - 256, 2.0**40 + 12345 * 2.0**20, 1.5 * 2.0**63, 2.0**64 - 2.0**40, 1e30,
    3.4028235677973366e38, 1e300, 1e-5, 6e-8, 3e-8, math.inf, math.nan,
]  # fmt: skip


def edges(dtype: DType) -> np.ndarray:
    if dtype.is_bool:
        return np.array([False, True, True])
    if dtype.is_int:
        signed = {sign * v for v in WHOLE for sign in (1, -1)}
        return np.array([v for v in signed if dtype.min <= v <= dtype.max], numpy_dtype(dtype))
    values = [sign * float(v) for v in (*WHOLE, *FRACTIONS) for sign in (1, -1)]
    with np.errstate(all="ignore"):
        return np.array(values).astype(numpy_dtype(dtype))


def targets(source: DType, backend: Opened) -> Iterator[list[DType]]:
    """The other dtypes that a backend has, as many at a time as one kernel can store."""
    others = [k for k in KINDS if k is not source and backend.target.supports(k)]
    count = (backend.target.max_buffers or len(KINDS)) - 1
    for start in range(0, len(others), count):
        yield others[start : start + count]


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("source", KINDS, ids=str)
def test_every_cast_gives_what_the_interpreter_gives(backend, source, lanes):
    if not backend.target.supports(source):
        pytest.skip(f"{backend.name} has no {source}")
    array = edges(source)
    array = np.resize(array, -(-array.size // lanes) * lanes)
    wrong = {}
    for kinds in targets(source, backend):
        casts = functools.partial(lambda kinds, x: [x.cast(k) for k in kinds], kinds)
        results = apply(backend, casts, kinds, [(source, array)], lanes)
        for target, ours in zip(kinds, results, strict=True):
            want = cast_array(array, target)
            different = np.flatnonzero((ours != want) & ((ours == ours) | (want == want)))[:4]
            if different.size:
                wrong[target.name] = [(array[i], ours[i], want[i]) for i in different]
    assert not wrong


@pytest.mark.parametrize("name", ["uint8", "uint16", "uint32", "uint64", "int64"])
def test_a_tensor_of_floats_becomes_integers(device, name):
    array = np.array([-1.5, 0.5, 3e9, 200.9] * 4, np.float32)
    target = getattr(dtypes, name)
    ours = Tensor(array, device=device).cast(target).numpy()
    np.testing.assert_array_equal(ours, Tensor(array, device="REF").cast(target).numpy())


def test_float64_is_refused_by_name_where_there_is_none(webgpu):
    with pytest.raises(TypeError, match="WEBGPU has no float64"):
        Tensor([1.0], device="WEBGPU").cast(dtypes.float64).realize()
