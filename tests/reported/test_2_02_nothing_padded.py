"""What is padded with zeros around nothing, or looked up in nothing, is zeros."""

from __future__ import annotations

import numpy as np

from treadle import Context, Tensor


def test_2_02_an_empty_tensor_is_padded_with_zeros(device):
    x = Tensor(np.arange(80, dtype=np.int32).reshape(5, 4, 4), device=device)
    padded = x.repeat((0, 0, 1)).pad((2, 1, 2, 1, 0, 2))
    assert np.array_equal(padded.numpy(), np.zeros((2, 3, 7), np.int32))


def test_2_02_what_follows_such_padding_is_computed(device):
    x = Tensor(np.ones((0, 33), np.float32), device=device).realize()
    padded = x.pad(((3, 1), (0, 70)))
    assert (padded * 2 + 1).sum().item() == 4 * 103
    joined = Tensor.cat(x.pad(((0, 0), (0, 70))), padded + 5)
    assert np.array_equal(joined.numpy(), np.full((4, 103), 5, np.float32))


def test_2_02_places_in_nothing_hold_zeros(device):
    x = Tensor(np.ones((0, 7), np.float32), device=device).realize()
    with Context(CHECK_INDEX=0):
        found = x.gather(0, Tensor([[1, 2]], device=device)).numpy()
    assert np.array_equal(found, np.zeros((1, 2)))
