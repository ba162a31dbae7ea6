"""Memory on a CUDA device as other libraries see it: an address, strides, and a stream's order.

    array, copied = array_there(tensor)   # a NumPy array whose elements nobody here may touch
    cuda_array_interface(tensor)          ->  {"shape": (2, 3), "data": (0x7f..., False), ...}

The array carries address, shape and strides, as DLPack and `__cuda_array_interface__` want them.
Memory that was lent is given back only once the whole GPU is idle: nobody says on which stream the
borrower has worked.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING

from ...backends import backend_of
from ...engine.devices import Device
from ...engine.memory import Memory, memory_of, on_read
from ...engine.run import realize
from ...engine.selection import parse_choice
from ...errors import ExchangeError
from ...ir.node import Node
from ...ir.op import Op
from ...ir.views import operand
from ...runtime import dlpack
from ...runtime.buffer import host_view
from .movements import memory_below, viewed

if TYPE_CHECKING:
    import numpy as np

    from ..basis.core import Core

    Array = np.ndarray

__all__ = [
    "array_there", "bytes_there", "cuda_array_interface", "memory_type", "order_with", "stream_of",
    "stream_of_pytorch",
]  # fmt: skip


def memory_type(device: str) -> int | None:
    """DLPack's type of a device's memory that the host does not see; None if there is none.

    No other library reaches that of an emulated device.
    """
    backend = backend_of(device)
    if backend.emulated_chip is not None and Device[device].runtime.is_software:
        return dlpack.EMULATED
    return backend.dlpack


def stream_of(device: str) -> int:
    """The stream that a CUDA device works on, as a number."""
    return int(Device[device].runtime.stream)


def stream_of_pytorch(device: str) -> int | None:
    """The stream that PyTorch works on now on this device, on this thread; None without one.

    None is also the answer for the legacy default stream, PyTorch's own unless told otherwise, with
    which CUDA orders ours anyhow.
    """
    choice, torch = parse_choice(device), sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if choice.runtime != "CUDA" or cuda is None or not cuda.is_initialized():
        return None
    if Device[device].runtime.is_software:
        return None
    return cuda.current_stream(choice.index).cuda_stream or None


def order_with(device: str, stream: int | None) -> None:
    """What a consumer puts on its `stream` comes after what was started here.

    None and 1 are the legacy default stream, 2 the calling thread's, -1 asks for no order. Raises
    ExchangeError for 0, which DLPack leaves without a meaning, and other negative numbers.
    """
    if stream is None:
        stream = 1
    if stream == 0 or stream < -1:
        raise ExchangeError(
            f"[dlpack] stream={stream} has no meaning: it is 1 for CUDA's legacy default stream, 2 "
            "for the thread's own, a stream's handle, or -1 for no order"
        )
    if stream != -1:
        Device[device].runtime.hand_over(stream)


def bytes_there(device: str, address: int, nbytes: int) -> memoryview:
    """A copy of memory of somebody else's on a CUDA device."""
    opened, found = Device[device], memoryview(bytearray(nbytes))
    opened.runtime.read(opened.allocator.from_pointer(address, nbytes), found)
    return found


def array_there(tensor: Core, copy: bool = False) -> tuple[Array, bool]:
    """The tensor's memory as an array that is not to be looked into, and whether it is a copy.

    The array keeps the memory alive. Pending work is started.
    """
    for refuse in on_read:
        refuse()
    if not all(isinstance(size, int) for size in tensor.shape):
        raise ExchangeError(f"[dlpack] shape {tensor.shape} is symbolic: shrink to whole numbers")
    if copy:
        source = Node(Op.CONTIGUOUS, tensor.dtype, (tensor.node,))
        base = realize([(source, tensor.device)])[0]
        while base.op is Op.RESHAPE:
            base = operand(base)
        return _lent(memory_of(base.arg)).reshape(tensor.shape), True

    def has_strides(moves: list[Node], base: Node) -> bool:
        return viewed(_lent(memory_of(base.arg)), moves) is not None

    moves, memory = memory_below(tensor, has_strides)
    array = viewed(_lent(memory), moves)
    assert array is not None  # what has memory of its own is dense
    return array, False


def _lent(memory: Memory) -> Array:
    """All of a buffer as an array over device addresses."""
    import numpy as np

    if not memory.size:
        return np.empty(0, memory.stored)
    memory.buffer.is_lent = True
    nbytes = memory.size * memory.dtype.itemsize
    view = host_view(memory.buffer.argument, nbytes, memory.buffer)
    array = np.frombuffer(view, memory.stored)
    array.flags.writeable = not memory.read_only
    return array


def cuda_array_interface(tensor: Core) -> dict[str, object]:
    """`__cuda_array_interface__`, version 3. Raises AttributeError where there is none.

    The memory lives as long as the tensor, even if that is given other memory.
    """
    device = "" if isinstance(tensor.device, tuple) else tensor.device
    if device.partition(":")[0] != "CUDA" or memory_type(device) != dlpack.CUDA:
        raise AttributeError(f"a tensor on {tensor.device} has no __cuda_array_interface__")
    if tensor._requires_grad is True:
        raise AttributeError("a tensor that requires gradients is not shared: use .detach()")
    array, _ = array_there(tensor)
    if array.dtype.kind == "V":
        raise AttributeError(f"__cuda_array_interface__ has no name for {tensor.dtype.name}")
    _keep(tensor, array)
    return {
        "shape": tensor.shape,
        "typestr": array.dtype.str,
        "data": (array.ctypes.data if array.size else 0, not array.flags.writeable),
        "strides": None if array.flags.c_contiguous else array.strides,
        "version": 3,
        "stream": stream_of(device),
    }


_shown: dict[int, dict[int, Array]] = {}  # by the tensor's id: what was shown, by its address


def _keep(tensor: Core, array: Array) -> None:
    """Keeps the memory as long as the tensor, once however often it is asked for."""
    arrays = _shown.get(id(tensor))
    if arrays is None:
        arrays = _shown[id(tensor)] = {}
        weakref.finalize(tensor, _shown.pop, id(tensor)).atexit = False
    arrays.setdefault(array.ctypes.data, array)
