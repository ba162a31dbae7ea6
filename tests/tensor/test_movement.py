"""Movement and joining against PyTorch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, Variable
from treadle.errors import IndexOutOfRange, ShapeError

from .oracle import compare

torch = pytest.importorskip("torch")
CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

CASES = {
    "reshape": (lambda x: x.reshape(4, -1), lambda x: x.reshape(4, -1)),
    "view": (lambda x: x.view((6, 4)), lambda x: x.view(6, 4)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.permute(2, 0, 1)),
    "expand": (lambda x: x.unsqueeze(1).expand(2, 5, -1, 4),
               lambda x: x.unsqueeze(1).expand(2, 5, -1, 4)),
    "flip": (lambda x: x.flip(0, -1), lambda x: x.flip(0, -1)),
    "shrink": (lambda x: x.shrink((None, (1, 3), (0, 2))), lambda x: x[:, 1:3, :2]),
    "pad flat": (lambda x: x.pad((1, 2, 0, 1), value=7.0),
                 lambda x: torch.nn.functional.pad(x, (1, 2, 0, 1), value=7.0)),
    "pad negative": (lambda x: x.pad((-1, 2)), lambda x: torch.nn.functional.pad(x, (-1, 2))),
    "pad reflect": (lambda x: x.pad((2, 3), mode="reflect"),
                    lambda x: torch.nn.functional.pad(x, (2, 3), mode="reflect")),
    "pad replicate": (lambda x: x.pad((2, 1), mode="replicate"),
                      lambda x: torch.nn.functional.pad(x, (2, 1), mode="replicate")),
    "pad circular": (lambda x: x.pad((2, 1), mode="circular"),
                     lambda x: torch.nn.functional.pad(x, (2, 1), mode="circular")),
    "transpose": (lambda x: x.transpose(0, -1), lambda x: x.transpose(0, -1)),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(), lambda x: x.unsqueeze(1).squeeze()),
    "flatten": (lambda x: x.flatten(1), lambda x: x.flatten(1)),
    "unflatten": (lambda x: x.unflatten(-1, (2, -1)), lambda x: x.unflatten(-1, (2, -1))),
    "unfold": (lambda x: x.unfold(2, 2, 1), lambda x: x.unfold(2, 2, 1)),
    "repeat": (lambda x: x.repeat(2, 1, 1, 3), lambda x: x.repeat(2, 1, 1, 3)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1),
                          lambda x: x.repeat_interleave(2, 1)),
    "repeat_interleave flat": (lambda x: x.repeat_interleave(2),
                               lambda x: x.repeat_interleave(2)),
    "roll": (lambda x: x.roll((1, -2), (0, 2)), lambda x: x.roll((1, -2), (0, 2))),
    "roll flat": (lambda x: x.roll(5), lambda x: x.roll(5)),
    "diagonal": (lambda x: x.diagonal(), lambda x: x.diagonal()),
    "diag": (lambda x: x.flatten()[:5].diag(), lambda x: x.flatten()[:5].diag()),
    "cat": (lambda x: x.cat(x * 2, x[:, :1], dim=1), lambda x: torch.cat([x, x * 2, x[:, :1]], 1)),
    "stack": (lambda x: x.stack(x + 1, dim=-1), lambda x: torch.stack([x, x + 1], -1)),
    "split": (lambda x: x.split([1, 3], 2)[1], lambda x: x.split([1, 3], 2)[1]),
    "chunk": (lambda x: x.chunk(2, 1)[1], lambda x: x.chunk(2, 1)[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_movement_matches_pytorch_in_value_and_gradient(device, name):
    compare(device, *CASES[name], CUBE)


def test_split_and_chunk_give_the_pieces_of_pytorch(device):
    x, other = Tensor(CUBE, device=device), torch.tensor(CUBE)
    for pieces, expected in (
        (x.split(3, 2), other.split(3, 2)),
        (x.chunk(3, 2), other.chunk(3, 2)),
    ):
        assert len(pieces) == len(expected)
        for a, b in zip(pieces, expected, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_meshgrid_has_both_indexings(device):
    a, b = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    for indexing in ("ij", "xy"):
        ours = Tensor(a, device=device).meshgrid(Tensor(b, device=device), indexing=indexing)
        theirs = np.meshgrid(a, b, indexing=indexing)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(x.numpy(), y)


def test_joining_keeps_nan_infinity_and_negative_zero(device):
    a = Tensor([np.nan, -0.0], device=device)
    joined = a.cat(Tensor([np.inf, -np.inf], device=device)).numpy()
    np.testing.assert_array_equal(joined, [np.nan, -0.0, np.inf, -np.inf])
    assert np.signbit(joined[1])


def test_cat_promotes_and_skips_empty_tensors(device):
    empty = Tensor.zeros(0, device=device)
    joined = Tensor([1, 2], device=device).cat(empty, Tensor([3], device=device))
    assert joined.tolist() == [1.0, 2.0, 3.0]


def test_T_exchanges_the_first_two_axes(device):
    assert Tensor(CUBE, device=device).T.shape == (3, 2, 4)
    assert Tensor([1.0], device=device).T.shape == (1,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.reshape(5, -1), ShapeError, r"\[reshape\] shape \(2, 3, 4\) has 24 elements"),
        (lambda x: x.reshape(-1, -1), ShapeError, r"\[reshape\] only one size"),
        (lambda x: x.reshape(7), ShapeError, r"\[reshape\] .* would have 7"),
        (lambda x: x.permute(0, 0, 1), ShapeError, r"\[permute\] \(0, 0, 1\) is no order"),
        (lambda x: x.expand(2, 3, 5), ShapeError, r"\[expand\]"),
        (lambda x: x.transpose(0, 3), IndexOutOfRange, r"\[transpose\] axis 3 does not exist"),
        (lambda x: x.cat(Tensor.zeros(2, 2, 4), dim=2), ShapeError, r"\[cat\] shapes"),
        (lambda x: x.stack(Tensor.zeros(2)), ShapeError, r"\[stack\] tensor 1 has shape"),
        (lambda x: x.split([1, 1], 1), ShapeError, r"\[split\] sizes \(1, 1\) add up to 2"),
        (lambda x: x.pad((5, 5), mode="reflect"), ShapeError, r"\[pad\] reflect padding"),
    ],
)
def test_a_wrong_movement_is_refused_at_the_call(call, error, message):
    with pytest.raises(error, match=message):
        call(Tensor(CUBE))


def test_an_axis_is_taken_apart_whatever_the_size_of_the_others():
    assert [t.shape for t in Tensor.zeros(0, 3).unbind(1)] == [(0,)] * 3
    assert Tensor.zeros(0, 3).unbind(0) == Tensor.zeros(3, 0).unbind(1) == ()
    with pytest.raises(ShapeError, match="unbind"):
        Tensor(1.0).unbind()


@pytest.mark.parametrize("part", [slice(None, None, -1), slice(-9, None, -1), slice(5, 9)])
def test_a_slice_of_nothing_is_empty_in_either_direction(part):
    for size in (0, 3):
        assert Tensor.zeros(size)[part].shape == np.zeros(size)[part].shape


def test_a_size_is_a_number_that_may_be_called():
    x = Tensor.zeros(2, 3)
    assert (x.size, x.size(), x.size(0), x.size(-1)) == (6, (2, 3), 2, 3)
    assert (Tensor(1.0).size, Tensor(1.0).size()) == (1, ())
    with pytest.raises(IndexOutOfRange, match=r"\[size\] axis 2"):
        x.size(2)
    n = Variable("n", 1, 5).bind(3)
    assert Tensor.zeros(5, 2)[:n].size(1) == 2
