"""Other names for the same methods: those of PyTorch and of the Array API standard.

x.absolute(), x.multiply(y), x.concat(y), x.arctan2(y), x.bitwise_left_shift(1)
"""

from __future__ import annotations

from .execution import Execution

__all__ = ["Synonyms"]


class Synonyms(Execution):
    """A table of names; each means, and takes, what the method that it stands for does."""

    __slots__ = ()

    # arithmetic and comparison
    subtract, multiply = Execution.sub, Execution.mul
    divide = true_divide = Execution.div
    floor_divide, remainder = Execution.idiv, Execution.mod
    negative, absolute = Execution.neg, Execution.abs
    less, less_equal = Execution.lt, Execution.le
    greater, greater_equal, not_equal = Execution.gt, Execution.ge, Execution.ne
    fix = Execution.trunc

    # bits
    bitwise_invert = Execution.bitwise_not
    bitwise_left_shift, bitwise_right_shift = Execution.lshift, Execution.rshift

    # trigonometry
    arccos, arcsin, arctan, arctan2 = (
        Execution.acos,
        Execution.asin,
        Execution.atan,
        Execution.atan2,
    )
    arccosh, arcsinh, arctanh = Execution.acosh, Execution.asinh, Execution.atanh

    # shapes
    concat = concatenate = Execution.cat
    permute_dims, expand_dims, moveaxis = Execution.permute, Execution.unsqueeze, Execution.movedim
    swapaxes = swapdims = Execution.transpose
    unstack = Execution.unbind

    # places
    take_along_axis = Execution.take_along_dim
