"""NumPy, as far as it has the words itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..work import Work
from .base import Library, Run

__all__ = ["NumPy"]


class NumPy(Library):
    """Plain arrays; matrix products through the BLAS that NumPy comes with."""

    def __init__(self) -> None:
        import numpy as np

        self.np = np

    def tensor(self, array: Any) -> Any:
        return array

    def result(self, work: Work, weights: Mapping[str, Any], inputs: Sequence[Any]) -> Run:
        return lambda: work.call(self, weights, inputs)

    def softmax(self, x: Any) -> Any:
        e = self.np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def embedding(self, table: Any, index: Any) -> Any:
        return table[index]

    def copy(self, x: Any) -> Any:
        return x.copy()

    def cast(self, x: Any, dtype: str) -> Any:
        return x.astype(dtype)

    def permute(self, x: Any, order: Sequence[int]) -> Any:
        return x.transpose(order)

    def contiguous(self, x: Any) -> Any:
        return self.np.ascontiguousarray(x)

    def concatenate(self, xs: Sequence[Any], axis: int) -> Any:
        return self.np.concatenate(xs, axis)

    def sort(self, x: Any) -> Any:
        order = self.np.argsort(x, -1, kind="stable")
        return self.np.take_along_axis(x, order, -1), order

    def linalg(self, function: str, a: Any, *more: Any) -> Any:
        found = getattr(self.np.linalg, function)(a, *more)
        return found[0] if function == "lstsq" else found

    def fft(self, x: Any) -> Any:
        return self.np.fft.fft(x)

    def gather(self, x: Any, axis: int, index: Any) -> Any:
        return self.np.take_along_axis(x, index, axis)
