"""Random numbers: the same on every device, for every number of threads, and under replay.

    Tensor.manual_seed(7); Tensor.rand(2, 3)     -> float32 in [0, 1)

`random_bits` has the generator, and what it keeps on each device.
"""

from __future__ import annotations

import math
from typing import Self, Unpack

from ...dtype import dtypes
from ...engine.devices import Device
from ...errors import ArgumentError, DTypeError, ShapeError
from ...ir.shape import Shape
from ..basis import Basis
from ..basis.construction import known_dtype, sizes_of
from ..random_bits import random_words, seed_all, uniform, unit
from ..searching import insertion_places
from ..shapes import is_whole, reshape
from ..types import DeviceLike, Drawn, DTypeLike, Made, Placed, Sizes, Typed

__all__ = ["Sampling"]


class Sampling(Basis):
    """Random tensors."""

    __slots__ = ()

    @classmethod
    def manual_seed(cls, seed: int = 0) -> None:
        """Start every device's random numbers anew from `seed`, an integer.

        Those that captured functions draw, too. Raises DTypeError for anything else.
        """
        if not isinstance(seed, int):
            raise DTypeError(f"[manual_seed] a seed is an integer, not {seed!r}")
        seed_all(seed)

    @classmethod
    def rand(
        cls, *shape: Sizes, device: DeviceLike = None, dtype: DTypeLike | None = None,
        contiguous: bool = True, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Uniform in [0, 1), in `shape`; `dtypes.default_float` unless a dtype is given.

        Raises ShapeError, and DTypeError if `dtype` is no float.
        """
        kind = dtypes.default_float if dtype is None else known_dtype(dtype)
        if not kind.is_float:
            raise DTypeError(f"[rand] gives floats, not {kind.name}; see randint")
        sizes, name = sizes_of("rand", shape), Device.canonicalize(device)
        return cls._new(uniform(sizes, name, kind, contiguous), name, requires_grad)

    @classmethod
    def randn(
        cls, *shape: Sizes, dtype: DTypeLike | None = None, requires_grad: bool | None = None,
        device: DeviceLike = None,
    ) -> Self:  # fmt: skip
        """Standard normal, by the method of Box and Muller, in `shape`.

        `dtypes.default_float` unless a dtype is given; integers are cut off. Raises ShapeError.
        """
        kind = dtypes.default_float if dtype is None else known_dtype(dtype)
        wide = dtypes.float64 if kind is dtypes.float64 else dtypes.float32
        sizes, name = sizes_of("randn", shape), Device.canonicalize(device)
        low, high = random_words(sizes, name)
        # 1 - u lies in (0, 1]: its logarithm is finite
        radius = cls._of(unit(low, high, wide), name).neg().add(1.0).log().mul(-2.0).sqrt()
        angle = cls._of(unit(high, low, wide), name).mul(2 * math.pi)
        normal = radius.mul(angle.cos()).cast(kind).reshape(sizes).contiguous()
        return normal if requires_grad is None else normal.requires_grad_(requires_grad)

    @classmethod
    def randint(
        cls, *shape: Sizes, low: int = 0, high: int = 10, dtype: DTypeLike = dtypes.int32,
        device: DeviceLike = None, requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """Integers from `low` to `high` - 1, in `shape`, int32 unless a dtype is given.

        Raises DTypeError if `dtype` is no integer, ShapeError, ArgumentError.
        """
        kind = known_dtype(dtype)
        if not kind.is_int:
            raise DTypeError(f"[randint] gives integers, not {kind.name}")
        if not (is_whole(low) and is_whole(high)):
            raise ArgumentError(
                f"[randint] low and high are whole numbers, not {low!r} and {high!r}; "
                "uniform() draws fractions"
            )
        low, high = low.__index__(), high.__index__()
        if high <= low:
            raise ArgumentError(f"[randint] high {high} must lie above low {low}")
        sizes, name = sizes_of("randint", shape), Device.canonicalize(device)
        word, more = random_words(sizes, name)
        span = high - low
        if span >= 1 << 32:
            word = (more.cast(dtypes.uint64) << 32) | word.cast(dtypes.uint64)
        if span < 1 << word.dtype.bits:
            word = word % span
        # the sum wraps in the unsigned type, and the cast keeps its low bits
        wide = dtypes.uint64 if kind.bits == 64 else word.dtype
        node = (word.cast(wide) + low).cast(kind)
        return cls._new(reshape(node, sizes), name, requires_grad).contiguous()

    @classmethod
    def normal(
        cls, *shape: Sizes, mean: float = 0.0, std: float = 1.0, requires_grad: bool | None = None,
        **kwargs: Unpack[Typed],
    ) -> Self:  # fmt: skip
        """Normal with a mean and a standard deviation, in `shape`.

        `dtypes.default_float`, unless `kwargs` (dtype, device) say otherwise. Raises ShapeError.
        """
        result = cls.randn(*shape, **kwargs).mul(std).add(mean)
        return result if requires_grad is None else result.requires_grad_(requires_grad)

    @classmethod
    def uniform(
        cls, *shape: Sizes, low: float = 0.0, high: float = 1.0, dtype: DTypeLike | None = None,
        requires_grad: bool | None = None, contiguous: bool = True, **kwargs: Unpack[Placed],
    ) -> Self:  # fmt: skip
        """Uniform in [low, high), in `shape`; `dtypes.default_float` unless a dtype is given.

        An integer `dtype` rounds to zero. Raises ShapeError, DTypeError for a complex one.
        """
        kind = dtypes.default_float if dtype is None else known_dtype(dtype)
        if kind.is_complex:
            raise DTypeError(f"[uniform] gives real numbers, not {kind.name}; see Tensor.complex")
        unit = cls.rand(*shape, dtype=kind if kind.is_float else None, contiguous=False, **kwargs)
        result = unit.mul(float(high - low)).add(float(low)).cast(kind)
        result = result.contiguous() if contiguous else result
        return result if requires_grad is None else result.requires_grad_(requires_grad)

    @classmethod
    def scaled_uniform(cls, *shape: Sizes, **kwargs: Unpack[Drawn]) -> Self:
        """Uniform in ±1 / sqrt(number of elements), in `shape`.

        `dtypes.default_float`, unless `kwargs` (dtype, device) say otherwise. Raises ShapeError.
        """
        bound = 1 / math.sqrt(max(math.prod(sizes_of("scaled_uniform", shape)), 1))
        return cls.uniform(*shape, low=-bound, high=bound, **kwargs)

    @classmethod
    def glorot_uniform(cls, *shape: Sizes, **kwargs: Unpack[Drawn]) -> Self:
        """Uniform in ±sqrt(6 / (fan in + fan out)), in `shape` (Glorot and Bengio, 2010).

        `dtypes.default_float`, unless `kwargs` (dtype, device) say otherwise. Raises ShapeError.
        """
        sizes = sizes_of("glorot_uniform", shape)
        bound = math.sqrt(6 / (sizes[0] + math.prod(sizes[1:])))
        return cls.uniform(*shape, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_uniform(cls, *shape: Sizes, a: float = 0.01, **kwargs: Unpack[Drawn]) -> Self:
        """Uniform in ±sqrt(6 / ((1 + a²) fan in)), in `shape` (He et al., 2015).

        `dtypes.default_float`, unless `kwargs` (dtype, device) say otherwise. Raises ShapeError.
        """
        bound = math.sqrt(3.0) * _kaiming_std(sizes_of("kaiming_uniform", shape), a)
        return cls.uniform(*shape, low=-bound, high=bound, **kwargs)

    @classmethod
    def kaiming_normal(cls, *shape: Sizes, a: float = 0.01, **kwargs: Unpack[Made]) -> Self:
        """Normal with standard deviation sqrt(2 / ((1 + a²) fan in)), in `shape` (He et al., 2015).

        `dtypes.default_float`, unless `kwargs` (dtype, device) say otherwise. Raises ShapeError.
        """
        return cls.normal(
            *shape, mean=0.0, std=_kaiming_std(sizes_of("kaiming_normal", shape), a), **kwargs
        )

    @classmethod
    def randperm(
        cls, n: int, device: DeviceLike = None, dtype: DTypeLike = dtypes.int32,
        requires_grad: bool | None = None,
    ) -> Self:  # fmt: skip
        """0 to n - 1 in random order, (n,) int32 unless a dtype is given.

        The places of n sorted random numbers of 64 bits. Raises ShapeError for a negative `n`.
        """
        if not isinstance(n, int) or n < 0:
            raise ShapeError(f"[randperm] n is a whole number of at least 0, not {n!r}")
        name = Device.canonicalize(device)
        low, high = random_words((n,), name)
        wide = (high.cast(dtypes.uint64) << 32) | low.cast(dtypes.uint64)
        order = cls._of(wide, name).argsort().cast(known_dtype(dtype)).contiguous()
        return order if requires_grad is None else order.requires_grad_(requires_grad)

    def bernoulli(self, p: float | None = None) -> Self:
        """1 with the probability that each element says, else 0, in its shape and dtype.

        `p` is the probability for all elements instead. Raises DTypeError for complex numbers.
        """
        self._check_real("bernoulli")
        drawn = type(self).rand(*self.shape, device=self.device, dtype=dtypes.float32)
        return drawn.lt(self if p is None else p).cast(self.dtype)

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Self:
        """Places drawn by the weights of each line (.., n): int32 (.., num_samples).

        Weights are not negative, and need not add up to 1. Without `replacement` no place is drawn
        twice; that needs as many positive weights. Raises ShapeError, DTypeError for bools and
        complex numbers.
        """
        if self.dtype.is_bool:
            raise DTypeError("[multinomial] weights are numbers, not bool")
        if self.ndim not in (1, 2) or num_samples < 1 or not self.shape[-1]:
            raise ShapeError(
                f"[multinomial] needs one or two axes of weights and at least one sample, not "
                f"shape {self.shape} and {num_samples}"
            )
        if not replacement and num_samples > self.shape[-1]:
            raise ShapeError(
                f"[multinomial] {num_samples} samples without replacement need as many weights, "
                f"not {self.shape[-1]}"
            )
        weights, kind = self.detach()._wide(), type(self)
        if replacement or num_samples == 1:
            total = weights.cumsum(-1).contiguous()
            shape = (*self.shape[:-1], num_samples)
            drawn = kind.rand(*shape, device=self.device, dtype=weights.dtype)
            last = total._slice(total.ndim - 1, self.shape[-1] - 1, self.shape[-1])
            # rounding must not lead beyond the last weight that is not 0
            end = insertion_places(total, last, False)
            return insertion_places(total, drawn.mul(last), True).minimum(end)
        # the smallest of exponential times of which each has its weight as rate
        drawn = kind.rand(*self.shape, device=self.device, dtype=weights.dtype)
        times = drawn.neg().add(1.0).log().neg()
        never = weights.gt(0).where(times.div(weights), math.inf)
        return never.topk(num_samples, -1, largest=False)[1]

    def rand_like(self, **kwargs: Unpack[Drawn]) -> Self:
        """`rand` in this tensor's shape, dtype and device, unless `kwargs` say otherwise.

        Raises DTypeError for what holds no floats.
        """
        own: Drawn = {"device": self.device, "dtype": self.dtype, **kwargs}
        return type(self).rand(*self.shape, **own)

    def randn_like(
        self,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
        **kwargs: Unpack[Placed],
    ) -> Self:
        """`randn` in this tensor's shape and device, and in its dtype unless one is given."""
        own: Typed = {"device": self.device, "dtype": dtype or self.dtype, **kwargs}
        return type(self).randn(*self.shape, requires_grad=requires_grad, **own)


def _kaiming_std(shape: Shape, a: float) -> float:
    return math.sqrt(2.0 / (1 + a**2)) / math.sqrt(max(math.prod(shape[1:]), 1))
