"""Programs as users write them: pyright finds nothing wrong with them by its strict rules.

The types are what `pyright` checks (pyproject.toml lists this folder as strict); run by pytest, the
same lines show that what the types promise is there.
"""

from pathlib import Path
from typing import assert_type

import numpy as np

from treadle import Context, Device, Tensor, TinyJit, Variable, dtypes, from_dlpack, nn
from treadle.dtype import DType


def test_creation() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtypes.float32, requires_grad=False)
    assert_type(x, Tensor)
    assert_type(Tensor.zeros(2, 3, dtype=dtypes.int32), Tensor)
    assert_type(Tensor.ones((2, 3), device="CPU"), Tensor)
    assert_type(Tensor.arange(5).reshape(5, 1).expand(5, 2), Tensor)
    assert_type(Tensor.rand(2, 3), Tensor)
    assert_type(x.zeros_like(), Tensor)
    assert_type(x.dtype, DType)
    assert_type(x.ndim, int)
    assert_type(x.numpy(), np.ndarray)
    assert_type(from_dlpack(np.ones(2, np.float32)), Tensor)
    assert x.shape == (2, 2)


def test_operators_and_methods() -> None:
    x, y = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1.0, 2.0])
    assert_type(x + y, Tensor)
    assert_type(1 - x, Tensor)
    assert_type(x * 2.5, Tensor)
    assert_type(-x / y, Tensor)
    assert_type(x**2, Tensor)
    assert_type(x @ x.T, Tensor)
    assert_type((x > 1) & ~(x == 2), Tensor)
    assert_type((x > 1).where(x, 0.0), Tensor)
    assert_type(x + np.ones(2, np.float32), Tensor)
    assert_type(x.relu().sum(axis=1).softmax(), Tensor)
    assert_type(Tensor.cat(x, x, dim=1), Tensor)
    assert_type(x.split(1), tuple[Tensor, ...])
    assert_type(x.sort(), tuple[Tensor, Tensor])
    assert_type(x.median(), Tensor)
    assert_type(x.median(0), tuple[Tensor, Tensor])
    assert_type(Tensor.ones(1, 1, 4, 4).max_pool2d(), Tensor)
    assert_type(x.nonzero(), Tensor)
    assert_type(Tensor.einsum("ij->j", x), Tensor)
    x += 1
    assert_type(x, Tensor)
    assert float(x.sum().item()) == 14.0


def test_subscripts() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert_type(x[0], Tensor)
    assert_type(x[:, None, ::2], Tensor)
    assert_type(x[Tensor([1, 0])], Tensor)
    x[0, 1] = 5.0
    for row in x:
        assert_type(row, Tensor)
    size = Variable("n", 1, 2).bind(1)
    assert_type(x[:size], Tensor)
    assert len(x) == 2


class Net:
    def __init__(self, width: int) -> None:
        self.conv = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.BatchNorm(width)
        self.out = nn.Linear(width * 16, 3)

    def __call__(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.conv(x)).relu().flatten(1))


def test_training() -> None:
    net = Net(2)
    opt = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-3)
    schedule = nn.optim.CosineAnnealingLR(opt, T_max=10)
    images, labels = Tensor.rand(2, 1, 4, 4), Tensor([0, 2])

    @TinyJit
    def step(x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
        opt.zero_grad()
        loss = (net(x).sparse_categorical_crossentropy(y) * scale).backward()
        return loss.realize(*opt.schedule_step())

    with Tensor.train(), Context(DEBUG=0):
        losses = [step(images, labels) for _ in range(3)]
    schedule.step()
    assert_type(losses, list[Tensor])
    assert_type(step(images, labels), Tensor)
    assert_type(opt.lr, Tensor)
    opt.lr = 0.1
    assert losses[0].shape == ()


def test_methods_can_be_captured() -> None:
    class Model:
        def __init__(self) -> None:
            self.layers = [nn.Linear(2, 2), Tensor.relu]

        @TinyJit
        def __call__(self, x: Tensor) -> Tensor:
            return x.sequential(self.layers).realize()

        @TinyJit
        def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return (x + 1).realize(), (x + 2).realize()

    model = Model()
    assert_type(model.both(Tensor([1.0])), tuple[Tensor, Tensor])
    assert model(Tensor([[1.0, 2.0]])).shape == (1, 2)


def test_gradients() -> None:
    w = Tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    (slope,) = loss.gradient(w)
    assert_type(slope, Tensor)
    assert_type(loss.backward(), Tensor)
    assert_type(w.grad, Tensor | None)

    @Tensor.no_grad()
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    assert_type(doubled(w), Tensor)
    assert w.grad is not None
    assert w.grad.tolist() == slope.tolist()


def test_files(tmp_path: Path) -> None:
    net = [nn.Linear(2, 2), Tensor.relu, nn.LayerNorm(2)]
    state = nn.state.get_state_dict(net)
    assert_type(state, dict[str, Tensor])
    nn.state.safe_save(state, tmp_path / "net.safetensors", metadata={"epoch": "1"})
    loaded = nn.state.safe_load(tmp_path / "net.safetensors")
    assert_type(loaded, dict[str, Tensor])
    assert_type(nn.state.load_state_dict(net, loaded), list[Tensor])
    assert_type(Device.DEFAULT, str)
    assert list(loaded) == list(state)
