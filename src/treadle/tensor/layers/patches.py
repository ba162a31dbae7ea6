"""Images as matrices of patches and back, and images looked up at any places.

    cols = x.im2col(3, padding=1)                  (N, C, H, W) -> (N, C 9, patches)
    cols.col2im((h, w), 3, padding=1)              the sum of all patches, at their places
    x.grid_sample(theta.affine_grid(x.shape))      turned, scaled and moved images

`im2col` is PyTorch's `nn.functional.unfold`, `col2im` its `fold`: `Tensor.unfold` is of one axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Self, TypeAlias, TypeVar

from ...errors import DTypeError, ShapeError
from ..basis import Basis
from ..constants import evenly_spaced
from ..sliding_windows import each_axis, unwindows, windows
from ..types import Sizes

__all__ = ["Patches"]

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75  # Keys' parameter, as in PyTorch

Ints: TypeAlias = Sequence[int]
T = TypeVar("T", bound=Basis)


class Patches(Basis):
    """Patches of images on top of windows, gathers and products."""

    __slots__ = ()

    # -- patches ------------------------------------------------------------------------------

    def im2col(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> Self:
        """The patches of (N, C, H, W), or (C, H, W), as columns: (N, C * kernel, patches).

        The dtype stays. Raises ShapeError.
        """
        batched = self._batched("im2col", 4)
        kernel, gaps, pads, steps = _geometry("im2col", kernel_size, dilation, padding, stride)
        counts = _counts("im2col", batched.shape[2:], kernel, gaps, pads, steps)
        padded = batched._padded([(0, 0), (0, 0), *((n, n) for n in pads)])
        found = windows(padded, kernel, steps, gaps)
        rows = batched.shape[1] * math.prod(kernel)
        columns = found.permute((0, 1, 4, 5, 2, 3)).reshape(
            (batched.shape[0], rows, math.prod(counts))
        )
        return columns if self.ndim == 4 else columns.squeeze(0)

    def col2im(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> Self:  # fmt: skip
        """The sum of patches (N, C * kernel, patches) in images of `output_size`: (N, C, H, W).

        The transpose of `im2col`, without N too; the dtype stays. Raises ShapeError.
        """
        batched = self._batched("col2im", 3)
        sizes = each_axis("col2im", "output_size", output_size, 2)
        kernel, gaps, pads, steps = _geometry("col2im", kernel_size, dilation, padding, stride)
        counts = _counts("col2im", sizes, kernel, gaps, pads, steps)
        n, rows, columns = batched.shape
        if rows % math.prod(kernel) or columns != math.prod(counts):
            raise ShapeError(
                f"[col2im] patches of shape {self.shape} do not make images of {sizes}: expected "
                f"a multiple of {math.prod(kernel)} rows and {math.prod(counts)} columns"
            )
        found = batched.reshape((n, rows // math.prod(kernel), *kernel, *counts))
        images = unwindows(found.permute((0, 1, 4, 5, 2, 3)), kernel, steps, gaps, 0)
        for i, (size, pad) in enumerate(zip(sizes, pads, strict=True)):
            short = size + 2 * pad - images.shape[2 + i]
            whole = images._padded([(0, short) if a == 2 + i else (0, 0) for a in range(4)])
            images = whole._slice(2 + i, pad, pad + size)
        return images if self.ndim == 3 else images.squeeze(0)

    def _batched(self, name: str, rank: int) -> Self:
        if self.ndim not in (rank, rank - 1):
            raise ShapeError(f"[{name}] takes {rank} axes, or one less, not shape {self.shape}")
        return self if self.ndim == rank else self.unsqueeze(0)

    # -- places -------------------------------------------------------------------------------

    def affine_grid(self, size: Sequence[int], align_corners: bool = False) -> Self:
        """Where `grid_sample` has to look for images that affine maps move: (N, *spatial, axes).

        This tensor holds the maps, (N, 2, 3) for a `size` of (N, C, H, W) or (N, 3, 4) for (N, C,
        D, H, W), in any dtype but bool, which stays. Raises ShapeError, DTypeError.
        """
        spatial = tuple(size)[2:]
        rank = len(spatial)
        if rank not in (2, 3) or self.shape != (size[0], rank, rank + 1):
            raise ShapeError(
                f"[affine_grid] maps of shape {self.shape} do not fit a size of {tuple(size)}: "
                "expected (N, 2, 3) for (N, C, H, W), or (N, 3, 4) for (N, C, D, H, W)"
            )
        lines = []
        for n in spatial:
            edge = (1.0 if align_corners else (n - 1) / n) if n > 1 else 0.0
            node = evenly_spaced(-edge, edge, n, self.dtype)
            lines.append(type(self)._of(node, self.device))
        grids = lines[0].meshgrid(*lines[1:])
        ones = grids[0]._filled(1).expand(grids[0].shape)
        places = grids[-1].stack(*grids[-2::-1], ones, dim=-1)  # x, y, (z,) 1
        flat = places.reshape((1, math.prod(spatial), rank + 1))
        return flat.dot(self.mT).reshape((size[0], *spatial, rank))

    def grid_sample(
        self, grid: Self, mode: str = "bilinear", padding_mode: str = "zeros",
        align_corners: bool = False,
    ) -> Self:  # fmt: skip
        """The images (N, C, H, W) at places (N, h, w, 2): (N, C, h, w); also of three axes.

        Places are (x, y), or (x, y, z), where -1 and 1 are the edges of an image, or with
        `align_corners` the middles of its outermost pixels. `mode`: "bilinear", "nearest" or
        "bicubic" (of two axes). Outside of the image, `padding_mode` is "zeros", "border" (the
        nearest pixel) or "reflection". Floats, in their dtype. Raises ShapeError, DTypeError.
        """
        self._check_grid(grid, mode, padding_mode)
        spatial = self.shape[2:]
        taps = []
        for axis, size in enumerate(spatial):
            at = grid.select(-1, len(spatial) - 1 - axis).flatten(1)._wide()
            taps.append(at._taps(size, mode, padding_mode, align_corners))
        flat, total = self.flatten(2), None
        lead = (*self.shape[:2], math.prod(grid.shape[1:-1]))
        for chosen in itertools.product(*taps):
            pixel, weight, inside = chosen[0]
            place = inside.where(pixel, 0.0).int()  # floats cannot count the pixels of an image
            for size, (pixel, factor, fits) in zip(spatial[1:], chosen[1:], strict=True):
                place = place.mul(size).add(fits.where(pixel, 0.0).int())
                weight, inside = weight.mul(factor), inside.bitwise_and(fits)
            index = inside.where(place, -1).unsqueeze(1).expand(lead)
            picked = flat._pick(2, index, along=True)._wide()
            part = picked.mul(inside.where(weight, 0.0).unsqueeze(1))
            total = part if total is None else total.add(part)
        assert total is not None
        return total.reshape((*self.shape[:2], *grid.shape[1:-1])).cast(self.dtype)

    def _check_grid(self, grid: Self, mode: str, padding: str) -> None:
        rank = self.ndim - 2
        if rank not in (2, 3) or grid.ndim != self.ndim or grid.shape[-1] != rank or (
            grid.shape[0] != self.shape[0]
        ):  # fmt: skip
            raise ShapeError(
                f"[grid_sample] images {self.shape} and places {grid.shape} do not fit: expected "
                "(N, C, H, W) and (N, h, w, 2), or (N, C, D, H, W) and (N, d, h, w, 3)"
            )
        if not all(self.shape[2:]):
            raise ShapeError(f"[grid_sample] images of shape {self.shape} have no pixels")
        if not self.dtype.is_float or grid.dtype is not self.dtype:
            raise DTypeError(
                f"[grid_sample] images and places are floats of one dtype, not {self.dtype.name} "
                f"and {grid.dtype.name}"
            )
        if mode not in _MODES or padding not in _PADDINGS or (mode == "bicubic" and rank == 3):
            raise ShapeError(
                f"[grid_sample] mode {mode!r} with padding {padding!r} is not known for {rank} "
                f"axes; there are {', '.join(_MODES)}, and {', '.join(_PADDINGS)}"
            )

    def _taps(
        self, size: int, mode: str, padding: str, corners: bool
    ) -> list[tuple[Self, Self, Self]]:
        """The pixels of one axis that each place reads: (pixel, weight, whether it exists)."""
        at = self.add(1.0).mul((size - 1) / 2) if corners else self.add(1.0).mul(size / 2).sub(0.5)
        if mode == "bicubic":
            low = at.floor().detach()
            found = zip(range(-1, 3), _cubic_weights(at.sub(low)), strict=True)
            pixels = [(low.add(i), weight) for i, weight in found]
            pixels = [(p._brought_inside(size, padding, corners), w) for p, w in pixels]
        else:
            at = at._brought_inside(size, padding, corners)
            low = (at.round() if mode == "nearest" else at.floor()).detach()
            share = at.sub(low)
            pixels = [(low, share.neg().add(1.0)), (low.add(1), share)]
            pixels = [(low, share.mul(0.0).add(1.0))] if mode == "nearest" else pixels
        return [
            (p.detach(), w, p.detach().ge(0).bitwise_and(p.detach().le(size - 1)))
            for p, w in pixels
        ]

    def _brought_inside(self, size: int, padding: str, corners: bool) -> Self:
        """Places beyond the pixels of one axis moved to the border, or reflected at it."""
        if padding == "zeros":
            return self
        at = self
        if padding == "reflection":
            low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
            if not span:
                return self.mul(0.0)
            beyond = at.sub(low).abs()
            turns = beyond.div(span).floor().detach()
            rest = beyond.sub(turns.mul(span))
            back = turns.mod(2.0).ne(0)
            at = back.where(rest.neg().add(span), rest).add(low)
        return at.clamp(0.0, size - 1.0)


def _cubic_weights(share: T) -> list[T]:
    """What Keys' cubic convolution gives the pixels at -1, 0, 1 and 2."""
    near = [share, share.neg().add(1.0)]
    far = [d.add(1.0) for d in near]
    inner = [d.mul(_CUBIC + 2).sub(_CUBIC + 3).mul(d).mul(d).add(1.0) for d in near]
    outer = [
        d.mul(_CUBIC).sub(5 * _CUBIC).mul(d).add(8 * _CUBIC).mul(d).sub(4 * _CUBIC) for d in far
    ]
    return [outer[0], inner[0], inner[1], outer[1]]


def _geometry(
    name: str, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> tuple[Ints, ...]:
    return (
        each_axis(name, "kernel_size", kernel, 2),
        each_axis(name, "dilation", dilation, 2),
        each_axis(name, "padding", padding, 2, least=0),
        each_axis(name, "stride", stride, 2),
    )


def _counts(name: str, sizes: Ints, kernel: Ints, gaps: Ints, pads: Ints, steps: Ints) -> list[int]:
    """How many patches there are along each axis. Raises ShapeError if there are none."""
    spans = [gap * (n - 1) + 1 for n, gap in zip(kernel, gaps, strict=True)]
    rooms = [size + 2 * pad - span for size, pad, span in zip(sizes, pads, spans, strict=True)]
    if min(rooms) < 0 or not all(sizes):
        raise ShapeError(
            f"[{name}] patches that span {tuple(spans)} do not fit images of {tuple(sizes)} with "
            f"padding {tuple(pads)}"
        )
    return [room // step + 1 for room, step in zip(rooms, steps, strict=True)]
