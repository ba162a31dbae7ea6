"""Operations on tensors over a mesh beside the same on one device: `treadle run -n 3 mesh.py`.

Each is computed of two tensors that are split along an axis, or copies, with its gradients. The
axes are arguments, such as "0 none"; without them all are tried.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import numpy as np

from treadle import Tensor, distributed

world = distributed.init()
rank, size = world.rank, world.size
mesh = world.mesh()
N, M = 2 * max(size, 2), 3 * size + 1  # one has equal pieces, the other has none

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "scalars": lambda x, y: (x * 2 + 1) / (y * y + 3),
    "sum": lambda x, y: (x * y).sum(),
    "sum of rows": lambda x, y: x.sum(0) + y.mean(0),
    "sum of columns": lambda x, y: (x + y).sum(1),
    "matmul": lambda x, y: x @ y.T,
    "matmul of the first axes": lambda x, y: x.T @ y,
    "softmax": lambda x, y: x.softmax(0) + y.softmax(1),
    "largest": lambda x, y: x.max(1) * y.max(),
    "reshape": lambda x, y: x.reshape(-1) * y.reshape(1, -1).squeeze(0),
    "permute": lambda x, y: x.T * y.T,
    "slice": lambda x, y: x[1:] * y[:-1],
    "row": lambda x, y: x[1] * y[-1],
    "pad": lambda x, y: x.pad(((1, 2), (2, 0))) + y.pad(((1, 2), (2, 0))),
    "flip": lambda x, y: x.flip(0) + y.flip(1),
    "cat": lambda x, y: x.cat(y, dim=1).tanh(),
    "cumsum": lambda x, y: x.cumsum(0) + y.cumsum(1),
    "sort": lambda x, y: x.sort(dim=0)[0] + y,
    "gather": lambda x, y: x[[2, 0, 1]] * y[:3],
    "where": lambda x, y: (x > y).where(x, y * y),
    "halves": lambda x, y: (x.half() * y.half()).sum(0).float(),
    "layernorm": lambda x, y: (x + y).layernorm(),
    "norm over all": lambda x, y: (x - x.mean()) / (y.std() + 1),
}  # fmt: skip


def numbers(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((N, M)).astype(np.float32)


def weights(like: Tensor) -> Tensor:
    """What the gradient begins with: no two elements count alike."""
    return Tensor.arange(like.numel()).reshape(like.shape).float().sin()


def alone(compute: Callable[[Tensor, Tensor], Tensor]) -> list[np.ndarray]:
    x, y = (Tensor(numbers(seed)).requires_grad_() for seed in (1, 2))
    found = compute(x, y)
    (found.float() * weights(found)).sum().backward()
    return [found.numpy(), *(t.grad.numpy() if t.grad is not None else np.zeros(t.shape)
                             for t in (x, y))]  # fmt: skip


def together(
    compute: Callable[[Tensor, Tensor], Tensor], axes: tuple[int | None, int | None]
) -> list[np.ndarray]:
    leaves = []
    for seed, axis in zip((1, 2), axes, strict=True):
        leaves.append(Tensor(numbers(seed)).shard(mesh, axis).requires_grad_())
    found = compute(*leaves)
    assert found.device == mesh
    (found.float() * weights(found).shard(mesh)).sum().backward()
    return [found.numpy(), *(t.grad.numpy() if t.grad is not None else np.zeros(t.shape)
                             for t in leaves)]  # fmt: skip


def check(name: str, axes: tuple[int | None, int | None]) -> None:
    rows = zip(together(FUNCTIONS[name], axes), alone(FUNCTIONS[name]), strict=True)
    tolerance = 2e-3 if name == "halves" else 2e-5
    for number, (found, expected) in enumerate(rows):
        what = f"{name} of {axes}, result {number}"
        np.testing.assert_allclose(found, expected, tolerance, tolerance, err_msg=what)


AXES = {"none": None, "0": 0, "1": 1}
given = [AXES[word] for word in sys.argv[1:]]
pairs = [(given[0], given[1])] if given else itertools.product(AXES.values(), repeat=2)
checks = list(itertools.product(FUNCTIONS, pairs))
for name, axes in checks:
    check(name, axes)
print(f"{len(checks)} right")
