"""PyTorch's .pt files: a zip archive of a pickle, and a record of bytes for each storage.

torch_load("net.pt")["weight"]        -> Tensor over the mapped record

The pickle is read as data (`pickled`), by a list of the functions that plain tensors need. Tensors
that share a storage share its memory, and one that was saved twice (a tied weight) is one Tensor.
Views are checked against their storage before they are made.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

from ..dtype import DType, _to_np_dtype, dtypes
from ..errors import UserError
from ..explained import explained
from ..tensor import Tensor
from .mapped import Source, check_shape, label_of, mapped, reader_of, tensor_of
from .pickled import Call, PickleError, load, plain_keys

if TYPE_CHECKING:
    import numpy as np

__all__ = ["torch_load"]

_DTYPES: dict[str, DType] = {
    "bool": dtypes.bool, "uint8": dtypes.uint8, "int8": dtypes.int8, "int16": dtypes.int16,
    "uint16": dtypes.uint16, "int32": dtypes.int32, "uint32": dtypes.uint32,
    "int64": dtypes.int64, "uint64": dtypes.uint64, "float16": dtypes.float16,
    "bfloat16": dtypes.bfloat16, "float32": dtypes.float32, "float64": dtypes.float64,
    "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2,
}  # fmt: skip
_STORAGES: dict[str, DType] = {
    "torch.BoolStorage": dtypes.bool, "torch.ByteStorage": dtypes.uint8,
    "torch.CharStorage": dtypes.int8, "torch.ShortStorage": dtypes.int16,
    "torch.IntStorage": dtypes.int32, "torch.LongStorage": dtypes.int64,
    "torch.HalfStorage": dtypes.float16, "torch.BFloat16Storage": dtypes.bfloat16,
    "torch.FloatStorage": dtypes.float32, "torch.DoubleStorage": dtypes.float64,
    "torch.storage.UntypedStorage": dtypes.uint8,
}  # fmt: skip
_MOST_AXES = 64  # as in PyTorch
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_LOCAL_HEADER = struct.Struct("<4sHHHHHLLLHH")
_LOCAL_MAGIC = b"PK\x03\x04"


@explained
def torch_load(t: Source) -> Any:
    """What `torch.save` wrote to a path (or to the bytes in a uint8 tensor), tensors as Tensors.

    Dicts, lists, tuples, sets, numbers, strings and bytes come as themselves. Nothing of the file
    is run or imported, so files of whole models are refused: save their `state_dict()`. Tensors
    are on the default device, whatever theirs was, and ask for no gradients. Raises UserError.
    """
    data, label = mapped(t), label_of(t)
    if data[: len(_LEGACY)].tobytes() == _LEGACY:
        raise UserError(
            f"[torch_load] {label} has the format from before PyTorch 1.6, which is not read; "
            f"load it in PyTorch with weights_only=True, and torch.save it again"
        )
    try:
        return _Archive(data).value()
    except (UserError, zipfile.BadZipFile, ValueError, NotImplementedError, EOFError,
            OSError, struct.error) as error:  # fmt: skip
        raise UserError(f"[torch_load] {label} cannot be read: {error}") from None


@dataclass(frozen=True)
class _Storage:
    """`size` elements of `dtype` in the record `key`."""

    key: str
    dtype: DType
    size: int


class _Archive:
    """The records of a file, and the tensors that were made of them."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        self._records = _records(data)
        pickles = [name for name in self._records if name.split("/", 1)[-1] == "data.pkl"]
        if len(pickles) != 1:
            raise PickleError(f"it has {len(pickles)} records data.pkl instead of one")
        self._folder = pickles[0].removesuffix("data.pkl")
        order = self._bytes("byteorder") if self._has("byteorder") else b"little"
        if order != b"little":
            raise PickleError(f"its byte order is {order!r:.40}; only b'little' is read")
        self._bases: dict[_Storage, Tensor] = {}
        self._views: dict[tuple[object, ...], Tensor] = {}

    def value(self) -> Any:
        """What the pickle describes."""
        return load(self._bytes("data.pkl"), self._names(), self._storage)

    def _has(self, name: str) -> bool:
        return self._folder + name in self._records

    def _bytes(self, name: str) -> bytes:
        return self._record(name).tobytes()

    def _record(self, name: str) -> np.ndarray:
        full = self._folder + name
        if full not in self._records:
            raise PickleError(f"it has no record {full}")
        begin, end = self._records[full]
        return self._data[begin:end]

    def _names(self) -> Mapping[str, object]:
        """What the pickle may ask for."""
        return {
            **_STORAGES,
            **{f"torch.{name}": dtype for name, dtype in _DTYPES.items()},
            "collections.OrderedDict": Call(_ordered_dict),
            "torch.Size": Call(_size),
            "torch.device": Call(_device),
            "__builtin__.set": Call(_set),
            "_codecs.encode": Call(_encoded),
            "torch._utils._rebuild_tensor": Call(self._tensor),
            "torch._utils._rebuild_tensor_v2": Call(self._tensor),
            "torch._utils._rebuild_tensor_v3": Call(partial(self._tensor, typed=True)),
            "torch._utils._rebuild_parameter": Call(_parameter),
        }

    def _storage(self, found: object) -> _Storage:
        """The storage of a persistent id."""
        parts: tuple[object, ...] = (
            found if type(found) is tuple and len(found) == 5 else (None,) * 5
        )
        kind, dtype, key, _, size = parts
        if kind != "storage" or not isinstance(dtype, DType) or type(key) is not str:
            raise PickleError("a persistent id is no reference to a storage")
        if not _is_size(size):
            raise PickleError(f"the size of storage {key:.40} is no size")
        nbytes = len(self._record(f"data/{key}"))
        if size * dtype.itemsize != nbytes:
            raise PickleError(
                f"the storage {key} of {size} {dtype.name} cannot be a record of {nbytes} bytes"
            )
        return _Storage(key, dtype, size)

    def _tensor(self, *arguments: object, typed: bool = False) -> Tensor:
        """A view of a storage: (storage, offset, sizes, strides, ...); `typed`: of a dtype."""
        if len(arguments) < (7 if typed else 4):
            raise PickleError(f"a tensor needs more than {len(arguments)} arguments")
        storage, offset, sizes, strides = arguments[:4]
        if not isinstance(storage, _Storage):
            raise PickleError(f"a tensor is made of a {type(storage).__name__}, not a storage")
        if typed:
            storage = _retyped(storage, arguments[6])
        offset, sizes, strides = _checked_view(storage, offset, sizes, strides)
        key = (storage, offset, sizes, strides)
        if key not in self._views:
            self._views[key] = self._view(storage, offset, sizes, strides)
        return self._views[key]

    def _view(
        self, storage: _Storage, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]
    ) -> Tensor:
        if 0 in sizes:
            return Tensor.zeros(*sizes, dtype=storage.dtype)
        # what stride 0 repeats is there once, and expanded; other axes from wide to narrow steps
        plain = tuple(size if stride else 1 for size, stride in zip(sizes, strides, strict=True))
        order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], -plain[axis]))
        ordered = tuple(plain[axis] for axis in order)
        count = math.prod(plain)
        if _row_major(ordered) == tuple(
            strides[axis] if plain[axis] > 1 else None for axis in order
        ):
            dense = self._base(storage)
            if count < storage.size:
                dense = dense.shrink([(offset, offset + count)])
            back = tuple(order.index(axis) for axis in range(len(sizes)))
            return dense.reshape(ordered).permute(back).expand(sizes)
        return self._copied(storage, offset, plain, strides).expand(sizes)

    def _base(self, storage: _Storage) -> Tensor:
        """A whole storage, 1-D: the memory that its views share."""
        if storage not in self._bases:
            record = self._record(f"data/{storage.key}")
            self._bases[storage] = tensor_of(record, storage.dtype, (storage.size,))
        return self._bases[storage]

    def _copied(
        self, storage: _Storage, offset: int, sizes: tuple[int, ...], strides: tuple[int, ...]
    ) -> Tensor:
        """A view that skips or repeats elements, as memory of its own."""
        import numpy as np

        if math.prod(sizes) > storage.size:
            raise PickleError(
                f"a tensor of shape {sizes} repeats the {storage.size} elements of its storage"
            )
        kind = storage.dtype
        flat = self._record(f"data/{storage.key}")[offset * kind.itemsize :]
        flat = flat[: len(flat) // kind.itemsize * kind.itemsize].view(_to_np_dtype(kind))
        steps = tuple(  # of a single element none is taken, and the file may say anything
            stride * kind.itemsize if size > 1 else 0
            for size, stride in zip(sizes, strides, strict=True)
        )
        view = np.lib.stride_tricks.as_strided(flat, sizes, steps, writeable=False)
        copy = np.ascontiguousarray(view).reshape(-1).view(np.uint8)
        return tensor_of(copy, kind, sizes)


def _records(data: np.ndarray) -> dict[str, tuple[int, int]]:
    """Where the bytes of each record of the archive begin and end. Raises PickleError."""
    found: dict[str, tuple[int, int]] = {}
    with zipfile.ZipFile(reader_of(data)) as archive:
        for info in archive.infolist():
            name = info.filename
            if name in found:
                raise PickleError(f"the record {name} comes twice")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise PickleError(f"the record {name} is compressed, as torch.save never does")
            if info.flag_bits & 1:
                raise PickleError(f"the record {name} is encrypted")
            found[name] = _place(data, info)
    reached = 0
    for name, (begin, end) in sorted(found.items(), key=lambda item: item[1]):
        if begin < reached:
            raise PickleError(f"the record {name} overlaps the one before it")
        reached = end
    return found


def _place(data: np.ndarray, info: zipfile.ZipInfo) -> tuple[int, int]:
    at = info.header_offset
    if not 0 <= at <= len(data) - _LOCAL_HEADER.size:
        raise PickleError(f"the record {info.filename} lies outside of the file")
    magic, *_, name_length, extra_length = _LOCAL_HEADER.unpack_from(data.data, at)
    begin = at + _LOCAL_HEADER.size + name_length + extra_length
    if magic != _LOCAL_MAGIC or begin + info.file_size > len(data):
        raise PickleError(f"the record {info.filename} lies outside of the file")
    return begin, begin + info.file_size


def _is_size(value: object) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _is_shape(value: object) -> TypeGuard[tuple[int, ...]]:
    return isinstance(value, tuple) and len(value) <= _MOST_AXES and all(map(_is_size, value))


def _checked_view(
    storage: _Storage, offset: object, sizes: object, strides: object
) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Offset, sizes and strides. Raises PickleError where a view is not inside of its storage."""
    if not (_is_size(offset) and _is_shape(sizes) and _is_shape(strides)):
        raise PickleError("the offset, shape and strides of a tensor are not whole numbers")
    if len(sizes) != len(strides):
        raise PickleError(f"the shape {sizes} and the strides {strides} do not fit")
    if 0 in sizes:
        check_shape(sizes, storage.dtype)
        return offset, sizes, strides
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    if last >= storage.size:
        raise PickleError(
            f"a tensor of shape {sizes}, strides {strides} and offset {offset} reaches element "
            f"{last} of a storage of {storage.size}"
        )
    return offset, sizes, strides


def _row_major(sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """The strides of a dense tensor; None where a size of 1 allows any."""
    steps = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    return tuple(step if size > 1 else None for size, step in zip(sizes, steps, strict=True))


def _retyped(storage: _Storage, dtype: object) -> _Storage:
    if not isinstance(dtype, DType) or storage.size % dtype.itemsize:
        raise PickleError(f"a storage of {storage.size} bytes does not fit a tensor's dtype")
    return _Storage(storage.key, dtype, storage.size // dtype.itemsize)


def _ordered_dict() -> dict[object, object]:
    return {}  # its items follow


def _set(items: object) -> set[object]:
    if not isinstance(items, list):
        raise PickleError("a set is made of something that is no list")
    return set(plain_keys(items))


def _size(sizes: object = ()) -> tuple[int, ...]:
    if not isinstance(sizes, (tuple, list)) or not _is_shape(tuple(sizes)):
        raise PickleError("a torch.Size is no tuple of whole numbers")
    return tuple(sizes)


def _device(kind: object, index: object = None) -> str:
    if type(kind) is not str or not (index is None or _is_size(index)):
        raise PickleError("a torch.device is no name and number")
    return kind if index is None else f"{kind}:{index}"


def _encoded(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise PickleError("bytes are not encoded as latin1")
    return text.encode("latin1")


def _parameter(*arguments: object) -> Tensor:
    if not arguments or not isinstance(arguments[0], Tensor):
        raise PickleError("a parameter is made of something that is no tensor")
    return arguments[0]
