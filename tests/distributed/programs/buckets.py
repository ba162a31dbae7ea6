"""Gradients go in the same buckets in all processes, whatever one of them has computed before.

`treadle run -n 2 buckets.py`: of a group, and over a mesh. What one process alone has in memory are
all gradients or some of them, those of memory that was assigned to, and those behind host calls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from treadle import Tensor, distributed
from treadle.engine import kernel_boundaries, run, steps
from treadle.engine.realized import resolve
from treadle.ir.node import Node, toposort
from treadle.ir.op import Op

world = distributed.init()
rank, size = world.rank, world.size
mesh = world.mesh()
WIDTHS = [8, 16, 300, 24, 40_000, 4, 4]  # elements; one is larger than what goes in a bucket

calls: list[tuple[str, int]] = []


def note(step: steps.Step) -> None:
    if isinstance(step, steps.Collective):
        calls.append((step.arg.kind, len(step.made)))


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def parameters() -> list[Tensor]:
    return [Tensor(numbers(n, width)).requires_grad_() for n, width in enumerate(WIDTHS)]


def of_a_group(look: Callable[[list[Tensor]], object]) -> list[np.ndarray]:
    """Means of gradients that `look` is given in one process before they are exchanged."""
    params = parameters()
    rows = [Tensor(numbers(10 + n, 3 * size, width)[rank::size]) for n, width in enumerate(WIDTHS)]
    loss = Tensor.stack(*((p * x).sum() for p, x in zip(params, rows, strict=True))).sum()
    loss.backward()
    gradients = [p.grad for p in params if p.grad is not None]
    if rank == size - 1:
        look(gradients)
    calls.clear()
    world.average_gradients(params, bucket=1)
    return [p.grad.numpy() for p in params if p.grad is not None]


def over_a_mesh(look: Callable[[list[Tensor]], object]) -> list[np.ndarray]:
    """Gradients over a mesh; `look` is given what this process adds up of its rows, by itself.

    A program can write that sum as well, and it is one node then. Here it is taken from the graph.
    """
    params = parameters()
    for p in params:
        p.shard_(mesh)
    wholes = [Tensor(numbers(10 + n, 3 * size, width)) for n, width in enumerate(WIDTHS)]
    rows = [whole.shard(mesh, 0) for whole in wholes]
    loss = Tensor.stack(*((p * x).sum() for p, x in zip(params, rows, strict=True))).sum()

    def computed_before(parts: Sequence[Node], realize: kernel_boundaries.Realize) -> None:
        sums = [n for n in toposort(parts) if n.op is Op.COLLECTIVE and resolve(n) is n]
        if rank == size - 1 and len(sums) == len(WIDTHS):
            look([Tensor._of(call.src[0], mesh[0]) for call in sums])
            looked.append(len(sums))
        kernel_boundaries.compute_cuts(parts, realize)

    looked: list[int] = []
    calls.clear()
    run.compute_cuts = computed_before
    try:
        loss.backward()
    finally:
        run.compute_cuts = kernel_boundaries.compute_cuts
    assert looked or rank < size - 1
    return [p.grad.numpy() / size for p in params if p.grad is not None]


def of_other_memory(
    look: Callable[[list[Tensor]], object], given: Callable[[np.ndarray], Tensor]
) -> list[np.ndarray]:
    """Means of gradients that are `given`."""
    params = parameters()
    for n, p in enumerate(params):
        p.grad = given(numbers(10 + n, 3 * size, WIDTHS[n])[rank::size].sum(0))
    if rank == size - 1:
        look([p.grad for p in params if p.grad is not None])
    calls.clear()
    world.average_gradients(params, bucket=1)
    return [p.grad.numpy() for p in params if p.grad is not None]


def assigned(array: np.ndarray) -> Tensor:
    """In memory that was assigned to."""
    gradient = Tensor(array).realize()
    return gradient.assign(gradient * 1)


def behind_a_host_call(array: np.ndarray) -> Tensor:
    """Those of some parameters, multiplied by a singular value that NumPy computes."""
    if len(array) % 3 == 0:
        return Tensor(array) * 1
    return Tensor(array) * (Tensor.eye(2) + Tensor(array)[:2] * 0).svdvals()[0]


LOOKS: dict[str, Callable[[list[Tensor]], object]] = {
    "at nothing": lambda tensors: None,
    "at all": lambda tensors: Tensor.realize(*tensors),
    "at the first": lambda tensors: tensors[0].realize(),
    "at the last": lambda tensors: tensors[-1].realize(),
    "at the largest": lambda tensors: tensors[4].realize(),
    "at every second": lambda tensors: Tensor.realize(*tensors[1::2]),
}

steps.listeners.append(note)
expected = [numbers(10 + n, 3 * size, width).sum(0) / size for n, width in enumerate(WIDTHS)]
checks = 0
WAYS = [
    of_a_group,
    over_a_mesh,
    functools.partial(of_other_memory, given=assigned),
    functools.partial(of_other_memory, given=behind_a_host_call),
]
for way in WAYS:
    before = None
    for name, look in LOOKS.items():
        found, made = way(look), [*calls]
        for gradient, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(gradient, right, 1e-5, 1e-5, err_msg=name)
        # The small ones of each side of the large one go together.
        assert [count for _, count in made] in ([4, 1, 2], [2, 1, 4]), (way, name, made)
        assert before in (None, made), (name, before, made)
        before = made
        checks += 1
print(f"{checks} right")
