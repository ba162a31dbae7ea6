"""Attention on matrix units: when it is one kernel, what that looks like, and its values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.engine.realized import current
from treadle.errors import DeviceError
from treadle.ir.carried import rows_of
from treadle.ir.carried_units import block_bytes, units_of
from treadle.ir.evaluate import evaluate
from treadle.ir.loops import has_fixed_size
from treadle.ir.op import Op
from treadle.ir.verify import verify_kernel, verify_linear
from treadle.lower.multi_buffering import ASYNCHRONOUS
from treadle.lower.passes import lower
from treadle.optimize.carried_rows import CarryRows
from treadle.optimize.heuristic import optimize, parsed, replay
from treadle.schedule.passes import schedule
from treadle.target import parse_target

from ..render.banks import ways_of
from .references import attention

TARGET = parse_target("sm_80")
ON_DEVICES = pytest.mark.parametrize("device", ["CUDA", "CUDA:PTX", "CUDA:PTX:sm_90a"])


def numbers(*shape, seed=0, dtype=dtypes.bfloat16, device="CPU"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Tensor(values, device=device).cast(dtype).realize()


def heads(*shape, dtype=dtypes.bfloat16, keys=None, device="CPU"):
    *batch, tokens, width = shape
    counts = (tokens, keys or tokens, keys or tokens)
    return [
        numbers(*batch, count, width, seed=seed, dtype=dtype, device=device)
        for seed, count in enumerate(counts)
    ]


def heads_on(device, *shape, **options):
    """`heads` on a device, if it is there."""
    try:
        return heads(*shape, device=device, **options)
    except DeviceError as error:
        pytest.skip(str(error))


def kernels(tensor, target=TARGET):
    return schedule(current([tensor.node])[0], "CPU", target)[0]


def is_one_kernel(tensor):
    found = kernels(tensor)
    log = [move for kernel in found for move in optimize(kernel.ast, TARGET)[1]]
    fused = sum(isinstance(move, CarryRows) for move in log)
    assert fused == (len(found) == 1)
    return len(found) == 1


def expected_of(q, k, v, allowed=None):
    """`attention` of what tensors hold."""
    return attention(*(t.to("CPU").cast(dtypes.float64).numpy() for t in (q, k, v)), allowed)


def test_halves_of_up_to_128_columns_are_one_kernel_without_a_matrix_of_scores():
    for dtype in (dtypes.bfloat16, dtypes.float16):
        for shape in ((64, 64), (2, 3, 100, 128), (100, 80)):
            q, k, v = heads(*shape, dtype=dtype)
            for causal in (False, True):
                assert is_one_kernel(q.scaled_dot_product_attention(k, v, is_causal=causal))
    q, k, v = heads(4, 100, 64, keys=300)
    assert is_one_kernel(q.scaled_dot_product_attention(k[:2], v[:2], enable_gqa=True))
    mask = numbers(100, 300, dtype=dtypes.float32)
    assert is_one_kernel(q.scaled_dot_product_attention(k, v, attn_mask=mask))


def test_other_types_and_sizes_are_not():
    for shape, dtype in (((64, 64), dtypes.float32), ((64, 40), dtypes.bfloat16),
                         ((64, 256), dtypes.bfloat16), ((8, 64), dtypes.bfloat16)):  # fmt: skip
        q, k, v = heads(*shape, dtype=dtype)
        assert not is_one_kernel(q.scaled_dot_product_attention(k, v))
    old = kernels(heads(64, 64)[0].scaled_dot_product_attention(*heads(64, 64)[1:]),
                  parse_target("sm_75"))  # fmt: skip
    assert len(old) == 3


def test_products_that_something_else_weighs_go_the_same_way():
    x, y, z = heads(256, 64)
    assert is_one_kernel(((x @ y.T).relu() @ z).relu())
    assert is_one_kernel((x @ y.T).sigmoid() @ z)


def test_few_rows_of_many_keys_are_shared_among_work_items_by_products():
    """A gradient of weights: each of 64 rows would go through all tokens."""
    weights = numbers(64, 64)
    for tokens, is_one in ((2048, True), (8192, False)):
        x, arriving = numbers(tokens, 64), numbers(tokens, 64)
        assert is_one_kernel((x @ weights).relu().T @ arriving) == is_one


def test_what_a_layer_hands_on_is_stored_as_narrow_as_it_was():
    """Stored as the float32 that a product widens them to, factors would not fit the units."""
    x, w = numbers(64, 64), numbers(64, 64)
    hidden = (x @ w).gelu()
    for kernel in kernels(hidden @ w):
        assert {n.dtype.scalar for n in kernel.ast.toposort() if n.op is Op.PARAM} == {
            dtypes.bfloat16
        }


@pytest.mark.parametrize(("tokens", "rows"), [(512, 64), (65536, 128)])
def test_a_kernel_is_legal_at_every_stage_and_keeps_to_shared_memory(tokens, rows):
    q, k, v = (Tensor.zeros(tokens, 64, dtype=dtypes.bfloat16).contiguous() for _ in range(3))
    Tensor.realize(q, k, v)
    (kernel,) = kernels(q.scaled_dot_product_attention(k, v))
    ast, log = optimize(kernel.ast, TARGET)
    (move,) = log.of_kind(CarryRows)
    assert (move.tile.rows, move.tile.columns) == (rows, 64)
    verify_kernel(ast)
    (phase,) = lower(ast, len(kernel.buffers), TARGET).phases
    verify_linear(phase.program)
    held = {n for n in phase.program.toposort() if n.op is Op.LOCAL}
    assert sum(n.arg.size * n.dtype.itemsize for n in held) <= TARGET.workgroup.shared_bytes
    assert all(n.dtype.scalar is dtypes.bfloat16 for n in held)  # no weights


# The tiles of rows and keys where memory is short, of both kernels of a step.
TILES = {
    ("sm_80", 64): (64, 64), ("sm_80", 128): (64, 32),
    ("sm_90a", 64): (64, 64), ("sm_90a", 128): (64, 32),
    ("gfx1100", 64): (64, 64), ("gfx1100", 128): (64, 16),
    ("gfx1201", 64): (64, 64), ("gfx1201", 128): (64, 16),
    ("gfx950", 64): (64, 64), ("gfx950", 128): (64, 32),
    ("apple7", 32): (64, 64), ("apple7", 64): (64, 16),
}  # fmt: skip


def step_kernels(target, width, tokens=512):
    """The kernels of attention's result with its gradients."""
    q, k, v, arriving = heads(tokens, width) + heads(tokens, width)[:1]
    for tensor in (q, k, v):
        tensor.requires_grad = True
    out = q.scaled_dot_product_attention(k, v, is_causal=True)
    out.backward(arriving)
    nodes = [out.node, *(t.grad.node for t in (q, k, v))]
    return schedule(current(nodes)[0], "CPU", target)[0]


@pytest.mark.parametrize(("arch", "width"), TILES)
def test_blocks_fit_the_memory_that_a_workgroup_shares(arch, width):
    target = parse_target(arch)
    found = step_kernels(target, width)
    assert len(found) == 2
    for kernel in found:
        ast, log = optimize(kernel.ast, target)
        (move,) = log.of_kind(CarryRows)
        assert (move.tile.rows, move.tile.columns) == TILES[arch, width]
        verify_kernel(ast)
        (phase,) = lower(ast, len(kernel.buffers), target).phases
        verify_linear(phase.program)
        held = {n for n in phase.program.toposort() if n.op is Op.LOCAL}
        nbytes = sum(n.arg.size * n.dtype.itemsize for n in held)
        unit = next(units_of(rows_of(kernel.ast.src[0]), target))
        rows, keys, buffers = move.tile.rows, move.tile.columns, move.tile.buffers
        expected = block_bytes(rows_of(kernel.ast.src[0]), unit, rows, keys, buffers)
        assert nbytes == expected <= target.workgroup.shared_bytes


def test_a_schedule_says_by_its_tile_which_units_it_is_for():
    """Those of warpgroups, if there are any, or of a subgroup where a schedule has their tile."""
    q, k, v = heads(256, 64)
    target = parse_target("sm_90a")
    (kernel,) = kernels(q.scaled_dot_product_attention(k, v), target)
    ast, chosen = optimize(kernel.ast, target)
    of_subgroups, other = optimize(kernel.ast, parse_target("sm_90"))
    assert replay(kernel.ast, target, parsed(str(chosen))) is ast
    assert replay(kernel.ast, target, parsed(str(other))) is of_subgroups
    ops = [{n.op for n in made.toposort()} for made in (ast, of_subgroups)]
    assert [(Op.WGMMA in found, Op.MMA in found) for found in ops] == [(True, False), (False, True)]
    with pytest.raises(ValueError, match="no rows that such matrix units compute"):
        replay(kernel.ast, parse_target("sm_90"), parsed(str(chosen)))


def test_what_does_not_fit_is_not_kept():
    """Gradients of 128 columns need more than Apple's 32 KiB."""
    target = parse_target("apple7")
    found = step_kernels(target, 128)
    assert len(found) > 2
    assert not any(optimize(kernel.ast, target)[1].of_kind(CarryRows) for kernel in found)


def test_tiles_that_a_mask_hides_are_not_gone_through():
    q, k, v = heads(256, 64)
    (kernel,) = kernels(q.scaled_dot_product_attention(k, v, is_causal=True))
    ast, _ = optimize(kernel.ast, TARGET)
    (block,) = (n for n in ast.toposort() if n.op is Op.RANGE and n.arg.kind == "grid")
    loops = [n for n in ast.toposort() if n.op is Op.RANGE and not has_fixed_size(n)]
    assert loops
    assert all(block in loop.src[0].toposort() for loop in loops)


def test_no_two_work_items_meet_in_a_bank_of_shared_memory():
    for width in (16, 32, 64, 80, 128):
        (kernel,) = kernels(
            heads(256, width)[0].scaled_dot_product_attention(*heads(256, width)[1:])
        )
        ast, _ = optimize(kernel.ast, TARGET)
        (phase,) = lower(ast, len(kernel.buffers), TARGET).phases
        assert set(ways_of(phase)) == {1}


@pytest.mark.parametrize("width", [64, 128])
def test_matrix_units_are_what_a_tile_waits_for(width):
    """By count, in cycles of a quarter of a multiprocessor; docs/design/attention.md says which."""
    shape = (64, 4096, width)
    q, k, v = (Tensor.full(shape, n, dtype=dtypes.bfloat16).contiguous() for n in range(3))
    Tensor.realize(q, k, v)
    inside = {}
    for arch in ("sm_90", "sm_90a"):
        target = parse_target(arch)
        (kernel,) = kernels(q.scaled_dot_product_attention(k, v, is_causal=True), target)
        (phase,) = lower(optimize(kernel.ast, target)[0], len(kernel.buffers), target).phases
        nodes = phase.program.src
        tile, mask = (n for n in nodes if n.op is Op.RANGE and n.arg.kind == "loop")
        inside[arch] = nodes[nodes.index(tile) :]
        assert inside[arch].index(mask) > 0
    count = lambda op, arch="sm_90": sum(n.op is op for n in inside[arch])
    copies = sum(n.op is Op.STORE and n.arg == ASYNCHRONOUS for n in inside["sm_90"])
    assert count(Op.MMA) == 2 * width
    assert count(Op.QUICK_EXP2) == 68
    assert (count(Op.FRAGMENT), copies) == {64: (32, 8), 128: (80, 16)}[width]
    assert 8 * count(Op.MMA) > 1.3 * 16 * (count(Op.FRAGMENT) + copies)
    # Half as many rows of a subgroup, whose factors it does not read.
    products = [n for n in inside["sm_90a"] if n.op is Op.WGMMA]
    assert sum(n.arg.turns * n.arg.columns for n in products) == 8 * width
    assert count(Op.MMA, "sm_90a") == count(Op.FRAGMENT, "sm_90a") == 0
    assert count(Op.QUICK_EXP2, "sm_90a") == 34


def test_only_tiles_that_a_mask_cuts_through_are_masked():
    q, k, v = heads(256, 64)
    (kernel,) = kernels(q.scaled_dot_product_attention(k, v, is_causal=True))
    ast, _ = optimize(kernel.ast, TARGET)
    masked = [n for n in ast.toposort() if n.op is Op.END and n.src[0].op is Op.UPDATE
              and n.src[0].arg is Op.MIN]  # fmt: skip
    (end,) = masked
    (once,) = end.src[end.arg :]
    (block,) = (n for n in ast.toposort() if n.op is Op.RANGE and n.arg.kind == "grid")
    (tile,) = (n for n in once.src[0].toposort() if n.op is Op.RANGE and n is not block)
    times = {
        (b, t): int(evaluate(once.src[0], {block: np.array(b), tile: np.array(t)}))
        for b in range(4) for t in range(b + 1)
    }  # fmt: skip
    # Blocks of 64 rows, those with most keys first, by tiles of 64 keys.
    last = {b: max(t for t in range(4) if t <= 3 - b) for b in range(4)}
    assert {b: times[b, last[b]] for b in range(4) if (b, last[b]) in times} == {
        b: 1 for b in range(4) if (b, last[b]) in times
    }
    assert not any(once for (b, t), once in times.items() if t < last[b])


CASES = {
    "whole tiles": ((128, 64), None, {}),
    "tails of rows and keys": ((2, 70, 48), 99, {}),
    "causal": ((150, 32), None, {"is_causal": True}),
    "wide": ((80, 128), None, {}),
    "few keys": ((64, 16), 20, {}),
}


@ON_DEVICES
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_float64(name, device):
    shape, keys, options = CASES[name]
    q, k, v = heads_on(device, *shape, keys=keys)
    ours = q.scaled_dot_product_attention(k, v, **options)
    assert is_one_kernel(ours)
    mask = np.tril(np.ones((shape[-2], keys or shape[-2]), bool)) if options else None
    expected = expected_of(q, k, v, mask)
    # Weights and results are rounded to 8 bits.
    error = np.linalg.norm(ours.cast(dtypes.float64).numpy() - expected)
    assert error < 2**-8 * np.linalg.norm(expected)


@ON_DEVICES
@pytest.mark.parametrize(("width", "dtype"), [(128, dtypes.bfloat16), (80, dtypes.float16)])
def test_subgroups_with_the_rows_of_two_products_give_the_same(width, dtype, device):
    """As many rows as keep a GPU busy; q's words are read anew for each tile."""
    q, k, v = heads_on(device, 50, 300, width, dtype=dtype)
    ours = q.scaled_dot_product_attention(k, v, is_causal=True)
    (kernel,) = kernels(ours)
    (move,) = optimize(kernel.ast, TARGET)[1].of_kind(CarryRows)
    assert move.tile.rows == 128
    expected = expected_of(q, k, v, np.tril(np.ones((300, 300), bool)))
    error = np.linalg.norm(ours.cast(dtypes.float64).numpy() - expected)
    assert error < 2**-8 * np.linalg.norm(expected)


@ON_DEVICES
def test_masks_of_comparisons_that_begin_and_end_with_the_row(device):
    """Each row sees the last fifty keys before it."""
    q, k, v = heads_on(device, 200, 32, dtype=dtypes.float16)
    row, key = (Tensor.arange(200, device=device).reshape(s) for s in ((200, 1), (1, 200)))
    ours = q.scaled_dot_product_attention(k, v, attn_mask=(key <= row) & (key > row - 50))
    assert is_one_kernel(ours)
    i, j = np.arange(200)[:, None], np.arange(200)[None]
    expected = expected_of(q, k, v, (j <= i) & (j > i - 50))
    np.testing.assert_allclose(ours.cast(dtypes.float64).numpy(), expected, atol=2e-3)


@ON_DEVICES
def test_masks_that_look_at_the_score_itself(device):
    q, k, v = heads_on(device, 100, 32, dtype=dtypes.float16)
    scores = q.dot(k.T, dtype=dtypes.float32)
    scores = (scores > 0).where(scores, -math.inf)
    ours = scores.softmax(-1).cast(dtypes.float16).dot(v)
    assert is_one_kernel(ours)
    x, y, z = (t.to("CPU").cast(dtypes.float64).numpy() for t in (q, k, v))
    weights = np.where(x @ y.T > 0, np.exp(x @ y.T), 0)
    expected = weights / weights.sum(-1, keepdims=True) @ z
    np.testing.assert_allclose(ours.cast(dtypes.float64).numpy(), expected, atol=4e-3)


@ON_DEVICES
def test_rows_begin_with_masked_keys_and_end_with_none(device):
    """Tiles in which nothing counts come first; rows in which nothing does give 0."""
    q, k, v = heads_on(device, 66, 32, keys=200, dtype=dtypes.float16)
    allowed = np.arange(200)[None] >= 3 * np.arange(66)[:, None]
    allowed[5] = False
    mask = Tensor(allowed, device=device)
    ours = q.scaled_dot_product_attention(k, v, attn_mask=mask).cast(dtypes.float64).numpy()
    expected = expected_of(q, k, v, allowed)
    expected[5] = 0
    np.testing.assert_allclose(ours, expected, atol=2e-3)


@ON_DEVICES
def test_large_scores_do_not_overflow(device):
    q, k, v = heads_on(device, 64, 64)
    q = (q * 200).realize()
    ours = q.scaled_dot_product_attention(k, v).cast(dtypes.float64).numpy()
    np.testing.assert_allclose(ours, expected_of(q, k, v), rtol=2**-7, atol=2**-7)


def test_gradients_are_right_beside_it():
    def gradients(device):
        given = heads(2, 64, 32, dtype=dtypes.float16, device=device)
        for tensor in given:
            tensor.requires_grad = True
        q, k, v = given
        q.scaled_dot_product_attention(k, v, is_causal=True).float().square().sum().backward()
        return [tensor.grad.float().numpy() for tensor in given]

    try:
        ours = gradients("CUDA")
    except DeviceError as error:
        pytest.skip(str(error))
    for mine, expected in zip(ours, gradients("CPU"), strict=True):
        np.testing.assert_allclose(mine, expected, atol=4e-3 * np.abs(expected).max())
