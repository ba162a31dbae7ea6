"""Attention in its variants and gated MLPs, which whole models are made of."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, nn

torch = pytest.importorskip("torch", reason="the judge is PyTorch: pip install treadle[oracle]")

from .definitions import TREADLE, WIDTH, Attention, SwiGLU, torch_library  # noqa: E402
from .judge import check  # noqa: E402
from .pairs import by_treadle, judged  # noqa: E402

random = np.random.default_rng(3)
SEEN = random.random((80, 80)) < 0.7
SEEN[:, 0] = True
ADDED = random.standard_normal((80, 80))
# Heads of queries and keys, lengths of both, features of a head, and how.
VARIANTS = {
    "plain": (4, 4, 80, 80, 64, {}),
    "causal": (4, 4, 128, 128, 64, {"is_causal": True}),
    "causal, an odd length": (2, 2, 101, 101, 40, {"is_causal": True}),
    "another length": (4, 4, 70, 130, 32, {}),
    "wide heads": (1, 1, 64, 64, 256, {"is_causal": True}),
    "grouped": (8, 2, 80, 80, 32, {"enable_gqa": True, "is_causal": True}),
    "one head of keys": (4, 1, 80, 80, 64, {"enable_gqa": True}),
    "mask": (4, 4, 80, 80, 64, {"attn_mask": SEEN}),
    "grouped, a mask": (4, 2, 80, 80, 64, {"enable_gqa": True, "attn_mask": SEEN}),
    "bias": (4, 4, 80, 80, 64, {"attn_mask": ADDED}),
    "scale": (4, 4, 80, 80, 64, {"scale": 0.5}),
}


def normal(*shape):
    return random.standard_normal(shape)


def with_mask(library, how):
    """How to attend, with the mask as a tensor of that library."""

    def options(q):
        mask = how.get("attn_mask")
        if mask is None:
            return how
        is_bool = mask.dtype == bool
        return how | {"attn_mask": library.mask(mask) if is_bool else library.like(mask, q)}

    return options


def attending(library, how):
    options = with_mask(library, how)
    return lambda q, k, v: library.attend(q, k, v, **options(q))


@pytest.mark.parametrize(
    ("heads", "keys", "length", "source", "width", "how"), VARIANTS.values(), ids=VARIANTS
)
def test_attention_and_its_gradients_are_right(heads, keys, length, source, width, how):
    given = [normal(2, heads, length, width), *(normal(2, keys, source, width) for _ in range(2))]
    eager, exact = judged(attending(torch_library(), how), given, 3)
    check(by_treadle(attending(TREADLE, how), {}, given, 3), eager, exact)


@pytest.mark.parametrize("how", [{}, {"is_causal": True}], ids=["plain", "causal"])
def test_attention_of_one_tensor_to_itself_is_right(how):
    both = [attending(library, how) for library in (torch_library(), TREADLE)]
    of_torch, mine = (lambda x, f=f: f(x, x, x) for f in both)
    given = [normal(2, 2, 96, 128)]
    eager, exact = judged(of_torch, given, 1)
    check(by_treadle(mine, {}, given, 1), eager, exact)


class Wrapped(torch.nn.Module):
    """A definition as a module, under the names that it has in treadle."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        parts = nn.state.get_state_dict(model, tensor_type=torch.nn.Module)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.model(*inputs)


def compare(make, given):
    torch.manual_seed(0)
    module, model = Wrapped(make(torch_library())), make(TREADLE)
    named = {name: p.detach().numpy().copy() for name, p in module.named_parameters()}
    values = {name: Tensor(value) for name, value in named.items()}
    nn.state.load_state_dict(model, values, verbose=False)
    eager, exact = judged(module, given, 1)
    check(by_treadle(model, nn.state.get_state_dict(model), given, 1), eager, exact)


@pytest.mark.parametrize("activation", ["SiLU", "GELU", "Sigmoid"])
@pytest.mark.parametrize(("width", "wide"), [(128, 192), (192, 256), (256, 256)])
def test_gated_mlps_are_right(width, wide, activation):
    compare(lambda library: SwiGLU(library, width, wide, activation), [normal(2, 50, width)])


class Residual:
    """Attention and a gated MLP around which their input goes."""

    def __init__(self, library, keys):
        self.attention = Attention(library, keys=keys, turned=True)
        self.mlp = SwiGLU(library)

    def __call__(self, x):
        x = x + self.attention(x, is_causal=True)
        return x + self.mlp(x)


@pytest.mark.parametrize("keys", [4, 2, 1])
def test_blocks_of_attention_and_gated_mlps_are_right(keys):
    compare(lambda library: Residual(library, keys), [normal(2, 100, WIDTH)])
