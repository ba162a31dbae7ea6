"""What writing means, executed over NumPy: the rules of docs/concepts.md, one by one.

    x = Tensor([1, 2, 3]); v = x[1:]; w = x[1:]
    v.assign(7)               # x is [1, 7, 7], v is [7, 7], and w is [2, 3] as before

A tensor is a storage, the places of it that a view shows, and the values of one version. Nothing
here is lazy: what the product computes late must give what this computes at once. `TinyJit` is the
function itself. Derivatives are carried along (forward mode): one array for each element of a leaf.
"""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["Inexact", "Refused", "Storage", "Tensor", "TinyJit", "Unclear"]

Slopes = dict[int, np.ndarray]  # for an element of a leaf, by its number: how much values change

_serial = itertools.count()
_recording = [True]
_began = [-1]  # the number of the first storage that the captured function that runs made
_LARGEST = 1 << 20  # float32 holds all integers up to 1 << 24, sums of a few of these too


class Refused(Exception):
    """The model says that this raises, before anything is written, a message with this word."""


class Unclear(Exception):
    """The model leaves open what this means: programs do not ask."""


class Inexact(Exception):
    """A float result might be rounded, or an intermediate sum of it."""


class Storage:
    """The latest values, flat, and the tensor that owns them."""

    def __init__(self, values: np.ndarray, owner: Tensor, read_only: bool = False) -> None:
        self.values, self.read_only = values, read_only
        self.slopes: Slopes = {}
        self.owner = weakref.ref(owner)
        self.number = next(_serial)
        self.memory: np.ndarray | None = None  # of somebody else
        self.views: weakref.WeakSet[Tensor] = weakref.WeakSet()

    def write(self, places: np.ndarray, values: np.ndarray, slopes: Slopes) -> None:
        """The values, and how they depend on leaves, at `places`; the owner sees them."""
        self.values = _put(self.values, places, values)
        owner = self.owner()
        if owner is None or owner.leaf is None:  # a leaf stays one
            zeros = np.zeros(self.values.shape, np.float32)
            none = np.zeros(values.shape, np.float32)
            self.slopes = {
                n: _put(self.slopes.get(n, zeros), places, slopes.get(n, none))
                for n in self.slopes.keys() | slopes.keys()
            }
        if self.memory is not None:
            self.memory.reshape(-1)[:] = self.values
        if owner is not None:
            owner.values = self.values.reshape(owner.values.shape)
            owner.slopes = {n: a.reshape(owner.values.shape) for n, a in self.slopes.items()}


def _put(old: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    new = old.copy()
    new[places.reshape(-1)] = values.reshape(-1)
    return new


def _moving(move: Callable[..., Callable[[np.ndarray], np.ndarray]]) -> Callable[..., Tensor]:
    """A method that shows the same storage otherwise, always as another object."""

    def method(self: Tensor, *args: Any) -> Tensor:
        return self._shown(move(self, *args))

    return method


def _flat(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def _is_basic(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return not any(isinstance(item, list) for item in items)


class Tensor:
    """A view of a storage at one version."""

    values: np.ndarray  # never changed: a write puts another array here
    places: np.ndarray  # where in the storage each element is; -1 for what padding adds
    slopes: Slopes
    storage: Storage
    is_lost = False  # it is open what it holds
    taken_of: tuple[weakref.ref[Tensor], ...] = ()  # what a view was taken of, the nearest first
    leaf: np.ndarray | None = None  # the numbers of its elements
    grad: Tensor | None = None

    def __init__(self, data: Any, dtype: Any = None) -> None:
        values = np.array(data)
        if not isinstance(data, np.ndarray):
            wide = np.float32 if values.dtype.kind == "f" else np.int32
            values = values.astype(bool if values.dtype.kind == "b" else wide)
        self._own(values if dtype is None else values.astype(dtype))

    def _own(self, values: np.ndarray, read_only: bool = False) -> None:
        if values.dtype.kind == "f" and values.size and np.abs(values).max() > _LARGEST:
            raise Inexact(values)
        self.values, self.slopes = values, {}
        self.places = np.arange(values.size).reshape(values.shape)
        self.storage = Storage(values.reshape(-1), self, read_only)
        self.grew = self.padded = self.aliased = self.cut = False
        self.numbers: frozenset[int] = frozenset()

    @classmethod
    def of(cls, values: np.ndarray, slopes: Slopes | None = None) -> Tensor:
        """What an operation computes: the owner of a storage of its own."""
        new = cls.__new__(cls)
        new._own(values)
        if slopes and _recording[0]:
            for slope in slopes.values():
                cls.of(slope)  # which is exact, too
            new.slopes = {n: slope.copy() for n, slope in slopes.items()}
            new.storage.slopes = {n: slope.reshape(-1) for n, slope in new.slopes.items()}
        return new

    def _linear(self, function: Callable[[np.ndarray], np.ndarray]) -> Tensor:
        """What an operation computes that does the same to values and to slopes."""
        self._check_known()
        slopes = {n: np.asarray(function(a)) for n, a in self.slopes.items()}
        return Tensor.of(np.asarray(function(self.values)), slopes)

    def _shown(self, change: Callable[[np.ndarray], np.ndarray]) -> Tensor:
        """A view: the same change of values, of slopes and of places."""
        self._check_known()
        new = Tensor.__new__(Tensor)
        new.values, new.places, new.storage = change(self.values), change(self.places), self.storage
        new.grew, new.padded, new.aliased = self.grew, self.padded, self.aliased
        new.cut = self.cut or not _recording[0]
        new.taken_of = (weakref.ref(self), *self.taken_of)
        self.storage.views.add(new)
        new.slopes = {} if new.cut else {n: change(a) for n, a in self.slopes.items()}
        return new

    # -- creation -------------------------------------------------------------------------------

    @staticmethod
    def zeros(*shape: int) -> Tensor:
        return Tensor.of(np.zeros(shape, np.float32))

    @staticmethod
    def ones(*shape: int) -> Tensor:
        return Tensor.of(np.ones(shape, np.float32))

    @staticmethod
    def full(shape: tuple[int, ...], value: Any) -> Tensor:
        kind = np.float32 if isinstance(value, float) else np.int32
        return Tensor.of(np.full(shape, value, kind))

    @staticmethod
    def arange(stop: int) -> Tensor:
        return Tensor.of(np.arange(stop, dtype=np.int32))

    @staticmethod
    def from_blob(
        ptr: int, shape: tuple[int, ...], dtype: str, *, owner: np.ndarray, readonly: bool = False
    ) -> Tensor:
        """The memory of `owner`, which is where writes go."""
        new = Tensor.__new__(Tensor)
        new._own(owner.astype(dtype).reshape(shape), readonly)
        new.storage.memory = owner
        return new

    def change_memory(self, value: Any) -> None:
        """Its owner writes there: this tensor shows it, and its views are open from now on."""
        self.storage.values = np.full_like(self.storage.values, value)
        self.values = self.storage.values.reshape(self.shape)
        for view in self.storage.views:
            view.is_lost = True

    # -- looking at it --------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def is_view(self) -> bool:
        return self.storage.owner() is not self

    def numpy(self) -> np.ndarray:
        self._check_known()
        return self.values.copy()

    def _check_known(self) -> None:
        if self.is_lost:
            raise Unclear("a view of memory that its owner has changed since")

    def realize(self, *others: Tensor) -> Tensor:
        """Changes nothing that can be seen."""
        return self

    # -- views ----------------------------------------------------------------------------------

    reshape = view = _moving(lambda self, *shape: lambda a: a.reshape(_flat(shape)))
    permute = _moving(lambda self, *order: lambda a: a.transpose(_flat(order)))
    transpose = _moving(lambda self, i, j: lambda a: a.swapaxes(i, j))
    flip = _moving(lambda self, *axes: lambda a: np.flip(a, _flat(axes)))
    squeeze = _moving(lambda self: np.squeeze)
    unsqueeze = _moving(lambda self, axis: lambda a: np.expand_dims(a, axis))
    flatten = _moving(lambda self: np.ravel)
    shrink = _moving(lambda self, pairs: lambda a: a[tuple(itertools.starmap(slice, pairs))])
    _part = _moving(lambda self, index: lambda a: np.asarray(a[index]))

    def detach(self) -> Tensor:
        new = self._shown(lambda a: a)
        new.cut, new.slopes = True, {}
        return new

    @property
    def T(self) -> Tensor:
        return self.transpose(0, 1) if self.ndim > 1 else self.detach()

    def expand(self, *shape: Any) -> Tensor:
        new = self._shown(lambda a: np.broadcast_to(a, _flat(shape)))
        new.grew = new.grew or new.values.size != self.values.size
        return new

    def pad(self, pairs: tuple[tuple[int, int], ...]) -> Tensor:
        new = self._shown(lambda a: np.pad(a, pairs))
        new.places = np.pad(self.places, pairs, constant_values=-1)
        new.padded = new.padded or new.values.size != self.values.size
        return new

    def __getitem__(self, index: Any) -> Tensor:
        return self._part(index) if _is_basic(index) else self._linear(lambda a: a[index])

    # -- operations -----------------------------------------------------------------------------

    def _pair(self, other: Any) -> tuple[Tensor, Tensor]:
        """Both in the type that they meet in; numbers give way to tensors."""
        if isinstance(other, Tensor):
            wide = np.float32 if "f" in (self.dtype.kind, other.dtype.kind) else np.int32
        else:
            wide = np.float32 if isinstance(other, float) else self.dtype
            other = Tensor(np.asarray(other, wide))
        try:
            np.broadcast_shapes(self.shape, other.shape)
        except ValueError:
            raise Refused("shape") from None
        cast = lambda a: a.astype(wide)
        return self._linear(cast), other._linear(cast)

    def _with(self, other: Any, function: Any, swapped: bool = False) -> Tensor:
        """An operation that adds slopes up as it does values."""
        x, y = self._pair(other)
        if swapped:
            x, y = y, x
        none = lambda t: np.zeros(t.shape, np.float32)
        slopes = {
            n: np.asarray(function(x.slopes.get(n, none(x)), y.slopes.get(n, none(y))))
            for n in x.slopes.keys() | y.slopes.keys()
        }
        return Tensor.of(np.asarray(function(x.values, y.values)), slopes)

    def _product(self, x: Tensor, y: Tensor, times: Any) -> Tensor:
        slopes = {}
        for n in x.slopes.keys() | y.slopes.keys():
            parts = [times(x.slopes[n], y.values)] if n in x.slopes else []
            parts += [times(x.values, y.slopes[n])] if n in y.slopes else []
            slopes[n] = np.asarray(sum(parts))
        return Tensor.of(np.asarray(times(x.values, y.values)), slopes)

    def _flat_pieces(self, other: Any, function: Any) -> Tensor:
        """An operation without slopes: at kinks they are open."""
        x, y = self._pair(other)
        if x.slopes or y.slopes:
            raise Unclear("a derivative at a kink")
        return Tensor.of(np.asarray(function(x.values, y.values)))

    def __add__(self, other: Any) -> Tensor:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Tensor:
        return self._with(other, operator.sub)

    def __mul__(self, other: Any) -> Tensor:
        return self._product(*self._pair(other), operator.mul)

    def __radd__(self, other: Any) -> Tensor:
        return self._with(other, operator.add, swapped=True)

    def __rsub__(self, other: Any) -> Tensor:
        return self._with(other, operator.sub, swapped=True)

    def __rmul__(self, other: Any) -> Tensor:
        return self * other

    def __neg__(self) -> Tensor:
        return self._linear(operator.neg)

    def __lt__(self, other: Any) -> Tensor:
        return self.detach()._flat_pieces(other, operator.lt)

    def __matmul__(self, other: Tensor) -> Tensor:
        Tensor.of(np.abs(self.values) @ np.abs(other.values))  # whose sums are exact, too
        return self._product(self, other, operator.matmul)

    def maximum(self, other: Any) -> Tensor:
        return self._flat_pieces(other, np.maximum)

    def where(self, x: Tensor, y: Tensor) -> Tensor:
        return x._with(y, lambda a, b: np.where(self.values, a, b))

    def relu(self) -> Tensor:
        return self.maximum(0)

    def contiguous(self) -> Tensor:
        return self._linear(lambda a: a)

    clone = contiguous

    def shard(self, devices: tuple[str, ...], axis: int | None = None) -> Tensor:
        return self.contiguous()

    def _check_sums(self) -> None:
        if self.dtype.kind == "f" and self.values.size:
            Tensor.of(np.asarray(np.abs(self.values).sum()))

    def sum(self, axis: Any = None, keepdim: bool = False) -> Tensor:
        self._check_sums()
        return self._linear(lambda a: np.sum(a, axis, a.dtype, keepdims=keepdim))

    def max(self, axis: Any = None, keepdim: bool = False) -> Tensor:
        return self._extreme(np.max, axis, keepdim)

    def min(self, axis: Any = None, keepdim: bool = False) -> Tensor:
        return self._extreme(np.min, axis, keepdim)

    def _extreme(self, function: Any, axis: Any, keepdim: bool) -> Tensor:
        if self.slopes:
            raise Unclear("a derivative at a kink")
        return Tensor.of(np.asarray(function(self.values, axis, keepdims=keepdim)))

    def cumsum(self, axis: int) -> Tensor:
        self._check_sums()
        return self._linear(lambda a: np.cumsum(a, axis, a.dtype))

    def roll(self, shifts: int, dims: int) -> Tensor:
        return self._linear(lambda a: np.roll(a, shifts, dims))

    def cat(self, *others: Tensor, dim: int = 0) -> Tensor:
        return self._joined(others, lambda arrays: np.concatenate(arrays, dim))

    def stack(self, *others: Tensor, dim: int = 0) -> Tensor:
        return self._joined(others, lambda arrays: np.stack(arrays, dim))

    def _joined(self, others: tuple[Tensor, ...], join: Any) -> Tensor:
        tensors = (self, *others)
        none = [np.zeros(t.shape, np.float32) for t in tensors]
        slopes = {
            n: join([t.slopes.get(n, zero) for t, zero in zip(tensors, none, strict=True)])
            for n in {n for t in tensors for n in t.slopes}
        }
        return Tensor.of(join([t.values for t in tensors]), slopes)

    # -- gradients ------------------------------------------------------------------------------

    @staticmethod
    @contextmanager
    def no_grad() -> Iterator[None]:
        before, _recording[0] = _recording[0], False
        try:
            yield
        finally:
            _recording[0] = before

    def requires_grad_(self) -> Tensor:
        """From now on a leaf: it owns its storage, and each element is one to differentiate by."""
        if self.is_view or self.slopes:
            raise Unclear("a leaf that is a view, or depends on others")
        self._number()
        return self

    def _number(self) -> None:
        """New numbers for the elements of a leaf, one set for each version of it."""
        self.storage.slopes, self.slopes = {}, {}
        self.leaf = np.array([next(_serial) for _ in range(self.values.size)], int)
        self.numbers |= {*self.leaf.tolist()}
        for place, number in enumerate(self.leaf):
            unit = np.zeros(self.values.size, np.float32)
            unit[place] = 1
            self.storage.slopes[int(number)] = unit
            self.slopes[int(number)] = unit.reshape(self.shape)

    def gradient(self, *leaves: Tensor, materialize_grads: bool = True) -> list[Tensor]:
        """How this one number depends on each leaf. Nothing is asked of what depends on none."""
        found = []
        for leaf in leaves:
            assert leaf.leaf is not None
            if any(self.slopes[n].any() for n in self.slopes.keys() & leaf.numbers - {*leaf.leaf}):
                raise Unclear("a gradient of what was made before the leaf was written")
            slopes = [self.slopes.get(int(n), np.zeros(())).item() for n in leaf.leaf]
            if not any(slopes):
                raise Unclear("a gradient of what does not depend on the leaf")
            found.append(Tensor.of(np.array(slopes, np.float32).reshape(leaf.shape)))
        return found

    def backward(self, leaf: Tensor) -> None:
        """Adds the gradient to that of `leaf`, which the product finds by itself."""
        (gradient,) = self.gradient(leaf)
        leaf.grad = gradient if leaf.grad is None else leaf.grad + gradient

    # -- writing --------------------------------------------------------------------------------

    def _check_writable(self) -> None:
        inside = self.places[self.places >= 0]
        reasons = {
            "read-only": self.storage.read_only,
            "pad": inside.size < self.places.size,
            "expand": len(np.unique(inside)) < inside.size,
        }
        if self.aliased:
            raise Unclear("a view that a captured function returned of what was there before")
        if any(reasons.values()):  # which of several is named is open
            owner = self.storage.owner()
            reasons["leaf"] = owner is not None and owner.leaf is not None and _recording[0]
            raise Refused("|".join(word for word, holds in reasons.items() if holds))
        if self.grew or self.padded:
            raise Unclear("what was repeated or padded is cut off again")

    def _check_graded(self, value: Any) -> None:
        """What gradients say of a write, once it is one that could be done."""
        owner = self.storage.owner()
        if owner is not None and owner.leaf is not None:
            if _recording[0] and self.cut:
                raise Unclear("a leaf is written through what is detached")
            if _recording[0]:
                raise Refused("leaf")
            if self is not owner and not self.cut:
                raise Unclear("a view with gradients is written without")
            return
        if isinstance(value, Tensor) and value.slopes and self.storage.number < _began[0]:
            raise Unclear("a captured function leaves a value with gradients")
        graded = bool(self.storage.slopes) or (isinstance(value, Tensor) and bool(value.slopes))
        if graded and (self.cut or not _recording[0]):
            raise Unclear("part of what has gradients is written without")

    def _write(self, part: Tensor, value: Any) -> None:
        value = value if isinstance(value, Tensor) else Tensor(np.asarray(value, self.dtype))
        cast = lambda a: np.broadcast_to(a, part.shape).astype(self.dtype)
        try:
            value = value._linear(cast)
        except ValueError:
            raise Refused("shape") from None
        self._check_graded(value)
        self.storage.write(part.places, value.values, value.slopes)
        owner = self.storage.owner()
        if owner is not None and owner.leaf is not None:
            owner._number()
        self._show_latest()

    def _show_latest(self) -> None:
        """This tensor, and what it was taken of, on the way to the owner, see the new version."""
        latest, slopes = self.storage.values, self.storage.slopes
        for shown in (self, *(above for ref in self.taken_of if (above := ref()) is not None)):
            inside = shown.places >= 0
            shown.values = np.where(inside, latest[shown.places], np.zeros((), shown.dtype))
            if not shown.cut:
                shown.slopes = {n: np.where(inside, a[shown.places], 0) for n, a in slopes.items()}

    def assign(self, value: Any) -> Tensor:
        """All of what this shows, in the storage; the value is broadcast, and widened only."""
        self._check_writable()
        owner = self.storage.owner()
        if owner is not None and owner.leaf is not None and _recording[0]:
            raise Unclear("a leaf is assigned to while gradients are recorded")
        return self._assigned(value)

    def _assigned(self, value: Any) -> Tensor:
        if isinstance(value, float) and self.dtype.kind != "f":
            raise Refused(str(self.dtype))
        if isinstance(value, Tensor) and value.dtype.kind == "f" and self.dtype.kind != "f":
            raise Refused("float32")
        self._write(self, value)
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_writable()
        part = self._shown(lambda a: np.asarray(a[index]))
        self._write(part, value)

    def _in_place(self, result: Tensor) -> Tensor:
        if result.dtype != self.dtype:
            raise Refused(str(result.dtype))
        if result.shape != self.shape:
            raise Refused(str(self.dtype))
        self._check_writable()
        return self._assigned(result)

    def __iadd__(self, other: Any) -> Tensor:  # noqa: PYI034
        return self._in_place(self + other)

    def __isub__(self, other: Any) -> Tensor:  # noqa: PYI034
        return self._in_place(self - other)

    def __imul__(self, other: Any) -> Tensor:  # noqa: PYI034
        return self._in_place(self * other)


class TinyJit:
    """The function itself: what a captured one must mean."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        before, _began[0] = _began[0], next(_serial)
        try:
            result = self.function(*args)
            for tensor in result if isinstance(result, tuple) else (result,):
                self._check(tensor)
        finally:
            _began[0] = before
        return result

    def _check(self, tensor: Tensor | None) -> None:
        """Results are new memory at each call: whether more comes of their past is not said."""
        if tensor is None:
            return
        if tensor.slopes and tensor.leaf is None:
            raise Unclear("a captured function returns a value with gradients")
        if tensor.is_view:
            has_owner = tensor.storage.owner() is not None
            is_refused = tensor.grew or tensor.padded
            tensor.aliased = tensor.storage.number < _began[0] or has_owner or is_refused
