"""What the rest of the surface gives, as pyright's strict rules see it: see test_programs.py.

Decompositions, sets and pools that give one tensor or several, transforms of functions, Fourier
transforms, the Array API, recurrent layers, groups of parameters, files and errors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

from treadle import (
    Tensor,
    array_api,
    dtypes,
    fft,
    grad,
    hessian,
    jacrev,
    jvp,
    nn,
    scan,
    value_and_grad,
    vjp,
    vmap,
    windows,
)
from treadle.errors import ShapeError, TreadleError


def test_what_gives_one_tensor_or_several() -> None:
    x = Tensor([[2.0, 1.0], [1.0, 3.0]])
    assert_type(x.unique(), Tensor)
    assert_type(x.unique(return_inverse=True), tuple[Tensor, Tensor])
    assert_type(x.unique(return_counts=True), tuple[Tensor, Tensor])
    values, places, counts = x.unique(return_inverse=True, return_counts=True)
    assert_type((values, places, counts), tuple[Tensor, Tensor, Tensor])
    assert_type(x.unique_all().counts, Tensor)
    assert_type(x.unique_consecutive(), Tensor)
    assert_type(x.unique_consecutive(return_counts=True), tuple[Tensor, Tensor])
    assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
    assert_type(x.median(0), tuple[Tensor, Tensor])
    assert_type(x.nanmedian(), Tensor)
    assert_type(x.nanmedian(0), tuple[Tensor, Tensor])
    images = Tensor.ones(1, 1, 4, 4)
    assert_type(images.max_pool2d(return_indices=True), tuple[Tensor, Tensor])
    assert_type(images.adaptive_max_pool2d(2), Tensor)
    assert_type(images.adaptive_max_pool2d(2, return_indices=True), tuple[Tensor, Tensor])
    assert counts.tolist() == [2, 1, 1]


def test_decompositions() -> None:
    x = Tensor([[2.0, 1.0], [1.0, 3.0]])
    assert_type(x.svd(), tuple[Tensor, Tensor, Tensor])
    assert_type(x.eigh(), tuple[Tensor, Tensor])
    assert_type(x.solve(Tensor([1.0, 2.0])), Tensor)
    found = x.lstsq(Tensor([[1.0], [2.0]]))
    assert_type(found.solution, Tensor)
    assert_type(array_api.linalg.eigh(x).eigenvalues, Tensor)
    assert_type(array_api.unique_all(x).inverse_indices, Tensor)
    assert_type(array_api.add(x, 1), Tensor)
    assert_type(fft.irfft(fft.rfft(x)), Tensor)
    assert_type(windows.hann(4, sym=False), Tensor)
    assert found.solution.shape == (2, 1)


def cubes(x: Tensor, scale: float = 1.0) -> Tensor:
    return (x**3 * scale).sum()


def with_aux(x: Tensor) -> tuple[Tensor, str]:
    return cubes(x), "anything"


def test_transforms_keep_the_parameters_of_a_function() -> None:
    x = Tensor([1.0, 2.0])
    assert_type(grad(cubes)(x, scale=2.0), Any)
    assert_type(value_and_grad(cubes)(x), tuple[Tensor, Any])
    assert_type(jacrev(cubes)(x), Any)
    assert_type(hessian(cubes)(x, 2.0), Any)
    assert_type(vmap(cubes)(Tensor([[1.0, 2.0], [3.0, 4.0]])), Tensor)
    assert_type(vjp(cubes, x), tuple[Tensor, Callable[[Any], tuple[Any, ...]]])
    assert_type(jvp(cubes, (x,), (x,)), tuple[Tensor, Tensor])
    assert_type(jvp(with_aux, (x,), (x,), has_aux=True), tuple[Tensor, Tensor, str])

    def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        return state + row, state

    assert_type(scan(step, Tensor(0.0), x), tuple[Any, Any])
    slope = grad(cubes)(x)
    assert isinstance(slope, Tensor)
    assert slope.tolist() == [3.0, 12.0]


def test_layers_and_optimisers() -> None:
    x = Tensor.rand(3, 1, 4)
    outputs, (h, c) = nn.LSTM(4, 2)(x)
    assert_type((outputs, h, c), tuple[Tensor, Tensor, Tensor])
    assert_type(nn.MultiheadAttention(4, 2)(x), tuple[Tensor, Tensor | None])
    first, second = nn.Linear(4, 2), nn.Linear(2, 1)
    assert first.bias is not None
    opt = nn.optim.AdamW([{"params": [first.weight], "lr": 1e-2}, {"params": [second.weight]}])
    both = nn.optim.OptimizerGroup(opt, nn.optim.SGD([first.bias], momentum=0.9))
    assert_type(both.optimizers, tuple[nn.optim.Optimizer, ...])
    assert_type(opt.param_groups, list[nn.optim.ParameterGroup])
    assert_type(opt.schedule_step, Callable[[], list[Tensor]])
    assert outputs.shape == (3, 1, 2)


def test_arrays_and_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    x = nn.state.npy_load(tmp_path / "x.npy")
    assert_type(x, Tensor)
    assert_type(Tensor.from_dlpack(np.ones(2)), Tensor)
    assert_type(x.data(), memoryview)
    assert_type(dtypes.from_py(1.0).itemsize, int)
    assert np.asarray(x).shape == (2, 3)


def test_errors_are_pythons_own_as_well() -> None:
    with pytest.raises(ShapeError) as caught:
        Tensor([1.0, 2.0]).add(Tensor([1.0, 2.0, 3.0]))
    assert_type(caught.value, ShapeError)
    assert isinstance(caught.value, TreadleError)
    assert isinstance(caught.value, ValueError)
