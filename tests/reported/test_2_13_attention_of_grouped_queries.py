"""torch.compile: attention whose queries share heads of keys and values, values and gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch.compile: pip install treadle[oracle]")
attend = torch.nn.functional.scaled_dot_product_attention
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own compiler warns of itself

HIDDEN = torch.ones(128, 128, dtype=torch.bool).tril(3)


def results(function, arguments):
    leaves = [t.clone().requires_grad_() for t in arguments]
    out = function(*leaves)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)).sum().backward()
    return [out, *(leaf.grad for leaf in leaves)]


@pytest.mark.parametrize("heads", [1, 2, 8])
@pytest.mark.parametrize(
    "how",
    [{"is_causal": True}, {"scale": 0.3}, {"attn_mask": HIDDEN}],
    ids=lambda how: next(iter(how)),
)
def test_2_13_attention_of_grouped_queries(heads, how):
    from treadle.interop.dynamo import compile_graph

    def attention(q, k, v):
        return attend(q, k, v, enable_gqa=True, **how)

    torch._dynamo.reset()
    torch.manual_seed(0)
    given = [torch.randn(2, n, 128, 64) for n in (8, heads, heads)]
    fast = torch.compile(attention, backend=compile_graph, dynamic=False)
    exact, eager = (
        results(attention, [t.to(d) for t in given]) for d in (torch.double, torch.float)
    )
    for _ in range(3):  # plain, captured, replayed
        for mine, theirs, right in zip(results(fast, given), eager, exact, strict=True):
            allowed = 4 * (theirs - right).norm() + 1e-7 * right.norm()
            assert (mine - right).norm() <= allowed
