"""Training on parts of a batch gives the parameters that one process has of the whole batch.

The last batch has not as many rows for each process, one process alone looks at the loss, and the
step is captured or not.
"""

from __future__ import annotations

import numpy as np

from treadle import Tensor, TinyJit, distributed, nn

world = distributed.init()
rank, size = world.rank, world.size
ROWS, STEPS = 24 * size, 6


class Net:
    def __init__(self) -> None:
        self.first, self.second = nn.Linear(20, 33), nn.Linear(33, 5)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh())


def made() -> tuple[Net, nn.optim.Optimizer]:
    Tensor.manual_seed(7)
    net = Net()
    return net, nn.optim.Adam(nn.state.get_parameters(net), lr=0.01)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    rows = [ROWS] * (STEPS - 1) + [ROWS // 2 + 1]
    return [(rng.standard_normal((n, 20)).astype(np.float32),
             rng.standard_normal((n, 5)).astype(np.float32)) for n in rows]  # fmt: skip


def alone() -> list[np.ndarray]:
    net, optimizer = made()
    for x, y in batches():
        optimizer.zero_grad()
        (net(Tensor(x)) - Tensor(y)).square().mean().backward()
        optimizer.step()
    return [p.numpy() for p in nn.state.get_parameters(net)]


def together(captured: bool) -> list[np.ndarray]:
    """Each process has every `size`-th row; its loss counts as much as it has rows."""
    net, optimizer = made()
    parameters = nn.state.get_parameters(net)

    def step(x: Tensor, y: Tensor, share: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (net(x) - y).square().mean() * share
        loss.backward()
        world.average_gradients(parameters, bucket=1000)
        total = world.allreduce(loss, "mean")
        Tensor.realize(total, *optimizer.schedule_step())
        return total

    run = TinyJit(step) if captured else step
    with Tensor.train():
        for x, y in batches():
            mine = Tensor(x[rank::size]).realize(), Tensor(y[rank::size]).realize()
            share = Tensor([len(x[rank::size]) * size / len(x)]).realize()
            whole = len(x) == ROWS
            loss = (run if whole else step)(*mine, share)
            if rank == 0:
                assert np.isfinite(loss.item())
    return [p.numpy() for p in parameters]


expected = alone()
for captured in (False, True):
    for found, right in zip(together(captured), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=2e-4, atol=2e-5)
print("2 right")
