"""torch.compile(backend="treadle"): models, their gradients and training steps, against PyTorch."""

from __future__ import annotations

from collections import Counter
from importlib.metadata import entry_points

import pytest

import treadle
from treadle import GlobalCounters
from treadle.interop import left_to_pytorch

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own compiler warns of itself


@pytest.fixture
def compiled():
    """`torch.compile` with the backend itself: it works where treadle is not installed, too."""
    from treadle.interop.dynamo import compile_graph

    torch._dynamo.reset()
    torch.manual_seed(0)
    return lambda model: torch.compile(model, backend=compile_graph, dynamic=False)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + self.second(F.gelu(self.first(x))))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        parts = self.qkv(self.norm(x)).split(8, -1)
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(found.transpose(1, 2).flatten(2))


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (5, 8)),
    "wide": (
        lambda: nn.Sequential(
            nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 4), nn.GELU("tanh"), nn.Softmax(-1)
        ),
        (3, 5, 8),
    ),
    "residual": (Residual, (5, 8)),
    "attention": (Attention, (2, 6, 8)),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, groups=2), nn.Tanh(), nn.Flatten(), nn.Linear(8 * 9, 5),
        ),
        (2, 3, 16, 16),
    ),
    "normalised": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, (3, 5), padding=(1, 2), bias=False), nn.BatchNorm2d(8), nn.GELU(),
            nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LogSoftmax(1),
        ),
        (2, 3, 8, 8),
    ),
    "transposed": (
        lambda: nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2, output_padding=1), nn.Sigmoid()),
        (2, 3, 5, 5),
    ),
}  # fmt: skip


def kernels_of(run):
    before = GlobalCounters.kernel_count
    result = run()
    return result, GlobalCounters.kernel_count - before


@pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS)
def test_models_compute_what_pytorch_computes(compiled, make, shape):
    model = make().eval()
    fast = compiled(model)
    with torch.no_grad():
        for _ in range(4):  # plain, captured, replayed twice
            x = torch.randn(shape)
            found, kernels = kernels_of(lambda x=x: fast(x))
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
            assert kernels > 0


@pytest.mark.parametrize(("make", "shape"), MODELS.values(), ids=MODELS)
def test_gradients_are_those_of_pytorch(compiled, make, shape):
    model = make()
    twin = make()
    twin.load_state_dict(model.state_dict())
    fast = compiled(model)
    for _ in range(3):
        x = torch.randn(shape)
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        for run, given in ((fast, mine), (twin, theirs)):
            run.zero_grad()
            (run(given) ** 2).sum().backward()
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)
    for p, q in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


def test_training_goes_as_in_pytorch(compiled):
    model = MODELS["mlp"][0]()
    twin = MODELS["mlp"][0]()
    twin.load_state_dict(model.state_dict())
    x, y = torch.randn(32, 8), torch.randint(0, 4, (32,))
    losses = []
    for net, run in ((model, compiled(model)), (twin, twin)):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[9] < losses[0]
    torch.testing.assert_close(torch.tensor(losses[:10]), torch.tensor(losses[10:]))


def test_what_the_table_lacks_runs_in_pytorch(compiled):
    def function(x):
        y = torch.relu(x @ x.T) + 1
        values, places = torch.sort(y, dim=0)
        return values * 2, places, torch.linalg.det(y)

    fast = compiled(function)
    x = torch.randn(4, 4)
    for _ in range(3):
        found, kernels = kernels_of(lambda: fast(x))
        assert kernels > 0
        for mine, theirs in zip(found, function(x), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_results_are_nobody_elses_memory(compiled):
    fast = compiled(lambda x: (x.reshape(-1), x + 1, x + 1, x.T))
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(3):
        first = fast(x)
        first[1].zero_()
        assert first[2].tolist() == (x + 1).tolist()
        second = fast(x)
        assert second[1].tolist() == (x + 1).tolist()
        assert first[1].sum() == 0
        assert second[3].stride() == x.T.stride()


def test_integers_and_conditions_keep_pytorchs_dtypes(compiled):
    def function(x, n):
        small = n.to(torch.int32) * 2**30
        return (
            n.sum(), n + 1, x > 0, torch.where(n > 2, n, 0), n.float().mean(), n / 2, x.sum(1),
            small.sum(), (n > 2).sum(), n > 2.5, 2**n, n**2, x**3, 2.0**x, ~n, ~(x > 0), n & 3,
            x.double() * x, n * x.sum(), torch.minimum(n, n.flip(0)), x.sign(), x.round(), 1 - n,
            x.clamp(min=0), x.amax(), x.amin(1, keepdim=True), x.var(), x.var(1, correction=0),
            torch.logical_and(x, n[:2]), x.to(torch.bfloat16) + 1, torch.isnan(x / 0 * 0),
        )  # fmt: skip

    fast = compiled(function)
    x, n = torch.randn(3, 2), torch.arange(6)
    for _ in range(3):
        for mine, theirs in zip(fast(x, n), function(x, n), strict=True):
            assert mine.dtype == theirs.dtype
            torch.testing.assert_close(mine, theirs)


def test_the_backend_is_an_entry_point():
    found = [e for e in entry_points(group="torch_dynamo_backends") if e.name == "treadle"]
    if not found:
        pytest.skip("treadle is not installed here, it runs from its source tree")
    assert found[0].value == "treadle.interop.dynamo:compile_graph"


def test_the_report_says_what_pytorch_computed_and_why(compiled, monkeypatch):
    monkeypatch.setattr(left_to_pytorch, "_left", Counter())
    fast = compiled(lambda x: torch.sin(x) + torch.fft.fft(x).real + torch.randn_like(x))
    assert left_to_pytorch.report() == []
    fast(torch.ones(4))
    found = treadle.interop.report()
    assert {(left.operator, left.reason) for left in found} >= {
        ("aten._fft_r2c.default", "complex"),
        ("aten.randn_like.default", "not in the table of operators"),
    }
    assert all(left.nodes > 0 for left in found)
    assert not any("sin" in left.operator for left in found)


def test_the_report_is_empty_where_nothing_was_left(compiled, monkeypatch):
    monkeypatch.setattr(left_to_pytorch, "_left", Counter())
    compiled(lambda x: (x * 2).relu().sum())(torch.ones(4))
    assert treadle.interop.report() == []
