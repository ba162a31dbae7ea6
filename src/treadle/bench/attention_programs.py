"""Programs like attention: how many kernels each takes, and whether its memory is linear in tokens.

    python -m treadle.bench.attention_programs
    python -m treadle.bench.attention_programs --target sm_90a --dtype bfloat16 plain sigmoid

Nothing runs: programs are scheduled for the target at 512 and at 1,024 tokens. A row says for the
result alone, and for the result with its gradients, how many kernels there are, and what a program
of twice as many tokens needs of memory for intermediate values: about 2 times as much is linear, 4
times means that scores are stored.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

from .. import Tensor, dtypes
from ..dtype import DType
from ..engine.realized import current
from ..schedule.passes import schedule
from ..target import Target, parse_target

__all__ = ["PROGRAMS", "Kernels", "Made", "Program", "kernels_of", "table"]

HEADS, WIDTH = 2, 64

Make = Callable[..., Tensor]


@dataclass(frozen=True)
class Made:
    """A result, and the tensors whose gradients the program wants."""

    result: Tensor
    wanted: tuple[Tensor, ...]


# A program makes its result of so many tokens, with `make(*shape)` for each input.
Program = Callable[[int, Make], Made]


@dataclass(frozen=True)
class Kernels:
    """How many there are, and the elements of memory that they hand on to each other."""

    count: int
    handed_on: int


def _scores(q: Tensor, k: Tensor) -> Tensor:
    return q.matmul(k.transpose(-2, -1), dtype=dtypes.float32 if q.dtype.itemsize < 4 else None)


def _heads(tokens: int, make: Make) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (make(HEADS, tokens, WIDTH) for _ in range(3))
    return q, k, v


def _weighed(weights: Callable[[Tensor, int, Make], Tensor], wanted: str = "qkv") -> Program:
    """`weights` of scores and the number of tokens, times values."""

    def program(tokens: int, make: Make) -> Made:
        q, k, v = _heads(tokens, make)
        given = weights(_scores(q, k) / math.sqrt(WIDTH), tokens, make)
        named = {"q": q, "k": k, "v": v}
        return Made(given.cast(v.dtype) @ v, tuple(named[name] for name in wanted))

    return program


def _places(tokens: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the query as a column, that of the key as a row."""
    places = Tensor.arange(tokens, device=like.device)
    return places.reshape(tokens, 1), places.reshape(1, tokens)


def _shown(scores: Tensor, shown: Tensor) -> Tensor:
    return shown.where(scores, -math.inf).softmax(-1)


def _causal(scores: Tensor, tokens: int, _: Make) -> Tensor:
    query, key = _places(tokens, scores)
    return _shown(scores, key <= query)


def _window(scores: Tensor, tokens: int, _: Make) -> Tensor:
    query, key = _places(tokens, scores)
    return _shown(scores, (key <= query) & (key > query - tokens // 4))


def _alibi(scores: Tensor, tokens: int, _: Make) -> Tensor:
    query, key = _places(tokens, scores)
    slopes = 2.0 ** -Tensor.arange(1, HEADS + 1, device=scores.device).reshape(HEADS, 1, 1)
    return (scores + slopes * (key - query)).softmax(-1)


def _bias(scores: Tensor, tokens: int, make: Make) -> Tensor:
    return (scores + make(tokens, tokens).detach().cast(scores.dtype)).softmax(-1)


def _bias_of_keys(scores: Tensor, tokens: int, make: Make) -> Tensor:
    return (scores + make(HEADS, 1, tokens).detach().cast(scores.dtype)).softmax(-1)


def _mask(scores: Tensor, tokens: int, make: Make) -> Tensor:
    return _shown(scores, (make(tokens, tokens).detach() > -1.0).contiguous().realize())


def _documents(scores: Tensor, tokens: int, _: Make) -> Tensor:
    query, key = _places(tokens, scores)
    document = lambda place: (place * 3 // tokens).cast(dtypes.int32)
    return _shown(scores, document(query) == document(key))


def _sink(scores: Tensor, _: int, make: Make) -> Tensor:
    sink = make(HEADS, 1, 1).detach().cast(scores.dtype)
    most = scores.max(-1, keepdim=True).maximum(sink).detach()
    powers = (scores - most).exp()
    return powers / (powers.sum(-1, keepdim=True) + (sink - most).exp())


def _linear(scores: Tensor, tokens: int, _: Make) -> Tensor:
    query, key = _places(tokens, scores)
    return (key <= query).where(scores, 0.0)


def _grouped(tokens: int, make: Make) -> Made:
    q = make(2 * HEADS, tokens, WIDTH)
    k, v = (make(HEADS, tokens, WIDTH) for _ in range(2))
    out = q.scaled_dot_product_attention(k, v, enable_gqa=True, is_causal=True)
    return Made(out, (q, k, v))


def _projected(loss: Callable[[Tensor, int, Tensor], Tensor]) -> Program:
    """A loss of tokens' scores of four times as many words."""

    def program(tokens: int, make: Make) -> Made:
        x, words = make(tokens, WIDTH), make(4 * tokens, WIDTH)
        return Made(loss(_scores(x, words) / 8.0, tokens, x), (x, words))

    return program


def _cross_entropy(scores: Tensor, tokens: int, x: Tensor) -> Tensor:
    target = Tensor.arange(tokens, device=x.device) * 3
    return scores.cross_entropy(target.contiguous().realize())


def _contrast(tokens: int, make: Make) -> Made:
    x, y = make(tokens, WIDTH), make(tokens, WIDTH)
    query, key = _places(tokens, x)
    own = (_scores(x, y) / 8.0).log_softmax(-1)
    return Made(-(query == key).where(own, 0.0).sum(-1).mean(), (x, y))


PROGRAMS: dict[str, Program] = {
    "plain": _weighed(lambda s, *_: s.softmax(-1)),
    "causal": _weighed(_causal),
    "sliding window": _weighed(_window),
    "ALiBi": _weighed(_alibi),
    "additive bias": _weighed(_bias),
    "bias of keys": _weighed(_bias_of_keys),
    "boolean mask": _weighed(_mask),
    "documents": _weighed(_documents),
    "softcap": _weighed(lambda s, *_: ((s / 30.0).tanh() * 30.0).softmax(-1)),
    "sink": _weighed(_sink),
    "sigmoid": _weighed(lambda s, tokens, _: (s - math.log(tokens)).sigmoid()),
    "squared relu": _weighed(lambda s, tokens, _: s.relu().square() / tokens),
    "linear, causal": _weighed(_linear),
    "grouped queries": _grouped,
    "gradient of queries alone": _weighed(_causal, "q"),
    "gradient of keys alone": _weighed(_causal, "k"),
    "gradient of values alone": _weighed(_causal, "v"),
    "logsumexp of a projection": _projected(lambda s, *_: s.logsumexp(-1)),
    "cross-entropy of a projection": _projected(_cross_entropy),
    "contrastive loss": _contrast,
}


def kernels_of(
    name: str, tokens: int, target: Target, dtype: DType, is_step: bool = False
) -> Kernels:
    """The kernels of a program's result, or of a step with its gradients."""

    def make(*shape: int) -> Tensor:
        tensor = Tensor.full(shape, 0.5, dtype=dtype, device="CPU").contiguous().realize()
        tensor.requires_grad = True
        return tensor

    made = PROGRAMS[name](tokens, make)
    nodes = [made.result.node]
    if is_step:
        arriving = None
        if made.result.shape:
            arriving = Tensor.full(made.result.shape, 0.5, dtype=made.result.dtype, device="CPU")
            arriving = arriving.contiguous().realize()
        made.result.backward(arriving)
        nodes += [t.grad.node for t in made.wanted if t.grad is not None]
    found = schedule(current(nodes)[0], "CPU", target)[0]
    written = {b for kernel in found for n, b in enumerate(kernel.buffers) if n in kernel.writes}
    return Kernels(len(found), sum(math.prod(b.shape) for b in written))


def table(names: list[str], target: Target, dtype: DType) -> str:
    """A row for each program."""
    lines = [f"{'':30} {'result':>16} {'with gradients':>16}", ""]
    for name in names:
        row = f"{name:30}"
        for is_step in (False, True):
            few, many = (kernels_of(name, n, target, dtype, is_step) for n in (512, 1024))
            row += f" {few.count:6} {many.handed_on / few.handed_on:8.1f}x"
        lines.append(row)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Kernels and memory of programs like attention.")
    parser.add_argument("programs", nargs="*", help="all of them, unless some are named")
    parser.add_argument("--target", default="x86-64-v4", help="such as sm_90a or x86-64-v3")
    parser.add_argument("--dtype", default="float32", help="of the inputs: bfloat16 on a GPU, say")
    given = parser.parse_args()
    unknown = [name for name in given.programs if name not in PROGRAMS]
    if unknown:
        parser.error(f"no program {unknown[0]!r}; there are {', '.join(PROGRAMS)}")
    dtype = getattr(dtypes, given.dtype)
    print(table(given.programs or list(PROGRAMS), parse_target(given.target), dtype))


if __name__ == "__main__":
    main()
