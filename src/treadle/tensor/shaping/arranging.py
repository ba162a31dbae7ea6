"""Axes by name and by pattern: rearrange, and moves that PyTorch and NumPy have names for.

    x.rearrange("b (h d) t -> b h t d", h=8)     -> split, permute and merge in one formula
    x.movedim(0, -1), x.narrow(1, 2, 3), x.unbind(0), x.rot90()

All of it is views: nothing is computed or copied.
"""

from __future__ import annotations

import re
from typing import Self

from ...errors import ShapeError
from ...ir.shape import same_size, size_product
from ..basis import Basis
from ..naming import same_as
from ..shapes import broadcast_shapes, flatten_args, own_axis, resolve_axis
from ..types import Axes, Sizes

__all__ = ["Arranging"]

Groups = list[tuple[str, ...]]


class Arranging(Basis):
    """Movement with names, and names of movement."""

    __slots__ = ()

    def rearrange(self, formula: str, **sizes: int) -> Self:
        """Axes split, reordered and merged by a formula of einops; the dtype stays.

        Names on the left are this tensor's axes, on the right those of the result; `(a b)` is one
        axis made of several, `1` or `()` an axis of size 1, `...` all axes not named. A name may
        have its size in `sizes`; of each group at most one may be unknown. Raises ShapeError.
        """
        left, right = _sides(formula)
        left, right = _without_dots(formula, left, right, self.ndim)
        _check_names(formula, left, right, sizes)
        known = dict(sizes)
        for axis, group in enumerate(left):
            _learn_sizes(formula, group, self.shape[axis], known)
        flat = [name for group in left for name in group]
        split = self.reshape([known[name] for name in flat])
        order = [flat.index(name) for group in right for name in group]
        moved = split.permute(order) if order else split
        return moved.reshape([size_product(known[name] for name in group) for group in right])

    def narrow(self, dim: int, start: int, length: int) -> Self:
        """`length` elements of an axis from `start` on; the dtype stays.

        Raises ShapeError, IndexOutOfRange.
        """
        axis = own_axis("narrow", dim, self.shape)
        size = self.shape[axis]
        start = start.__index__()
        begin = start + size if start < 0 else start
        if not 0 <= begin <= size or length < 0 or begin + length > size:
            raise ShapeError(
                f"[narrow] {length} elements from {start} on do not fit axis {axis} of "
                f"shape {self.shape}"
            )
        return self._slice(axis, begin, begin + length)

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """All places of an axis, each without it, in this dtype.

        Raises ShapeError for a scalar, IndexOutOfRange.
        """
        axis = resolve_axis("unbind", dim, self.ndim)
        if not self.ndim:
            raise ShapeError("[unbind] a tensor of shape () has no axis to take apart")
        return tuple(self.select(axis, place) for place in range(self.shape[axis]))

    @same_as(unbind)
    def unstack(self, dim: int = 0) -> tuple[Self, ...]: ...
    @same_as(Basis.permute)
    def permute_dims(self, order: Axes, *args: Sizes) -> Self: ...
    @same_as(Basis.unsqueeze)
    def expand_dims(self, dim: int) -> Self: ...
    @same_as(Basis.movedim)
    def moveaxis(self, source: Axes, destination: Axes) -> Self: ...
    @same_as(Basis.transpose)
    def swapaxes(self, dim0: int = 1, dim1: int = 0) -> Self: ...
    @same_as(Basis.transpose)
    def swapdims(self, dim0: int = 1, dim1: int = 0) -> Self: ...

    def tile(self, reps: Sizes, *args: Sizes) -> Self:
        """The whole tensor repeated along its last axes, as NumPy's `tile`; the dtype stays."""
        counts = flatten_args(reps, args)
        return self.repeat((1,) * (self.ndim - len(counts)) + tuple(counts))

    def broadcast_to(self, shape: Sizes, *args: Sizes) -> Self:
        """Expanded to `shape`, which this tensor's broadcasts to; the dtype stays. Raises
        ShapeError.
        """
        wanted = flatten_args(shape, args)
        if (
            len(wanted) < self.ndim
            or broadcast_shapes("broadcast_to", self.shape, wanted) != wanted
        ):
            raise ShapeError(f"[broadcast_to] {self.shape} does not broadcast to {wanted}")
        return self.expand(wanted)

    def expand_as(self, other: Self) -> Self:
        """Expanded to the shape of `other`, in this dtype. Raises ShapeError."""
        return self.expand(other.shape)

    def view_as(self, other: Self) -> Self:
        """Reshaped to the shape of `other`, in this dtype. Raises ShapeError."""
        return self.reshape(other.shape)

    def ravel(self) -> Self:
        """All elements on one axis, in their dtype."""
        return self.reshape((self.numel(),))

    def t(self) -> Self:
        """The transpose of a matrix; a vector or scalar stays, and so does the dtype. Raises
        ShapeError.
        """
        if self.ndim > 2:
            raise ShapeError(f"[t] is for up to two axes, not shape {self.shape}; use .mT")
        return self.T

    def fliplr(self) -> Self:
        """The second axis reversed: left and right exchanged; shape and dtype stay.

        Raises IndexOutOfRange.
        """
        return self.flip(1)

    def flipud(self) -> Self:
        """The first axis reversed: up and down exchanged; shape and dtype stay.

        Raises ShapeError for a scalar.
        """
        if not self.ndim:
            raise ShapeError("[flipud] needs an axis, shape () has none")
        return self.flip(0)

    @property
    def H(self) -> Self:
        """The conjugate transpose of a matrix, (m, n) to (n, m), in its dtype.

        Raises ShapeError for another number of axes.
        """
        if self.ndim != 2:
            raise ShapeError(f"[H] takes a matrix, not shape {self.shape}; .mH has batches")
        return self.mH

    @property
    def mH(self) -> Self:
        """The conjugate transpose of the last two axes, in this dtype.

        Raises IndexOutOfRange for less.
        """
        return self.transpose(-1, -2).conj()

    def rot90(self, k: int = 1, dims: tuple[int, int] = (0, 1)) -> Self:
        """Turned by 90 degrees `k` times, from the first of two axes `dims` towards the second.

        The dtype stays. Raises ShapeError where both are the same axis, IndexOutOfRange.
        """
        first, second = (resolve_axis("rot90", axis, self.ndim) for axis in dims)
        if first == second:
            raise ShapeError(f"[rot90] a plane has two axes, not {tuple(dims)}")
        if k % 2 == 0:
            return self.flip((first, second)) if k % 4 else self
        turned = self.transpose(first, second)
        return turned.flip(first if k % 4 == 1 else second)

    def pixel_shuffle(self, upscale_factor: int) -> Self:
        """(.., c r², h, w) as (.., c, h r, w r); the dtype stays. Raises ShapeError."""
        return self._shuffled(
            "pixel_shuffle", "... (c p q) h w -> ... c (h p) (w q)", upscale_factor
        )

    def pixel_unshuffle(self, downscale_factor: int) -> Self:
        """(.., c, h r, w r) as (.., c r², h, w); the dtype stays. Raises ShapeError."""
        return self._shuffled(
            "pixel_unshuffle", "... c (h p) (w q) -> ... (c p q) h w", downscale_factor
        )

    def _shuffled(self, name: str, formula: str, factor: int) -> Self:
        if self.ndim < 3 or factor < 1:
            raise ShapeError(
                f"[{name}] needs a factor of at least 1 and three axes, not {factor} and "
                f"shape {self.shape}"
            )
        return self.rearrange(formula, p=factor, q=factor)


# -- formulas -------------------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(\(|\)|(?:\.\.\.|1|[A-Za-z_]\w*)(?![\w.]))")
_MERGED = "(...)"  # '...' among the names of one axis


def _sides(formula: str) -> tuple[Groups, Groups]:
    left, arrow, right = formula.partition("->")
    if not arrow or "->" in right:
        raise ShapeError(f"[rearrange] {formula!r} needs one '->'")
    return _groups(formula, left), _groups(formula, right)


def _groups(formula: str, side: str) -> Groups:
    """Each axis as the names it is made of."""
    groups: Groups = []
    inner: list[str] | None = None
    place, text = 0, side.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        part = match.group(1) if match else text[place:]
        if match is None or ((part == "(") != (inner is None) and part in "()"):
            raise ShapeError(f"[rearrange] {formula!r} cannot be read at {text[place:]!r}")
        place = match.end()
        if part == "(":
            inner = []
        elif part == ")":
            groups.append(tuple(inner or ()))
            inner = None
        elif inner is not None:
            inner += [] if part == "1" else [_MERGED if part == "..." else part]
        else:
            groups.append(() if part == "1" else (part,))
    if inner is not None:
        raise ShapeError(f"[rearrange] {formula!r} has a '(' that is not closed")
    return groups


def _without_dots(formula: str, left: Groups, right: Groups, rank: int) -> tuple[Groups, Groups]:
    """`...` as names of its own, one for each axis that it stands for."""
    if any(_MERGED in group for group in left):
        raise ShapeError(f"[rearrange] {formula!r}: '...' on the left stands alone")
    hidden = rank - sum(group != ("...",) for group in left)
    dotted = ("...",) in left
    if hidden < 0 or (hidden and not dotted):
        raise ShapeError(
            f"[rearrange] {formula!r} names {len(left) - dotted} axes, the tensor has {rank}"
        )
    names = tuple(f"...{i}" for i in range(hidden))
    new_left = [g for group in left for g in (_alone(names) if group == ("...",) else [group])]
    new_right = [
        g
        for group in right
        for g in (_alone(names) if group == ("...",) else [_unfolded(group, names)])
    ]
    return new_left, new_right


def _alone(names: tuple[str, ...]) -> Groups:
    return [(name,) for name in names]


def _unfolded(group: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(n for name in group for n in (names if name == _MERGED else (name,)))


def _check_names(formula: str, left: Groups, right: Groups, sizes: dict[str, int]) -> None:
    names = [[name for group in side for name in group] for side in (left, right)]
    for side in names:
        twice = sorted({name for name in side if side.count(name) > 1})
        if twice:
            raise ShapeError(f"[rearrange] {formula!r} names {', '.join(twice)} twice")
    if set(names[0]) != set(names[1]):
        odd = sorted(set(names[0]) ^ set(names[1]))
        raise ShapeError(f"[rearrange] {formula!r} has {', '.join(odd)} on one side only")
    unknown = sorted(set(sizes) - set(names[0]))
    if unknown:
        raise ShapeError(f"[rearrange] {formula!r} does not name {', '.join(unknown)}")


def _learn_sizes(formula: str, group: tuple[str, ...], size: int, known: dict[str, int]) -> None:
    """The one unknown size of an axis from the others."""
    missing = [name for name in group if name not in known]
    if len(missing) > 1:
        raise ShapeError(
            f"[rearrange] {formula!r}: sizes of {', '.join(missing)} are needed, all but one"
        )
    given = size_product(known[name] for name in group if name in known)
    if missing:
        whole = isinstance(size, int) and isinstance(given, int)
        if whole and (given == 0 or size % given):
            raise ShapeError(
                f"[rearrange] {formula!r}: an axis of {size} elements is no multiple of {given}"
            )
        known[missing[0]] = size if same_size(given, 1) else size // given
    elif not same_size(given, size):
        raise ShapeError(
            f"[rearrange] {formula!r}: an axis has {size} elements, its names say {given}"
        )
