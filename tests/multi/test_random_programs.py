"""Random programs over several devices give what one device gives."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from treadle import Device, Tensor
from treadle.errors import DeviceError
from treadle.ir.op import Op
from treadle.schedule.shard import Spread, partition

COUNT, BLOCKS = (2000 if os.environ.get("FULL_TESTS") else 30), 6
PLACES = [
    ("CPU", "CPU:1"), ("CPU:1", "CPU"), ("CPU", "CPU:1", "CPU:2"),
    ("CPU:3", "CPU", "CPU:2", "CPU:1"), ("CPU", "CL"), ("CL", "CPU:1", "CPU"), ("WEBGPU", "CPU"),
    ("CPU", "WEBGPU", "CL"), ("CUDA", "CUDA:1"),
]  # fmt: skip


@pytest.fixture(scope="module")
def places():
    """The tuples of devices that all open here."""
    opened = {}
    for name in {name for names in PLACES for name in names}:
        try:
            opened[name] = Device[name]
        except DeviceError:
            continue
    return [names for names in PLACES if all(name in opened for name in names)]


def elementwise(rng, x):
    kind = rng.choice(["exp", "tanh", "relu", "square", "neg", "floor", "half", "where", "self"])
    if kind == "half":
        return x * 0.5 + 1
    if kind == "where":
        return (x < 0.3).where(x, x * -2)
    if kind == "self":
        return x - x.flip(rng.randrange(x.ndim))
    return getattr(x.clip(-2, 2), kind)()


def move(rng, x):
    kind = rng.choice(["permute", "flip", "pad", "shrink", "cut", "merge", "split", "expand"])
    if kind == "permute":
        order = list(range(x.ndim))
        rng.shuffle(order)
        return x.permute(*order)
    if kind == "flip":
        return x.flip(rng.randrange(x.ndim))
    if kind == "pad":
        return x.pad(tuple((rng.randrange(3), rng.randrange(3)) for _ in x.shape))
    if kind == "shrink":
        return x.shrink(tuple((b := rng.randrange(n), rng.randrange(b, n) + 1) for n in x.shape))
    if kind == "cut":  # often what one device has
        half = max(1, x.shape[0] // 2)
        return x[:half] - x[-half:] if rng.random() < 0.5 else x[half:] if half < len(x) else x
    if kind == "merge":
        return x.reshape(-1) if x.ndim > 1 else x.reshape(1, -1)
    if kind == "split":
        axis = rng.randrange(x.ndim)
        n = x.shape[axis]
        factor = next((f for f in (2, 3, 4, 5) if n % f == 0), 1)
        return x.reshape(*x.shape[:axis], factor, n // factor, *x.shape[axis + 1 :])
    axis = rng.randrange(x.ndim + 1)
    wide = x.unsqueeze(axis)
    return wide.expand(*(3 if at == axis else n for at, n in enumerate(wide.shape)))


def reduce(rng, x):
    kind = rng.choice(["sum", "max", "mean", "softmax", "cumsum", "argmax", "min", "prod"])
    axis = rng.randrange(x.ndim)
    if kind == "softmax":
        return x.softmax(axis)
    if kind == "cumsum":
        return (x * 0.1).cumsum(axis)
    if kind == "argmax":
        return (x * 8).round().argmax(axis=axis, keepdim=True).float() * 0.1
    return getattr(x.clip(-1, 1), kind)(axis=axis, keepdim=rng.random() < 0.5 or x.ndim == 1)


def join(rng, x):
    kind = rng.choice(["cat", "stack", "matmul", "row", "column"])
    if kind == "cat":
        return x.cat(x * 2, dim=rng.randrange(x.ndim))
    if kind == "stack":
        return x.stack(x + 1, dim=rng.randrange(x.ndim + 1))
    if kind == "row":
        return x + x.max(axis=-1, keepdim=True)
    if kind == "column":
        return x - x.mean(axis=0, keepdim=True)
    return x.clip(-1, 1) @ x.clip(-1, 1).transpose(-1, -2) if x.ndim > 1 else x


def index(rng, x):
    kind = rng.choice(["rows", "list", "one", "step", "gather", "scatter"])
    axis = rng.randrange(x.ndim)
    n = x.shape[axis]
    if kind == "one":
        return x[rng.randrange(len(x))].unsqueeze(0)
    if kind == "step":
        return x[:: rng.choice([2, -1])]
    if kind == "list":
        return x[[rng.randrange(len(x)) for _ in range(3)]]
    places = Tensor([rng.randrange(n) for _ in range(4)], device=x.device)
    if kind == "rows":
        return x[(slice(None),) * axis + (places,)]
    shape = tuple(4 if at == axis else 1 for at in range(x.ndim))
    wide = places.reshape(shape).expand(*(4 if at == axis else m for at, m in enumerate(x.shape)))
    if kind == "gather":
        return x.gather(axis, wide)
    return x.scatter_reduce(axis, wide, x.gather(axis, wide) * 0.5, "sum")


def spread(rng, x):
    """Other axes on the way, for a tensor over several devices."""
    if not isinstance(x.device, tuple):
        rng.random()
        return x
    axes = [None, *(at for at, n in enumerate(x.shape) if n >= len(x.device))]
    return x.shard(x.device, axes[int(rng.random() * len(axes))])


def overwrite(rng, x):
    y = x.contiguous()
    if rng.random() < 0.5:
        y.realize()
    old = y * 1
    y.assign(y * 2 + 1)
    return y + old * rng.choice([0, 1])


STEPS = [elementwise, elementwise, move, move, move, reduce, join, index, spread, overwrite]


def program(rng, place):
    """Two to six steps on random data that `place` puts somewhere, by the choices of `rng`."""
    shape = [rng.choice([4, 5, 6, 7, 8, 12]) for _ in range(rng.choice([1, 2, 2, 3]))]
    data = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(shape).astype(np.float32)
    x = place(Tensor(data))
    for _ in range(rng.randrange(2, 7)):
        x = rng.choice(STEPS)(rng, x)
        if x.numel() > 20000 or x.ndim > 5:
            break
    return x


def astray(tensor):
    """The memory that is read on another device than its own."""
    found = []
    for value in partition([tensor.node]).values():
        spread = isinstance(value, Spread)
        parts, homes = (
            (value.parts, value.arg.devices) if spread else ([value.node], [value.device])
        )
        for part, home in zip(parts, homes, strict=True):
            below = part.toposort(lambda n: n.op is not Op.COPY)
            read = [n.arg for n in below if n.op is Op.COPY]
            read += [n.arg.device for n in below if n.op is Op.BUFFER]
            found += [(part, home, other) for other in read if other != home]
    return found


@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_random_program_gives_the_same_on_several_devices(block, places):
    @seed(block)
    @settings(
        max_examples=COUNT // BLOCKS, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 1 << 30), st.sampled_from(places), st.sampled_from([None, 0, 1]))
    def check(start, devices, axis):
        def place(x):
            return x.shard(devices, axis if axis is not None and axis < x.ndim else None)

        expected = program(random.Random(start), lambda x: x).numpy()
        found = program(random.Random(start), place)
        assert found.device == devices
        assert not astray(found)
        np.testing.assert_allclose(found.numpy(), expected, rtol=3e-4, atol=3e-4)

    check()
