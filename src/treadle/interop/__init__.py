"""Other libraries' arrays as tensors, and treadle inside of other libraries.

treadle.from_dlpack(array)                      the memory of a NumPy or PyTorch array, shared
torch.compile(model, backend="treadle")         interop/dynamo.py
treadle.interop.report()                        what such models leave to PyTorch, and why
"""

from __future__ import annotations

from ..explained import explained
from ..tensor import Tensor
from .left_to_pytorch import Left, report

__all__ = ["Left", "from_dlpack", "report"]


@explained
def from_dlpack(x: object, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """The memory of another library's array, in its shape and dtype: `Tensor.from_dlpack`.

    Shared, or copied where `copy` and `device` ask for that. Raises ExchangeError (a BufferError),
    DeviceError.
    """
    return Tensor.from_dlpack(x, device=device, copy=copy)
