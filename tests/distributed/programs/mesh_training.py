"""Ways to train over a mesh, beside one process: `treadle run -n 4 mesh_training.py WAY`.

    data parallel       rows are split, parameters are copies
    tensor parallel     parameters are split, so that a pair of layers adds up once
    fully sharded       parameters, gradients and optimiser states are split, and gathered for use
    sequence parallel   positions are split; attention gathers keys and values

With REPRODUCIBLE=1 the parameters are bit by bit those of one process that shards the same over as
many devices of its own, captured or not. `mesh_training.py "data parallel" 192` has rows of 192
numbers, so that products are computed in tiles and sums in parts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from treadle import Tensor, TinyJit, distributed, nn
from treadle.config import settings

world = distributed.init()
rank, size = world.rank, world.size
mesh = world.mesh()
devices = tuple(f"CPU:{i}" if i else "CPU" for i in range(size))
way, *real = sys.argv[1:]
WIDTH = int(real[0]) if real else 4 * size
STEPS, ROWS, LENGTH = (2, size + 1, 8 * size + 1) if real else (4, 2 * size, 3 * size)

Split = tuple[str, ...]  # a mesh, or devices of one process


class Block:
    """Attention over a sequence and two layers, as in a transformer."""

    def __init__(self) -> None:
        Tensor.manual_seed(5)
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        # Its bias would have no gradient but what rounds, of which Adam makes whole steps.
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.wide, self.narrow = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.gather: Callable[[Tensor], Tensor] = lambda x: x

    def __call__(self, x: Tensor) -> Tensor:
        n = self.norm(x)
        keys, values = self.gather(self.key(n)), self.gather(self.value(n))
        found = self.query(n).scaled_dot_product_attention(keys, values)
        x = x + found
        return x + self.narrow(self.wide(x).gelu())


def data_parallel(net: Block, over: Split) -> None:
    for parameter in nn.state.get_parameters(net):
        parameter.shard_(over)


def sequence_parallel(net: Block, over: Split) -> None:
    data_parallel(net, over)
    net.gather = lambda x: x.shard(over)


def tensor_parallel(net: Block, over: Split) -> None:
    axes = {"wide.weight": 0, "wide.bias": 0, "narrow.weight": 1}
    for name, parameter in nn.state.get_state_dict(net).items():
        parameter.shard_(over, axes.get(name))


def fully_sharded(net: Block, over: Split) -> None:
    for parameter in nn.state.get_parameters(net):
        parameter.shard_(over, 0)


WAYS: dict[str, tuple[Callable[[Block, Split], None], int | None]] = {
    "data parallel": (data_parallel, 0),
    "tensor parallel": (tensor_parallel, None),
    "fully sharded": (fully_sharded, 0),
    "sequence parallel": (sequence_parallel, 1),
}


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    shape = (ROWS, LENGTH, WIDTH)
    return [(rng.standard_normal(shape).astype(np.float32),
             rng.standard_normal(shape).astype(np.float32)) for _ in range(STEPS)]  # fmt: skip


def trained(way: str, over: Split | None, captured: bool = False) -> list[np.ndarray]:
    place, axis = WAYS[way]
    net = Block()
    if over is not None:
        place(net, over)
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.Adam(parameters, lr=0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean().backward()
        return loss.realize(*optimizer.schedule_step())

    run = TinyJit(step) if captured else step
    with Tensor.train():
        for arrays in batches():
            x, y = (Tensor(a) if over is None else Tensor(a).shard(over, axis) for a in arrays)
            loss = run(x.realize(), y.realize())
            if rank == 0:
                assert np.isfinite(loss.item())
    if over == mesh and way == "fully sharded":
        states = [s for s in nn.state.get_parameters(optimizer) if s.numel() > 1]
        assert len(states) >= 3 * len(parameters)  # with two moments of each
        gradients = [p.grad for p in parameters if p.grad is not None]
        for p in [*states, *([] if captured else gradients)]:
            assert distributed.part_of(p).shape[0] in (p.shape[0] // size, -(-p.shape[0] // size))
    return [p.numpy() for p in parameters]


expected = trained(way, devices if settings.REPRODUCIBLE else None)
eager, captured = trained(way, mesh), trained(way, mesh, captured=True)
for found, replayed, right in zip(eager, captured, expected, strict=True):
    if settings.REPRODUCIBLE:
        np.testing.assert_array_equal(found, replayed, err_msg=way)
        np.testing.assert_array_equal(found, right, err_msg=way)
    else:
        np.testing.assert_allclose(found, right, 1e-3, 1e-4, err_msg=way)
        np.testing.assert_allclose(replayed, right, 1e-3, 1e-4, err_msg=way)
print("1 right")
