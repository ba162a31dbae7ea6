"""Chains of products in blocks of rows: values in awkward shapes, masks that end rows early."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.ir.choices import choices_of
from treadle.ir.loops import loop_size, ranges_of
from treadle.ir.op import Op
from treadle.ir.views import Load
from treadle.optimize.chained_matmul import ChainedMatmul
from treadle.optimize.heuristic import optimize, parsed, replay
from treadle.target import parse_target

from .references import attention, kernel

TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on_cpu(*arrays):
    return [Tensor(a, device="CPU").realize() for a in arrays]


def log_of(tensor, target):
    return kernel(tensor, parse_target(target))[1:]


def check(got, expected, tolerance=2e-6):
    """Every element right to within `tolerance` of the largest one."""
    allowed = tolerance * np.abs(expected).max()
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=allowed)


@pytest.mark.parametrize("target", TARGETS)
def test_products_get_tiles_and_rows_get_blocks(target):
    q, k, v = on_cpu(*(numbers(2, 256, 64, seed=n) for n in range(3)))
    with choices_of() as found:
        ast, log = log_of(q.scaled_dot_product_attention(k, v), target)
    assert len(log.of_kind(ChainedMatmul)) == 1
    assert {"register_tile", "packed_columns_for_all"} <= found
    blocks = [n for n in ast.toposort() if n.op is Op.STAGE and n.arg.scope == "shared"]
    assert blocks
    assert all(n.arg.sizes[0] < 256 for n in blocks)


SHAPES = {
    "whole tiles": (2, 256, 256, 64),
    "rows left over": (1, 131, 256, 32),
    "columns left over": (3, 256, 203, 40),
    "one block": (1, 70, 300, 8),
    "several chunks": (1, 64, 1100, 16),
    "chunks that do not fit": (1, 130, 1141, 24),
    "few columns": (2, 200, 200, 3),
    "one batch": (1, 300, 300, 64),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_any_shape(name, is_causal):
    batch, queries, keys, width = SHAPES[name]
    arrays = [numbers(batch, n, width, seed=n) for n in (queries, keys, keys)]
    arrays[2] = arrays[2][..., ::-1].copy()
    q, k, v = on_cpu(*arrays)
    mask = np.tri(queries, keys, dtype=bool) if is_causal else None
    out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
    assert len(out.schedule()) == 1
    check(out, attention(*arrays, mask))


@pytest.mark.parametrize("length", [736, 768, 800])
def test_tiles_of_wide_heads_have_several_of_the_rows_of_a_block(length):
    """Five do not divide the 78 rows that a block has in a cache of 1 MiB, for one of them."""
    target = replace(parse_target("x86-64-v4"), l2=1 << 20)
    arrays = [numbers(2, length, 80, seed=n) for n in range(3)]
    q, k, v = on_cpu(*arrays)
    out = q.scaled_dot_product_attention(k, v)
    _, ast, _ = kernel(out, target)
    products = [n for n in ast.toposort() if n.op is Op.REDUCE and n.src[0].op is Op.MUL]
    assert len(products) == 2
    for product in products:
        rows = [r for r in ranges_of(product) if r.arg.kind == "unroll"]
        assert loop_size(*rows) >= 10  # accumulators: eight hide what a multiply-add takes
    check(out, attention(*arrays))


def test_the_last_of_uneven_chunks_ends_with_the_steps():
    """A condition in each of its steps took as long as the product."""

    def gated(keys):
        q, k, v = on_cpu(*(numbers(1, n, 24, seed=n) for n in (130, keys, keys)))
        ast = log_of(q.scaled_dot_product_attention(k, v), "x86-64-v3")[0]
        loads = [Load.of(n) for n in ast.toposort() if n.op is Op.LOAD]
        return sum(load.is_gated for load in loads), sum(n.op is Op.WHERE for n in ast.toposort())

    assert gated(1141) == gated(1140)


def test_rows_so_long_that_a_block_has_one():
    """A tile of one row has no loop of rows, by which a factor could be told from the other."""
    queries, keys, width = 24, 70_000, 8
    arrays = [numbers(1, n, width, seed=n) for n in (queries, keys, keys)]
    out = Tensor.scaled_dot_product_attention(*on_cpu(*arrays))
    for target in TARGETS:
        _, log = log_of(out, target)
        (move,) = log.of_kind(ChainedMatmul)
        assert move.rows == 1
    check(out, attention(*arrays))


def test_a_mask_that_ends_rows_does_not_end_the_columns_of_wide_heads():
    """Where chunks of steps differ, no tile is made: columns were taken for steps along a row."""
    arrays = [numbers(1, 821, 128, seed=n) for n in range(3)]
    q, k, v = on_cpu(*arrays)
    out = q.scaled_dot_product_attention(k, v, is_causal=True)
    with choices_of() as found:
        log_of(out, "x86-64-v3")
    assert "masked_bounds" in found
    check(out, attention(*arrays, np.tri(821, dtype=bool)))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(256, 256), (150, 270), (270, 150)])
def test_gradients_are_those_of_the_formula(queries, keys, is_causal):
    """Compared with the gradients that materialise every matrix, in float64."""
    width = 24
    arrays = [numbers(2, n, width, seed=n) for n in (queries, keys, keys)]
    arrays[2] = arrays[2][..., ::-1].copy()
    upstream = numbers(2, queries, width, seed=9)
    q, k, v, g = on_cpu(*arrays, upstream)
    out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
    grads = (out * g).sum().gradient(q, k, v)
    Tensor.realize(out, *grads)
    wide = [a.astype(np.float64) for a in (*arrays, upstream)]
    scale = 1 / np.sqrt(width)
    scores = wide[0] @ wide[1].swapaxes(-2, -1) * scale
    if is_causal:
        scores = np.where(np.tri(queries, keys, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    by_weight = wide[3] @ wide[2].swapaxes(-2, -1)
    by_score = weights * (by_weight - (by_weight * weights).sum(-1, keepdims=True)) * scale
    expected = [by_score @ wide[1], by_score.swapaxes(-2, -1) @ wide[0]]
    expected.append(weights.swapaxes(-2, -1) @ wide[3])
    for got, right in zip(grads, expected, strict=True):
        check(got, right)


def test_a_causal_mask_ends_rows_and_so_does_any_band():
    q, k, v = on_cpu(*(numbers(1, 400, 32, seed=n) for n in range(3)))
    rows = Tensor.arange(400, device="CPU").reshape(400, 1)
    columns = Tensor.arange(400, device="CPU").reshape(1, 400)
    near = (columns <= rows) & (columns > rows - 50)
    for mask in (columns <= rows, columns >= rows, near):
        out = q.scaled_dot_product_attention(k, v, attn_mask=mask)
        with choices_of() as found:
            log_of(out, "x86-64-v3")
        assert "masked_bounds" in found
        check(out, attention(*(t.numpy() for t in (q, k, v)), mask.numpy()))


def test_a_triangular_product_stops_at_the_diagonal():
    a, b, c = (numbers(300, 20, seed=1), numbers(300, 20, seed=2), numbers(300, 16, seed=3))
    x, y, z = on_cpu(a, b, c)
    out = (x @ y.transpose()).tril() @ z
    (kernel,) = out.schedule()
    with choices_of() as found:
        optimize(kernel.ast, parse_target("x86-64-v3"))
    assert "masked_bounds" in found
    wide = [n.astype(np.float64) for n in (a, b, c)]
    check(out, np.tril(wide[0] @ wide[1].T) @ wide[2])


def test_what_a_mask_hides_does_not_reach_the_result():
    arrays = [numbers(1, 256, 16, seed=n) for n in range(3)]
    arrays[1][0, 200:], arrays[2][0, 200:] = np.nan, np.inf
    q, k, v = on_cpu(*arrays)
    out = q.scaled_dot_product_attention(k, v, is_causal=True).numpy()
    assert np.isfinite(out[0, :64]).all()
    clean = [a[:, :64] for a in arrays]
    check(Tensor(out[:, :64]), attention(*clean, np.tri(64, dtype=bool)))


def check_rows(out, arrays, mask):
    """The rows that are allowed something are right."""
    expected = attention(*arrays, mask)
    some = mask.any(-1)
    np.testing.assert_allclose(out[:, some], expected[:, some], atol=2e-6)


def test_a_row_that_is_masked_throughout_gives_zero():
    arrays = [numbers(1, 200, 16, seed=n) for n in range(3)]
    q, k, v = on_cpu(*arrays)
    mask = np.tri(200, dtype=bool)
    mask[7] = False
    out = q.scaled_dot_product_attention(k, v, attn_mask=Tensor(mask, device="CPU")).numpy()
    assert not out[0, 7].any()
    check_rows(out, arrays, mask)
    strict = Tensor.arange(200, device="CPU")  # the first row sees nothing
    strict = strict.reshape(1, 200) < strict.reshape(200, 1)
    out = q.scaled_dot_product_attention(k, v, attn_mask=strict).numpy()
    assert not out[0, 0].any()
    check_rows(out, arrays, np.tri(200, k=-1, dtype=bool))


def test_large_scores_do_not_overflow():
    arrays = [numbers(1, 256, 16, seed=n) for n in range(3)]
    arrays[0] *= 1000
    out = on_cpu(*arrays)
    # Scores of some thousands, rounded to float32, are off by a ten-thousandth.
    check(out[0].scaled_dot_product_attention(*out[1:]), attention(*arrays), 2e-4)


def test_heads_that_share_keys_and_masks_of_numbers():
    q, k, v = numbers(8, 160, 32, seed=1), numbers(2, 160, 32, seed=2), numbers(2, 160, 32, seed=3)
    bias = numbers(160, 160, seed=4)
    tensors = on_cpu(q, k, v, bias)
    out = tensors[0].scaled_dot_product_attention(
        *tensors[1:3], attn_mask=tensors[3], enable_gqa=True
    )
    wide = [np.repeat(a, 4, axis=0).astype(np.float64) for a in (k, v)]
    scores = q.astype(np.float64) @ wide[0].swapaxes(-2, -1) / np.sqrt(32) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    check(out, weights / weights.sum(-1, keepdims=True) @ wide[1])


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_dtypes(dtype):
    arrays = [numbers(2, 160, 32, seed=n).astype(dtype) for n in range(3)]
    out = on_cpu(*arrays)
    got = out[0].scaled_dot_product_attention(*out[1:], is_causal=True)
    mask = np.tri(160, dtype=bool)
    check(got, attention(*arrays, mask), 2e-3 if dtype is np.float16 else 1e-13)


def test_a_captured_step_replays_over_other_tokens():
    step = TinyJit(lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True).realize())
    for seed in range(4):
        arrays = [numbers(2, 192, 16, seed=seed * 3 + n) for n in range(3)]
        got = step(*on_cpu(*arrays))
        check(got, attention(*arrays, np.tri(192, dtype=bool)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_search_tries_half_and_twice_as_many_rows_and_steps(target):
    q, k, v = on_cpu(*(numbers(2, 2048, 64, seed=n) for n in range(3)))
    found = q.scaled_dot_product_attention(k, v)
    (step,), target = found.schedule(), parse_target(target)
    _, chosen = optimize(step.ast, target)
    (move,) = (one for one in chosen if isinstance(one, ChainedMatmul))
    forms = move.forms()
    assert {(form.rows, form.steps) for form in forms} == {
        (move.rows // 2, move.steps), (2 * move.rows, move.steps),
        (move.rows, move.steps // 2), (move.rows, 2 * move.steps),
    }  # fmt: skip
    texts = [str(chosen).replace(str(move), str(form)) for form in forms]
    assert len({replay(step.ast, target, parsed(text)) for text in texts}) == len(forms)
