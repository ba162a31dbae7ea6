"""Arrays of other libraries that have `__cuda_array_interface__`, as Tensor takes memory in.

    found = CudaArray(array)      # address, sizes, strides and dtype, as a DLPack capsule has them
    found.device                  ->  "CUDA:1"

The interface (versions 2 and 3, https://numba.readthedocs.io/en/stable/cuda/
cuda_array_interface.html) does not say which GPU's the memory is: the driver is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from ...dtype import DType, _from_np_dtype
from ...engine.devices import Device
from ...errors import DTypeError, ExchangeError

__all__ = ["CudaArray"]

_VERSIONS = (2, 3)
_FORM = "[from_cuda_array]"


class CudaArray:
    """What an array's `__cuda_array_interface__` says, read and checked; strides in elements.

    Raises ExchangeError for what has none, or one that treadle does not understand; DeviceError
    where no CUDA device can be used.
    """

    device: str
    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    stream: int | None

    def __init__(self, source: object) -> None:
        given = getattr(source, "__cuda_array_interface__", None)
        if not isinstance(given, dict):
            raise ExchangeError(
                f"{_FORM} a {type(source).__name__} has no __cuda_array_interface__: pass an array "
                "in a GPU's memory, or use Tensor(...) for one of the host"
            )
        version = given.get("version")
        if version not in _VERSIONS:
            raise ExchangeError(f"{_FORM} version {version} of the interface is not known; 3 is")
        if given.get("mask") is not None:
            raise ExchangeError(f"{_FORM} the array is masked: fill its gaps first")
        self._source = source
        self.address, self.read_only = given["data"]
        self.sizes = tuple(given["shape"])
        self.dtype = _dtype(given["typestr"])
        self.strides = self._elements(given.get("strides"))
        self.stream = _stream(given.get("stream"))
        self.device = self._home() if self.address and 0 not in self.sizes else "CUDA"

    def take(self) -> Callable[[], object]:
        """What keeps the memory alive; calling it does nothing more."""
        source = self._source
        return lambda: source

    def _elements(self, strides: tuple[int, ...] | None) -> tuple[int, ...]:
        """Strides in elements; without any the array is in C's order."""
        if strides is None:
            found, step = [], 1
            for size in reversed(self.sizes):
                found.append(step)
                step *= size
            return tuple(reversed(found))
        each = self.dtype.itemsize
        if len(strides) != len(self.sizes) or any(stride % each for stride in strides):
            raise ExchangeError(
                f"{_FORM} strides {tuple(strides)} in bytes do not fit the shape {self.sizes} of "
                f"{self.dtype.name}"
            )
        return tuple(stride // each for stride in strides)

    def _home(self) -> str:
        found = Device["CUDA"].runtime.context.owner_of(self.address)
        if found is None:
            raise ExchangeError(f"{_FORM} {self.address:#x} is not an address in a GPU's memory")
        return f"CUDA:{found[0]}"


def _dtype(typestr: str) -> DType:
    import numpy as np

    try:
        return _from_np_dtype(np.dtype(typestr))
    except (TypeError, DTypeError) as error:
        raise ExchangeError(f"{_FORM} elements {typestr!r} have no dtype here") from error


def _stream(stream: int | None) -> int | None:
    """The stream to wait for; None if everything has been done."""
    if stream == 0:
        raise ExchangeError(
            f"{_FORM} stream 0 has no meaning: it is 1 for CUDA's legacy default stream"
        )
    return stream
