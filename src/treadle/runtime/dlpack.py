"""DLPack 1.x at the level of C: structures in capsules, and element types as codes.

    Exporter(compile_ir).capsule(array, "float32", (1, 0), versioned=True, flags=0)  ->  a PyCapsule
    Import(capsule)  ->  what is in one: .address, .sizes, .strides, .dtype, ...; .take() owns it

A capsule is taken by giving it another name, once; whoever took it calls its deleter, once. One
that nobody takes releases its memory when it is collected.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from treadle.dtype import DType, dtypes
from treadle.errors import ExchangeError
from treadle.runtime.dlpack_ir import DLPACK_SYMBOLS, dlpack_ir, interpreter_addresses
from treadle.runtime.loader import load_object

T = TypeVar("T")

if TYPE_CHECKING:
    from _ctypes import CFuncPtr

    import numpy as np

__all__ = [
    "CPU", "CUDA", "EMULATED", "IS_COPIED", "READ_ONLY", "VERSION", "Exporter", "Import",
    "is_capsule",
]  # fmt: skip

VERSION = (1, 3)
READ_ONLY, IS_COPIED = 1, 2  # flags of versioned structures

# Types of devices that DLPack has rules of their own for; the backends' records have the others.
CPU, CUDA = 1, 2
EMULATED = 12  # kDLExtDev: memory that no other library reaches

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL, _E4M3FN, _E5M2 = 0, 1, 2, 4, 5, 6, 10, 12
_CODES: dict[DType, tuple[int, int]] = {
    dtypes.bool: (_BOOL, 8),
    dtypes.bfloat16: (_BFLOAT, 16),
    dtypes.fp8e4m3: (_E4M3FN, 8),
    dtypes.fp8e5m2: (_E5M2, 8),
    **{kind: (_INT, kind.bits) for kind in dtypes.sints},
    **{kind: (_UINT, kind.bits) for kind in dtypes.uints},
    **{kind: (_COMPLEX, kind.bits) for kind in dtypes.complexes},
    **{kind: (_FLOAT, kind.bits) for kind in (dtypes.float16, dtypes.float32, dtypes.float64)},
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}


class _Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Legacy(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (
        ("tensor", _Tensor),
        ("owner", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("owner", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _immortal(value: T) -> T:
    """`value`, which from now on outlives the interpreter: C code may point into it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    return value


_LEGACY, _VERSIONED = _immortal(b"dltensor"), _immortal(b"dltensor_versioned")
_USED = {name: _immortal(b"used_" + name) for name in (_LEGACY, _VERSIONED)}


def _api(name: str, result: type, *arguments: type) -> CFuncPtr:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_object, _text, _pointer = ctypes.py_object, ctypes.c_char_p, ctypes.c_void_p
_new_capsule = _api("PyCapsule_New", _object, _pointer, _text, _pointer)
_name_of = _api("PyCapsule_GetName", _text, _object)
_pointer_of = _api("PyCapsule_GetPointer", _pointer, _object, _text)
_rename = _api("PyCapsule_SetName", ctypes.c_int, _object, _text)
_Deleter = ctypes.PYFUNCTYPE(None, _pointer)


def is_capsule(value: object) -> bool:
    """Whether `value` is a PyCapsule, of whatever kind."""
    return type(value).__name__ == "PyCapsule"


class Exporter:
    """Makes capsules. `compile_ir` makes native code of LLVM IR."""

    def __init__(self, compile_ir: Callable[[str], bytes]) -> None:
        code = compile_ir(dlpack_ir())
        # Never unloaded: what was exported may be released at any later time.
        self._library = _immortal(load_object(code, DLPACK_SYMBOLS, interpreter_addresses()))

    def capsule(
        self, array: np.ndarray, dtype: DType, device: tuple[int, int], *,
        versioned: bool, flags: int,
    ) -> object:  # fmt: skip
        """A capsule of `array`'s memory, which lives as long as anybody needs it."""
        managed = _Versioned() if versioned else _Legacy()
        sizes = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        steps = (stride // array.itemsize for stride in array.strides)
        strides = (ctypes.c_int64 * max(array.ndim, 1))(*steps)
        tensor = managed.tensor
        tensor.data = array.ctypes.data if array.size else None
        tensor.device_type, tensor.device_id = device
        tensor.code, tensor.bits = _CODES[dtype]
        tensor.ndim, tensor.lanes = array.ndim, 1
        tensor.shape, tensor.strides = sizes, strides
        # The structure's own object is what a deleter lets go of, and all else hangs on it.
        managed._kept = array, sizes, strides  # pyright: ignore[reportAttributeAccessIssue]
        managed.owner = id(managed)
        form = "versioned" if versioned else "legacy"
        managed.deleter = self._library.address(f"release_{form}")
        if isinstance(managed, _Versioned):
            managed.major, managed.minor, managed.flags = *VERSION, flags
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(managed))
        name = _VERSIONED if versioned else _LEGACY
        return _new_capsule(ctypes.addressof(managed), name, self._library.address(f"drop_{form}"))


class Import:
    """What a capsule holds, read and checked. `take` makes it ours: once, and only of a whole one.

    Raises ExchangeError for what is no DLPack capsule, was taken before, or is of a version, an
    element type or a shape that treadle does not know.
    """

    flags: int
    device: tuple[int, int]
    dtype: DType
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    def __init__(self, capsule: object) -> None:
        self._capsule, self._name = capsule, _checked_name(capsule)
        self._pointer = _pointer_of(capsule, self._name)
        self.flags = 0
        if self._name == _VERSIONED:
            managed = _Versioned.from_address(self._pointer)
            if managed.major != VERSION[0]:  # no field behind the deleter can be relied on
                raise ExchangeError(
                    f"[from_dlpack] the capsule is of DLPack {managed.major}.{managed.minor}; "
                    f"treadle reads version {VERSION[0]} and older ones"
                )
            self.flags = managed.flags
        else:
            managed = _Legacy.from_address(self._pointer)
        self._deleter = managed.deleter
        tensor = managed.tensor
        self.device = (tensor.device_type, tensor.device_id)
        self.dtype = _checked_dtype(tensor)
        self.sizes, self.strides = _checked_layout(tensor)
        self.address = tensor.data + tensor.byte_offset if tensor.data else 0

    @property
    def read_only(self) -> bool:
        return bool(self.flags & READ_ONLY)

    def take(self) -> Callable[[], None]:
        """Own the memory; the result gives it back, and is to be called once."""
        _rename(self._capsule, _USED[self._name])
        pointer, deleter = self._pointer, self._deleter
        if not deleter:
            return lambda: None
        delete = _Deleter(deleter)
        return lambda: delete(pointer)


def _checked_name(capsule: object) -> bytes:
    name = (_name_of(capsule) or b"") if is_capsule(capsule) else b""
    if name in (_LEGACY, _VERSIONED):
        return name
    if name in _USED.values():
        raise ExchangeError(
            "[from_dlpack] the capsule was taken before, which can be done once: ask the other "
            "library for a new one, or pass its array itself"
        )
    raise ExchangeError(
        f"[from_dlpack] takes an array with __dlpack__, or a capsule named 'dltensor' or "
        f"'dltensor_versioned', not a {type(capsule).__name__} {name.decode()!r}"
    )


def _checked_dtype(tensor: _Tensor) -> DType:
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise ExchangeError(
            f"[from_dlpack] elements of type code {tensor.code}, {tensor.bits} bits and "
            f"{tensor.lanes} lanes have no dtype here; known: "
            f"{', '.join(known.name for known in _CODES)}"
        )
    return dtype


def _checked_layout(tensor: _Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides, in elements."""
    if not 0 <= tensor.ndim <= 64:
        raise ExchangeError(f"[from_dlpack] a tensor cannot have {tensor.ndim} axes")
    if tensor.ndim and not tensor.shape:
        raise ExchangeError(f"[from_dlpack] the shape of a tensor with {tensor.ndim} axes is null")
    sizes = tuple(tensor.shape[: tensor.ndim]) if tensor.ndim else ()
    if any(size < 0 for size in sizes):
        raise ExchangeError(f"[from_dlpack] sizes must not be negative: {sizes}")
    if tensor.ndim and tensor.strides:
        strides = tuple(tensor.strides[: tensor.ndim])
    else:  # row-major, which older producers leave out
        steps = [1]
        for size in reversed(sizes[1:]):
            steps.append(steps[-1] * size)
        strides = tuple(reversed(steps))[: tensor.ndim]
    if not tensor.data and 0 not in sizes:
        raise ExchangeError(f"[from_dlpack] shape {sizes} has elements, but its memory is null")
    return sizes, strides
