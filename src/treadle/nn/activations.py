"""Activations as layers: each is a method of `Tensor`, with the arguments it was made with.

    nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    nn.LeakyReLU(0.2)(x)     means x.leaky_relu(0.2)

They take PyTorch's arguments. `inplace` changes nothing: results are always new values.
"""

from __future__ import annotations

from ..tensor import Tensor
from .layer import Elementwise, Layer, Method

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]  # fmt: skip


class ReLU(Elementwise):
    """max(x, 0) of each element; shape and dtype stay, integers give floats."""

    method = "relu"


class ReLU6(Elementwise):
    """min(max(x, 0), 6) of each element; shape and dtype stay, integers give floats."""

    method = "relu6"


class SELU(Elementwise):
    """The scaled exponential unit of each element; shape and dtype stay, integers give floats."""

    method = "selu"


class SiLU(Elementwise):
    """x sigmoid(x) of each element; shape and dtype stay, integers give floats."""

    method = "silu"


class Mish(Elementwise):
    """x tanh(softplus(x)) of each element; shape and dtype stay, integers give floats."""

    method = "mish"


class Sigmoid(Elementwise):
    """1 / (1 + exp(-x)) of each element; shape and dtype stay, integers give floats."""

    method = "sigmoid"


class LogSigmoid(Elementwise):
    """log(sigmoid(x)) of each element; shape and dtype stay, integers give floats."""

    method = "logsigmoid"


class Hardsigmoid(Elementwise):
    """relu6(x + 3) / 6 of each element; shape and dtype stay, integers give floats."""

    method = "hardsigmoid"


class Hardswish(Elementwise):
    """x relu6(x + 3) / 6 of each element; shape and dtype stay, integers give floats."""

    method = "hardswish"


class Tanh(Elementwise):
    """The hyperbolic tangent of each element; shape and dtype stay, integers give floats."""

    method = "tanh"


class Softsign(Elementwise):
    """x / (1 + |x|) of each element; shape and dtype stay, integers give floats."""

    method = "softsign"


class Tanhshrink(Elementwise):
    """x - tanh(x) of each element; shape and dtype stay, integers give floats."""

    method = "tanhshrink"


class LeakyReLU(Method):
    """x, or `negative_slope` x below 0. Shape and dtype stay, integers give floats."""

    method = "leaky_relu"

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(neg_slope=negative_slope)


class ELU(Method):
    """x, or alpha (exp(x) - 1) below 0. Shape and dtype stay, integers give floats."""

    method = "elu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha)


class CELU(Method):
    """x, or alpha (exp(x / alpha) - 1) below 0. Shape and dtype stay, integers give floats."""

    method = "celu"

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(alpha=alpha)


class GELU(Method):
    """x times the normal distribution below x; by tanh for `approximate` "tanh".

    Shape and dtype stay, integers give floats.
    """

    method = "gelu"

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(approximate=approximate)


class Hardtanh(Method):
    """x, cut off at `min_val` and `max_val`. Shape and dtype stay, integers give floats."""

    method = "hardtanh"

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(min_val=min_val, max_val=max_val)


class Softplus(Method):
    """log(1 + exp(beta x)) / beta; x itself where beta x is above `threshold`.

    Shape and dtype stay, integers give floats.
    """

    method = "softplus"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__(beta=beta, threshold=threshold)


class Softshrink(Method):
    """x nearer to 0 by `lambd`, or 0 within it. Shape and dtype stay, integers give floats."""

    method = "softshrink"

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)


class Hardshrink(Method):
    """x, or 0 where |x| is `lambd` or less. Shape and dtype stay, integers give floats."""

    method = "hardshrink"

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__(lambd=lambd)


class Threshold(Method):
    """x where it is above `threshold`, else `value`.

    Shape and dtype stay, integers give floats.
    """

    method = "threshold"

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(threshold=threshold, value=value)


class RReLU(Method):
    """x, or a slope between `lower` and `upper`, drawn in training, times x below 0.

    Shape and dtype stay, integers give floats.
    """

    method = "rrelu"

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(lower=lower, upper=upper)


class GLU(Method):
    """The first half of an axis times the sigmoid of the second: half its size.

    Shape and dtype stay, integers give floats.
    """

    method = "glu"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim=dim)


class Softmax(Method):
    """exp(x) / sum(exp(x)) along an axis. Shape and dtype stay, integers give floats."""

    method = "softmax"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(axis=dim)


class Softmin(Method):
    """`Softmax` of -x. Shape and dtype stay, integers give floats."""

    method = "softmin"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(axis=dim)


class LogSoftmax(Method):
    """The logarithm of `Softmax`. Shape and dtype stay, integers give floats."""

    method = "log_softmax"

    def __init__(self, dim: int = -1) -> None:
        super().__init__(axis=dim)


class Softmax2d(Method):
    """`Softmax` over the channels of images (N, C, H, W) or (C, H, W), in their dtype."""

    method = "softmax"

    def __init__(self) -> None:
        super().__init__(axis=-3)


class PReLU(Layer):
    """x, or `weight` x below 0: one slope, or one for each channel in axis 1.

    `weight` is (num_parameters,), float32; shapes stay, dtypes promote.
    """

    weight: Tensor  # (num_parameters,)

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.weight = Tensor.full((num_parameters,), float(init)).contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        return x.prelu(self.weight)
