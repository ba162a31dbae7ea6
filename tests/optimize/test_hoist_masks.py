"""Masks of products: each on one factor, and gates that the other factor's zero makes needless."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.optimize.hoist_masks import HoistMasks, hoist_masks
from treadle.optimize.loop_digits import merge_all, split_digits
from treadle.optimize.moves import Moves
from treadle.optimize.tile_problem import recognise
from treadle.target import parse_target


def kernel(tensor):
    """The AST of the last kernel that computes `tensor`, masks distributed."""
    return hoist_masks(tensor.schedule()[-1].ast)


def factors(ast):
    reduce = next(n for n in ast.toposort() if n.op is Op.REDUCE)
    assert reduce.src[0].op is Op.MUL
    return reduce.src[0].src


def conv(size, channels, out, window, **options):
    x = Tensor.rand(2, channels, size, size, device="CPU").realize()
    w = Tensor.rand(out, channels, window, window, device="CPU").realize()
    y = x.conv2d(w, **options)
    return x, w, y, Tensor.rand(*y.shape, device="CPU").realize()


def problems(tensor):
    """The matmul-like problems that the last kernel of `tensor` is seen as."""
    moves = Moves(tensor.schedule()[-1].ast, parse_target("x86-64-v3"))
    split_digits(moves)
    moves.make(HoistMasks())
    merge_all(moves)
    return [found for nest in moves.nests() if (found := recognise(nest)) is not None]


def is_tiled(tensor):
    return bool(problems(tensor))


def sizes(loops):
    return sorted(loop_size(r) for r in loops)


def test_a_mask_around_a_product_moves_onto_one_factor():
    a, b = Tensor.rand(8, 6, device="CPU").realize(), Tensor.rand(8, 6, device="CPU").realize()
    masked = (a.pad(((1, 1), (0, 0))) * b.pad(((1, 1), (0, 0)))).sum(1)
    gates = [len(f.src) > 2 for f in factors(kernel(masked))]
    assert gates.count(True) >= 1
    np.testing.assert_allclose(
        masked.numpy(), np.pad((a.numpy() * b.numpy()).sum(1), (1, 1)), rtol=1e-5
    )


@pytest.mark.parametrize(
    "options",
    [{"padding": 1}, {}, {"padding": 1, "stride": 2}, {"padding": 2, "dilation": 2}],
    ids=["padded", "plain", "strided", "dilated"],
)
def test_gradients_of_convolutions_are_matmuls(options):
    x, w, y, g = conv(12, 6, 10, 3, **options)
    assert is_tiled(y.gradient(x, gradient=g)[0])
    assert is_tiled(y.gradient(w, gradient=g)[0])


@pytest.mark.parametrize(("size", "window"), [(24, 3), (24, 7), (25, 3), (26, 4)])
def test_the_gradient_of_a_strided_convolution_meets_no_zeros(size, window):
    """Half of the offsets on each axis, and images that the places between strides share."""
    x, _, y, g = conv(size, 6, 10, window, padding=1, stride=2)
    (problem,) = problems(y.gradient(x, gradient=g)[0])
    half, pixels = -(-window // 2), size // 2 + (size % 2 or window % 2 == 0)
    assert sizes(problem.steps) == sorted((10, half, half))
    assert sizes(problem.rows) == [2, 2, 6]
    assert sizes(problem.columns) == sorted((2, pixels, pixels))


FORMULAS = {
    "scaled": lambda x, y: x * 2,
    "of two": lambda x, y: x + y,
    "chosen": lambda x, y: (y > 0).where(x, 0),
    "of a row": lambda x, y: x * y[..., :1],
    "flipped": lambda x, y: x.flip(3),
}


@pytest.mark.parametrize(
    "options",
    [{"padding": 1}, {"padding": 1, "stride": 2}, {"padding": 2, "dilation": 2}],
    ids=["padded", "strided", "dilated"],
)
@pytest.mark.parametrize("image", FORMULAS)
@pytest.mark.parametrize("weight", FORMULAS)
def test_gradients_of_what_is_computed_in_the_kernel_are_matmuls(image, weight, options):
    x, w, _, g = conv(13, 6, 10, 3, **options)
    v, h = (Tensor.randn(*t.shape, device="CPU").realize() for t in (w, g))
    weights, arriving = FORMULAS[weight](w, v), FORMULAS[image](g, h)
    found = x.conv2d(weights, **options).gradient(x, gradient=arriving)[0]
    assert is_tiled(found)
    stored = x.conv2d(weights.contiguous(), **options).gradient(x, gradient=arriving.contiguous())
    np.testing.assert_allclose(found.numpy(), stored[0].numpy(), rtol=1e-5, atol=1e-5)


def test_weights_are_read_without_a_gate():
    x, _, y, g = conv(12, 6, 10, 3, padding=1)
    assert [len(f.src) for f in factors(kernel(y.gradient(x, gradient=g)[0]))].count(2) == 1


def test_a_gate_that_keeps_a_load_inside_stays():
    a, b = Tensor.rand(8, 6, device="CPU").realize(), Tensor.rand(8, 6, device="CPU").realize()
    both = (a.pad(((0, 0), (2, 2))) * b.pad(((0, 0), (2, 2)))).sum(1)
    assert all(len(f.src) == 4 for f in factors(kernel(both)))
    np.testing.assert_allclose(both.numpy(), (a.numpy() * b.numpy()).sum(1), rtol=1e-5)


def test_a_reduction_cut_into_uneven_chunks_is_right():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 8209)), rng.standard_normal((8209, 40))  # 8209 is a prime
    x, y = Tensor(a.astype(np.float32), device="CPU"), Tensor(b.astype(np.float32), device="CPU")
    np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-3, atol=1e-2)


def _repeated(x):
    return x.repeat_interleave(2, 0)[: x.shape[0]].logsumexp(0, keepdim=True)


def _unfolded(x):
    return x.pad((0, 2)).unfold(1, 3, 1)[..., 2].logsumexp(1, keepdim=True)


def _padded(x):
    return x.pad(((0, 0), (1, 2)))[:, : x.shape[1]].softmax(1).square().sum(1, keepdim=True)


@pytest.mark.parametrize("form", [_repeated, _unfolded, _padded])
@pytest.mark.parametrize("shape", [(8, 2), (300, 2), (1000, 12), (193, 130)])
def test_quotients_of_elements_that_are_not_there_do_not_reach_gradients(shape, form, device):
    """The result is computed with its gradient, whose products divide by statistics of lines."""
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(np.float32) for _ in range(3)]

    def results(device, dtype):
        x, y, c = (Tensor(a, device=device).cast(dtype).contiguous().realize() for a in arrays)
        out = form(x) + y
        (gradient,) = (out * c).sum().gradient(x)
        out.realize(gradient)
        return out.numpy(), gradient.numpy()

    for mine, wanted in zip(results(device, "float32"), results("REF", "float64"), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())
