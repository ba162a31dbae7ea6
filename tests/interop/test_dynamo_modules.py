"""torch.compile(backend="treadle") over what models are made of: PyTorch's values and gradients.

Each case is several modules at once; `left` are the operators that stay PyTorch's, all others run
in treadle.
"""

from __future__ import annotations

import operator
import sys

import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own compiler warns of itself

WHERE, ROWS = torch.tensor([[0, 1, -2, 0]]), torch.tensor([2, 0, -1])


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 8, padding_idx=0)
        self.group, self.batch = nn.GroupNorm(1, 5), nn.BatchNorm1d(5)
        self.rms, self.instance = nn.RMSNorm(8), nn.InstanceNorm1d(5, affine=True)

    def forward(self, index):
        x = self.rms(self.words(index))
        return self.group(x) + self.batch(x) + self.instance(x)


class Rotary(nn.Module):
    """A block as Llama has them: grouped heads, turned by their places, a gated wide part."""

    def __init__(self, width=16):
        super().__init__()
        self.q, self.kv = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.gate, self.up, self.down = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        batch, steps, width = x.shape
        turns = torch.outer(torch.arange(steps).float(), 10.0 ** -torch.arange(0, 8, 2))
        cos, sin = (torch.cat([f(turns)] * 2, -1) for f in (torch.cos, torch.sin))
        q = self.q(x).view(batch, steps, 2, 8).transpose(1, 2)
        k, v = self.kv(x).view(batch, steps, 2, 1, 8).permute(2, 0, 3, 1, 4)
        q, k = (y * cos + torch.cat([-y[..., 4:], y[..., :4]], -1) * sin for y in (q, k))
        k, v = (y.expand(batch, 2, steps, 8) for y in (k, v))
        hidden = torch.full((steps, steps), float("-inf")).triu(1)
        found = ((q @ k.mT) / 8**0.5 + hidden).softmax(-1) @ v
        x = x + found.transpose(1, 2).reshape(batch, steps, width)
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def places(x):
    """(3, 4): what is read, and written, by numbers."""
    y = x[[0, 2]].sum(0) + x[ROWS] * x.index_select(0, torch.tensor([1, 1, 0]))
    y = y + x.gather(1, torch.tensor([[0, 1], [1, 0], [3, 3]])).sum()
    y = y + torch.zeros(3, 4).scatter_add(0, WHERE.clamp(min=0), x[:1])
    z = torch.zeros(3, 4).index_put((ROWS,), x, accumulate=True)
    z = (
        z
        + torch.zeros(4, 3)
        .index_put((torch.tensor([0, 1, 3]), torch.tensor([2, 2, 0])), x[0, :3])
        .T
    )
    return y + z + F.pad(x, (1, 2, -1, 1))[:, :4] + x.repeat(2, 1)[1:4] + x.unfold(1, 4, 1).sum(1)


def order(x):
    """(3, 4): what is sorted, picked and summed along lines."""
    y = x.sort(1)[0] + x.topk(4, 1)[0] + x.cumsum(1) + x.flip(1) + x.roll(1, 0)
    y = y + x.max(1, keepdim=True)[0] + x.argmax(1, keepdim=True) + x.min(0)[0]
    return y + (x.prod(1) + x.norm(dim=1) + x.logsumexp(1) + x.gt(0).any(1)).unsqueeze(1)


def numbers(x):
    """(3, 4): elementwise functions and losses."""
    y = F.elu(x) + F.selu(x) + F.softplus(x) + F.mish(x) + F.hardswish(x) + F.softshrink(x)
    y = y + x.abs().log1p() + x.expm1() + x.atan2(x + 9) + x.fmod(2.0) + torch.hypot(x, x)
    y = y + torch.erfc(x) + torch.lerp(x, x * 2, 0.3) + x.masked_fill(x > 0, -1.0) + torch.tril(x)
    losses = F.smooth_l1_loss(x, x * 2) + F.cosine_similarity(x, x + 1).mean()
    return y + losses + F.cross_entropy(x, torch.tensor([0, 3, 1]), label_smoothing=0.1)


def pooling(x):
    """(2, 3, 6, 6): windows, and what is between pixels."""
    y = F.max_pool2d(x, 3, 2, 1) + F.adaptive_avg_pool2d(x, 3)
    y = y + F.avg_pool2d(x, 2, 2, 0, False, False) + F.max_pool2d(x, 2)
    return y + F.interpolate(y, scale_factor=2, mode="bilinear")[..., ::2, ::2]


def volumes(x):
    """(2, 3, 6, 6): windows over three axes, and those that adapt."""
    y = F.max_pool3d(x, 3, 2, 1) + F.avg_pool3d(x, 2, (1, 2, 2), (1, 0, 0))[:, ::2]
    y = y + F.adaptive_avg_pool3d(x, (2, 3, 3)) + F.adaptive_max_pool3d(x, (2, 3, 3))
    return y + F.adaptive_max_pool2d(x, 3)[:, :2]


def integers(x):
    """(3, 4): quotients, shifts and diagonals."""
    n = (x * 10).long()
    found = n // 3 + n % 3 - (n >> 1) + (n << 2) + torch.div(n, 4, rounding_mode="trunc")
    lines = x.cumprod(1) + x.logcumsumexp(0) + torch.div(x, 0.3, rounding_mode="floor")
    return x * found + lines + x.diagonal(1).sum()


def attention(x):
    """(2, 3, 6, 6): every kind of fused attention; the second row sees nothing."""
    hidden = torch.ones(6, 6, dtype=torch.bool)
    hidden[1] = False
    y = F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)
    y = y + F.scaled_dot_product_attention(x, x, x, attn_mask=hidden)
    return y + F.scaled_dot_product_attention(x, x, x, attn_mask=x.detach()[:, :1], scale=0.3)


def in_place(x):
    y = x * 2
    y += 1
    y[:, 0] = 0
    y[1].mul_(3)
    y.relu_()
    return y.clone().add_(x)


class Lambda(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def drawn(*shape):
    return lambda: torch.randn(shape)


CASES = {
    "norms": (Norms, lambda: torch.randint(0, 7, (4, 5)), {"as_strided"}),
    "rotary": (Rotary, drawn(2, 5, 16), set()),
    "places": (lambda: Lambda(places), drawn(3, 4), {"unfold", "unfold_backward"}),
    "order": (lambda: Lambda(order), drawn(3, 4), set()),
    "numbers": (lambda: Lambda(numbers), drawn(3, 4), set()),
    "pooling": (lambda: Lambda(pooling), drawn(2, 3, 6, 6), set()),
    "volumes": (lambda: Lambda(volumes), drawn(2, 3, 6, 6), set()),
    "integers": (lambda: Lambda(integers), drawn(3, 4), {"diagonal_scatter"}),
    "attention": (
        lambda: Lambda(attention),
        drawn(2, 3, 6, 6),
        {
            "_scaled_dot_product_flash_attention_for_cpu",  # of those with masks
            "_scaled_dot_product_flash_attention_for_cpu_backward",
        },
    ),
    "in place": (lambda: Lambda(in_place), drawn(3, 4), {"new_empty_strided"}),
}


@pytest.fixture
def compiled():
    """`compiled(model)`, and the names of the operators that stayed PyTorch's."""
    from torch._dynamo.backends.common import aot_autograd

    from treadle.interop import dynamo

    left = set()

    def compile_part(graph, inputs):
        known = dynamo._Known()
        for node in graph.graph.nodes:
            is_call = node.op == "call_function" and node.target is not operator.getitem
            if is_call and not known.is_node_supported({}, node):
                left.add(str(node.target).split(".")[1])
        return dynamo._compiled(graph, inputs)

    torch._dynamo.reset()
    torch.manual_seed(0)
    backend = aot_autograd(fw_compiler=compile_part, decompositions=dynamo._DECOMPOSED)
    return lambda model: torch.compile(model, backend=backend, dynamic=False), left


@pytest.mark.parametrize(("make", "draw", "allowed"), CASES.values(), ids=CASES)
def test_modules_and_their_gradients_are_those_of_pytorch(compiled, make, draw, allowed):
    compile_model, left = compiled
    model, twin = make(), make()
    twin.load_state_dict(model.state_dict())
    fast = compile_model(model)
    for _ in range(3):  # plain, captured, replayed
        x, found = draw(), []
        for run, net in ((fast, model), (twin, twin)):
            given = x.clone().requires_grad_() if x.is_floating_point() else x
            net.zero_grad()
            result = run(given)
            result = result[0] if isinstance(result, tuple) else result
            (result * torch.linspace(0, 1, result.numel()).view(result.shape)).sum().backward()
            slopes = [p.grad for p in net.parameters()]
            found.append([result, given.grad, *slopes, *net.buffers()])
        for mine, theirs in zip(*found, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=2e-3, atol=2e-4)
    assert left <= allowed


def test_inputs_that_a_function_changes_are_changed(compiled):
    def grow(x, y):
        x.add_(y)
        return x * 2

    fast = compiled[0](grow)
    for _ in range(3):
        x, y = torch.ones(3), torch.arange(3.0)
        assert fast(x, y).tolist() == [2, 4, 6]
        assert x.tolist() == [1, 2, 3]


def test_dropout_draws_anew_and_is_gone_in_evaluation(compiled):
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5))
    fast, x = compiled[0](model), torch.ones(1, 64)
    drawn = [fast(x) for _ in range(4)]
    assert not torch.equal(drawn[2], drawn[3])
    assert 5 < (drawn[3] == 0).sum() < 59
    model.eval()
    torch.testing.assert_close(fast(x), model[0](x))


def test_autocast_computes_in_bfloat16(compiled):
    model = nn.Linear(8, 8)
    fast, x = compiled[0](model), torch.randn(4, 8)
    for _ in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            mine, theirs = fast(x), model(x)
        assert mine.dtype is theirs.dtype is torch.bfloat16
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)


def test_a_graph_that_breaks_goes_on_after_the_break(compiled):
    def function(x):
        y = x.sin()
        return y if y.sum().item() > 1e9 else y.cos()

    fast, x = compiled[0](function), torch.randn(4)
    for _ in range(3):
        torch.testing.assert_close(fast(x), function(x))


SMALL, LARGE = (2, 4, 200), (1, 4, 600)  # batch, heads and rows: below and above the limit


@pytest.mark.parametrize("rows", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("heads", "keys", "options"),
    [
        (4, None, {}),
        (4, None, {"is_causal": True}),
        (4, 77, {"scale": 0.3}),
        (2, None, {"is_causal": True, "enable_gqa": True}),
        (1, 130, {"enable_gqa": True}),
    ],
)
def test_gradients_of_attention_are_as_near_as_pytorchs(compiled, rows, heads, keys, options):
    """Against float64, at sizes at which kernels are tiled; many weights are PyTorch's to keep."""
    compile_function, left = compiled

    def attend(*given):
        return F.scaled_dot_product_attention(*given, **options)

    fast, (batch, query_heads, length) = compile_function(attend), rows
    shape = (batch, heads, keys or length, 32)
    for _ in range(3):  # plain, captured, replayed
        exact = [torch.randn(batch, query_heads, length, 32, dtype=torch.float64)]
        exact += [torch.randn(shape, dtype=torch.float64) for _ in range(2)]
        slope = torch.randn(batch, query_heads, length, 32, dtype=torch.float64)
        found = []
        for run, kind in ((fast, torch.float32), (attend, torch.float32), (attend, torch.float64)):
            given = [t.to(kind).requires_grad_() for t in exact]
            result = run(*given)
            result.backward(slope.to(kind))
            found.append([result, *(t.grad for t in given)])
        for mine, theirs, right in zip(*found, strict=True):
            error, allowed = ((t - right).abs().max().item() for t in (mine, theirs))
            assert error <= 4 * max(allowed, 1e-7 * right.abs().max().item())
    name = "_scaled_dot_product_flash_attention_for_cpu_backward"
    assert left == ({name} if rows == LARGE and keys is None else set())


def test_kernels_run_on_pytorchs_own_threads():
    from treadle import Tensor
    from treadle.engine.devices import Device
    from treadle.interop import dynamo

    if not sys.platform.startswith("linux") or not torch.backends.openmp.is_available():
        pytest.skip("PyTorch without an OpenMP runtime on Linux")
    assert dynamo.compile_graph is not None
    assert Device["CPU"].runtime._pool.is_borrowing
    x = Tensor.ones(2000, 500)
    assert (x * 2).sum().item() == 2_000_000
    assert Device["CPU"].runtime._pool.threads_started == 0


def test_views_show_the_memory_that_each_call_is_given(compiled):
    """Of inputs that begin elsewhere in their memory than the first one, and lie otherwise."""

    def views(x):
        y = x * 2
        return y.t()[1:], y[None].expand(3, -1, -1), x.t()[:, 1:], y[1], x[2:]

    fast, memory = compiled[0](views), torch.arange(60.0)
    for first in (0, 0, 0, 7, 3):
        x = memory[first : first + 20].view(5, 4)
        for mine, theirs in zip(fast(x), views(x), strict=True):
            assert torch.equal(mine, theirs)
            assert mine.stride() == theirs.stride()
    assert fast(x)[2].data_ptr() == views(x)[2].data_ptr()  # no copy
    for turned in (memory[:20].view(4, 5).t(), memory[:40].view(5, 8)[:, ::2]):
        for mine, theirs in zip(fast(turned), views(turned), strict=True):
            assert torch.equal(mine, theirs)
