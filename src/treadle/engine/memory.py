"""Device memory behind BUFFER nodes: a node holds a Token, this table holds the memory, weakly.

    node = from_host("CPU", dtypes.int32, np.arange(3))  ->  BUFFER int32 (3,)
    to_host(node)                                         ->  array([0, 1, 2], dtype=int32)

Memory is freed when the last node with its Token is gone. A node names one version of the
memory: reading a version that has been overwritten is an error, never a wrong value.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..dtype import DType, _to_np_dtype
from ..errors import InternalError
from ..ir.args import BufferRef, Token
from ..ir.node import Node
from ..ir.op import Op

if TYPE_CHECKING:
    import numpy as np

__all__ = ["allocate", "from_host", "read", "to_host", "write"]


@dataclass
class Memory:
    """The elements and how many assignments they have seen."""

    data: np.ndarray[Any, Any]
    version: int = 0


_table: weakref.WeakKeyDictionary[Token, Memory] = weakref.WeakKeyDictionary()


def _buffer(device: str, dtype: DType, memory: Memory) -> Node:
    token = Token()
    _table[token] = memory
    return Node(Op.BUFFER, dtype, (), BufferRef(token, memory.data.size, device))


def allocate(device: str, dtype: DType, size: int) -> Node:
    """A BUFFER of `size` elements whose values are not defined yet."""
    import numpy as np

    return _buffer(device, dtype, Memory(np.empty(size, _to_np_dtype(dtype))))


def from_host(device: str, dtype: DType, data: np.ndarray[Any, Any]) -> Node:
    """A BUFFER with a copy of `data`, in row-major order, converted to `dtype`."""
    import numpy as np

    flat = np.array(data, dtype=_to_np_dtype(dtype), order="C", copy=True).reshape(-1)
    return _buffer(device, dtype, Memory(flat))


def read(ref: BufferRef) -> np.ndarray[Any, Any]:
    """The memory itself, 1-D. Raises InternalError if that version has been overwritten."""
    memory = _table[ref.token]
    if memory.version != ref.version:
        raise InternalError(
            f"[realize] version {ref.version} of a buffer of {ref.size} elements on {ref.device} "
            f"was read after version {memory.version} had overwritten it"
        )
    return memory.data


def write(ref: BufferRef, data: np.ndarray[Any, Any]) -> None:
    """Overwrite the memory of `ref.token`, which from now on is version `ref.version`."""
    memory = _table[ref.token]
    memory.data[...] = data
    memory.version = ref.version


def to_host(node: Node) -> np.ndarray[Any, Any]:
    """A copy of a BUFFER's elements, 1-D."""
    return read(node.arg).copy()
