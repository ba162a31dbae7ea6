"""Complex numbers: values against NumPy, gradients of two orders against PyTorch, and refusals."""

import cmath
import math
import pickle

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, dtypes
from treadle.dtype import finfo, least_upper_dtype, to_dtype
from treadle.errors import DTypeError, ShapeError

RNG = np.random.default_rng(3)
A, B = RNG.normal(size=(2, 4, 6)) + 1j * RNG.normal(size=(2, 4, 6))
R = RNG.normal(size=(4, 6))

FUNCTIONS = {
    name: getattr(np, name)
    for name in (
        "abs", "angle", "conj", "cos", "cosh", "exp", "exp2", "isfinite", "isinf", "isnan",
        "isreal", "log", "log10", "log1p", "log2", "prod", "reciprocal", "sin", "sinh", "sqrt",
        "square", "sum", "tan", "tanh", "mean",
    )
}  # fmt: skip


def same(got, want, tol=1e-5):
    want = np.asarray(want)
    array = got.numpy()
    assert array.dtype == want.dtype
    np.testing.assert_allclose(array, want, rtol=tol, atol=tol)


def test_types_promote_as_in_numpy_and_pytorch():
    assert least_upper_dtype(dtypes.float64, dtypes.complex64) is dtypes.complex128
    assert least_upper_dtype(dtypes.float32, dtypes.float64) is dtypes.float64
    assert least_upper_dtype(dtypes.int64, dtypes.complex64) is dtypes.complex64
    assert (Tensor([1.0], dtype="float64") * 2j).dtype is dtypes.complex128
    assert (Tensor([1.0], dtype="float16") + 1j).dtype is dtypes.complex64
    assert (Tensor([1]) + 1j).dtype is dtypes.complex64
    assert (Tensor([1j], dtype="complex128") * 2.5).dtype is dtypes.complex128
    with Context(DEFAULT_FLOAT="float64"):
        assert Tensor([1j, 2]).dtype is dtypes.complex128
    assert to_dtype("cdouble") is to_dtype(np.complex128) is dtypes.complex128
    assert to_dtype(complex) is dtypes.complex64
    assert finfo(dtypes.complex128).eps == np.finfo(np.complex128).eps
    z = Tensor([1j])
    assert z.is_complex()
    assert not z.is_floating_point()
    assert (z.element_size(), dtypes.is_complex(z.dtype), z.dtype.real) == (8, True, dtypes.float32)


def test_values_come_and_go():
    z = Tensor([[1 + 2j, -0.5j], [3, 4.5]])
    assert z.tolist() == [[1 + 2j, -0.5j], [3 + 0j, 4.5 + 0j]]
    assert complex(z[0, 0]) == z[0, 0].item() == 1 + 2j
    assert Tensor(np.complex128(2 - 1j)).item() == 2 - 1j
    assert Tensor(A).dtype is dtypes.complex128
    assert "4.5+0.j" in repr(z.realize())
    assert 4.5 in z
    assert 1j not in z
    same(pickle.loads(pickle.dumps(z)), z.numpy())
    same(Tensor.full((2, 3), 1j), np.full((2, 3), 1j, np.complex64))
    same(Tensor.eye(2, dtype="complex64"), np.eye(2, dtype=np.complex64))
    same(Tensor.zeros(0, 2, dtype="complex64"), np.zeros((0, 2), np.complex64))


def test_memory_is_shared_with_numpy_and_pytorch():
    array = A.copy()
    x = Tensor.from_dlpack(array, copy=False)
    array[0, 0] = 7j
    assert x[0, 0].item() == 7j
    assert np.asarray(Tensor(A)).dtype == np.complex128
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(A.astype(np.complex64))
    ours = Tensor.from_dlpack(theirs, copy=False)
    same(ours * 1j, A.astype(np.complex64) * np.complex64(1j))
    assert torch.from_dlpack(ours).data_ptr() == theirs.data_ptr()


def test_arithmetic_movements_and_sums(device):
    a, b = A.astype(np.complex64), B.astype(np.complex64)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    same(x * y + x / y - y * 2.5, a * b + a / b - b * np.float32(2.5))
    same((x @ y.mH).cumsum(1), (a @ b.conj().T).cumsum(1))
    same(x[[2, 0, 2], 1:].cat(y[1:, ::-1][:, ::2], dim=1).sum(0),
         np.concatenate([a[[2, 0, 2], 1:], b[1:, ::-1][:, ::2]], 1).sum(0))  # fmt: skip
    z, c = Tensor(a, device=device), a.copy()
    z[1:3, ::2], c[1:3, ::2] = y[1:3, ::2], b[1:3, ::2]
    z[[0, 3]], c[[0, 3]] = 1j, 1j
    z += 1
    same(z, c + 1)
    same(x.eq(y).logical_or(x.abs().gt(1)).where(x, y), np.where(abs(a) > 1, a, b))


def test_logarithms_of_numbers_beside_1_keep_their_digits():
    z = np.array([1e-8 + 1e-9j, -3 - 1j, 0.3 - 0.2j, -3e-20j], np.complex64)
    same(Tensor(z).log1p() * 1e8, np.log1p(z.astype(np.complex128)).astype(np.complex64) * 1e8)
    odds = z / (1 - z)
    same(Tensor(z).logit(), np.log(odds))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_agree_with_numpy_and_with_the_interpreter(name):
    for dtype, tol in ((np.complex64, 2e-5), (np.complex128, 1e-13)):
        a = A.astype(dtype)
        want = FUNCTIONS[name](a)
        same(getattr(Tensor(a), name)(), want, tol)
        same(getattr(Tensor(a, device="REF"), name)(), want, tol)


def test_powers():
    z = Tensor(A)
    same(z ** Tensor(B), A**B, 1e-12)
    same(z ** (0.1 + 1j), A ** (0.1 + 1j), 1e-12)
    same(z**-3, A**-3.0, 1e-12)
    same(z**0.1, A**0.1, 1e-12)
    same(2 ** Tensor(A), 2**A, 1e-12)
    same(Tensor(R) ** (1 + 1j), R ** (1 + 1j), 1e-12)
    same(z.sigmoid(), 1 / (1 + np.exp(-A)), 1e-14)
    same(Tensor([0j, 0, 0]) ** Tensor([2 + 1j, 0, 1]), np.array([0, 1, 0], np.complex64))


def test_signed_zeros_and_infinities_say_which_side_of_a_cut():
    line = [complex(x, y) for x in (-4.0, 0.0, 4.0) for y in (0.0, -0.0)]
    line += [complex(1, math.inf), complex(-math.inf, 1), complex(math.inf, -1)]
    z = Tensor(np.array(line))
    same(z.sqrt(), [cmath.sqrt(v) for v in line], 1e-15)
    assert np.array_equal(np.signbit(z.sqrt().imag.numpy()), [cmath.sqrt(v).imag < 0 or
                          math.copysign(1, cmath.sqrt(v).imag) < 0 for v in line])  # fmt: skip
    same(z.angle(), [cmath.phase(v) for v in line], 1e-15)
    assert z.abs().tolist()[-3:] == [math.inf] * 3
    assert Tensor(np.array([complex(math.inf, 0)])).exp().tolist() == [complex(math.inf, 0)]
    near = np.array([1 + 1e-9j, cmath.exp(1j), 1 - 1e-12])
    same(Tensor(near).log(), np.log(near), 1e-25 + 4e-16)
    big = np.array([3e200 + 4e200j, 1e-200j])
    same(Tensor(big) / Tensor(big), np.ones(2, complex), 1e-15)
    same(Tensor(big).abs(), abs(big), 1e-15)


def test_parts_and_what_is_made_of_them():
    z = Tensor(A)
    same(z.real, A.real)
    same(z.imag, A.imag)
    same(z.view_as_real(), np.stack([A.real, A.imag], -1))
    same(z.view_as_real().view_as_complex(), A)
    same(z.abs().polar(z.angle()), A, 1e-14)
    same(Tensor(R).complex(0.1), R + 0.1j, 1e-16)
    same(z.sgn(), A / abs(A), 1e-15)
    same(z.mH, A.conj().T)
    same(Tensor(R).angle(), np.angle(R))
    assert Tensor(R).real.numpy().dtype == np.float64
    same(z.var(0), A.var(0, ddof=1), 1e-14)
    same(z.std(), A.std(ddof=1), 1e-14)
    same(z.norm(), np.linalg.norm(A), 1e-14)
    same(z.cumprod(1), A.cumprod(1), 1e-13)
    same(z.prod(0, keepdim=True), A.prod(0, keepdims=True), 1e-13)
    same(z.vecdot(Tensor(B)), (A.conj() * B).sum(-1), 1e-14)
    same(z[0].vdot(Tensor(B[1])), np.vdot(A[0], B[1]), 1e-14)
    same(Tensor([complex(math.nan, math.inf)]).nan_to_num(posinf=1.0), np.array([1j], np.complex64))


def test_products_of_matrices_of_all_kinds():
    z, y = Tensor(A), Tensor(B)
    same(z @ y.T, A @ B.T, 1e-14)
    same(Tensor(R) @ y.T, R @ B.T, 1e-14)
    same(y @ Tensor(R).T, B @ R.T, 1e-14)
    same((z * y) @ (z + 1).T, (A * B) @ (A + 1).T, 1e-13)
    same(z @ y[0], A @ B[0], 1e-14)
    batch = A.reshape(2, 2, 6)
    same(Tensor(batch) @ y.T, batch @ B.T, 1e-14)
    same(Tensor.einsum("ij,kj->ik", z, y.conj()), A @ B.conj().T, 1e-14)
    same(z[0].outer(y[0]), np.outer(A[0], B[0]), 1e-15)
    wide = (RNG.normal(size=(70, 33)) + 1j * RNG.normal(size=(70, 33))).astype(np.complex64)
    same(Tensor(wide).T @ Tensor(wide), wide.T @ wide, 1e-4)


GRADIENTS = {
    "mul": lambda x, y, r: x * y,
    "div": lambda x, y, r: x / y,
    "mixed": lambda x, y, r: x * r + (r * 1j) / y,
    "matmul": lambda x, y, r: x @ y.mT + (r + 0j) @ y.mT,
    "pow": lambda x, y, r: x**y + y**3,
    "where": lambda x, y, r: (r > 0).where(x, y) if isinstance(x, Tensor) else x.where(r > 0, y),
    "index": lambda x, y, r: x[[0, 2, 2]] * y[[1, 1, 0]],
    "cumsum": lambda x, y, r: x.cumsum(1) * y,
    "prod": lambda x, y, r: x.prod(1) + y.cumprod(1).sum(1),
    "parts": lambda x, y, r: x.real * y.imag + x.angle() * x.abs() * y.conj().sgn(),
    **{
        name: lambda x, y, r, name=name: getattr(x, name)()
        for name in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_two_orders_are_those_of_pytorch(name):
    torch = pytest.importorskip("torch")
    rule, data = GRADIENTS[name], (A, B, R)
    mine = [Tensor(x, device="REF", requires_grad=True) for x in data]
    other = [torch.tensor(x, requires_grad=True) for x in data]

    def size(values):
        return sum((v * v.conj()).real.sum() for v in values if v is not None)

    ours, theirs = rule(*mine), rule(*other)
    first = size([ours]).gradient(*mine, materialize_grads=True)
    wanted = torch.autograd.grad(size([theirs]), other, create_graph=True, allow_unused=True)
    known = [v for v in wanted if v is not None and v.requires_grad]
    second = size(first).gradient(*mine, materialize_grads=True)
    again = torch.autograd.grad(size(known), other, allow_unused=True)
    for got, want in zip([*first, *second], [*wanted, *again], strict=True):
        expected = np.zeros(got.shape) if want is None else want.detach().resolve_conj().numpy()
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-9, atol=1e-9)


def test_slopes_at_zero_are_zero_where_pytorch_has_zero():
    z = Tensor([0j, 1j], requires_grad=True)
    (z.abs() + z.sgn().real).sum().backward()
    assert np.isfinite(z.grad.numpy()).all()
    assert z.abs().sum().gradient(z)[0].tolist() == [0j, 1j]


def test_a_complex_leaf_is_trained():
    z = Tensor([1 + 1j, 2 - 1j], requires_grad=True)
    for _ in range(2):
        z.grad = None
        (z.abs().square()).sum().backward()
        with Tensor.no_grad():
            z.assign(z - 0.25 * z.grad)
    same(z, np.array([0.25 + 0.25j, 0.5 - 0.25j], np.complex64))


def test_captured_steps_replay():
    @TinyJit
    def step(x, w):
        return (x @ w).exp().realize()

    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, w = rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3))
        same(step(Tensor(x), Tensor(w)), np.exp(x @ w), 1e-12)


def test_logarithms_of_sums_of_exponentials_do_not_overflow():
    torch = pytest.importorskip("torch")
    z = A.astype(np.complex64) * 60
    theirs = torch.tensor(z, requires_grad=True)
    want = torch.logsumexp(theirs, 1)
    mine = Tensor(z, requires_grad=True)
    got = mine.logsumexp(1)
    same(got, want.detach().numpy(), 1e-5)
    want.abs().sum().backward()
    same(got.abs().sum().gradient(mine)[0], theirs.grad.numpy(), 1e-5)


def test_several_devices_share_complex_tensors():
    devices = ("CPU:0", "CPU:1")
    z = Tensor(A, device="CPU:0").shard(devices, axis=0)
    same((z * 1j + z.conj()).sum(0).to("CPU:0"), (A * 1j + A.conj()).sum(0), 1e-14)
    same((z @ Tensor(B.T, device="CPU:0").shard(devices)).to("CPU:0"), A @ B.T, 1e-14)


REFUSED = {
    "lt": lambda z: z < z,
    "max": lambda z: z.max(),
    "argmin": lambda z: z.argmin(),
    "maximum": lambda z: z.maximum(0),
    "sort": lambda z: z.sort(),
    "topk": lambda z: z.topk(1),
    "median": lambda z: z.median(),
    "cummax": lambda z: z.cummax()[0],
    "floor": lambda z: z.floor(),
    "round": lambda z: z.round(),
    "trunc": lambda z: z.trunc(),
    "mod": lambda z: z % 2,
    "softmax": lambda z: z.reshape(1).softmax(),
    "layernorm": lambda z: z.reshape(1).layernorm(),
    "mse_loss": lambda z: z.mse_loss(z + 1),
    "rfft": lambda z: z.reshape(1).rfft(),
    "floor_divide": lambda z: z // 2,
    "idiv": lambda z: z.idiv(2),
    "relu": lambda z: z.relu(),
    "erf": lambda z: z.erf(),
    "cast": lambda z: z.cast("float32"),
    "float": lambda z: float(z),
    "int": lambda z: int(z),
    "bitcast": lambda z: z.bitcast("float32"),
    "bitwise_and": lambda z: z & z,
    "scatter_reduce": lambda z: z.reshape(1).scatter_reduce(0, Tensor([0]), z.reshape(1), "amax"),
    "imag": lambda z: z.real.imag,
    "complex": lambda z: z.complex(z),
    "view_as_real": lambda z: z.real.view_as_real(),
    "backward": lambda z: z.sum().backward(),
    "isinf": lambda z: z.isposinf(),
    "Tensor": lambda z: Tensor([1j], dtype="float32"),
    "assign": lambda z: z.real.assign(1j),
    "uniform": lambda z: Tensor.uniform(2, dtype="complex64"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_what_is_not_defined_is_refused_by_its_name(name, dtype):
    with pytest.raises(DTypeError, match=rf"^\[{name}\] "):
        REFUSED[name](Tensor(1 + 2j, dtype=dtype))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match=r"\[view_as_complex\]"):
        Tensor(R).view_as_complex()
    with pytest.raises(ShapeError, match=r"\[vdot\] takes two vectors .*\(6,\) and \(5,\)"):
        Tensor(A[0]).vdot(Tensor(B[0, :5]))
    with pytest.raises(ShapeError, match=r"\[H\]"):
        _ = Tensor(A)[0].H


def test_check_nan_finds_complex_nan():
    from treadle.errors import NonFiniteError

    with Context(CHECK_NAN=1), pytest.raises(NonFiniteError, match="complex64"):
        (Tensor([1j, 0j]) / Tensor([1j, 0j])).realize()


@pytest.mark.parametrize("number", [1e-5 + 1e-5j, 1e-3j, 0.3 - 0.2j, 20j, 1e-9 - 3e-5j, -0.5 + 3j])
def test_expm1_of_complex_numbers_loses_nothing_near_0(number, device):
    found = Tensor([number], dtype="complex64", device=device).expm1().numpy()[0]
    x, y = (float(np.float32(part)) for part in (number.real, number.imag))
    assert found.real == pytest.approx(
        math.expm1(x) * math.cos(y) - 2 * math.sin(y / 2) ** 2, rel=2e-6
    )
    assert found.imag == pytest.approx(math.exp(x) * math.sin(y), rel=2e-6)


@pytest.mark.parametrize(("dtype", "size"), [("complex64", 89.0), ("complex128", 710.0)])
def test_exp_has_a_finite_part_where_its_size_is_not(dtype, size):
    with np.errstate(over="ignore"):
        for angle in (1.0, -1.5, 3.0):
            number = np.array([complex(size, angle)], dtype)
            found, expected = Tensor(number).exp().numpy(), np.exp(number)
            np.testing.assert_allclose(found.real, expected.real, rtol=1e-5)
            np.testing.assert_allclose(found.imag, expected.imag, rtol=1e-5)
