"""NumPy, as far as it has the words itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..work import Work
from .base import Library, Run

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NumPy"]


class NumPy(Library["np.ndarray"]):
    """Plain arrays; matrix products through the BLAS that NumPy comes with."""

    def __init__(self) -> None:
        import numpy as np

        self.np = np

    def tensor(self, array: np.ndarray) -> np.ndarray:
        return array

    def result(
        self, work: Work, weights: Mapping[str, np.ndarray], inputs: Sequence[np.ndarray]
    ) -> Run:
        return lambda: work.call(self, weights, inputs)

    def softmax(self, x: np.ndarray) -> np.ndarray:
        e = self.np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def embedding(self, table: np.ndarray, index: np.ndarray) -> np.ndarray:
        return table[index]

    def copy(self, x: np.ndarray) -> np.ndarray:
        return x.copy()

    def cast(self, x: np.ndarray, dtype: str) -> np.ndarray:
        return x.astype(dtype)

    def permute(self, x: np.ndarray, order: Sequence[int]) -> np.ndarray:
        return x.transpose(order)

    def contiguous(self, x: np.ndarray) -> np.ndarray:
        return self.np.ascontiguousarray(x)

    def concatenate(self, xs: Sequence[np.ndarray], axis: int) -> np.ndarray:
        return self.np.concatenate(xs, axis)

    def sort(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = self.np.argsort(x, -1, kind="stable")
        return self.np.take_along_axis(x, order, -1), order

    def linalg(self, function: str, a: np.ndarray, *more: np.ndarray) -> np.ndarray:
        found = getattr(self.np.linalg, function)(a, *more)
        return found[0] if function == "lstsq" else found

    def fft(self, x: np.ndarray) -> np.ndarray:
        return self.np.fft.fft(x)

    def gather(self, x: np.ndarray, axis: int, index: np.ndarray) -> np.ndarray:
        return self.np.take_along_axis(x, index, axis)
