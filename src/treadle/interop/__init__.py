"""Other libraries' arrays as tensors, and treadle inside of other libraries.

treadle.from_dlpack(array)                      the memory of a NumPy or PyTorch array, shared
torch.compile(model, backend="treadle")         interop/dynamo.py
"""

from ..tensor import Tensor

__all__ = ["from_dlpack"]

from_dlpack = Tensor.from_dlpack
