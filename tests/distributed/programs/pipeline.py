"""A pipeline: each process has some layers; parts of a batch follow each other through all.

`treadle run -n 2 pipeline.py`. The parameters are those that one process has with all layers.
`pipeline.py 192` has rows of 192 numbers. With REPRODUCIBLE=1 the parameters are bit by bit those
of one process that adds up the gradients of the same parts.
"""

from __future__ import annotations

import sys

import numpy as np

from treadle import Tensor, distributed, nn
from treadle.config import settings

world = distributed.init()
rank, size = world.rank, world.size
STEPS, PARTS = 4, 4
ROWS, WIDTH = (33, int(sys.argv[1])) if sys.argv[1:] else (3, 12)


def layers() -> list[nn.Linear]:
    Tensor.manual_seed(9)
    return [nn.Linear(WIDTH, WIDTH) for _ in range(size)]


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(4)
    shape = (PARTS * ROWS, WIDTH)
    return [(rng.standard_normal(shape).astype(np.float32),
             rng.standard_normal(shape).astype(np.float32)) for _ in range(STEPS)]  # fmt: skip


def alone() -> list[np.ndarray]:
    net = layers()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)
    with Tensor.train():
        for x, y in batches():
            optimizer.zero_grad()
            parts = PARTS if settings.REPRODUCIBLE else 1
            for found, right in zip(Tensor(x).chunk(parts), Tensor(y).chunk(parts), strict=True):
                for layer in net:
                    found = layer(found).tanh()
                ((found - right).square().mean() / parts).backward()
            optimizer.step()
    return [p.numpy() for p in nn.state.get_parameters(net[rank])]


def step(stage: nn.Linear, xs: list[Tensor], ys: list[Tensor]) -> None:
    """The gradients of a batch in parts, of which each stage has several on their way."""
    flying: list[tuple[Tensor, Tensor]] = []
    for x, y in zip(xs, ys, strict=True):
        seen = x if rank == 0 else world.recv(x.shape, source=rank - 1)
        seen = seen.requires_grad_()
        made = stage(seen).tanh()
        if rank + 1 < size:
            world.send(made, to=rank + 1)
        else:
            made = (made - y).square().mean() / len(xs)
        flying.append((seen, made))
    for seen, made in flying:
        if rank + 1 < size:
            made.backward(world.recv(made.shape, source=rank + 1))
        else:
            made.backward()
        if rank > 0:
            assert seen.grad is not None
            world.send(seen.grad, to=rank - 1)


def together() -> list[np.ndarray]:
    stage = layers()[rank]
    parameters = nn.state.get_parameters(stage)
    optimizer = nn.optim.Adam(parameters, lr=0.01)
    with Tensor.train():
        for x, y in batches():
            optimizer.zero_grad()
            step(stage, [*Tensor(x).chunk(PARTS)], [*Tensor(y).chunk(PARTS)])
            optimizer.step()
    return [p.numpy() for p in parameters]


for found, right in zip(together(), alone(), strict=True):
    if settings.REPRODUCIBLE:
        np.testing.assert_array_equal(found, right)
    else:
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-5)
print("1 right")
