"""The safetensors format: a JSON header that names slices of one block of bytes.

    safe_save({"w": w}, "w.safetensors", metadata={"step": "10"})
    safe_load("w.safetensors")["w"]

Layout (github.com/huggingface/safetensors): the header's length as 8 bytes little-endian, the
header, then the data that each entry's `data_offsets` cut. Files are checked before use: lengths,
offsets and shapes that contradict each other raise a UserError that names the entry. The data must
be cut without overlaps, holes or a rest, and no name may come twice, or two readers could see
different tensors in one file.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypedDict, TypeGuard

from ..dtype import DType, dtypes
from ..errors import DTypeError, UserError
from ..explained import explained
from ..tensor import Tensor
from .mapped import Source, label_of, mapped, tensor_of

if TYPE_CHECKING:
    import numpy as np

__all__ = ["safe_load", "safe_load_metadata", "safe_save"]

NAMES: dict[str, DType] = {
    "BOOL": dtypes.bool, "I8": dtypes.int8, "U8": dtypes.uint8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F8_E4M3": dtypes.fp8e4m3, "F8_E5M2": dtypes.fp8e5m2,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_MOST_HEADER = 100_000_000  # as in the format's own library
_FIELDS = {"dtype", "shape", "data_offsets"}


@explained
def safe_save(
    tensors: Mapping[str, Tensor],
    fn: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named tensors to the file `fn`; `metadata` are strings to keep beside them.

    The file appears whole or not at all: it is written aside, then renamed. What is no plain file,
    such as a pipe, is written to. Wide elements come first, so that all are aligned when the file
    is mapped. Raises DTypeError for a dtype that the
    format has no name for, UserError for metadata that are no strings, ShapeError for a `metadata`
    or `tensors` that is one tensor.
    """
    import numpy as np

    _check_savable(tensors, metadata)
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())
    header = _header(tensors, order, metadata)
    path = os.path.realpath(fn)  # a link stays one

    def write(file: BinaryIO) -> None:
        file.write(len(header).to_bytes(_LENGTH_BYTES, "little") + header)
        for name in order:
            array = np.ascontiguousarray(tensors[name].numpy())
            file.write(array.reshape(-1).view(np.uint8).data)

    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as special:
            write(special)
        return
    handle, aside = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".treadle-")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _check_savable(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in NAMES.values():
            raise DTypeError(
                f"[safe_save] {name!r} is {tensor.dtype.name}, which the format cannot hold; "
                f"cast it to one of {', '.join(t.name for t in NAMES.values())}"
            )
        if name == _METADATA:
            raise UserError(f"[safe_save] no tensor can be called {name!r}")
    if not all(isinstance(text, str) for pair in (metadata or {}).items() for text in pair):
        raise UserError(f"[safe_save] metadata must be strings by name, not {metadata!r}")


def _header(
    tensors: Mapping[str, Tensor], order: list[str], metadata: Mapping[str, str] | None
) -> bytes:
    kinds = {dtype: kind for kind, dtype in NAMES.items()}
    entries: dict[str, object] = {_METADATA: dict(metadata)} if metadata else {}
    entries |= dict.fromkeys(tensors)  # the header keeps the order in which they were given
    offset = 0
    for name in order:
        tensor, begin = tensors[name], offset
        offset += tensor.nbytes()
        entries[name] = {
            "dtype": kinds[tensor.dtype],
            "shape": [int(size) for size in tensor.shape],
            "data_offsets": [begin, offset],
        }
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % _LENGTH_BYTES)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@explained
def safe_load(fn: Source) -> dict[str, Tensor]:
    """The named tensors of a file, or of a uint8 tensor that holds a file's bytes.

    In their shapes and dtypes. Nothing is read before it is computed with, and on the CPU nothing
    is copied. Raises UserError if the bytes are not a sound safetensors file.
    """
    data, label = mapped(fn), label_of(fn)
    start, header = _parse(data, label)
    return {
        name: tensor_of(data[start + begin : start + end], dtype, shape)
        for name, (dtype, shape, begin, end) in _entries(header, len(data) - start, label).items()
    }


@explained
def safe_load_metadata(t: Source) -> tuple[Tensor, int, dict[str, Any]]:
    """The file's bytes as a uint8 vector, where its data begins, and its whole header.

    Raises UserError if the bytes are not a sound safetensors file.
    """
    data, label = mapped(t), label_of(t)
    start, header = _parse(data, label)
    _entries(header, len(data) - start, label)
    return tensor_of(data, dtypes.uint8, (len(data),)), start, header


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class _Entry(TypedDict):
    """What the header says of a tensor."""

    dtype: str
    shape: list[int]
    data_offsets: list[int]


def _unsound(label: str, why: object) -> UserError:
    return UserError(f"[safe_load] {label} is no safetensors file: {why}")


def _parse(data: np.ndarray, label: str) -> tuple[int, dict[str, Json]]:
    """Where the data begin, and the header."""
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    start = _LENGTH_BYTES + length
    if len(data) < _LENGTH_BYTES or start > len(data):
        raise _unsound(label, f"it has {len(data)} bytes, its header would end at byte {start}")
    if length > _MOST_HEADER:
        raise _unsound(label, f"a header of {length} bytes is longer than {_MOST_HEADER}")
    text = data[_LENGTH_BYTES:start].tobytes()
    if not text.startswith(b"{"):
        raise _unsound(label, "its header does not begin with '{': its header is no table")
    try:
        header = json.loads(text.decode(), object_pairs_hook=_table)
    except (ValueError, RecursionError) as error:
        raise _unsound(label, error) from None
    metadata = header.get(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _unsound(label, f"its {_METADATA} are no strings by name")
    return start, header


def _table(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} comes twice in one table")
    return table


def _entries(
    header: Mapping[str, object], nbytes: int, label: str
) -> dict[str, tuple[DType, tuple[int, ...], int, int]]:
    """(dtype, shape, begin, end) of each tensor; together they cover `nbytes` bytes once."""
    found = {
        name: _fields(name, entry, nbytes) for name, entry in header.items() if name != _METADATA
    }
    reached = 0
    for name, (_, _, begin, end) in sorted(found.items(), key=lambda item: item[1][2:]):
        if begin != reached:
            what = "overlaps others" if begin < reached else "leaves a hole before it"
            raise _unsound(label, f"{name!r}, bytes {begin} to {end}, {what} at byte {reached}")
        reached = end
    if reached != nbytes:
        raise _unsound(label, f"{nbytes - reached} bytes at its end belong to no tensor")
    return found


def _fields(name: str, entry: object, nbytes: int) -> tuple[DType, tuple[int, ...], int, int]:
    if not _is_well_formed(entry):
        raise UserError(f"[safe_load] {name!r} has a malformed header entry: {entry!r:.200}")
    kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    if kind not in NAMES:
        raise UserError(f"[safe_load] {name!r} has dtype {kind}, known: {', '.join(NAMES)}")
    dtype = NAMES[kind]
    if not begin <= end <= nbytes or end - begin != math.prod(shape) * dtype.itemsize:
        raise UserError(
            f"[safe_load] {name!r} of shape {shape} and dtype {kind} cannot be bytes "
            f"{begin} to {end} of {nbytes}"
        )
    return dtype, shape, begin, end


def _is_well_formed(entry: object) -> TypeGuard[_Entry]:
    if not isinstance(entry, dict) or entry.keys() != _FIELDS or type(entry["dtype"]) is not str:
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    if type(shape) is not list or type(offsets) is not list or len(offsets) != 2:
        return False
    return all(type(n) is int and n >= 0 for n in (*shape, *offsets))
