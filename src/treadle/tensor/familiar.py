"""What PyTorch's users write most often and has no method of another name that is quite the same.

x.bmm(y), x.mm(y), x.mv(y)     matrix products that take a fixed number of axes
x.dim(), x.cpu()               x.ndim, x.to("CPU")
"""

from __future__ import annotations

from typing import Self

from ..errors import ShapeError
from .spectrograms import Spectrograms

__all__ = ["Familiar"]


class Familiar(Spectrograms):
    """PyTorch's methods on top of all others."""

    __slots__ = ()

    def bmm(self, mat2: Self) -> Self:
        """The products of two batches of matrices, (b, m, k) by (b, k, n) to (b, m, n); nothing
        broadcasts.

        Dtypes promote. Raises ShapeError for other numbers of axes, and where sizes differ.
        """
        _check_axes("bmm", self, mat2, 3, 3)
        if self.shape[0] != mat2.shape[0]:
            raise ShapeError(
                f"[bmm] {self.shape[0]} matrices and {mat2.shape[0]} of them: expected as many; "
                "matmul broadcasts one"
            )
        return self.matmul(mat2)

    def mm(self, mat2: Self) -> Self:
        """The product of two matrices, (m, k) by (k, n) to (m, n); dtypes promote.

        Raises ShapeError for other numbers of axes, and where sizes differ.
        """
        _check_axes("mm", self, mat2, 2, 2)
        return self.matmul(mat2)

    def mv(self, vec: Self) -> Self:
        """A matrix times a vector, (m, k) by (k,) to (m,); dtypes promote.

        Raises ShapeError for other numbers of axes, and where sizes differ.
        """
        _check_axes("mv", self, vec, 2, 1)
        return self.matmul(vec)

    def dim(self) -> int:
        """How many axes the tensor has: `ndim`."""
        return self.ndim

    def cpu(self) -> Self:
        """The same values on the device "CPU", in shape and dtype: `to("CPU")`."""
        return self.to("CPU")


def _check_axes(name: str, first: Familiar, other: Familiar, rank: int, others: int) -> None:
    if first.ndim != rank or other.ndim != others:
        raise ShapeError(
            f"[{name}] takes {rank} and {others} axes, not shapes {first.shape} and {other.shape}; "
            "matmul takes any"
        )
