"""Derivatives of collectives: those of the sum of all processes' results, beside one process.

One process computes the same of the numbers of all, by formulas without a group.
"""

from __future__ import annotations

import numpy as np

from treadle import Tensor, TinyJit, distributed, func

world = distributed.init()
rank, size = world.rank, world.size
SHAPE = (2 * size, 3)


def every(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(size)]


def alone(xs: list[Tensor]) -> dict[str, list[Tensor]]:
    """What each process has of each collective, computed from what all have."""
    total = sum(xs[1:], xs[0])
    largest = xs[0]
    for x in xs[1:]:
        largest = largest.maximum(x)
    pieces = [x.chunk(size) for x in xs]
    return {
        "sum": [total] * size,
        "mean": [total / size] * size,
        "max": [largest] * size,
        "gather": [xs[0].cat(*xs[1:], dim=1)] * size,
        "scatter": list(total.chunk(size)),
        "broadcast": [xs[1]] * size,
        "all_to_all": [
            pieces[0][r].cat(*(p[r] for p in pieces[1:]), dim=1) for r in range(size)
        ],
    }  # fmt: skip


def together(x: Tensor) -> dict[str, Tensor]:
    return {
        "sum": world.allreduce(x),
        "mean": world.allreduce(x, "mean"),
        "max": world.allreduce(x, "max"),
        "gather": world.allgather(x, axis=1),
        "scatter": world.reduce_scatter(x),
        "broadcast": world.broadcast(x, 1),
        "all_to_all": world.all_to_all(x, 0, 1),
    }


def loss(x: Tensor, process: int) -> Tensor:
    """Differs by process, and is not linear."""
    return (x * x * (process + 1) + x.sin()).sum()


def close(found: Tensor, expected: Tensor, what: object) -> None:
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 2e-5, 2e-5, err_msg=str(what))


def expected_gradients(name: str) -> list[Tensor]:
    leaves = [Tensor(x).requires_grad_() for x in every(1)]
    parts = [loss(x, process) for process, x in enumerate(alone(leaves)[name])]
    sum(parts[1:], parts[0]).backward()
    return [leaf.grad if leaf.grad is not None else leaf.zeros_like() for leaf in leaves]


def check(name: str) -> None:
    mine = every(1)[rank]
    expected = expected_gradients(name)[rank]
    leaf = Tensor(mine).requires_grad_()
    loss(together(leaf)[name], rank).backward()
    close(leaf.grad, expected, (name, "backward"))

    compute = lambda x: loss(together(x)[name], rank)
    close(func.grad(compute)(Tensor(mine)), expected, (name, "func.grad"))

    step = TinyJit(lambda x: func.grad(compute)(x).realize())
    for _ in range(4):
        close(step(Tensor(mine).realize()), expected, (name, "captured"))

    # forward: each process moves its own numbers in its own direction
    ways = every(2)
    _, tangent = func.jvp(lambda x: together(x)[name], (Tensor(mine),), (Tensor(ways[rank]),))
    few = [func.jvp(
        lambda *xs: alone(list(xs))[name][rank],
        tuple(map(Tensor, every(1))), tuple(map(Tensor, ways)),
    )[1]]  # fmt: skip
    close(tangent, few[0], (name, "jvp"))

    many = Tensor(np.stack([mine, mine + 1, mine * 2]))
    batched = func.vmap(lambda x: together(x)[name])(many)
    rows = [together(many[row])[name] for row in range(3)]
    close(batched, rows[0].stack(*rows[1:]), (name, "vmap"))


names = ["sum", "mean", "max", "gather", "scatter", "broadcast", "all_to_all"]
for name in names:
    check(name)
print(f"{len(names)} right")
