"""Decompositions, equations, norms, distances, products of many matrices."""

from __future__ import annotations

from .decompositions import Decompositions
from .distances import Distances
from .factors import Factors
from .matrix_products import MatrixProducts
from .norms import Norms

__all__ = ["LinearAlgebra"]


class LinearAlgebra(Decompositions, Distances, Factors, MatrixProducts, Norms):
    """Decompositions, equations, norms, distances, products of many matrices."""

    __slots__ = ()
