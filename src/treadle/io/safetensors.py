"""The safetensors format: a JSON header that names slices of one block of bytes.

    safe_save({"w": w}, "w.safetensors", metadata={"step": "10"})
    safe_load("w.safetensors")["w"]

Layout (github.com/huggingface/safetensors): the header's length as 8 bytes little-endian, the
header, then the data that each entry's `data_offsets` cut. Files are checked before use: lengths,
offsets and shapes that contradict each other raise a UserError that names the entry.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ..dtype import DType, _to_np_dtype, dtypes
from ..errors import UserError
from ..tensor import Tensor

__all__ = ["safe_load", "safe_load_metadata", "safe_save"]

NAMES: dict[str, DType] = {
    "BOOL": dtypes.bool, "I8": dtypes.int8, "U8": dtypes.uint8, "I16": dtypes.int16,
    "U16": dtypes.uint16, "I32": dtypes.int32, "U32": dtypes.uint32, "I64": dtypes.int64,
    "U64": dtypes.uint64, "F8_E4M3": dtypes.fp8e4m3, "F8_E5M2": dtypes.fp8e5m2,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "F32": dtypes.float32, "F64": dtypes.float64,
}  # fmt: skip
_LENGTH_BYTES = 8
_METADATA = "__metadata__"


def safe_save(
    tensors: Mapping[str, Tensor], fn: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to the file `fn`; `metadata` are strings to keep beside them.

    The file appears whole or not at all: it is written aside, then renamed.
    """
    import numpy as np

    arrays = {name: np.ascontiguousarray(t.numpy()) for name, t in tensors.items()}
    header = _header(tensors, metadata)
    path = os.fspath(fn)
    handle, aside = tempfile.mkstemp(dir=os.path.dirname(path) or ".", prefix=".treadle-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(len(header).to_bytes(_LENGTH_BYTES, "little") + header)
            for array in arrays.values():
                file.write(array.reshape(-1).view(np.uint8).data)
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> bytes:
    names = {dtype: name for name, dtype in NAMES.items()}
    entries: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes()
        shape = [int(size) for size in tensor.shape]
        entries[name] = {
            "dtype": names[tensor.dtype],
            "shape": shape,
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % _LENGTH_BYTES)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def safe_load(fn: Any) -> dict[str, Tensor]:
    """The named tensors of a file, or of a uint8 tensor that holds a file's bytes.

    Raises UserError if the bytes are not a sound safetensors file.
    """
    data = _bytes(fn)
    start, header = _parse(data, _label(fn))
    entries = {name: entry for name, entry in header.items() if name != _METADATA}
    return {name: _tensor(data[start:], name, entry) for name, entry in entries.items()}


def safe_load_metadata(t: Any) -> tuple[Tensor, int, dict[str, Any]]:
    """The file's bytes as a uint8 tensor, where its data begins, and its whole header."""
    data = _bytes(t)
    start, header = _parse(data, _label(t))
    return (t if isinstance(t, Tensor) else Tensor(data)), start, header


def _bytes(source: Any) -> Any:
    """The bytes of a path (mapped, not read) or of a uint8 tensor, as a NumPy array."""
    import numpy as np

    if isinstance(source, Tensor):
        return source.numpy().reshape(-1).view(np.uint8)
    if os.path.getsize(source) == 0:  # an empty file cannot be mapped
        return np.empty(0, np.uint8)
    return np.memmap(source, np.uint8, mode="r")


def _label(source: Any) -> str:
    return "the tensor" if isinstance(source, Tensor) else os.fspath(source)


def _parse(data: Any, label: str) -> tuple[int, dict[str, Any]]:
    start = _LENGTH_BYTES + int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    if len(data) < _LENGTH_BYTES or start > len(data):
        raise UserError(
            f"[safe_load] {label} is no safetensors file: it has {len(data)} bytes, "
            f"its header would end at byte {start}"
        )
    try:
        header = json.loads(data[_LENGTH_BYTES:start].tobytes())
    except ValueError as error:
        raise UserError(f"[safe_load] {label} is no safetensors file: {error}") from None
    if not isinstance(header, dict):
        raise UserError(f"[safe_load] {label} is no safetensors file: its header is no table")
    return start, header


def _tensor(data: Any, name: str, entry: Any) -> Tensor:
    kind, shape, begin, end = _fields(name, entry)
    if kind not in NAMES:
        raise UserError(f"[safe_load] {name!r} has dtype {kind}, known: {', '.join(NAMES)}")
    dtype = NAMES[kind]
    if not begin <= end <= len(data) or end - begin != math.prod(shape) * dtype.itemsize:
        raise UserError(
            f"[safe_load] {name!r} of shape {shape} and dtype {kind} cannot be bytes "
            f"{begin} to {end} of {len(data)}"
        )
    array = data[begin:end].view(_to_np_dtype(dtype)).reshape(shape)
    return Tensor(array, dtype=dtype)


def _fields(name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
    """The dtype's name, the shape, and where the data begins and ends."""
    try:
        kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        if all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end)):
            return kind, shape, begin, end
    except (KeyError, TypeError, ValueError):
        pass  # the same complaint as for numbers that cannot be
    raise UserError(f"[safe_load] {name!r} has a malformed header entry: {entry!r}")
