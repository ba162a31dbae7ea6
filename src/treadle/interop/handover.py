"""PyTorch's tensors into captured functions and out of them, over the same memory.

    taken(tensor)                        a Tensor of its elements
    handed_over(result, wanted, set())   a result as PyTorch's tensor, of `wanted`'s strides

DLPack does the same for tensors of any kind, but takes several times as long, and a small model
spends more time on that than on its arithmetic.
"""

from __future__ import annotations

import functools

import torch

from ..dtype import _from_torch_dtype
from ..engine.arguments import memories_of
from ..engine.devices import Device
from ..engine.memory import Memory, adopt
from ..engine.realized import is_backed, resolve
from ..tensor import Tensor
from ..tensor.inplace import over_memory

__all__ = ["handed_over", "in_order", "taken"]

_kind_of = functools.cache(_from_torch_dtype)


def taken(tensor: torch.Tensor) -> Tensor:
    """The elements of PyTorch's tensor, whose memory lives as long as this needs it.

    In the shape (elements,) where that is how they lie in memory, else in that of `tensor`.
    """
    kind = _kind_of(tensor.dtype)
    address, count = tensor.data_ptr(), tensor.numel()
    if not count or not tensor.is_contiguous() or tensor.is_neg() or address % kind.itemsize:
        return Tensor.from_dlpack(tensor.detach().resolve_neg(), device="CPU")
    allocator = Device["CPU"].allocator
    buffer = allocator.from_pointer(address, count * kind.itemsize, tensor)
    node = adopt(Memory(buffer, kind, count, "CPU", is_exposed=True))
    return over_memory(Tensor._of(node, "CPU"))


def in_order(result: Tensor, wanted: torch.Tensor) -> Tensor:
    """`result` with its axes in the order in which `wanted` has them in memory."""
    return result.permute(_order(wanted)) if result.ndim > 1 else result


def handed_over(result: Tensor, wanted: torch.Tensor, seen: set[int]) -> torch.Tensor:
    """What `in_order` gave as PyTorch expects it: its strides, and memory of its own."""
    order = _order(wanted)
    tensor = _shared(result, wanted.dtype).permute([order.index(n) for n in range(len(order))])
    strides = _strides(wanted, tensor.stride())
    if tensor.stride() != strides or tensor.data_ptr() in seen:
        tensor = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)
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
    if not result.numel() or not is_backed(node):
        return torch.from_dlpack(result)
    (memory,) = memories_of(node)
    Device["CPU"].runtime.synchronize()
    return torch.frombuffer(memory.buffer.view(), dtype=dtype, count=memory.size).view(node.shape)
