"""Device memory behind BUFFER nodes: a node holds a Token, this table holds the memory, weakly.

    node = from_host("CPU", dtypes.int32, np.arange(3))  ->  BUFFER int32 (3,)
    to_host(node)                                         ->  array([0, 1, 2], dtype=int32)

Memory is freed when the last node with its Token is gone. A node names one version of the
memory: reading a version that has been overwritten is an error, never a wrong value.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..dtype import DType, _to_np_dtype
from ..errors import InternalError
from ..ir.args import BufferRef, Token
from ..ir.node import Node
from ..ir.op import Op
from .backends import Device

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Memory",
    "adopt",
    "allocate",
    "from_host",
    "memory_of",
    "new_memory",
    "on_read",
    "read",
    "to_host",
]


@dataclass(eq=False)
class Memory:
    """`size` elements in a runtime's buffer, and how many assignments they have seen."""

    buffer: Any
    dtype: DType
    size: int
    device: str
    version: int = 0

    def array(self) -> np.ndarray[Any, Any]:
        """The elements themselves, 1-D and writable, without a copy."""
        import numpy as np

        return np.frombuffer(self.buffer.view(), _to_np_dtype(self.dtype), self.size)


_table: weakref.WeakKeyDictionary[Token, Memory] = weakref.WeakKeyDictionary()
# Called before values are read on the host; a capturing jit refuses here.
on_read: list[Callable[[], None]] = []


def adopt(memory: Memory) -> Node:
    """A BUFFER with a Token of its own for `memory`."""
    token = Token()
    _table[token] = memory
    return Node(
        Op.BUFFER, memory.dtype, (), BufferRef(token, memory.size, memory.device, memory.version)
    )


def new_memory(device: str, dtype: DType, size: int) -> Memory:
    """Memory with undefined contents. Raises OutOfMemory."""
    buffer = Device[device].allocator.alloc(max(1, size * dtype.itemsize))
    return Memory(buffer, dtype, size, device)


def allocate(device: str, dtype: DType, size: int) -> Node:
    """A BUFFER of `size` elements whose values are not defined yet."""
    return adopt(new_memory(device, dtype, size))


def from_host(device: str, dtype: DType, data: np.ndarray[Any, Any]) -> Node:
    """A BUFFER with a copy of `data`, in row-major order, converted to `dtype`."""
    memory = new_memory(device, dtype, data.size)
    if data.size and not device.startswith("NULL"):
        memory.array().reshape(data.shape)[...] = data
    return adopt(memory)


def memory_of(ref: BufferRef) -> Memory:
    """The memory of a BUFFER. Raises InternalError if that version has been overwritten."""
    memory = _table[ref.token]
    if memory.version != ref.version:
        raise InternalError(
            f"[realize] version {ref.version} of a buffer of {ref.size} elements on {ref.device} "
            f"was read after version {memory.version} had overwritten it"
        )
    return memory


def read(ref: BufferRef) -> np.ndarray[Any, Any]:
    """The memory itself, 1-D. Raises InternalError if that version has been overwritten."""
    return memory_of(ref).array()


def to_host(node: Node) -> np.ndarray[Any, Any]:
    """A copy of a BUFFER's elements, 1-D."""
    for refuse in on_read:
        refuse()
    Device[node.arg.device].synchronize()
    return read(node.arg).copy()
