"""torch.compile(dynamic=True): one capture for a range of sizes, right at each of them."""

from __future__ import annotations

from collections import Counter

import pytest

import treadle
from treadle import GlobalCounters
from treadle.interop import left_to_pytorch

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own compiler warns of itself

# Around the widths of tiles and vectors, odd ones, the least and the most of the first range.
SIZES = (5, 7, 12, 2, 33, 64, 3, 17, 48, 63)


@pytest.fixture
def dynamic(monkeypatch):
    """`torch.compile` with symbolic sizes, by the backend itself, over ranges up to 64."""
    from treadle.interop import symbolic_sizes
    from treadle.interop.dynamo import compile_graph

    torch._dynamo.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(left_to_pytorch, "_left", Counter())
    monkeypatch.setattr(symbolic_sizes, "LEAST_CAP", 64)
    return lambda function: torch.compile(function, backend=compile_graph, dynamic=True)


class Block(nn.Module):
    """A layer of a transformer: attention to what came before, and an MLP."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x):
        batch, steps, width = x.shape
        parts = self.qkv(self.first(x)).split(width, -1)
        q, k, v = (p.view(batch, steps, self.heads, -1).transpose(1, 2) for p in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, steps, width))
        return x + self.mlp(self.second(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 16), nn.Embedding(64, 16)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(16, 11)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        return self.head(self.blocks(self.tokens(tokens) + self.places(places)))


def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Tanh())


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, 5),
    )  # fmt: skip


MODELS = {
    "mlp": (mlp, lambda n: torch.randn(n, 8)),
    "transformer": (Decoder, lambda n: torch.randint(0, 11, (2, n))),
    "cnn": (cnn, lambda n: torch.randn(n, 3, 8, 8)),
}


# PyTorch traces convolutions once more for large batches, as another graph: it runs as traced,
# is compiled, and then serves its range.
FIRST = {"mlp": (0, 1), "transformer": (0, 1), "cnn": (0, 1, 4, 5)}


def scheduled(run):
    """The result, how many graphs were scheduled for it, and how many kernels ran."""
    graphs, kernels = GlobalCounters.schedule_count, GlobalCounters.kernel_count
    result = run()
    return result, GlobalCounters.schedule_count - graphs, GlobalCounters.kernel_count - kernels


@pytest.mark.parametrize("name", MODELS)
def test_one_capture_serves_a_range_of_sizes(dynamic, name):
    make, data = MODELS[name]
    model = make().eval()
    fast = dynamic(model)
    with torch.no_grad():
        for number, size in enumerate(SIZES):
            x = data(size)
            found, graphs, kernels = scheduled(lambda x=x: fast(x))
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
            if number not in FIRST[name]:  # first PyTorch, then the range is compiled
                assert graphs == 0
                assert kernels > 0
    assert not any("each size" in left.reason for left in treadle.interop.report())


@pytest.mark.parametrize("name", MODELS)
def test_training_steps_of_many_sizes_are_those_of_pytorch(dynamic, name):
    make, data = MODELS[name]
    model, twin = make(), make()
    twin.load_state_dict(model.state_dict())
    fast = dynamic(model)

    def step(run, x):
        run.zero_grad()
        loss = (run(x) ** 2).mean()
        loss.backward()
        return loss.detach()

    for number, size in enumerate(SIZES):
        x = data(size)
        found, graphs, kernels = scheduled(lambda x=x: step(fast, x))
        torch.testing.assert_close(found, step(twin, x), rtol=1e-4, atol=1e-5)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-5)
        if number not in FIRST[name]:
            assert graphs == 0
            assert kernels > 0


def test_a_size_beyond_the_range_begins_a_new_one_when_it_comes_again(dynamic):
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))  # no other test's graph
    fast = dynamic(model)
    expected = {5: (0, 0), 9: (1, 1), 65: (0, 0), 64: (0, 1), 100: (1, 1), 128: (0, 1), 6: (0, 1)}
    with torch.no_grad():
        for size, wanted in expected.items():
            x = torch.randn(size, 8)
            found, graphs, kernels = scheduled(lambda x=x: fast(x))
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
            assert (graphs, min(kernels, 1)) == wanted, size


def test_the_first_ranges_are_short(dynamic, monkeypatch):
    from treadle.interop import symbolic_sizes

    monkeypatch.undo()
    assert symbolic_sizes.LEAST_CAP == 8
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 3))  # no other test's graph
    fast = dynamic(model)
    expected = {5: (0, 0), 3: (1, 1), 8: (0, 1), 9: (0, 0), 16: (1, 1), 12: (0, 1), 2: (0, 1)}
    with torch.no_grad():
        for size, wanted in expected.items():
            x = torch.randn(size, 9)
            found, graphs, kernels = scheduled(lambda x=x: fast(x))
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
            assert (graphs, min(kernels, 1)) == wanted, size


def test_sizes_that_are_made_of_others(dynamic):
    def function(x, y):
        rows = torch.cat([x, y, x])
        table = rows.view(-1, 2, rows.shape[1] // 2).flatten(0, 1)
        return table.sum(1), (x.T @ x) / x.shape[0], rows[1:] - rows[:-1], rows.new_ones(x.shape[0])

    fast = dynamic(function)
    for number, size in enumerate(SIZES):
        x, y = torch.randn(size, 6), torch.randn(max(2, size - 3), 6)
        found, graphs, _ = scheduled(lambda x=x, y=y: fast(x, y))
        for mine, theirs in zip(found, function(x, y), strict=True):
            assert mine.stride() == theirs.stride()
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        assert number < 2 or graphs == 0


def test_two_sizes_vary_on_their_own(dynamic):
    fast = dynamic(lambda x: (x.softmax(-1), x.transpose(1, 2) @ x, x.amax(1), x.mean((0, 1))))
    sizes = ((5, 9), (9, 5), (2, 33), (33, 2), (64, 3), (7, 64))
    for number, (batch, steps) in enumerate(sizes):
        x = torch.randn(batch, steps, 4)
        found, graphs, _ = scheduled(lambda x=x: fast(x))
        wanted = x.softmax(-1), x.transpose(1, 2) @ x, x.amax(1), x.mean((0, 1))
        for mine, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        assert number < 2 or graphs == 0


def test_sums_over_two_sizes_beside_results_of_one(dynamic):
    function = lambda x: (x.mean((0, 1)), x.sum((0, 1)), x.amax(1))
    fast = dynamic(function)
    for batch, steps in ((5, 9), (9, 5), (2, 33), (64, 3), (7, 64), (7, 63), (64, 64)):
        x = torch.randn(batch, steps, 4)
        for mine, theirs in zip(fast(x), function(x), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_inputs_are_read_as_they_lie_in_memory(dynamic):
    fast = dynamic(lambda x, y: (x * 2 + y, x.sum(0)))
    for number, size in enumerate(SIZES):
        ways = torch.randn(3, size).T, torch.randn(size, 3)
        gaps = torch.randn(size, 6)[:, ::2]
        for x in (*ways, gaps):
            y = torch.randn(3).expand(size, 3)
            (first, second), graphs, _ = scheduled(lambda x=x, y=y: fast(x, y))
            torch.testing.assert_close(first, x * 2 + y)
            torch.testing.assert_close(second, x.sum(0), rtol=1e-4, atol=1e-5)
            assert number < 2 or graphs == 0


def test_results_of_different_sizes_are_nobody_elses_memory(dynamic):
    fast = dynamic(lambda x: (x + 1, x.T))
    kept = []
    for size in (3, 4, 5, 4, 3, 6, 4):
        kept.append(fast(torch.arange(2.0 * size).view(size, 2)))
    for found, _ in kept:
        assert found.flatten().tolist() == [n + 1 for n in range(found.numel())]


def test_what_needs_sizes_as_numbers_is_captured_for_each_and_reported(dynamic):
    fast = dynamic(lambda x: x.sort(0).values * 2 + 1)
    for size in (3, 4, 5, 3, 3, 4, 3):
        x = torch.randn(size, 2)
        torch.testing.assert_close(fast(x), x.sort(0).values * 2 + 1)
    _, graphs, kernels = scheduled(lambda: fast(torch.randn(3, 2)))
    assert (graphs, kernels > 0) == (0, True)
    (left,) = treadle.interop.report()
    assert left.operator == "aten.sort.default"
    assert "captured for each size" in left.reason
    assert "needs sizes that are known" in left.reason


def test_sizes_that_pytorch_found_to_vary_are_served_by_one_capture(dynamic):
    from treadle.interop.dynamo import compile_graph

    model = mlp()
    fast = torch.compile(model, backend=compile_graph)  # by default the second size makes it vary
    with torch.no_grad():
        for number, size in enumerate(SIZES):
            x = torch.randn(size, 8)
            found, graphs, _ = scheduled(lambda x=x: fast(x))
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
            assert number < 3 or graphs == 0
