"""Tensor maps as NVIDIA's driver makes them: 128 bytes that nobody but it can read.

    encode_tiled(api, tiles)        ->  what a launch takes as a parameter by value

The driver wants the place of a map at a multiple of 64 bytes, cuda.h at one of 128. The objects of
cuda-bindings lie wherever Python puts them, at multiples of 16, so three of four would be refused:
here libcuda's function is called itself, with memory of ours.
"""

from __future__ import annotations

import ctypes
import functools
from typing import TYPE_CHECKING

from treadle.runtime.cuda.driver import ELEMENTS, DriverError, TensorTiles
from treadle.runtime.cuda.failures import newer_error

if TYPE_CHECKING:
    from _ctypes import CFuncPtr
    from collections.abc import Sequence

    from treadle.runtime.cuda.api import Api

__all__ = ["TensorMap", "encode_tiled"]

_NAME = "cuTensorMapEncodeTiled"
_SINCE = 12000  # the CUDA that brought the function
_ALIGNMENT = 128
_int, _u32, _pointer = ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p
_Function = ctypes.CFUNCTYPE(
    _int, _pointer, _int, _u32, _pointer, _pointer, _pointer, _pointer, _pointer, _int, _int, _int,
    _int,
)  # fmt: skip


class TensorMap(ctypes.Structure):
    """cuda.h's CUtensorMap."""

    _fields_ = [("opaque", ctypes.c_uint64 * 16)]


def encode_tiled(api: Api, tiles: TensorTiles) -> TensorMap:
    """The map of a tensor, in the current context. Raises DriverError for what CUDA refuses."""
    raw, found = api.raw, _room()
    element = "CU_TENSOR_MAP_DATA_TYPE_" + ELEMENTS[tiles.element][0]
    swizzle = "CU_TENSOR_MAP_SWIZZLE_" + (f"{tiles.swizzle}B" if tiles.swizzle else "NONE")
    code = _function(api)(
        ctypes.addressof(found), int(getattr(raw.CUtensorMapDataType, element)), len(tiles.shape),
        tiles.address, _array(ctypes.c_uint64, tiles.shape),
        _array(ctypes.c_uint64, tiles.strides), _array(_u32, tiles.box),
        _array(_u32, (1,) * len(tiles.shape)),
        int(raw.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
        int(getattr(raw.CUtensorMapSwizzle, swizzle)),
        int(raw.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B),
        int(raw.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
    )  # fmt: skip
    if code:
        try:
            raise DriverError(raw.CUresult(code).name, _NAME)
        except ValueError as error:
            raise newer_error(code, _NAME) from error
    return found


@functools.cache
def _function(api: Api) -> CFuncPtr:
    """libcuda's own function."""
    address, _ = api("cuGetProcAddress", _NAME.encode(), _SINCE, 0)
    if not address:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED", _NAME)
    return _Function(int(address))


def _room() -> TensorMap:
    """A map at an address that the driver takes; it keeps its memory alive."""
    memory = ctypes.create_string_buffer(ctypes.sizeof(TensorMap) + _ALIGNMENT)
    return TensorMap.from_buffer(memory, -ctypes.addressof(memory) % _ALIGNMENT)


def _array(kind: type[ctypes.c_uint32 | ctypes.c_uint64], values: Sequence[int]) -> ctypes.Array:
    return (kind * len(values))(*values)
