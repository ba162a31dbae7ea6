"""Tensors over several devices give what one device gives."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor
from treadle.engine.memory import memory_of
from treadle.errors import DeviceError, ShapeError
from treadle.ir.op import Op
from treadle.schedule.collectives import all_gather, all_reduce, pieces, reduce_scatter
from treadle.schedule.shard import spread_of

TWO = ("CPU", "CPU:1")
THREE = ("CPU", "CPU:1", "CPU:2")
RANDOM = np.random.default_rng(7)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def close(tensor, expected, tolerance=1e-5):
    np.testing.assert_allclose(tensor.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("devices", [TWO, THREE])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_values_survive_the_spreading(devices, axis):
    a = numbers(7, 4)
    x = Tensor(a).shard(devices, axis)
    assert x.device == devices
    assert x.shape == (7, 4)
    close(x, a, 0)
    close(x.to("CPU:2"), a, 0)
    assert x.to("CPU:2").device == "CPU:2"
    assert spread_of(x.node, x.device).axis == axis


def test_each_device_holds_its_piece_only():
    x = Tensor(numbers(7, 4)).shard(THREE, 0).realize()
    assert x.node.op is Op.MULTI
    parts = []
    for part in x.node.src:
        while part.op is Op.RESHAPE:
            part = part.src[0]
        parts.append(memory_of(part.arg))
    assert [m.size for m in parts] == [12, 8, 8]
    assert [m.device for m in parts] == list(THREE)


PROGRAMS = {
    "chain": lambda x, y: (x * 2 + y).relu() - x.exp(),
    "sum of all": lambda x, y: (x * y).sum(),
    "sum of rows": lambda x, y: x.sum(1),
    "sum of columns": lambda x, y: (x - y).sum(0),
    "largest": lambda x, y: x.max(0) + y.max(1).sum(),
    "softmax": lambda x, y: x.softmax(-1),
    "softmax down": lambda x, y: x.softmax(0),
    "layer norm": lambda x, y: x.layernorm() * y,
    "transposed": lambda x, y: x.T @ y,
    "product": lambda x, y: x @ y.T,
    "reshaped": lambda x, y: (x.reshape(6, 2, 4) * 3).sum(1),
    "merged": lambda x, y: x.reshape(48) + y.reshape(48),
    "shifted": lambda x, y: x[1:] + y[:-1],
    "padded": lambda x, y: x.pad((1, 2, 0, 0)).sum(1) + y.pad((0, 0, 1, 0)).sum(),
    "flipped": lambda x, y: x.flip(0) * y.flip(1),
    "running sums": lambda x, y: x.cumsum(0) + y.cumsum(1),
    "sorted by place": lambda x, y: x.argmax(1).float() + y.argmax(0).float().sum(),
    "variance": lambda x, y: x.var(0) + y.std(),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (0, None), (None, 1), (0, 1)])
@pytest.mark.parametrize("devices", [TWO, THREE])
def test_programs_give_what_one_device_gives(name, axes, devices):
    a, b = numbers(12, 4), numbers(12, 4)
    expected = PROGRAMS[name](Tensor(a), Tensor(b)).numpy()
    x, y = Tensor(a).shard(devices, axes[0]), Tensor(b).shard(devices, axes[1])
    result = PROGRAMS[name](x, y)
    assert result.device == devices
    close(result, expected, 1e-4)


def copies(tensor):
    from treadle.schedule.shard import partition

    value = partition([tensor.node])[tensor.node]
    seen = {n for part in value.parts for n in part.toposort() if n.op is Op.COPY}
    return len(seen)


def test_only_what_must_move_moves():
    x = Tensor(numbers(12, 8)).shard(TWO, 0).realize()
    w = Tensor(numbers(8, 4)).shard(TWO).realize()
    assert copies((x @ w).relu()) == 0
    assert copies((x @ w).sum(0)) == 2  # small: each sends its whole part
    rows = Tensor(numbers(8, 8192)).shard(TWO, 0).realize()
    assert copies(rows.sum(0)) == 4  # large: a piece each way, then the results back


def test_collectives_are_graphs():
    parts = [numbers(6, 3) for _ in range(3)]
    nodes = [Tensor(p, device=d).node for p, d in zip(parts, THREE, strict=True)]
    total = sum(parts)
    on = lambda node, device: Tensor._of(node, device).numpy()
    for node, device in zip(all_reduce(nodes, THREE, Op.ADD), THREE, strict=True):
        np.testing.assert_allclose(on(node, device), total, rtol=1e-6)
    scattered = reduce_scatter(nodes, THREE, Op.ADD, 0)
    for node, device, (begin, end) in zip(scattered, THREE, pieces(6, 3), strict=True):
        np.testing.assert_allclose(on(node, device), total[begin:end], rtol=1e-6)
    for node, device in zip(all_gather(nodes, THREE, 1), THREE, strict=True):
        np.testing.assert_array_equal(on(node, device), np.concatenate(parts, 1))


def test_convolution_and_embedding_split_by_batch():
    image, kernel = numbers(6, 3, 8, 8), numbers(5, 3, 3, 3)
    expected = Tensor(image).conv2d(Tensor(kernel), padding=1).numpy()
    x, w = Tensor(image).shard(THREE, 0), Tensor(kernel).shard(THREE)
    y = x.conv2d(w, padding=1)
    assert copies(y.realize()) == 0
    close(y, expected, 1e-4)
    table, words = numbers(11, 4), np.arange(12).reshape(6, 2) % 11
    found = Tensor(table).shard(THREE)[Tensor(words).shard(THREE, 0)]
    close(found, table[words], 0)


def test_gradients_are_those_of_one_device():
    a, b = numbers(9, 5), numbers(5, 6)

    def gradients(x, w):
        x.requires_grad_()
        w.requires_grad_()
        ((x @ w).softmax(-1).log() * 0.1).sum().backward()
        return x.grad.numpy(), w.grad.numpy()

    expected = gradients(Tensor(a), Tensor(b))
    for axes in [(0, None), (None, 1), (1, 0), (None, None)]:
        found = gradients(Tensor(a).shard(THREE, axes[0]), Tensor(b).shard(THREE, axes[1]))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_gradient_flows_back_to_where_the_value_came_from():
    x = Tensor(numbers(6, 2), requires_grad=True)
    (x.shard(TWO, 0) * 3).sum().backward()
    assert x.grad.device == "CPU"
    close(x.grad, np.full((6, 2), 3.0))


def test_bad_requests_are_refused():
    x = Tensor(numbers(6, 2))
    with pytest.raises(ShapeError, match="no axis 2"):
        x.shard(TWO, 2)
    with pytest.raises(ShapeError, match="too short for 3 devices"):
        x.shard(THREE, 1)
    with pytest.raises(DeviceError, match="named twice"):
        x.shard(("CPU", "CPU"))
    with pytest.raises(DeviceError, match="at least one"):
        x.shard(())
    with pytest.raises(DeviceError, match="give a tuple"):
        x.shard("CPU")
    with pytest.raises(DeviceError, match=r"move one with .to"):
        x.shard(TWO, 0) + Tensor(numbers(6, 2))
    assert "CPU:1" in repr(x.shard(TWO, 0))


def test_one_tensor_over_two_runtimes():
    from treadle import Device

    try:
        Device["CL"].synchronize()
    except DeviceError as error:
        pytest.skip(str(error))
    a = numbers(10, 6)
    x = Tensor(a).shard(("CPU", "CL"), 0)
    close((x * 2).sum(0), (a * 2).sum(0), 1e-4)
    close(x.softmax(-1), Tensor(a).softmax(-1).numpy())


def test_lines_are_sorted_where_they_are_and_split_ones_are_gathered():
    x = RANDOM.permutation(8 * 150).reshape(8, 150).astype(np.float32)
    for axis in (0, 1):
        t = Tensor(x).shard(TWO, axis)
        values, places = t.sort(1)
        np.testing.assert_array_equal(values.numpy(), np.sort(x, 1))
        np.testing.assert_array_equal(places.numpy(), np.argsort(x, 1))
        assert spread_of(places.node, TWO).axis == (0 if axis == 0 else None)
    assert copies(Tensor(x).shard(TWO, 0).sort(1)[0].realize()) == 0


@pytest.mark.parametrize("size", [3, 8, 301])
@pytest.mark.parametrize("kind", ["equal", "NaN", "signs", "any"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equal_extremes_is_that_of_the_first_device(name, kind, size):
    a = numbers(size, 5).round()
    if kind == "equal":
        a[:] = -np.inf if name == "argmax" else np.inf
    if kind == "NaN":
        a[[size // 2, size - 1], 1:] = np.nan
    if kind == "signs":
        a[:] = np.where(RANDOM.random(a.shape) < 0.5, 0.0, -0.0)
    x = Tensor(a).shard(THREE, 0)
    np.testing.assert_array_equal(getattr(x, name)(0).numpy(), getattr(a, name)(0))
    np.testing.assert_array_equal(getattr(x, name)(1).numpy(), getattr(a, name)(1))
    assert getattr(x, name)().item() == getattr(a, name)()


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("devices", [TWO, THREE])
@pytest.mark.parametrize("size", [6, 3000])
def test_what_is_split_names_elements(size, devices, axis):
    a, index = numbers(12), RANDOM.integers(0, 12, size)
    found = Tensor(a).shard(devices, axis).gather(0, Tensor(index).shard(devices, 0))
    np.testing.assert_array_equal(found.numpy(), a[index])
