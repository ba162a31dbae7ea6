"""`Basis`: what all other methods of a tensor are written with.

    state         a node on a device, and the storage behind it
    core          looking at a tensor, computing it, moving it between devices
    elementwise   arithmetic, comparison, selection; `operators` spell it, `assignment` writes
    formulas      parts of complex numbers, and what formulas are written with
    mathematics   functions of each element: `reals` and `complexes` have the formulas
    movement      other shapes; `joining` of several tensors; `reinterpret`: other dtypes
    reduce        sums, extremes, scans
    gathering     reading and writing at computed places; `sorting`; `indexing`: x[...]
    products      matmul, einsum
    construction  tensors of data, and of one number

Each class stands on those whose methods it calls. A method is defined once: where elements are
complex numbers it calls a function of `complexes`.
"""

from __future__ import annotations

from .construction import Construction
from .indexing import Indexing
from .operators import Operators
from .products import Products
from .reinterpret import Reinterpret
from .sorting import Sorting

__all__ = ["Basis"]


class Basis(Operators, Indexing, Sorting, Products, Construction, Reinterpret):
    """A tensor with the methods that all others are made of."""

    __slots__ = ()
