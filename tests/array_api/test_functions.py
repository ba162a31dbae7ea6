"""Creation, movement, reduction, searching and linear algebra: each call as the reference has it.

A case is a function of a namespace and its `asarray`; what it gives in both has the same dtype,
shape and values.
Names of defaults differ: int32 and float32 here, int64 and float64 there.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import Tensor, array_api
from treadle.errors import CopyError, DTypeError, IndexOutOfRange, ShapeError

pytestmark = pytest.mark.usefixtures("on_the_interpreter")

RNG = np.random.default_rng(5)
M = RNG.normal(size=(3, 4))
A = RNG.normal(size=(2, 3, 3))
S = A @ A.swapaxes(1, 2) + np.eye(3)
C = M + 1j * RNG.normal(size=(3, 4))
V = np.array([3.0, 1.0, 2.0, 1.0])
N = np.array([[4, -1, 7], [0, 4, 4]], np.int32)
U = np.array([200, 100, 3], np.uint8)
B = np.array([[True, False, True], [False, False, True]])
NAN = np.array([2.0, np.nan, 1.0, np.nan, 2.0, -0.0, 0.0])


def named(dtype):
    name = str(dtype).rpartition(".")[2]
    return {"int64": "int32", "uint64": "uint32"}.get(name, name)


def compare(got, want, exact):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        assert getattr(got, "_fields", None) == getattr(want, "_fields", None)
        for one, other in zip(got, want, strict=True):
            compare(one, other, exact)
        return
    if not hasattr(want, "__array_namespace__"):
        assert got == want
        return
    assert isinstance(got, Tensor)
    assert got.shape == want.shape
    if exact:
        assert got.dtype.name == str(want.dtype).rpartition(".")[2]
    else:
        assert named(got.dtype.name) == named(want.dtype)
    np.testing.assert_allclose(got.numpy(), np.asarray(want), 2e-6 if not exact else 1e-12, 1e-12)


CASES = {
    # creation
    "arange": lambda xp, of: [
        xp.arange(5), xp.arange(2, 9, 3), xp.arange(5, 0, -2), xp.arange(3, 3),
    ],
    "arange dtype": lambda xp, of: [xp.arange(4, dtype=xp.uint8), xp.arange(3, dtype=xp.float64)],
    "arange float": lambda xp, of: xp.astype(xp.arange(0.5, 3, 0.75), xp.float32),
    "linspace": lambda xp, of: [
        xp.linspace(-1, 2, 7, dtype=xp.float64),
        xp.linspace(-1, 2, num=6, dtype=xp.float64, endpoint=False),
        xp.linspace(5, 0, 1, dtype=xp.float64), xp.linspace(0, 1, 0, dtype=xp.float64),
    ],
    "eye": lambda xp, of: [xp.eye(3, k=k, dtype=xp.float32) for k in (-4, -1, 0, 1, 5)],
    "eye columns": lambda xp, of: [xp.eye(2, 4, k=1, dtype=xp.int8), xp.eye(4, 2, dtype=xp.bool)],
    "full": lambda xp, of: [xp.full((2, 3), 7), xp.full(3, True), xp.full((), 2, dtype=xp.float64)],
    "zeros": lambda xp, of: [
        f(shape, dtype=t) for f in (xp.zeros, xp.ones) for shape in ((2, 0), 3, ())
        for t in (xp.int16, xp.bool, xp.float64)
    ],
    "like": lambda xp, of: [
        xp.zeros_like(of(N)), xp.ones_like(of(M)), xp.ones_like(of(B)),
        xp.full_like(of(N), 3), xp.full_like(of(N), 0.5, dtype=xp.float64),
    ],
    "empty": lambda xp, of: [
        xp.empty((2, 3), dtype=xp.int8).shape, xp.empty_like(of(N)).shape, xp.empty(4).shape
    ],
    "meshgrid": lambda xp, of: [
        *xp.meshgrid(of(V), of(V[:3])), *xp.meshgrid(of(V)), *xp.meshgrid(),
        *xp.meshgrid(of(U), of(U), of(U[:2]), indexing="ij"),
    ],
    "triangles": lambda xp, of: [
        f(of(x), k=k) for f in (xp.tril, xp.triu) for x in (A, N, B) for k in (-1, 0, 2)
    ],
    "asarray": lambda xp, of: [
        of([[1, 2], [3, 4]]), of(True), of([1, 2], dtype=xp.float64),
        of([[], []], dtype=xp.float32), of(M, copy=True), of([True, False]),
    ],
    # dtypes
    "astype": lambda xp, of: [
        xp.astype(of(M), xp.float32), xp.astype(of(N), xp.bool),
        xp.astype(of(B), xp.float64), xp.astype(of(M * 10), xp.int8),
    ],
    "broadcast": lambda xp, of: [
        *xp.broadcast_arrays(of(N), of(U), of(M[0, 0])),
        xp.broadcast_to(of(U), (2, 1, 3)), xp.broadcast_to(of(M[0, 0]), (0, 2)),
    ],
    "isdtype": lambda xp, of: [
        xp.isdtype(t, kind)
        for t in (xp.bool, xp.int8, xp.uint64, xp.float32)
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                     "numeric", "complex floating", xp.int8, ("bool", "integral"), (xp.float32,))
    ],
    "can_cast": lambda xp, of: [
        xp.can_cast(a, b)
        for a in (xp.bool, xp.int8, xp.uint8, xp.int32, xp.uint64, xp.float32, xp.float64)
        for b in (xp.bool, xp.int8, xp.uint8, xp.int32, xp.uint64, xp.float32, xp.float64)
    ] + [xp.can_cast(of(U), xp.int16)],
    "limits": lambda xp, of: [
        *(getattr(xp.finfo(t), f) for t in (xp.float32, xp.float64)
          for f in ("bits", "eps", "max", "min", "smallest_normal")),
        *(getattr(xp.iinfo(t), f) for t in (xp.int8, xp.uint64) for f in ("bits", "max", "min")),
        xp.finfo(of(M)).dtype == xp.float64, xp.iinfo(of(U)).dtype == xp.uint8,
    ],
    "complex": lambda xp, of: [
        of(M) * of(C), of(C) / of(C[::-1, ...]), of(C) + 2j, 1.5 - of(C), xp.abs(of(C)),
        *(f(of(C)) for f in (xp.conj, xp.real, xp.imag, xp.exp, xp.sqrt, xp.log, xp.square)),
        *(f(of(C), axis=1) for f in (xp.sum, xp.prod, xp.mean, xp.cumulative_sum)),
        of(C) == of(C), xp.isfinite(of(C)), xp.matmul(of(C), of(C.T)), xp.vecdot(of(C), of(C)),
        xp.astype(of(M), xp.complex64), xp.full((2,), 1j, dtype=xp.complex128),
    ],
    "complex dtypes": lambda xp, of: [
        xp.isdtype(xp.complex64, kind) for kind in ("complex floating", "numeric", "real floating")
    ] + [xp.result_type(xp.complex64, xp.float64) == xp.complex128,
         xp.result_type(xp.float32, 1j) == xp.complex64],
    # Fourier transforms
    "one axis": lambda xp, of: [
        f(of(x), n=n, axis=axis, norm=norm)
        for f, x in ((xp.fft.fft, C), (xp.fft.ifft, C), (xp.fft.rfft, M), (xp.fft.irfft, C),
                     (xp.fft.hfft, C), (xp.fft.ihfft, M))
        for n, axis, norm in ((None, -1, "backward"), (5, 0, "ortho"))
    ],
    "several axes": lambda xp, of: [
        f(of(x), **options)
        for f, x in ((xp.fft.fftn, C), (xp.fft.ifftn, C), (xp.fft.rfftn, M), (xp.fft.irfftn, C))
        for options in ({}, {"s": (2, 4), "axes": (0, 1), "norm": "forward"})
    ],
    "frequencies": lambda xp, of: [
        xp.fft.fftfreq(5, d=0.5, dtype=xp.float64), xp.fft.rfftfreq(6, dtype=xp.float64),
        xp.fft.fftshift(of(M)), xp.fft.ifftshift(of(M), axes=1), xp.fft.fftshift(of(M), axes=(0,)),
    ],
    # movement
    "concat": lambda xp, of: [
        xp.concat((of(M), of(M[:1]))), xp.concat([of(M)] * 2, axis=-1),
        xp.concat([of(N), of(U)], axis=None), xp.concat([of(U)]),
    ],
    "stack": lambda xp, of: [xp.stack([of(M)] * 3, axis=a) for a in (0, 1, -1)],
    "stack promotes": lambda xp, of: xp.stack([of(U), of(N[0])]),
    "unstack": lambda xp, of: [*xp.unstack(of(M), axis=1), *xp.unstack(of(N))],
    "unstack empty": lambda xp, of: [
        *xp.unstack(xp.zeros((0, 2))), *xp.unstack(xp.zeros((0, 2), dtype=xp.float32), axis=1),
    ],
    "expand_dims": lambda xp, of: [xp.expand_dims(of(M), axis=a) for a in (0, 1, 2, -1, -3)],
    "squeeze": lambda xp, of: [
        xp.squeeze(of(A[None, :, None]), axis=a) for a in (0, 2, (0, 2), (-3, 0), ())
    ],
    "flip": lambda xp, of: [xp.flip(of(A), axis=a) for a in (None, 0, -1, (0, 2), ())],
    "moveaxis": lambda xp, of: [
        xp.moveaxis(of(A), 0, -1), xp.moveaxis(of(A), (0, 1), (2, 0)),
    ],
    "permute_dims": lambda xp, of: [xp.permute_dims(of(A), (2, 0, 1)),
                                xp.permute_dims(of(M[0, 0]), ())],
    "reshape": lambda xp, of: [xp.reshape(of(M), s) for s in ((12,), (2, -1), (1, 3, 4))],
    "reshape copies": lambda xp, of: [xp.reshape(of(M), (4, 3), copy=c) for c in (True, False)],
    "roll": lambda xp, of: [
        xp.roll(of(M), 2), xp.roll(of(M), -1, axis=1), xp.roll(of(U), 10),
        xp.roll(of(M), (1, 2), axis=(0, 1)), xp.roll(of(M), 1, axis=(0, 1)),
    ],
    "repeat": lambda xp, of: [
        xp.repeat(of(M), 2), xp.repeat(of(M), 3, axis=1),
        xp.repeat(of(M), of([2, 0, 1]), axis=0),
        xp.repeat(of(U), of([0, 0, 0])), xp.repeat(of(U), of([2])),
    ],
    "tile": lambda xp, of: [xp.tile(of(N), r) for r in ((2,), (2, 1), (2, 1, 3), (), (0, 1))],
    # reductions
    "sum": lambda xp, of: [
        xp.sum(of(x), axis=a, keepdims=k)
        for x in (M, N, U) for a in (None, 0, -1, ()) for k in (False, True)
    ],
    "sum dtype": lambda xp, of: [xp.sum(of(U), dtype=t) for t in (xp.uint8, xp.float64)],
    "sum wide": lambda xp, of: xp.sum(of(N, dtype=xp.int64) * 2**40),
    "prod": lambda xp, of: [
        xp.prod(of(x), axis=a) for x in (M, N, U[1:]) for a in (None, 0, -1)
    ],
    "extremes": lambda xp, of: [
        f(of(x), axis=a, keepdims=k)
        for f in (xp.max, xp.min) for x in (M, N) for a in (None, 0, (0, 1)) for k in (False, True)
    ],
    "moments": lambda xp, of: [
        *(f(of(M), axis=a) for f in (xp.mean, xp.std, xp.var) for a in (None, 0, (0, 1))),
        *(f(of(M), correction=c, keepdims=True) for f in (xp.std, xp.var) for c in (1, 0.5)),
    ],
    "truth": lambda xp, of: [
        f(of(x), axis=a, keepdims=k)
        for f in (xp.all, xp.any) for x in (B, N, M) for a in (None, 0, 1) for k in (False, True)
    ],
    "none of them": lambda xp, of: [f(xp.zeros((0, 3), dtype=xp.float64), axis=0)
                                for f in (xp.sum, xp.prod, xp.all, xp.any)],
    "running": lambda xp, of: [
        f(of(x), axis=1, include_initial=i)
        for f in (xp.cumulative_sum, xp.cumulative_prod) for x in (M, N) for i in (False, True)
    ],
    "running vector": lambda xp, of: [
        *(f(of(U[1:])) for f in (xp.cumulative_sum, xp.cumulative_prod)),
        xp.cumulative_sum(of(U), dtype=xp.float64, include_initial=True),
    ],
    "diff": lambda xp, of: [
        xp.diff(of(M)), xp.diff(of(N), axis=0), xp.diff(of(M), n=2),
        xp.diff(of(V), prepend=of([1.0]), append=of([0.0, 2.0])),
    ],
    # searching
    "places of extremes": lambda xp, of: [
        f(of(x), axis=a, keepdims=k)
        for f in (xp.argmax, xp.argmin) for x in (M, N, V) for a in (None, 0, -1)
        for k in (False, True)
    ],
    "nonzero": lambda xp, of: [*xp.nonzero(of(N)), *xp.nonzero(of(B))],
    "count_nonzero": lambda xp, of: [
        xp.count_nonzero(of(N), axis=a, keepdims=k) for a in (None, 0, (0, 1))
        for k in (False, True)
    ],
    "searchsorted": lambda xp, of: [
        xp.searchsorted(of([1.0, 2.0, 2.0, 5.0]), of([[0.0, 2.0], [5.0, 9.0]]), side=s)
        for s in ("left", "right")
    ],
    "searchsorted sorter": lambda xp, of: xp.searchsorted(
        of(V), of([1.5, 3.0]), sorter=of([1, 3, 2, 0])
    ),
    "where": lambda xp, of: [
        xp.where(of(B), of(N), of(U)),
        xp.where(of(B), of(N), 0), xp.where(of(B), 1.0, of(M[:2, :3])),
    ],
    "sort": lambda xp, of: [
        f(of(x), axis=a, descending=d)
        for f in (xp.sort, xp.argsort) for x in (M, N) for a in (0, -1) for d in (False, True)
    ],
    "take": lambda xp, of: [
        xp.take(of(M), of([2, 0, 2]), axis=0), xp.take(of(V), of([3])),
        xp.take(of(M), of([3, 0]), axis=-1),
    ],
    "take_along_axis": lambda xp, of: [
        xp.take_along_axis(of(M), xp.argsort(of(M))),
        xp.take_along_axis(of(M), of([[2, 1, 0, 0]]), axis=0),
    ],
    "unique": lambda xp, of: [
        *xp.unique_all(of(N)), *xp.unique_counts(of(V)),
        *xp.unique_inverse(of(N)), xp.unique_values(of(B)),
    ],
    "unique NaN": lambda xp, of: [*xp.unique_counts(of(NAN))],
    "unique of nothing": lambda xp, of: [*xp.unique_counts(xp.zeros((0,), dtype=xp.float32))],
    # linear algebra
    "products": lambda xp, of: [
        xp.matmul(of(A), of(M)), xp.matmul(of(V), of(M.T)),
        xp.tensordot(of(A), of(M), axes=1), xp.matrix_transpose(of(A)),
        xp.tensordot(of(A), of(A), axes=((0, 1), (0, 2))),
        xp.tensordot(of(V), of(V), axes=0), xp.vecdot(of(M), of(V)),
        xp.vecdot(of(A), of(A), axis=-2), xp.matmul(of(N), of(N.T)),
    ],
    "linalg products": lambda xp, of: [
        xp.linalg.cross(of(A), of(A[0]), axis=-1),
        xp.linalg.outer(of(V), of(V)), xp.linalg.matrix_power(of(A), 3),
        xp.linalg.matrix_power(of(A), -2), xp.linalg.matrix_power(of(A), 0),
    ],
    "linalg names of products": lambda xp, of: [
        xp.linalg.matmul(of(A), of(M)), xp.linalg.matrix_transpose(of(M)),
        xp.linalg.tensordot(of(M), of(V), axes=1),
        xp.linalg.vecdot(of(M), of(M)),
    ],
    "factors": lambda xp, of: [
        xp.linalg.cholesky(of(S)), xp.linalg.cholesky(of(S), upper=True),
        xp.linalg.eigvalsh(of(S)), xp.linalg.svdvals(of(M)),
        xp.linalg.eigh(of(S)).eigenvalues, xp.linalg.svd(of(M)).S,
        abs(xp.linalg.qr(of(M.T)).R), xp.linalg.qr(of(M.T), mode="complete").Q.shape,
        xp.linalg.svd(of(M), full_matrices=False).Vh.shape,
    ],
    "systems": lambda xp, of: [
        xp.linalg.solve(of(S), of(A)), xp.linalg.solve(of(S[0]), of(V[:3])),
        xp.linalg.solve(of(S), of(V[:3])), xp.linalg.solve(of(S), of(A[0])),
        xp.linalg.inv(of(S)), xp.linalg.det(of(A)), *xp.linalg.slogdet(of(A)),
        xp.linalg.pinv(of(M)), xp.linalg.pinv(of(M), rtol=0.5),
        xp.linalg.matrix_rank(of(M)), xp.linalg.matrix_rank(of(A), rtol=0.5),
    ],
    "diagonals": lambda xp, of: [
        f(of(x), offset=k)
        for f in (xp.linalg.diagonal, xp.linalg.trace) for x in (A, M, N) for k in (-1, 0, 1)
    ],
    "trace dtype": lambda xp, of: xp.linalg.trace(of(N), dtype=xp.float64),
    "vector_norm": lambda xp, of: [
        xp.linalg.vector_norm(of(A), axis=a, keepdims=k, ord=o)
        for a in (None, 1, (0, 2)) for k in (False, True) for o in (2, 1, xp.inf, 3)
    ],
    "matrix_norm": lambda xp, of: [
        xp.linalg.matrix_norm(of(A), keepdims=k, ord=o)
        for k in (False, True) for o in ("fro", "nuc", 1, -1, 2, -2, xp.inf, -xp.inf)
    ],
    # the array object
    "indices": lambda xp, of: [
        of(A)[0, ...], of(A)[..., 1], of(A)[:, ::-1, None, ...], of(N)[1, 2],
        of(A)[-1, 1:, :2], of(M)[of([2, 0]), of([1, 1])],
        of(N)[of(B)], of(A)[0, of([1, 0]), 2],
        *(of(V)[0][of(V[1]) == n] for n in (1.0, 2.0)),
    ],
}  # fmt: skip

# These keep the dtype of their arguments, whatever the defaults are.
DEFAULTS = {"arange", "full", "zeros", "asarray", "sum", "prod", "running", "running vector",
            "places of extremes", "nonzero", "count_nonzero", "searchsorted", "searchsorted sorter",
            "sort", "unique", "unique NaN", "unique of nothing", "systems", "diagonals", "repeat",
            "linspace", "unstack empty", "like", "eye", "indices"}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_what_the_reference_gives(strict, name):
    got, want = (CASES[name](xp, xp.asarray) for xp in (array_api, strict))
    compare(got, want, exact=name not in DEFAULTS)


def test_every_function_has_a_case():
    import ast
    import inspect
    from pathlib import Path

    import treadle.array_api.elementwise as elementwise

    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names = {*array_api.__all__, *array_api.linalg.__all__} - {*elementwise.__all__}
    functions = {
        name
        for name in names
        if inspect.isfunction(getattr(array_api, name, getattr(array_api.linalg, name, None)))
    }
    assert functions - used == set()


def test_copies_are_made_where_they_are_asked_for_alone():
    xp = array_api
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.astype(x, xp.float32, copy=False) is x
    for copy in (
        xp.asarray(x, copy=True),
        xp.astype(x, xp.float32),
        xp.reshape(x, (2,), copy=True),
    ):
        copy[0] = 9.0
        assert (x.tolist(), copy.tolist()) == ([1.0, 2.0], [9.0, 2.0])
    array = np.arange(3.0)
    shared, own = xp.asarray(array, copy=False), xp.asarray(array)
    array[0] = 7.0
    assert (shared.tolist(), own.tolist()) == ([7.0, 1.0, 2.0], [0.0, 1.0, 2.0])
    for refused in (
        lambda: xp.asarray(x, dtype=xp.float64, copy=False),
        lambda: xp.asarray(x, device="CPU", copy=False), lambda: xp.asarray([1.0], copy=False),
        lambda: xp.asarray(array, dtype=xp.float32, copy=False),
    ):  # fmt: skip
        with pytest.raises(CopyError, match=r"^\[asarray\]") as caught:
            refused()
        assert isinstance(caught.value, ValueError)


def test_memory_and_devices_are_exchanged():
    xp = array_api
    x = xp.from_dlpack(np.arange(4, dtype=np.int16))
    assert (x.dtype, x.tolist()) == (xp.int16, [0, 1, 2, 3])
    assert xp.from_dlpack(x) is x
    assert xp.asarray(x, device="CPU").device == "CPU"
    assert xp.zeros_like(x, device="CPU").device == xp.astype(x, xp.int8, device="CPU").device
    assert xp.asarray([xp.asarray(1), xp.asarray(2)]).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ShapeError, lambda xp, x: xp.squeeze(x, axis=0)),
        (ShapeError, lambda xp, x: xp.nonzero(xp.asarray(3))),
        (ShapeError, lambda xp, x: xp.take(x, xp.asarray([0]))),
        (ShapeError, lambda xp, x: xp.cumulative_sum(x)),
        (ShapeError, lambda xp, x: xp.concat([])),
        (ShapeError, lambda xp, x: xp.broadcast_to(x, (2,))),
        (ShapeError, lambda xp, x: xp.reshape(x, (5,))),
        (ShapeError, lambda xp, x: xp.linalg.solve(xp.asarray(S), xp.asarray(A[:, 0, :2]))),
        (ShapeError, lambda xp, x: xp.unstack(xp.asarray(1.0))),
        (IndexOutOfRange, lambda xp, x: xp.expand_dims(x, axis=4)),
        (IndexOutOfRange, lambda xp, x: xp.flip(x, axis=2)),
        (DTypeError, lambda xp, x: xp.isdtype(xp.int8, "odd")),
        (DTypeError, lambda xp, x: xp.result_type(1, 2.0)),
        (DTypeError, lambda xp, x: xp.repeat(x, xp.asarray([0.5]), axis=0)),
        (DTypeError, lambda xp, x: xp.linalg.det(xp.asarray([[1]]))),
        (DTypeError, lambda xp, x: xp.asarray([2**40])),
        (TypeError, lambda xp, x: xp.finfo(xp.int8)),
        (TypeError, lambda xp, x: xp.sum(x, 0)),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(error, call):
    with pytest.raises(error):
        call(array_api, array_api.ones((2, 3)))


SHAPES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple)


def random_subscript(data, shape):
    """Integers, slices, None and an ellipsis, as the standard allows them."""
    items = []
    for size in shape:
        slices = st.builds(
            slice,
            st.none() | st.integers(-size, size),
            st.none() | st.integers(-size, size),
            st.sampled_from([None, 1, 2, -1, -2]),
        )
        items.append(data.draw(slices | st.integers(-size, size - 1) if size else slices))
    if data.draw(st.booleans()):
        items.insert(data.draw(st.integers(0, len(items))), None)
    if data.draw(st.booleans()):
        items[data.draw(st.integers(0, len(items))) :] = [...]
    return tuple(items)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data(), shape=SHAPES)
def test_random_subscripts_read_and_write_as_in_numpy(data, shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int16).reshape(shape)
    key = random_subscript(data, shape)
    x = array_api.asarray(array)
    np.testing.assert_array_equal(x[key].numpy(), array[key])
    x[key], array[key] = -1, -1
    np.testing.assert_array_equal(x.numpy(), array)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    data=st.data(),
    shape=SHAPES.filter(lambda shape: 0 not in shape),
    name=st.sampled_from(
        ["sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "count_nonzero"]
    ),
    keepdims=st.booleans(),
)
def test_random_reductions_are_those_of_the_reference(strict, data, shape, name, keepdims):
    array = np.random.default_rng(0).integers(-2, 3, size=shape).astype(np.float64)
    axes = st.integers(-len(shape), len(shape) - 1)
    several = st.lists(axes, max_size=3, unique_by=lambda axis: axis % len(shape)).map(tuple)
    axis = data.draw(st.none() | axes | several)
    got, want = (
        getattr(xp, name)(xp.asarray(array), axis=axis, keepdims=keepdims)
        for xp in (array_api, strict)
    )
    compare(got, want, exact=name != "count_nonzero")


def test_a_mask_of_one_element_takes_and_writes_all_or_nothing():
    xp = array_api
    for value in (True, False):
        mask, x = xp.asarray(value), xp.asarray([[1.0, 2.0]])
        want = np.array([[1.0, 2.0]])
        np.testing.assert_array_equal(x[mask].numpy(), want[np.array(value)])
        x[mask] = xp.asarray([5.0, 6.0])
        want[np.array(value)] = [5.0, 6.0]
        np.testing.assert_array_equal(x.numpy(), want)


def test_sizes_and_axes_may_be_integers_of_numpy():
    xp, two = array_api, np.int64(2)
    x = xp.ones((two, np.uint8(3)))
    assert (x.shape, [type(n) for n in x.shape]) == ((2, 3), [int, int])
    assert xp.broadcast_to(x, (two, two, np.int64(3))).shape == (2, 2, 3)
    assert xp.sum(x, axis=np.int64(1)).shape == xp.full(two, 1).shape == (2,)
    assert x.expand(two, 3).reshape(np.int64(6)).shape == (6,)
    assert xp.tile(x, (two,)).shape == (2, 6)
    with pytest.raises(ShapeError, match="axis"):
        xp.sum(x, axis=1.0)
