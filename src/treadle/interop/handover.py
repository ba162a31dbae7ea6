"""PyTorch's tensors into captured functions and out of them, over the same memory.

    layout = Layout.of(tensor)           how its elements lie in memory
    taken(tensor, layout)                a Tensor of them; layout.view(it) is like `tensor`
    handed_over(result, wanted, set())   a result as PyTorch's tensor, of `wanted`'s strides
    Direct(captured, ...)                replays on PyTorch's own memory, without a Tensor of it

DLPack does the same for tensors of any kind, but takes several times as long, and a small model
spends more time on that than on its arithmetic. A training step has hundreds of tensors that go in
or out: to look at each costs far less than to make a Tensor of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from ..dtype import _from_torch_dtype
from ..engine.arguments import memories_of
from ..engine.devices import Device
from ..engine.jit import NO_VALUES, TinyJit
from ..engine.memory import Memory, adopt
from ..engine.realized import is_backed, resolve
from ..ir.shape import size_product
from ..ir.symbolic import Size, bound_size
from ..tensor import Tensor
from ..tensor.inplace import over_memory

__all__ = ["Direct", "Layout", "handed_over", "in_order", "lies_alike", "taken", "taken_of_size"]

_kind_of = functools.cache(_from_torch_dtype)


class Layout(NamedTuple):
    """How a tensor lies in memory: its axes from the outermost to the innermost one there, of which
    those that are `repeated` have one element.

    `order` is None for a tensor that has gaps, or is in the order of its axes.
    """

    shape: tuple[Size, ...]
    order: tuple[int, ...] | None = None
    repeated: tuple[int, ...] = ()

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Layout:
        """That of a tensor whose sizes are known."""
        shape, strides = tuple(tensor.shape), tensor.stride()
        if tensor.is_contiguous():
            return cls(shape)
        repeated = tuple(n for n, s in enumerate(strides) if s == 0 and shape[n] > 1)
        found = cls(shape, tuple(_order(_once(tensor, repeated))), repeated)
        return found if found.base(tensor).is_contiguous() else cls(shape)

    def base(self, tensor: torch.Tensor) -> torch.Tensor:
        """What a tensor of this layout is a view of, in the order in which it lies in memory."""
        return tensor if self.order is None else _once(tensor, self.repeated).permute(self.order)

    def elements(self, shape: Sequence[Size]) -> Size:
        """How many elements a tensor of `shape` that lies like this one has in memory."""
        order = range(len(shape)) if self.order is None else self.order
        return size_product(1 if axis in self.repeated else shape[axis] for axis in order)

    def view(self, base: Tensor) -> Tensor:
        """The tensor of this layout whose elements are those of `base`, in that order."""
        if self.order is None:
            return base.reshape(self.shape)
        sizes = [1 if axis in self.repeated else self.shape[axis] for axis in self.order]
        axes = [self.order.index(axis) for axis in range(len(sizes))]
        return base.reshape(sizes).permute(axes).expand(self.shape)


def _once(tensor: torch.Tensor, repeated: Sequence[int]) -> torch.Tensor:
    for axis in repeated:
        tensor = tensor.narrow(axis, 0, 1)
    return tensor


def taken(tensor: torch.Tensor, layout: Layout) -> Tensor:
    """The elements of PyTorch's tensor, whose memory lives as long as this needs it.

    `layout` makes `tensor` of it. It is of the shape (elements,) where that is how they lie there.
    """
    tensor = layout.base(tensor)
    kind = _kind_of(tensor.dtype)
    if not tensor.numel() or not _is_plain(tensor, kind.itemsize):
        return Tensor.from_dlpack(tensor.detach().resolve_neg(), device="CPU")
    return _over(tensor, (tensor.numel(),))


def taken_of_size(tensor: torch.Tensor, layout: Layout, size: Size) -> Tensor:
    """The same of a tensor that has elements, whose number is symbolic: a copy of what has gaps."""
    tensor = layout.base(tensor)
    if not _is_plain(tensor, _kind_of(tensor.dtype).itemsize):
        tensor = tensor.detach().resolve_neg().clone(memory_format=torch.contiguous_format)
    return _over(tensor, (size,))


def _is_plain(tensor: torch.Tensor, itemsize: int) -> bool:
    """Whether the elements lie side by side, as they are, where such elements may begin."""
    return tensor.is_contiguous() and not tensor.is_neg() and tensor.data_ptr() % itemsize == 0


def _over(tensor: torch.Tensor, shape: tuple[Size]) -> Tensor:
    kind, count = _kind_of(tensor.dtype), tensor.numel()
    allocator = Device["CPU"].allocator
    buffer = allocator.from_pointer(tensor.data_ptr(), count * kind.itemsize, tensor)
    node = adopt(Memory(buffer, kind, count, "CPU", is_exposed=True), shape)
    return over_memory(Tensor._of(node, "CPU"))


class Direct:
    """Replays of a captured function of `tensors`, whose results PyTorch makes as `wanted`.

    `given` is what it was called with for these tensors, `values` are those of variables.
    """

    def __init__(
        self, captured: TinyJit[..., list[Tensor]], tensors: Sequence[torch.Tensor],
        given: Sequence[Tensor], wanted: Sequence[torch.Tensor],
        values: Mapping[str, int] = NO_VALUES,
    ) -> None:  # fmt: skip
        self._captured, self._values = captured, values
        self._given = [
            (t.shape, t.stride(), t.dtype, _kind_of(t.dtype).itemsize, _is_over(own, t))
            for t, own in zip(tensors, given, strict=True)
        ]
        self._wanted = [(tuple(t.shape), _dense(t), t.stride(), t.dtype) for t in wanted]

    def __call__(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
        """The results; None where a call has to be looked at, and nothing was done."""
        addresses: list[int] = []
        copies: list[torch.Tensor] = []  # which live as long as the kernels run
        for tensor, known in zip(tensors, self._given, strict=True):
            shape, strides, dtype, itemsize, is_over = known
            if tensor.shape != shape or tensor.stride() != strides or tensor.dtype is not dtype:
                return None
            if tensor.is_neg():
                return None
            if not is_over:  # what has gaps is captured as a copy without them
                copies.append(tensor := tensor.contiguous())
            address = tensor.data_ptr()
            if not address or address % itemsize:
                return None
            addresses.append(address)
        made = [torch.empty_strided(size, d, dtype=kind) for size, d, _, kind in self._wanted]
        addresses += [tensor.data_ptr() for tensor in made]
        if not self._captured.run_at(addresses, self._values):
            return None
        return [
            tensor if dense == strides else _with_strides(tensor, strides)
            for tensor, (_, dense, strides, _) in zip(made, self._wanted, strict=True)
        ]


def _is_over(given: Tensor, tensor: torch.Tensor) -> bool:
    """Whether `given` is memory, all of it, which begins where that of `tensor` does."""
    node = resolve(given.node)
    memories = memories_of(node) if is_backed(node) else []
    return [memory.buffer.argument for memory in memories] == [tensor.data_ptr()]


def _dense(like: torch.Tensor) -> tuple[int, ...]:
    """The strides of `like` if its elements lay side by side, in the order of its own strides.

    Those of an axis of one element mean nothing, and stay.
    """
    found, step = list(like.stride()), 1
    for axis in reversed(_order(like)):
        if like.shape[axis] != 1:
            found[axis] = step
            step *= max(like.shape[axis], 1)
    return tuple(found)


def _with_strides(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """A copy in memory of such strides."""
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def in_order(result: Tensor, wanted: torch.Tensor) -> Tensor:
    """`result` with its axes in the order in which `wanted` has them in memory."""
    return result.permute(_order(wanted)) if result.ndim > 1 else result


def lies_alike(tensor: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether the axes of `tensor` have the order in memory that those of `wanted` have."""
    return _order(tensor) == _order(wanted)


def handed_over(result: Tensor, wanted: torch.Tensor, seen: set[int]) -> torch.Tensor:
    """What `in_order` gave as PyTorch expects it: its strides, and memory of its own."""
    order = _order(wanted)
    tensor = _shared(result, wanted.dtype).permute([order.index(n) for n in range(len(order))])
    strides = _strides(wanted, tensor.stride())
    if tensor.stride() != strides or tensor.data_ptr() in seen:
        tensor = _with_strides(tensor, strides)
    seen.add(tensor.data_ptr())
    return tensor


def _order(wanted: torch.Tensor) -> list[int]:
    """The axes from the outermost in memory to the innermost; symbolic strides by an example."""
    hints = [stride if isinstance(stride, int) else stride.node.hint for stride in wanted.stride()]
    return sorted(range(len(hints)), key=lambda axis: (-hints[axis], axis))


def _strides(wanted: torch.Tensor, dense: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of `wanted`; where they are symbolic, `dense` ones."""
    known = all(isinstance(stride, int) for stride in wanted.stride())
    return wanted.stride() if known else dense


def _shared(result: Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The memory of a computed tensor."""
    node = resolve(result.node)
    shape = [bound_size(size) for size in node.shape]
    if not math.prod(shape) or not is_backed(node):
        return torch.from_dlpack(result)
    (memory,) = memories_of(node)
    Device["CPU"].runtime.synchronize()
    return torch.frombuffer(memory.buffer.view(), dtype=dtype, count=memory.size).view(shape)
