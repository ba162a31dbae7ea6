"""Captured steps: replays as graphs give what eager runs give, whatever the arguments are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from .findings import Findings

if TYPE_CHECKING:
    import numpy as np

    from ...tensor import Tensor

__all__ = ["run"]

_Numbers: TypeAlias = "np.ndarray | list[float]"

_ROUNDS = 5


def run(findings: Findings, *devices: str) -> None:
    """Checks on some devices, CUDA and CUDA:PTX where none is named."""
    kernels = 20 if findings.emulated else 1000
    for device in devices or ("CUDA", "CUDA:PTX"):
        findings.check(f"{device}: replays take new inputs", lambda d=device: _new_inputs(d))
        findings.check(f"{device}: a training step", lambda d=device: _training(d))
        findings.check(f"{device}: {kernels} kernels", lambda d=device: _chain(d, kernels))
        findings.check(f"{device}: independent kernels", lambda d=device: _branches(d))


def _compare(found: _Numbers, expected: _Numbers | float) -> None:
    import numpy as np

    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    import numpy as np

    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def _new_inputs(device: str) -> None:
    from ... import Tensor, TinyJit

    step = TinyJit(lambda x, y: ((x @ y).softmax() + x.sum(1, keepdim=True)).realize())
    for seed in range(_ROUNDS):
        x, y = _numbers(32, 32, seed=seed), _numbers(32, 32, seed=seed + 100)
        scores = x @ y
        powers = scores - scores.max(1, keepdims=True)
        expected = (p := 2.718281828459045**powers) / p.sum(1, keepdims=True)
        found = step(Tensor(x, device=device), Tensor(y, device=device))
        _compare(found.numpy(), expected + x.sum(1, keepdims=True))


def _training(device: str) -> None:
    from ... import Context, Tensor, TinyJit, nn

    def losses(where: str) -> list[float]:
        w = Tensor(_numbers(16, 8), device=where, requires_grad=True)
        x = Tensor(_numbers(32, 16, seed=1), device=where)
        y = Tensor(_numbers(32, 8, seed=2), device=where)
        optimizer = nn.optim.Adam([w], lr=0.01)

        @TinyJit
        def step() -> Tensor:
            optimizer.zero_grad()
            loss = ((x @ w).tanh() - y).square().mean().backward()
            return loss.realize(*optimizer.schedule_step())

        with Context(TRAINING=1):
            return [step().item() for _ in range(_ROUNDS)]

    _compare(losses(device), losses("CPU"))


def _chain(device: str, kernels: int) -> None:
    from ... import Tensor, TinyJit

    def chain(x: Tensor) -> Tensor:
        for _ in range(kernels):
            x = (x + 1).contiguous()
        return x.realize()

    step = TinyJit(chain)
    for start in range(_ROUNDS):
        x = Tensor([float(start)] * 256, device=device).realize()
        _compare(step(x).numpy(), float(start + kernels))


def _branches(device: str) -> None:
    """Products that do not wait for each other, and one that waits for all."""
    from ... import Tensor, TinyJit

    matrices = [_numbers(24, 24, seed=n) for n in range(4)]

    def program(x: Tensor) -> Tensor:
        found = [(x @ w).contiguous() for w in weights]
        total = found[0]
        for other in found[1:]:
            total = total + other
        return (total @ weights[0]).realize()

    weights = [Tensor(matrix, device=device).realize() for matrix in matrices]
    step = TinyJit(program)
    for seed in range(_ROUNDS):
        x = _numbers(24, 24, seed=seed + 50)
        expected = sum(x @ matrix for matrix in matrices) @ matrices[0]
        _compare(step(Tensor(x, device=device)).numpy() / 100, expected / 100)
