"""Random programs: every device against the interpreter, and convolutions against PyTorch."""

import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from treadle import Device, Tensor, dtypes
from treadle.errors import DeviceError

from ..thinning import processor_and_one_other

SIZES = [1, 2, 3, 5, 15, 16, 17, 33, 64, 65, 100]
COUNT, BLOCKS = (4000 if os.environ.get("FULL_TESTS") else 100), 10


def unary(rng, x):
    names = ["exp", "sin", "tanh", "relu", "sigmoid", "abs", "square", "neg", "floor", "erf"]
    y = getattr(x.clip(-3, 3), rng.choice(names))()
    return y.clip(-50, 50)


def binary(rng, x):
    y = x * 0.5 + 1
    kind = rng.choice(["add", "mul", "maximum", "where", "sub", "row", "column"])
    if kind == "where":
        return (x < y).where(x, y)
    if kind == "row":
        return x + x.max(axis=-1, keepdim=True)
    if kind == "column":
        return x - x.mean(axis=0, keepdim=True)
    return getattr(x, kind)(y)


def move(rng, x):
    kind = rng.choice(["permute", "flip", "pad", "shrink", "reshape", "expand", "window"])
    if kind == "permute":
        order = list(range(x.ndim))
        rng.shuffle(order)
        return x.permute(*order)
    if kind == "flip":
        return x.flip(rng.randrange(x.ndim))
    if kind == "pad":
        return x.pad(tuple((rng.randrange(3), rng.randrange(3)) for _ in x.shape))
    if kind == "shrink":
        cuts = []
        for size in x.shape:
            begin = rng.randrange(size)
            cuts.append((begin, rng.randrange(begin, size) + 1))
        return x.shrink(tuple(cuts))
    if kind == "reshape":
        return x.reshape(-1) if x.ndim > 1 else x.reshape(1, -1)
    if kind == "expand" and x.numel() < 4000:
        return x.unsqueeze(0).expand(3, *x.shape)
    if kind == "window" and x.shape[-1] >= 3:
        return x.unfold(x.ndim - 1, 3, 2)
    return x


def reduce(rng, x):
    kind = rng.choice(["sum", "max", "mean", "softmax", "cumsum", "argmax", "layernorm"])
    axis = rng.randrange(x.ndim)
    if kind == "softmax":
        return x.softmax(axis)
    if kind == "layernorm":
        return x.layernorm()
    if kind == "cumsum":
        return (x * 0.1).cumsum(axis)
    if kind == "argmax":
        return (x * 8).round().argmax(axis=axis, keepdim=True).cast(x.dtype) * 0.1
    return getattr(x * 0.1, kind)(axis=axis, keepdim=True)


def matmul(rng, x):
    if x.ndim < 2 or x.numel() > 20000:
        return x
    return x @ x.transpose(-1, -2) * 0.1


def gather(rng, x):
    rows = Tensor(np.arange(4, dtype=np.int32) % x.shape[0], device=x.device)
    return x[rows]


def program(rng, device, kind=np.float32):
    """A program of two to six steps on random data, by the choices of `rng`."""
    shape = [rng.choice(SIZES) for _ in range(rng.choice([1, 2, 2, 3]))]
    while np.prod(shape) > 30000:
        shape.pop()
    data = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape).astype(kind)
    x = Tensor(data, device=device)
    steps = [unary, binary, binary, move, move, reduce, matmul, gather]
    for _ in range(rng.randrange(2, 7)):
        x = rng.choice(steps)(rng, x)
        if x.numel() > 60000:
            break
    return x.numpy()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_random_program_gives_the_same_on_every_device(block, engines):
    @seed(block)
    @settings(
        max_examples=COUNT // BLOCKS, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 1 << 30))
    def check(start):
        reference = program(random.Random(start), "REF")
        for device in processor_and_one_other(engines, start):
            ours = program(random.Random(start), device)
            np.testing.assert_allclose(ours, reference, rtol=2e-4, atol=2e-4, err_msg=device)

    check()


@pytest.mark.parametrize("name", ["CUDA", "CUDA:PTX"])
def test_a_random_program_on_an_emulated_gpu_gives_what_the_interpreter_gives(name):
    try:
        Device[name]
    except DeviceError as error:
        pytest.skip(str(error))
    for start in range(COUNT // 10):
        ours, reference = (program(random.Random(start), device) for device in (name, "REF"))
        np.testing.assert_allclose(ours, reference, rtol=2e-4, atol=2e-4, err_msg=str(start))


def test_a_random_program_in_emulated_float64_gives_what_the_interpreter_gives():
    name = "CL:OPENCL:-fp64"
    try:
        Device[name]
    except DeviceError as error:
        pytest.skip(str(error))
    for start in range(COUNT // 20):
        ours = program(random.Random(start), name, np.float64)
        reference = program(random.Random(start), "REF", np.float64)
        np.testing.assert_allclose(ours, reference, rtol=1e-11, atol=1e-11, err_msg=str(start))


# images, weights, stride, padding, dilation, groups
CONVOLUTIONS = [
    ((2, 3, 9, 11), (4, 3, 3, 3), 1, 1, 1, 1),
    ((1, 4, 12, 12), (6, 2, 3, 3), 2, 1, 1, 2),
    ((2, 8, 14, 14), (8, 1, 3, 3), 1, 1, 1, 8),
    ((1, 2, 15, 15), (3, 2, 5, 5), 2, 2, 2, 1),
    ((4, 16, 8, 8), (32, 16, 3, 3), 1, 0, 1, 1),
    ((2, 32, 7, 7), (16, 32, 1, 1), 1, 0, 1, 1),
    ((1, 3, 32, 32), (16, 3, 7, 7), 2, 3, 1, 1),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_a_convolution_and_its_gradients_agree_with_pytorch(case):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(case[0]).astype(np.float32)
    w = rng.standard_normal(case[1]).astype(np.float32)
    options = dict(zip(("stride", "padding", "dilation", "groups"), case[2:], strict=True))
    a, b = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    out = a.conv2d(b, **options)
    (out * out).sum().backward()
    ta = torch.tensor(x, requires_grad=True)
    tb = torch.tensor(w, requires_grad=True)
    expected = torch.nn.functional.conv2d(ta, tb, **options)
    (expected * expected).sum().backward()
    for ours, theirs in ((out, expected), (a.grad, ta.grad), (b.grad, tb.grad)):
        scale = theirs.detach().abs().max().item()
        np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), atol=2e-5 * scale)


@pytest.mark.parametrize(
    "shapes",
    [
        ((5, 7), (7, 3)), ((100, 70), (70, 130)), ((1, 300), (300, 1)), ((33, 65), (65, 129)),
        ((3, 40, 50), (3, 50, 60)), ((2, 1, 17, 33), (4, 33, 18)), ((300, 300), (300, 300)),
        ((7, 5000), (5000, 40)), ((64, 4100), (4100, 64)), ((512, 16), (16, 512)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("transposed", [False, True])
def test_a_matmul_of_any_shape_is_right(shapes, transposed):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    if transposed:
        ours = Tensor(np.swapaxes(a, -1, -2).copy()).transpose(-1, -2) @ Tensor(
            np.swapaxes(b, -1, -2).copy()
        ).transpose(-1, -2)
    else:
        ours = Tensor(a) @ Tensor(b)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-4, atol=1e-5 * shapes[0][-1] ** 0.5)


@pytest.mark.parametrize("size", [1, 100, 40_000, 1 << 17])
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
def test_long_and_short_reductions_agree_with_numpy(size, name):
    data = np.random.default_rng(2).standard_normal((3, size)).astype(np.float32)
    for axis in (None, 0, 1):
        expected = getattr(data.astype(np.float64), name)(axis=axis)
        ours = getattr(Tensor(data), name)(axis=axis).numpy()
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-3)


def test_a_padded_softmax_less_its_mean_over_the_same_axis(device):
    """The padding's condition is no part of the row's statistics (once computed as if it were)."""
    data = np.random.default_rng(0).standard_normal((5, 6, 7)).astype(np.float32)
    x = Tensor(data, device=device).softmax(0).pad(((2, 1), (1, 0), (0, 2)))
    shares = np.exp(data) / np.exp(data).sum(0)
    expected = np.pad(shares, ((2, 1), (1, 0), (0, 2)))
    ours = (x - x.mean(axis=0, keepdim=True)).numpy()
    np.testing.assert_allclose(ours, expected - expected.mean(0), atol=1e-6)


ALL_TYPES = [t.name for t in dtypes.all]


@pytest.mark.parametrize("name", ALL_TYPES)
def test_every_dtype_adds_multiplies_compares_and_sums(name, device):
    dtype = getattr(dtypes, name)
    if not Device[device].target.supports(dtype):
        pytest.skip(f"{device} has no float64")
    data = Tensor(np.arange(37) % 5, device=device).cast(dtype)
    both = data + data * data
    values = np.arange(37) % 5
    expected = (values > 0) if name == "bool" else values + values * values
    if name.startswith("fp8"):
        expected = Tensor(expected.astype(np.float32), device="REF").cast(dtype).float().numpy()
    np.testing.assert_array_equal(both.float().numpy(), expected)
    grows = 0 if name == "bool" else int((values < values + values**2).sum())
    assert (data < both).sum().item() == grows
    total = {"bool": 29, "fp8e4m3": 72, "fp8e5m2": 64}  # 71, rounded once to what fp8 can hold
    assert data.sum().item() == total.get(name, 71)
