"""PyTorch and treadle share memory of the host, both ways."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from treadle import Tensor, dtypes

torch = pytest.importorskip("torch")

NAMES = {"fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2"}


def test_every_dtype_is_shared_both_ways():
    for dtype in dtypes.all:
        theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, NAMES.get(dtype.name, dtype.name)))
        x = Tensor.from_dlpack(theirs, copy=False)
        assert (x.dtype, x.shape) == (dtype, (2, 3))
        back = torch.from_dlpack(x)
        assert back.dtype == theirs.dtype
        assert back.data_ptr() == theirs.data_ptr()
        assert x.cast("float32").tolist() == theirs.float().tolist()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 1, 2)])
def test_all_shapes_go_both_ways(shape):
    theirs = torch.ones(shape)
    x = Tensor.from_dlpack(theirs)
    assert x.shape == shape
    back = torch.from_dlpack(x)
    assert torch.equal(back, theirs)
    assert torch.equal(torch.from_dlpack(x + 1), theirs + 1)


def test_writes_are_seen_on_the_other_side():
    theirs = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    x = Tensor.from_dlpack(theirs)
    theirs += 1
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    x.assign(x * 2).realize()
    assert theirs.tolist() == [[2, 4, 6], [8, 10, 12]]
    mine = Tensor(np.zeros(3, np.float32))
    torch.from_dlpack(mine)[1] = 5
    assert mine.tolist() == [0, 5, 0]


def test_views_are_shared():
    theirs = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    for view in (theirs.T, theirs[1:3], theirs.reshape(2, 2, 6).permute(2, 0, 1), theirs[2, 3]):
        x = Tensor.from_dlpack(view, copy=False)
        np.testing.assert_array_equal(x.numpy(), view.numpy())
    mine = Tensor(theirs.numpy())
    for view in (lambda t: t.T, lambda t: t[:, 1:4], lambda t: t[::2, ::3]):
        seen = torch.from_dlpack(view(mine))
        assert torch.equal(seen, view(theirs))
        seen[0, 0] = -7
        assert view(mine)[0, 0].item() == -7
        view(theirs)[0, 0] = -7
    assert torch.equal(torch.from_dlpack(mine.flip(0)), theirs.flip(0))
    with pytest.raises(BufferError, match="leave gaps"):
        Tensor.from_dlpack(theirs[:, 1:3], copy=False)


def test_gradients_are_refused_on_both_sides():
    theirs = torch.ones(3, requires_grad=True)
    with pytest.raises(BufferError, match="gradient"):
        Tensor.from_dlpack(theirs)
    assert Tensor.from_dlpack(theirs.detach()).tolist() == [1, 1, 1]
    with pytest.raises(BufferError, match="gradient"):
        torch.from_dlpack(Tensor.ones(3, requires_grad=True))


def test_memory_outlives_its_source():
    x = Tensor.from_dlpack(torch.full((1000,), 3.0)) + 0
    t = torch.from_dlpack(Tensor.full((1000,), 4.0))
    gc.collect()
    noise = [torch.zeros(1000), Tensor.zeros(1000).realize()]
    assert x.sum().item() == 3000
    assert t.sum().item() == 4000
    del noise


def test_an_exception_passes_shared_tensors_that_die():
    def fail():
        t = torch.from_dlpack(Tensor.full((10,), 4.0))
        u = Tensor.from_dlpack(t)
        raise KeyError(t.sum() + u.sum().item())

    for _ in range(3):
        with pytest.raises(KeyError):
            fail()


@pytest.mark.parametrize("order", ["treadle first", "PyTorch first"])
def test_operations_between_both_say_how_to_share_first(order):
    pair = Tensor([1.0, 2.0]), torch.ones(2)
    one, other = pair if order == "treadle first" else pair[::-1]
    with pytest.raises(TypeError, match=r"torch\.Tensor beside a treadle\.Tensor: Tensor\.from_d"):
        one + other
    with pytest.raises(TypeError, match=r"torch\.Tensor beside a treadle\.Tensor"):
        one @ other


def test_negative_and_conjugate_bits_are_resolved():
    z = torch.tensor([1 + 2j, 3 - 4j])
    conjugate = z.conj()
    assert conjugate.imag.is_neg()
    assert Tensor.from_dlpack(conjugate).tolist() == [1 - 2j, 3 + 4j]
    assert Tensor.from_dlpack(conjugate.imag).tolist() == [-2, 4]
    for given, flag in ((conjugate, "conj"), (conjugate.imag, "neg")):
        with pytest.raises(BufferError, match=rf"is_{flag}\(\) .* give \.resolve_{flag}\(\)"):
            Tensor.from_dlpack(given, copy=False)
    assert Tensor.from_dlpack(z, copy=False).tolist() == z.tolist()
