"""Rows that kernels keep for themselves: which kernels do, and that no matrix is stored."""

from dataclasses import replace

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor
from treadle.ir.op import Op
from treadle.ir.shape import size_product
from treadle.optimize.heuristic import optimize
from treadle.optimize.shared_tiles import ShareTiles
from treadle.schedule.passes import schedule
from treadle.target import parse_target
from treadle.target.data import Workgroup

LONG, SHORT, WIDTH = 256, 32, 16


def filled(*shape, seed=0):
    data = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return Tensor(data, device="CPU").realize()


def operands(tokens=LONG, heads=2):
    return [filled(heads, tokens, WIDTH, seed=seed) for seed in range(4)]


def step(is_causal=False, tokens=LONG):
    """The output of attention and the gradients of its three operands."""
    q, k, v, weights = operands(tokens)
    out = q.scaled_dot_product_attention(k, v, is_causal=is_causal)
    return [out, *(out * weights).sum().gradient(q, k, v)]


def kernels_of(tensors):
    return tensors[0].schedule(*tensors[1:])


def kept(kernel):
    """How many rows a kernel keeps."""
    stages = [n for n in kernel.ast.toposort() if n.op is Op.STAGE]
    assert all(n.arg.scope == "shared" for n in stages)
    return len({n.src[:3] for n in stages})


def largest(kernels):
    return max(size_product(b.shape) for kernel in kernels for b in kernel.buffers)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_one_kernel_that_keeps_its_rows(is_causal):
    q, k, v, _ = operands()
    (kernel,) = q.scaled_dot_product_attention(k, v, is_causal=is_causal).schedule()
    assert kept(kernel) == 3  # scores, their exponentials, and these divided by their sum
    assert largest([kernel]) == 2 * LONG * WIDTH


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_and_its_gradients_store_no_matrix_of_tokens(is_causal):
    kernels = kernels_of(step(is_causal))
    assert largest(kernels) == 2 * LONG * WIDTH
    assert len(kernels) == 2  # one for the rows of queries, one for those of keys
    assert all(map(kept, kernels))


def test_kernels_of_the_same_rows_are_one_and_store_what_others_need_of_them():
    queries, keys = kernels_of(step())
    shapes = sorted(root.shape for root in queries.roots)
    assert sum(size_product(shape) == 2 * LONG for shape in shapes) == 3  # statistics of rows
    assert sum(size_product(shape) == 2 * LONG * WIDTH for shape in shapes) == 2
    assert [size_product(root.shape) for root in keys.roots] == [2 * LONG * WIDTH] * 2


def test_a_kernel_does_not_wait_for_what_is_computed_from_its_own_statistics():
    """The gradient needs the output here, so that the two are no one kernel."""
    q, k, v, _ = operands()
    out = q.scaled_dot_product_attention(k, v)
    grads = out.square().sum().gradient(q, k, v)
    kernels = kernels_of([out, *grads])
    assert largest(kernels) == 2 * LONG * WIDTH
    done = set()
    for kernel in kernels:
        assert all(b.op is Op.BUFFER or b in kernel.roots or b in done for b in kernel.buffers)
        done.update(kernel.roots)


def attention_and_its_scale(seed):
    """softmax(q @ k.T) @ v in float64, and the largest number and the log-sum-exp of each row."""
    q, k, v = (filled(LONG, WIDTH, seed=seed + n) for n in range(3))
    scores = q @ k.T
    largest = scores.max(1, keepdim=True)
    powers = (scores - largest).exp()
    total = powers.sum(1, keepdim=True)
    tensors = powers / total @ v, largest, largest + total.log()
    q, k, v = (x.numpy().astype(np.float64) for x in (q, k, v))
    scores = q @ k.T
    largest = scores.max(1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(1, keepdims=True)
    return tensors, (powers / total @ v, largest, largest + np.log(total))


@pytest.mark.parametrize("is_product", [False, True])
def test_kernels_that_use_statistics_of_each_other_wait_for_no_circle(is_product):
    """Neither product is computed from the other's, but either could store what the other needs."""
    first, second = attention_and_its_scale(1), attention_and_its_scale(5)

    def results(one, other):
        (x, largest_x, scale_x), (y, largest_y, scale_y) = one, other
        results = [x * scale_y + largest_y, y * scale_x + largest_x, scale_x * scale_y]
        return results if is_product else [x * scale_y, y * scale_x, scale_x]

    found, exact = (results(*both) for both in zip(first, second, strict=True))
    Tensor.realize(*found)
    for tensor, array in zip(found, exact, strict=True):
        np.testing.assert_allclose(tensor.numpy(), array, rtol=0, atol=1e-5 * np.abs(array).max())


@pytest.mark.parametrize("given", ["shared keys", "mask", "added mask"])
def test_gradients_under_masks_and_of_shared_keys_store_no_matrix_of_tokens(given):
    q, weights = filled(4, LONG, WIDTH), filled(4, LONG, WIDTH, seed=1)
    groups = 2 if given == "shared keys" else 4
    k, v = (filled(groups, LONG, WIDTH, seed=seed) for seed in (2, 3))
    masks = {"mask": filled(LONG, LONG) < 0, "added mask": filled(LONG, LONG)}
    mask = masks[given].realize() if given in masks else None
    out = q.scaled_dot_product_attention(k, v, mask, enable_gqa=groups < 4)
    kernels = kernels_of([out, *out.gradient(q, k, v, gradient=weights)])
    chains = [kernel for kernel in kernels if kept(kernel)]
    assert len(chains) == 2
    assert len(kernels) - len(chains) == (2 if given == "shared keys" else 0)  # their sums
    assert largest(kernels) <= LONG * LONG  # the mask, and no scores of all heads


def test_what_a_kernel_reads_of_all_rows_is_stored_by_another_one():
    x, y, z = filled(64, 3), filled(3, 64), filled(64, 33)
    h = x @ y
    norms = h.square().sum(1, keepdim=True).sqrt()
    found = (h * (norms / norms.mean(0, keepdim=True))) @ z
    for kernel in kernels_of([found]):
        written = [kernel.buffers[slot] for slot in kernel.writes]
        loads = [n for n in kernel.ast.toposort() if n.op is Op.LOAD]
        read = {kernel.buffers[n.src[0].arg.slot] for n in loads if n.src[0].op is Op.PARAM}
        assert read.isdisjoint(written)
    a, b, c = (t.numpy().astype(np.float64) for t in (x, y, z))
    norms = np.sqrt(np.square(a @ b).sum(1, keepdims=True))
    np.testing.assert_allclose(
        found.numpy(), (a @ b * norms / norms.mean()) @ c, rtol=1e-4, atol=1e-4
    )


def test_gradients_to_rows_that_are_looked_up_store_no_matrix_of_tokens():
    """Two kernels keep rows of a product whose factors are elements of three tensors."""
    table, weights = filled(40, WIDTH), filled(1, LONG, WIDTH, seed=1)
    places = Tensor(np.arange(LONG, dtype=np.int32) * 7 % 40, device="CPU").realize()
    rows = table[places].reshape(1, LONG, WIDTH)
    out = (rows * 0.3).scaled_dot_product_attention(rows, rows + 1)
    kernels = kernels_of([out, *out.gradient(table, gradient=weights)])
    assert sum(map(kept, kernels)) > 0
    assert largest(kernels) == LONG * WIDTH


@pytest.mark.parametrize("wanted", ["keys", "values"])
def test_statistics_are_not_computed_anew_for_each_row_of_a_chain(wanted):
    """The gradient to values alone took three hundred times as long as all three."""
    q, k, v, weights = operands(2 * LONG)
    out = q.scaled_dot_product_attention(k, v)
    (gradient,) = out.gradient(k if wanted == "keys" else v, gradient=weights)
    before = GlobalCounters.global_ops
    gradient.realize()
    work = GlobalCounters.global_ops - before
    products = (3 if wanted == "keys" else 2) * 2 * 2 * (2 * LONG) ** 2 * WIDTH
    assert products <= work <= 2 * products


def test_a_product_that_is_summed_further_is_stored_where_it_ends_a_chain():
    q, k, v, _ = operands()
    chain, total = kernels_of([q.scaled_dot_product_attention(k, v).sum()])
    assert kept(chain)
    assert not kept(total)


def test_what_is_smaller_than_its_operands_is_stored():
    q, k, v, _ = operands(SHORT, heads=8)
    kernels = q.scaled_dot_product_attention(k, v).schedule()
    assert not any(kept(kernel) for kernel in kernels)
    assert len(kernels) > 1


def test_layers_with_large_weights_are_not_chained():
    x = filled(64, 256)
    kernels = ((x @ filled(256, 512)).relu() @ filled(512, 64)).schedule()
    assert not any(kept(kernel) for kernel in kernels)


def test_scores_that_are_wanted_themselves_are_stored():
    q, k, v, _ = operands()
    scores = q @ k.transpose(-2, -1)
    assert largest(kernels_of([scores.softmax() @ v, scores])) == 2 * LONG * LONG


def test_workgroups_keep_no_rows():
    q, k, v, _ = operands()
    nodes = [q.scaled_dot_product_attention(k, v).node]
    target = replace(parse_target("x86-64-v3"), workgroup=Workgroup())
    kernels, _ = schedule(nodes, "CPU", target)
    assert len(kernels) == 3
    assert not any(n.op is Op.STAGE for kernel in kernels for n in kernel.ast.toposort())


def test_products_are_kernels_of_their_own_where_no_kernel_keeps_their_rows():
    """Matrix units keep the rows of halves: those of float32 are stored, and each product tiled."""
    roots = [tensor.node for tensor in step()]
    kernels, _ = schedule(roots, "CPU", parse_target("sm_80"))
    assert not any(map(kept, kernels))
    assert all(len(kernel.roots) == 1 for kernel in kernels)
    moves = [optimize(kernel.ast, parse_target("sm_80"))[1] for kernel in kernels]
    products = [mine for mine in moves if mine.of_kind(ShareTiles)]
    assert len(products) == 6  # two, and four of the gradients
