"""Fourier transforms: those of the Array API's `fft` extension, as methods.

    x.fft()                        (.., n) complex, of real or complex numbers
    x.rfft().irfft(x.shape[-1])    x again, for real x
    x.fftn(axes=(0, 1))            over several axes; `s` cuts or pads them first

`norm` says where results are divided: "backward" by n in inverse transforms, "forward" in the
others, "ortho" by the square root of n in both. Integers become the default float, halves float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

from ...dtype import complex_of, dtypes, to_dtype
from ...errors import ArgumentError, DTypeError, ShapeError
from ..basis import Basis
from ..shapes import resolve_axes, resolve_axis
from ..types import Axes, DeviceLike, DTypeLike
from .dft import dft, dft_to_real, real_dft

__all__ = ["Transforms"]

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


T = TypeVar("T")


class _AlongOne(Protocol[T]):
    """A transform along one axis."""

    def __call__(self, x: T, n: int | None, axis: int, norm: str | None, /) -> T: ...


class Transforms(Basis):
    """Transforms on top of products and complex numbers."""

    __slots__ = ()

    # -- one axis -----------------------------------------------------------------------------

    def fft(self, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Self:
        """The Fourier transform along an axis, cut or padded with zeros to `n`; complex.

        complex128 of float64, else complex64. Raises ShapeError, IndexOutOfRange, ArgumentError for
        another `norm` than "backward", "ortho" and "forward".
        """
        return self._transformed("fft", n, axis, norm, False)

    def ifft(self, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Self:
        """The inverse of `fft` along an axis: complex64, or complex128 of double precision.

        Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self._transformed("ifft", n, axis, norm, True)

    def rfft(self, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Self:
        """The first n // 2 + 1 elements of `fft` of real numbers, of which the others follow.

        complex64, or complex128 of float64. Raises DTypeError for complex numbers, ShapeError,
        IndexOutOfRange, ArgumentError.
        """
        self._check_real("rfft")
        at = self._axis("rfft", axis)
        count = _length("rfft", self.shape[at] if n is None else n)
        return self._float()._fitted(at, count)._lines("rfft", at, count, norm, False, real_dft)

    def irfft(self, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Self:
        """The inverse of `rfft` along an axis: `n` real numbers, 2 (m - 1) of m by default.

        float64 of double precision, else float32. Raises ShapeError, IndexOutOfRange,
        ArgumentError.
        """
        at = self._axis("irfft", axis)
        count = _length("irfft", 2 * (self.shape[at] - 1) if n is None else n)
        half = self._complex()._fitted(at, count // 2 + 1)
        return half._lines("irfft", at, count, norm, True, lambda x: dft_to_real(x, count))

    def hfft(self, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Self:
        """`fft` of numbers with Hermitian symmetry, of which the first half is given: `n` reals.

        2 (m - 1) of m along the axis by default; float64 of double precision, else float32. Raises
        ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self.conj().irfft(n, axis, _OPPOSITE[_norm("hfft", norm)])

    def ihfft(self, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Self:
        """The inverse of `hfft` along an axis, of real numbers: the first half, n // 2 + 1,
        complex.

        complex64, or complex128 of float64. Raises DTypeError for complex numbers, ShapeError,
        IndexOutOfRange, ArgumentError.
        """
        self._check_real("ihfft")
        return self.rfft(n, axis, _OPPOSITE[_norm("ihfft", norm)]).conj()

    # -- several axes -------------------------------------------------------------------------

    def fftn(
        self, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """`fft` along each of some axes, or all, cut or padded to the sizes `s`, where -1 keeps.

        complex64, or complex128 of float64. Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self._along("fftn", s, axes, norm, type(self).fft)

    def ifftn(
        self, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """The inverse of `fftn`, along some axes or all: complex64, or complex128 of double
        precision.

        Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self._along("ifftn", s, axes, norm, type(self).ifft)

    def rfftn(
        self, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """`rfft` along the last of some axes, `fft` along the others: n // 2 + 1 elements of that.

        complex64, or complex128 of float64. Raises DTypeError for complex numbers, ShapeError where
        there is no axis, IndexOutOfRange, ArgumentError.
        """
        self._check_real("rfftn")
        pairs = self._pairs("rfftn", s, axes)
        if not pairs:
            raise ShapeError("[rfftn] needs an axis")
        half = self.rfft(pairs[-1][1], pairs[-1][0], norm)
        return half._each(pairs[:-1], norm, type(self).fft)

    def irfftn(
        self, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """The inverse of `rfftn`: real numbers, 2 (m - 1) of m along the last axis by default.

        float64 of double precision, else float32. Raises ShapeError where there is no axis,
        IndexOutOfRange, ArgumentError.
        """
        pairs = self._pairs("irfftn", s, axes)
        if not pairs:
            raise ShapeError("[irfftn] needs an axis")
        axis, count = pairs[-1]
        return self._each(pairs[:-1], norm, type(self).ifft).irfft(count, axis, norm)

    def hfftn(
        self, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """`hfft` along the last of some axes, after `fft` along the others: real numbers.

        float64 of double precision, else float32. Raises ShapeError where there is no axis,
        IndexOutOfRange, ArgumentError.
        """
        return self.conj().irfftn(s, axes, _OPPOSITE[_norm("hfftn", norm)])

    def ihfftn(
        self, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """The inverse of `hfftn`, of real numbers: the first half along the last axis, complex.

        complex64, or complex128 of float64. Raises DTypeError for complex numbers, ShapeError where
        there is no axis, IndexOutOfRange, ArgumentError.
        """
        self._check_real("ihfftn")
        return self.rfftn(s, axes, _OPPOSITE[_norm("ihfftn", norm)]).conj()

    def fft2(
        self, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """`fftn` of the last two axes, or two others: complex64, or complex128 of float64.

        Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self.fftn(s, axes, norm)

    def ifft2(
        self, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """The inverse of `fft2`, of two axes: complex64, or complex128 of double precision.

        Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self.ifftn(s, axes, norm)

    def rfft2(
        self, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """`rfftn` of the last two axes, or two others: complex64, or complex128 of float64.

        Raises DTypeError for complex numbers, ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self.rfftn(s, axes, norm)

    def irfft2(
        self, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """The inverse of `rfft2`, of two axes: real numbers, float64 of double precision.

        Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self.irfftn(s, axes, norm)

    def hfft2(
        self, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """`hfftn` of the last two axes, or two others: real numbers, float64 of double precision.

        Raises ShapeError, IndexOutOfRange, ArgumentError.
        """
        return self.hfftn(s, axes, norm)

    def ihfft2(
        self, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: str | None = "backward",
    ) -> Self:  # fmt: skip
        """The inverse of `hfft2`, of two axes of real numbers: the first half, complex.

        complex64, or complex128 of float64. Raises DTypeError for complex numbers, ShapeError,
        IndexOutOfRange, ArgumentError.
        """
        return self.ihfftn(s, axes, norm)

    # -- frequencies --------------------------------------------------------------------------

    @classmethod
    def fftfreq(
        cls, n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike = None
    ) -> Self:  # fmt: skip
        """The frequency of each element of an `fft` of `n` numbers that are `d` apart: (n,).

        `dtypes.default_float` unless a dtype is given. Raises ShapeError, and DTypeError for one of
        no floats.
        """
        half = (_length("fftfreq", n) + 1) // 2
        return cls._frequencies([(0, half), (half - n, 0)], n * d, dtype, device)

    @classmethod
    def rfftfreq(
        cls, n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: DeviceLike = None
    ) -> Self:  # fmt: skip
        """The frequency of each element of an `rfft` of `n` numbers that are `d` apart: (n // 2 +
        1,).

        `dtypes.default_float` unless a dtype is given. Raises ShapeError, and DTypeError for one of
        no floats.
        """
        return cls._frequencies([(0, _length("rfftfreq", n) // 2 + 1)], n * d, dtype, device)

    @classmethod
    def _frequencies(
        cls,
        spans: Sequence[tuple[int, int]],
        period: float,
        dtype: DTypeLike | None,
        device: DeviceLike,
    ) -> Self:
        import numpy as np

        kind = dtypes.default_float if dtype is None else to_dtype(dtype)
        if not kind.is_float:
            raise DTypeError(f"[fftfreq] frequencies are floats, not {kind.name}")
        places = np.concatenate([np.arange(*span, dtype=np.float64) for span in spans])
        with np.errstate(divide="ignore", invalid="ignore"):
            return cls(places / period, device=device, dtype=kind)

    def fftshift(self, axes: Axes = None) -> Self:
        """Frequency 0 moved to the middle of some axes, or all; shape and dtype stay.

        Raises IndexOutOfRange.
        """
        at = resolve_axes("fftshift", axes, self.ndim)
        return self.roll([self.shape[axis] // 2 for axis in at], list(at)) if at else self

    def ifftshift(self, axes: Axes = None) -> Self:
        """The inverse of `fftshift`, of some axes or all; shape and dtype stay.

        Raises IndexOutOfRange.
        """
        at = resolve_axes("ifftshift", axes, self.ndim)
        return self.roll([-(self.shape[axis] // 2) for axis in at], list(at)) if at else self

    # -- parts of them ------------------------------------------------------------------------

    def _complex(self) -> Self:
        return self.cast(complex_of(self._float().dtype))

    def _axis(self, name: str, axis: int) -> int:
        if not self.ndim:
            raise ShapeError(f"[{name}] shape () has no axis to transform")
        return resolve_axis(name, axis, self.ndim)

    def _fitted(self, axis: int, size: int) -> Self:
        """One axis cut or padded with zeros at its end."""
        old = self.shape[axis]
        if old == size:
            return self
        if old > size:
            return self._slice(axis, 0, size)
        return self.pad_to([size if i == axis else n for i, n in enumerate(self.shape)])

    def _transformed(
        self, name: str, n: int | None, axis: int, norm: str | None, inverse: bool
    ) -> Self:
        at = self._axis(name, axis)
        count = _length(name, self.shape[at] if n is None else n)
        lines = self._complex()._fitted(at, count)
        return lines._lines(name, at, count, norm, inverse, lambda x: dft(x, inverse))

    def _lines(
        self, name: str, axis: int, count: int, norm: str | None, inverse: bool,
        transform: Callable[[Self], Self],
    ) -> Self:  # fmt: skip
        """`transform` of the lines along an axis, with the factor that `norm` asks for."""
        lines = self
        divides = _norm(name, norm)
        if divides == "ortho":
            lines = lines.mul(1 / math.sqrt(count))
        elif inverse == (divides == "backward"):
            lines = lines.mul(1 / count)
        if axis == self.ndim - 1:
            return transform(lines)
        # rows, since the matmuls read them several times
        return transform(lines.transpose(axis, -1).contiguous()).transpose(axis, -1)

    def _pairs(
        self, name: str, s: Sequence[int] | None, axes: Sequence[int] | None
    ) -> list[tuple[int, int | None]]:
        """(axis, size) in the order given; a size of None is the transform's default."""
        if axes is None:
            axes = range(self.ndim) if s is None else range(-len(s), 0)
        listed = [self._axis(name, axis) for axis in axes]
        if len(set(listed)) != len(listed):
            raise ShapeError(f"[{name}] axes {tuple(axes)} name the same axis twice")
        if s is not None and len(s) != len(listed):
            raise ShapeError(f"[{name}] {len(s)} sizes for {len(listed)} axes")
        sizes = [None] * len(listed) if s is None else list(s)
        sizes = [self.shape[at] if n == -1 else n for at, n in zip(listed, sizes, strict=True)]
        return list(zip(listed, sizes, strict=True))

    def _along(
        self, name: str, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None,
        transform: _AlongOne[Self],
    ) -> Self:  # fmt: skip
        return self._complex()._each(self._pairs(name, s, axes), norm, transform)

    def _each(
        self,
        pairs: list[tuple[int, int | None]],
        norm: str | None,
        transform: _AlongOne[Self],
    ) -> Self:
        result = self
        for axis, size in reversed(pairs):
            result = transform(result, size, axis, norm)
        return result


def _length(name: str, n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ShapeError(f"[{name}] a transform has a length of 1 or more that is known, not {n!r}")
    return n


def _norm(name: str, norm: str | None) -> str:
    found = "backward" if norm is None else norm
    if found not in _OPPOSITE:
        raise ArgumentError(f'[{name}] norm is "backward", "ortho" or "forward", not {norm!r}')
    return found
