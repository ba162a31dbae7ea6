"""An index or a label out of range raises at the next read on the host, on every device."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, dtypes, nn
from treadle.errors import IndexOutOfRange


@pytest.fixture(autouse=True)
def _nothing_waits():
    """What another test left behind is none of this one's concern."""
    with contextlib.suppress(IndexOutOfRange):
        Tensor([0]).tolist()


def table(device, rows=40, columns=3):
    return Tensor(np.arange(rows * columns, dtype=np.float32).reshape(rows, columns), device=device)


def test_3_03_an_index_out_of_range_raises_with_the_users_line(device):
    x = table(device).realize()
    y = x[Tensor([0, 50], device=device)]  # this line
    with pytest.raises(IndexOutOfRange, match=r"\[getitem\] 50 lies outside of axis 0 of size 40"):
        y.numpy()
    with pytest.raises(IndexError, match="# this very line"):
        x[Tensor([0, -41], device=device)].numpy()  # this very line
    assert x[Tensor([-40, 39], device=device)].tolist() == [[0, 1, 2], [117, 118, 119]]


def test_3_03_what_raised_once_does_not_raise_again(device):
    x = table(device).realize()
    y = x.gather(0, Tensor([[0, 99, 1]], device=device)).realize()
    with pytest.raises(IndexOutOfRange):
        x.numpy()
    assert y.tolist() == [[0, 0, 5]]


WAYS = {
    "gather": lambda x, at: x.gather(0, at.reshape(-1, 1)),
    "scatter": lambda x, at: x.scatter(0, at.reshape(-1, 1), 1.0),
    "scatter_reduce": lambda x, at: x.scatter_reduce(0, at.reshape(-1, 1), x, "sum"),
    "index_select": lambda x, at: x.index_select(0, at),
    "take": lambda x, at: x.take(at, 0),
    "two axes": lambda x, at: x[at, at * 0],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_3_03_every_way_to_index_is_looked_at(way, dtype):
    x = table("CPU").realize()
    WAYS[way](x, Tensor([0, 39, 7]).cast(dtype).realize()).numpy()
    made = WAYS[way](x, Tensor([0, 40, 7]).cast(dtype).realize())
    with pytest.raises(IndexOutOfRange, match="40 lies outside of axis 0"):
        made.numpy()


def test_3_03_an_assignment_is_looked_at(device):
    x = table(device).contiguous().realize()
    x[Tensor([3, 41], device=device)] = 1.0
    with pytest.raises(IndexOutOfRange, match=r"\[setitem\] 41"):
        x.numpy()


def test_3_03_extremes_of_the_types_are_named_as_they_are():
    x = table("CPU").realize()
    for value, dtype in [(-(2**31), "int32"), (2**31 - 1, "int32"), (-(2**63), "int64"),
                         (2**63 - 1, "int64"), (2**64 - 1, "uint64"), (-128, "int8")]:  # fmt: skip
        with pytest.raises(IndexOutOfRange, match=f" {value} lies outside"):
            x[Tensor(np.array([1, value], dtype), dtype=dtype)].numpy()


@pytest.mark.parametrize("name", ["cross_entropy", "sparse_categorical_crossentropy", "nll_loss"])
def test_3_03_a_label_out_of_range_raises_and_an_ignored_one_does_not(name, device):
    logits = Tensor(np.zeros((3, 10), np.float32), device=device)
    ignored = -1 if name.startswith("sparse") else -100
    loss = getattr(logits, name)
    assert np.isfinite(loss(Tensor([0, ignored, 9], device=device), ignore_index=ignored).item())
    with pytest.raises(IndexOutOfRange, match="10 lies outside of axis 1 of size 10"):
        loss(Tensor([0, 10, 3], device=device), ignore_index=ignored).item()


def test_3_03_a_gradient_alone_is_looked_at(device):
    w = table(device)
    w.requires_grad_(True)
    w.gather(0, Tensor([[0, 77, 1]], device=device)).sum().backward()
    with pytest.raises(IndexOutOfRange, match="77"):
        w.grad.numpy()


def test_3_03_a_replay_is_looked_at_however_many_follow(device):
    embedding = nn.Embedding(40, 8)
    embedding.weight.to_(device).realize()

    @TinyJit
    def step(tokens):
        return embedding(tokens).sum().realize()

    for k in range(4):
        step(Tensor([k, 39], device=device).realize())
    good = step(Tensor([1, 2], device=device).realize())
    good.item()
    step(Tensor([1, 40], device=device).realize())
    for k in range(3):
        last = step(Tensor([k, 2], device=device).realize())
    with pytest.raises(IndexOutOfRange, match=r"40 lies outside .*\n.*embedding\(tokens\)"):
        last.item()
    assert np.isfinite(last.item())


def test_3_03_an_index_that_changes_in_place_is_looked_at_again():
    x, at = table("CPU").realize(), Tensor([1, 2]).contiguous().realize()
    for _ in range(2):
        x[at].numpy()
    at.assign(Tensor([1, 60])).realize()
    with pytest.raises(IndexOutOfRange, match="60"):
        x[at].numpy()


def test_3_03_an_index_over_several_devices_is_looked_at():
    x = table("CPU").shard(("CPU", "CPU:1")).realize()
    at = Tensor(np.arange(36, 44, dtype=np.int32)).shard(("CPU", "CPU:1"), axis=0).realize()
    with pytest.raises(IndexOutOfRange, match=r"4[0-3] lies outside"):
        x[at].numpy()


def test_3_03_large_indices_are_looked_at_as_a_whole():
    rng = np.random.default_rng(0)
    places = rng.integers(0, 500, (700, 300)).astype(np.int32)
    x = Tensor(rng.random((500, 300), np.float32)).realize()
    expected = np.take_along_axis(x.numpy(), places, 0)
    np.testing.assert_array_equal(x.gather(0, Tensor(places)).numpy(), expected)
    for row, column in [(0, 0), (699, 299), (350, 17)]:
        wrong = places.copy()
        wrong[row, column] = 500
        with pytest.raises(IndexOutOfRange, match="500 lies outside of axis 0 of size 500"):
            x.gather(0, Tensor(wrong)).numpy()


def test_3_03_training_steps_that_are_never_read_are_looked_at_in_time():
    x = table("CPU").realize()

    def train():
        for k in range(1000):
            x[Tensor([k % 40, 99 if k == 0 else 1])].realize()

    with pytest.raises(IndexOutOfRange, match="99"):
        train()


def test_3_03_the_setting_chooses_when():
    x, at = table("CPU").realize(), Tensor([0, 99])
    with Context(CHECK_INDEX=2), pytest.raises(IndexOutOfRange, match="1 of 2 places"):
        x[at]
    with Context(CHECK_INDEX=0):
        assert x[at].tolist() == [[0, 1, 2], [0, 0, 0]]


def test_3_03_orders_and_transforms_are_as_they_were():
    x = Tensor(np.array([[3.0, 1.0, 2.0]], np.float32))
    assert x.sort(1)[0].tolist() == [[1, 2, 3]]
    assert x.topk(2)[1].tolist() == [[0, 2]]
    from treadle import func

    rows = func.vmap(lambda row, at: row[at])(table("CPU"), Tensor.ones(40, dtype=dtypes.int32))
    assert rows.tolist() == [3.0 * n + 1 for n in range(40)]
