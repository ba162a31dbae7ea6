"""Layers that are one matrix: `Linear` multiplies by it, `Embedding` reads its rows."""

from __future__ import annotations

from ..errors import DTypeError
from ..tensor import Tensor
from ..tensor.checks import check_width
from .init import check_sizes, fan_in_uniform
from .layer import Layer

__all__ = ["Embedding", "Linear"]


class Linear(Layer):
    """`x @ weight.T + bias`: (..., in_features) to (..., out_features); dtypes promote.

    `weight` is (out_features, in_features), `bias` (out_features,), float32. Called with another
    width it raises ShapeError.
    """

    weight: Tensor  # (out_features, in_features)
    bias: Tensor | None  # (out_features,)

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        check_sizes(self, in_features=in_features, out_features=out_features)
        self.weight = fan_in_uniform(out_features, in_features, fan_in=in_features)
        self.bias = fan_in_uniform(out_features, fan_in=in_features) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        out_features, in_features = self.weight.shape
        check_width("Linear", x.shape, in_features, out_features)
        return x.linear(self.weight.transpose(), self.bias)


class Embedding(Layer):
    """A table of vectors: integer indices of any shape to shape + (embed_size,).

    `weight` is (vocab_size, embed_size), float32, and so is what it gives. Raises DTypeError if the
    indices are not integers, IndexOutOfRange if they lie outside of the table, negative ones
    included: when a value is read next (CHECK_INDEX).
    """

    weight: Tensor  # (vocab_size, embed_size)
    vocab_size: int
    embed_size: int

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        check_sizes(self, vocab_size=vocab_size, embed_size=embed_size)
        self.vocab_size, self.embed_size = vocab_size, embed_size
        self.weight = Tensor.normal(vocab_size, embed_size).contiguous()

    def __call__(self, idx: Tensor) -> Tensor:
        if not idx.dtype.is_int:
            raise DTypeError(f"[Embedding] indices must be integers, not {idx.dtype.name}")
        return self.weight._pick_checked("Embedding", 0, idx)
