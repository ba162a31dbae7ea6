"""`Basis`: what all other methods of a tensor are written with.

    state          a node on a device, and the storage behind it
    core           looking at a tensor, computing it, moving it between devices
    elementwise    arithmetic, comparison, selection; `operators` spell it, `assignment` writes
    mathematics    functions of each element: `reals` and `complexes` have the formulas
    movement       other shapes, `joining` of several tensors
    reduce         sums, extremes, scans
    gathering      reading and writing at computed places; `sorting`, and `indexing`: x[...]
    products       matmul, einsum
    construction   tensors of data, and of one number

Each group of methods in `groups` is made of these, and of nothing else: a function of the basis
that two groups need is a function of a module of its own.
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
