"""torch.compile: gradients of gated and of residual blocks, at the sizes of Llama and ResNet-18.

Both were reported as different from PyTorch's. Those of gated blocks were wrong, as sums of two
products. Those of ResNet-18 are as near to float64 as PyTorch's own: a ReLU whose input is a
rounding error from zero lets its gradient through in one library and not in the other, and two
ways of PyTorch's own to convolve differ by as much. So blocks are compared where no input is near.
"""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch.compile: pip install treadle[oracle]")

from ..models.judge import check, steady  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own compiler warns of itself


class Gated(nn.Module):
    """Llama's MLP, around which its input goes."""

    def __init__(self, width, wide):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.gate, self.up = (nn.Linear(width, wide, bias=False) for _ in range(2))
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Residual(nn.Module):
    """ResNet's block with a 1x1 convolution beside the main way."""

    def __init__(self, before, after, stride):
        super().__init__()
        first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.main = nn.Sequential(
            first, nn.BatchNorm2d(after), nn.ReLU(), second, nn.BatchNorm2d(after)
        )
        self.short = nn.Sequential(
            nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        )

    def forward(self, x):
        return (self.main(x) + self.short(x)).relu()


def run(call, model, x):
    """The result, and the gradients of the input and of all parameters."""
    x = x.to(next(model.parameters()).dtype).requires_grad_()
    out = call(x)
    arriving = torch.randn(out.shape, generator=torch.Generator().manual_seed(9)).to(out.dtype)
    named = {"input": x, **dict(model.named_parameters())}
    slopes = torch.autograd.grad((out * arriving).sum(), list(named.values()))
    found = {"result": out.detach(), **dict(zip(named, slopes, strict=True))}
    return {name: t.numpy() for name, t in found.items()}


def compare(model, shape):
    from treadle.interop.dynamo import compile_graph

    def given(seed):
        return torch.randn(shape, generator=torch.Generator().manual_seed(seed))

    torch._dynamo.reset()
    exact, eager = copy.deepcopy(model).double(), copy.deepcopy(model)
    x = given(steady(lambda seed: exact(given(seed).double())))
    wanted, theirs = run(exact, exact, x), run(eager, eager, x)
    fast = torch.compile(model, backend=compile_graph, dynamic=False)
    for _ in range(3):  # plain, captured, replayed
        check(run(fast, model, x), theirs, wanted)


@pytest.mark.parametrize(("width", "wide"), [(128, 256), (256, 192)])
def test_1_02_gradients_of_a_gated_block_are_right(width, wide):
    torch.manual_seed(0)
    compare(Gated(width, wide), (2, 50, width))


@pytest.mark.parametrize(
    ("before", "after", "stride", "size"), [(64, 128, 2, 28), (256, 512, 2, 14)]
)
def test_1_02_gradients_of_a_residual_block_are_right(before, after, stride, size):
    torch.manual_seed(0)
    compare(Residual(before, after, stride), (2, before, size, size))
