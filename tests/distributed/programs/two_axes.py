"""Tensor parallel in pairs of processes, data parallel over the pairs, and parts that are joined.

`treadle run -n 4 two_axes.py`. The parameters are those that one process has of the whole batch.
"""

from __future__ import annotations

import numpy as np

from treadle import Tensor, distributed, nn
from treadle.errors import DeviceError, ShapeError

world = distributed.init()
rank, size = world.rank, world.size
pair = world.split(rank // 2)  # these share each layer
others = world.split(rank % 2)  # these have the same pieces of it, and other rows
STEPS, ROWS, WIDTH = 4, 6, 16


class Net:
    def __init__(self) -> None:
        Tensor.manual_seed(11)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def __call__(self, x: Tensor) -> Tensor:
        return self.narrow(self.wide(x).relu())


def batches() -> list[np.ndarray]:
    rng = np.random.default_rng(6)
    return [rng.standard_normal((ROWS * others.size, WIDTH)).astype(np.float32)
            for _ in range(STEPS)]  # fmt: skip


def alone() -> list[np.ndarray]:
    net = Net()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)
    with Tensor.train():
        for x in batches():
            optimizer.zero_grad()
            (net(Tensor(x)) - 1).square().mean().backward()
            optimizer.step()
    return [p.numpy() for p in nn.state.get_parameters(net)]


def together() -> list[np.ndarray]:
    net, mesh = Net(), pair.mesh()
    axes = {"wide.weight": 0, "wide.bias": 0, "narrow.weight": 1}
    for name, parameter in nn.state.get_state_dict(net).items():
        parameter.shard_(mesh, axes.get(name))
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.Adam(parameters, lr=0.01)
    with Tensor.train():
        for x in batches():
            optimizer.zero_grad()
            mine = Tensor(np.split(x, others.size)[others.rank]).shard(mesh)
            (net(mine) - 1).square().mean().backward()
            others.average_gradients(parameters)
            optimizer.step()
    assert distributed.part_of(net.wide.weight).shape == (2 * WIDTH // pair.size, WIDTH)
    return [p.numpy() for p in parameters]


for found, right in zip(together(), alone(), strict=True):
    np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5)

# Parts of other sizes in each process, which are one tensor.
every = [np.arange(3 * (r + 1), dtype=np.float32).reshape(r + 1, 3) + r for r in range(size)]
x = world.join_parts(Tensor(every[rank]), axis=0)
whole = np.concatenate(every)
assert x.shape == whole.shape
np.testing.assert_array_equal((x * 2).numpy(), whole * 2)
np.testing.assert_allclose(x.mean(0).numpy(), whole.mean(0), 1e-6)
np.testing.assert_array_equal(distributed.part_of(x + 1).numpy(), every[rank] + 1)
y = x.shard(world.mesh(), 0)  # in pieces that differ by at most one
sizes = [len(piece) for piece in np.array_split(whole, size)]
assert distributed.part_of(y).shape[0] == sizes[rank]
np.testing.assert_array_equal(y.numpy(), whole)

# What is written to a tensor over a mesh goes to all parts.
z = Tensor.zeros(size + 1, 3).contiguous().shard_(world.mesh(), 0).realize()
z[1:3] = 5
z += 1
expected = np.ones((size + 1, 3), np.float32)
expected[1:3] = 6
np.testing.assert_array_equal(z.numpy(), expected)

for error, wrong in (
    (DeviceError, lambda: x + Tensor.ones(*x.shape)),
    (DeviceError, lambda: x + x.to("CPU").shard(pair.mesh(), 0)),
    (DeviceError, lambda: world.allreduce(x)),
    (DeviceError, lambda: distributed.part_of(Tensor.ones(3))),
    (ShapeError, lambda: Tensor.ones(size - 1, 2).shard(world.mesh(), 0)),
    (ShapeError, lambda: world.join_parts(Tensor.ones(3), axis=1)),
):
    try:
        wrong()
    except error:
        continue
    raise AssertionError(f"no {error.__name__}")
print("4 right")
