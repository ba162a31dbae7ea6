"""`Tensor`: the class that users meet, groups of methods side by side.

    creation        constants, ranges, random numbers
    shaping         axes by name and by pattern; several tensors as one, and one as several
    selection       lists of places; what is where, and how often
    statistics      medians, quantiles, differences, covariances, histograms
    linear_algebra  decompositions, equations, norms, distances
    functions       functions of each element beyond those of the basis, and second names
    fourier         transforms, and spectra of short pieces
    layers          convolution, pooling, attention, normalisation, activations, dropout
    losses          cross entropies, margins, and losses of each element
    exchange        memory of other libraries, files, hashes
    execution       gradients, what is computed when, and on which devices
    basis           what all of these are made of: arithmetic, functions, movement, reductions

A group is a folder and knows the basis alone. What two groups need is a function of a module beside
these folders, such as `searching`.
"""

from __future__ import annotations

from typing import Any

from ..config import Context
from ..explained import Unbound, explained
from .basis import Basis
from .creation import Creation
from .exchange import Exchange
from .execution import Execution
from .fourier import Fourier
from .functions import Functions
from .layers import Layers
from .linear_algebra import LinearAlgebra
from .losses import Losses
from .modes import Modes
from .selection import Selection
from .shaping import Shaping
from .statistics import Statistics

__all__ = ["Tensor"]


class Tensor(
    Creation,
    Shaping,
    Selection,
    Statistics,
    LinearAlgebra,
    Functions,
    Fourier,
    Layers,
    Losses,
    Exchange,
    Execution,
    Basis,
):
    """An n-dimensional array that is computed when its values are asked for.

        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> (x @ x.T).relu().sum().item()
        52.0

    Operations build a graph and check shapes and dtypes at once; `realize`, `numpy`, `item`,
    `tolist` compute. Usable from several threads.

        made of data     Tensor([[1, 2]]), Tensor(array), Tensor(pathlib.Path("x.bin"))
        made of numbers  zeros, ones, full, eye, arange, linspace, rand, randn, randint, uniform
        elementwise      x + y, x * y, x ** 2, exp, log, sqrt, relu, gelu, sigmoid, clamp, where
        reduced          sum, mean, max, min, argmax, var, std, softmax, cumsum, norm
        moved            x[1:], x[mask], reshape, permute, expand, pad, flip, cat, stack, split
        multiplied       x @ y, bmm, einsum, conv2d, scaled_dot_product_attention
        found            gather, scatter, sort, topk, nonzero, unique, masked_fill, one_hot
        decomposed       solve, inverse, svd, qr, eigh, cholesky, fft, rfft
        learned          cross_entropy, mse_loss, backward, gradient, requires_grad_, dropout
        changed          x[1:3] = v, x += v, assign
        elsewhere        to("CL"), shard(devices, axis), from_blob, from_dlpack, numpy
        looked at        shape, dtype, device, ndim, numel(), schedule(), x.is_realized

    `axis` may be written `dim`, and the other way round. Classes of layers are in `treadle.nn`.
    docs/pytorch.md, docs/numpy.md and docs/tinygrad.md say what is called otherwise here.

    Unless a method says otherwise, its result has the shape and dtype of the tensor, operands
    broadcast and promote as in NumPy, and it raises ShapeError for shapes and sizes that do not
    fit, IndexOutOfRange for an axis or a place that is not there, SubscriptError for what is no
    subscript, DTypeError for element types that it has no meaning for, DeviceError for tensors on
    different devices, and ArgumentError for an argument of another kind.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        own = getattr(type(self), name, None) if name.startswith("__") else None
        if isinstance(own, property):  # which has said why there is none: again, for the reason
            return own.__get__(self)
        if name.startswith("_"):  # asked for by other libraries, in every conversion
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        from ..pytorch_names import of_tensor

        raise of_tensor(name, dir(type(self)))

    @staticmethod
    def train(mode: bool = True) -> Context:
        """A context manager and decorator inside which layers behave as in training.

        Raises SettingError.
        """
        return Context(TRAINING=mode)

    def replace(self, x: Tensor, allow_shape_mismatch: bool = False) -> Tensor:
        """Become another tensor of this shape and any dtype: its graph, nothing is written.

        `allow_shape_mismatch` takes any shape. Raises ShapeError.
        """
        from ..errors import ShapeError

        if not allow_shape_mismatch and x.shape != self.shape:
            raise ShapeError(f"[replace] shape {x.shape} does not fit {self.shape}")
        self._take(x)
        return self


# What every result is made of is called too often for a call more, and has checks of its own.
_OFTEN = frozenset(
    (
        "add", "sub", "mul", "div", "neg", "maximum", "cast", "float", "bool", "eq", "ne", "lt",
        "where", "reshape", "relu", "exp", "log", "sqrt",
        "square", "matmul", "dot", "numel", "detach", "realize", "numpy", "item",
    )
)  # fmt: skip

for _part in Tensor.__mro__[:-1]:
    explained(_part, _OFTEN)
for _name in _OFTEN:
    setattr(Modes, _name, Unbound(_name, getattr(Tensor, _name)))
