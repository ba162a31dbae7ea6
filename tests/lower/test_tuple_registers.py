"""An extreme and its place are two registers, and no wider value stands in their loops."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.run import scheduled
from treadle.ir.op import Op
from treadle.ir.verify import verify_linear
from treadle.ir.views import Store, Update
from treadle.lower.passes import lower
from treadle.optimize.heuristic import optimize
from treadle.target import parse_target

TARGET = parse_target("x86-64-v4")
RANDOM = np.random.default_rng(3)
DTYPES = [dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.uint32, dtypes.bool]


def phases_of(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    ast, _ = optimize(kernel.ast, TARGET)
    return lower(ast, len(kernel.buffers), TARGET).phases


def steps_of(phase):
    """What is computed in the loops: not in front of or behind them."""
    depth, found = 0, []
    for node in phase.program.src:
        depth += (node.op is Op.RANGE and node not in phase.grid) - (node.op is Op.END)
        if depth:
            found.append(node)
    return found


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nothing_is_wider_than_a_place_while_the_extreme_is_looked_for(dtype, name, axis):
    x = Tensor.ones(256, 512, device="CPU").cast(dtype).realize()
    phase, *_ = phases_of(getattr(x, name)(axis))
    verify_linear(phase.program)
    steps = steps_of(phase)
    kept = [Update.of(n).value for n in steps if n.op is Op.UPDATE]
    kept += [Store.of(n).value for n in steps if n.op is Op.STORE and n.src[0].op is not Op.PARAM]
    vectors = [value.dtype for value in kept if value.dtype.count > 1]
    # Of bytes down columns a block is looked for first, and places in it are bytes, too.
    is_in_blocks = axis == 0 and x.dtype.itemsize == 1
    assert max(kind.scalar.itemsize for kind in vectors) == (1 if is_in_blocks else 4)
    # Values fill a register, or half of one; places of narrow ones take several.
    lanes = 32 if dtype in (dtypes.int8, dtypes.bool) else 16
    assert {kind.count for kind in vectors} == {lanes}


@pytest.mark.parametrize("shape", [(3, 5000), (5000, 3), (70, 129), (300, 64)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("worst", [False, True])
def test_the_first_of_equals_is_found_even_if_none_is_better_than_none(worst, name, shape):
    """The least unsigned number is where a maximum starts from."""
    none = np.iinfo(np.uint32).max if name == "argmin" else 0
    x = np.full(shape, none, np.uint32)
    if not worst:
        x[tuple(n // 2 for n in shape)] = none ^ 1
        x[tuple(n - 1 for n in shape)] = none ^ 1
    for axis in (None, 0, 1):
        found = getattr(Tensor(x, device="CPU"), name)(axis).numpy()
        np.testing.assert_array_equal(found, getattr(np, name)(x, axis))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_padding_in_front_has_no_place(name):
    """Steps that a guard leaves out at first."""
    x = RANDOM.integers(0, 2, (40, 90)).astype(np.uint32)
    mine, other = Tensor(x, device="CPU"), np.pad(x, ((0, 0), (7, 5)))
    padded = mine.pad(((0, 0), (7, 5)))
    for axis in (None, 0, 1):
        found = getattr(padded, name)(axis).numpy()
        np.testing.assert_array_equal(found, getattr(np, name)(other, axis))
