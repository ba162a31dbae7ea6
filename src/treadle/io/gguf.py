"""GGUF, the format of llama.cpp: typed metadata and tensors, many of them quantised.

    metadata, tensors = gguf_load("model-Q4_K.gguf")
    tensors["blk.0.attn_q.weight"]            # float tensor: decoded when it is computed with

Layout (github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3): counts, metadata,
names with shapes, types and offsets, then aligned data. One surprise: the format lists the fastest
axis first; tensors here have it last. Every count, length and offset is checked against the file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ..dtype import DType, _to_np_dtype, dtypes
from ..errors import UserError
from ..explained import explained
from ..tensor import Tensor
from .mapped import Source, check_shape, label_of, mapped, tensor_of
from .quantized import FORMATS, Format

if TYPE_CHECKING:
    import numpy as np

__all__ = ["gguf_load"]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MOST_DEPTH = 8
_MOST_AXES = 8
_STRING, _ARRAY, _BOOL = 8, 9, 7
_SCALARS: dict[int, DType] = {
    0: dtypes.uint8, 1: dtypes.int8, 2: dtypes.uint16, 3: dtypes.int16, 4: dtypes.uint32,
    5: dtypes.int32, 6: dtypes.float32, _BOOL: dtypes.bool, 10: dtypes.uint64, 11: dtypes.int64,
    12: dtypes.float64,
}  # fmt: skip
# The types of tensors that are no blocks, by their numbers in ggml.
_PLAIN: dict[int, DType] = {
    0: dtypes.float32, 1: dtypes.float16, 24: dtypes.int8, 25: dtypes.int16, 26: dtypes.int32,
    27: dtypes.int64, 28: dtypes.float64, 30: dtypes.bfloat16,
}  # fmt: skip


Value: TypeAlias = "str | float | list[Value]"  # of metadata; a float is any number, or a bool


@explained
def gguf_load(tensor: Source) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The metadata and the tensors of a file, or of a uint8 tensor that holds a file's bytes.

    Plain tensors keep their shape and dtype and, on the CPU, are the file's own memory. Quantised
    ones are float32, and lazy: the blocks stay as they are, and are decoded by whatever kernel
    reads them. Raises UserError if the bytes are not a sound GGUF file, or have blocks of an
    unknown type.
    """
    data, label = mapped(tensor), label_of(tensor)
    try:
        return _load(data)
    except _Unsound as error:
        raise UserError(f"[gguf_load] {label} is no sound GGUF file: {error}") from None


class _Unsound(Exception):
    """What is wrong with the bytes."""


@dataclass(frozen=True)
class _Info:
    """One tensor: its shape (slowest axis first), its type and where its bytes begin and end."""

    shape: tuple[int, ...]
    kind: DType | Format
    begin: int
    end: int


def _load(data: np.ndarray) -> tuple[dict[str, Value], dict[str, Tensor]]:
    reader = _Reader(data)
    if reader.take(4).tobytes() != _MAGIC:
        raise _Unsound("it does not begin with 'GGUF'")
    version = reader.number("<I")
    if version not in _VERSIONS:
        raise _Unsound(f"its version is {version}; {' and '.join(map(str, _VERSIONS))} are read")
    tensor_count, pair_count = reader.count("<Q", 24), reader.count("<Q", 13)
    metadata: dict[str, Value] = {}
    for _ in range(pair_count):
        name = reader.new_name(metadata)
        metadata[name] = reader.value(reader.number("<I"))
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        raise _Unsound("its general.alignment is no power of two")
    infos: dict[str, _Info] = {}
    for _ in range(tensor_count):
        name = reader.new_name(infos)
        infos[name] = reader.info(name, alignment)
    start = -(-reader.at // alignment) * alignment
    _check_places(infos, len(data) - start)
    return metadata, {
        name: _tensor(data[start + info.begin : start + info.end], info)
        for name, info in infos.items()
    }


def _check_places(infos: dict[str, _Info], nbytes: int) -> None:
    """Tensors lie in the `nbytes` bytes of data, and nowhere on each other."""
    reached = 0
    for name, info in sorted(infos.items(), key=lambda item: (item[1].begin, item[1].end)):
        if info.end > nbytes:
            raise _Unsound(
                f"the tensor {name!r:.100} of shape {info.shape} would end at byte {info.end} of "
                f"{max(nbytes, 0)} bytes of data"
            )
        if info.begin < reached and info.begin < info.end:
            raise _Unsound(f"the tensor {name!r:.100} overlaps another one")
        reached = max(reached, info.end)


def _tensor(data: np.ndarray, info: _Info) -> Tensor:
    if isinstance(info.kind, DType):
        return tensor_of(data, info.kind, info.shape)
    check_shape(info.shape, dtypes.float32)
    if not len(data):
        return Tensor.zeros(*info.shape)
    blocks = tensor_of(data, dtypes.uint8, (len(data) // info.kind.nbytes, info.kind.nbytes))
    return info.kind.decode(blocks).reshape(info.shape)


class _Reader:
    """Reads on from a place, and never past the end."""

    def __init__(self, data: np.ndarray) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, nbytes: int) -> np.ndarray:
        if nbytes > self.left:
            raise _Unsound(f"{nbytes} bytes at byte {self.at} go past the end ({self.left} left)")
        self.at += nbytes
        return self._data[self.at - nbytes : self.at]

    def number(self, form: str) -> int:
        return struct.unpack(form, self.take(struct.calcsize(form)).tobytes())[0]

    def count(self, form: str, least_bytes: int) -> int:
        """A number of things that take at least `least_bytes` bytes each."""
        count = self.number(form)
        if count * least_bytes > self.left:
            raise _Unsound(f"it counts {count} entries at byte {self.at}, with {self.left} left")
        return count

    def string(self) -> str:
        # vocabularies hold pieces of characters: what is no UTF-8 stays as it is, in surrogates
        return self.take(self.count("<Q", 1)).tobytes().decode("utf-8", "surrogateescape")

    def new_name(self, known: Mapping[str, object]) -> str:
        name = self.string()
        if name in known:
            raise _Unsound(f"the name {name!r:.100} comes twice")
        return name

    def value(self, kind: int, depth: int = 0) -> Value:
        """A metadata value; arrays are lists."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(depth + 1)
        return self._scalars(kind, 1)[0]

    def _array(self, depth: int) -> list[Value]:
        if depth > _MOST_DEPTH:
            raise _Unsound(f"arrays in arrays go deeper than {_MOST_DEPTH}")
        kind = self.number("<I")
        if kind in (_STRING, _ARRAY):
            count = self.count("<Q", 8 if kind == _STRING else 12)
            return [self.value(kind, depth) for _ in range(count)]
        return self._scalars(kind, self.count("<Q", 1))

    def _scalars(self, kind: int, count: int) -> list[Value]:
        if kind not in _SCALARS:
            raise _Unsound(f"a value has the unknown type {kind}")
        dtype = _SCALARS[kind]
        data = self.take(count * dtype.itemsize)
        if kind == _BOOL and (data > 1).any():
            raise _Unsound("a bool is neither 0 nor 1")
        return data.view(_to_np_dtype(dtype)).tolist()

    def info(self, name: str, alignment: int) -> _Info:
        axes = self.number("<I")
        if axes > _MOST_AXES:
            raise _Unsound(f"the tensor {name!r:.100} has {axes} axes")
        shape = tuple(self.number("<Q") for _ in range(axes))[::-1]
        number, begin = self.number("<I"), self.number("<Q")
        kind = _PLAIN.get(number) or FORMATS.get(number)
        if kind is None:
            known = ", ".join(form.name for form in FORMATS.values())
            raise _Unsound(
                f"the tensor {name!r:.100} has the type {number}; read are {known} and plain ones"
            )
        if begin % alignment:
            raise _Unsound(f"the tensor {name!r:.100} at byte {begin} is not aligned")
        count = math.prod(shape)
        if isinstance(kind, DType):
            return _Info(shape, kind, begin, begin + count * kind.itemsize)
        if not shape or shape[-1] % kind.elements:
            raise _Unsound(
                f"rows of the tensor {name!r:.100} of shape {shape} are no whole number of blocks "
                f"of {kind.elements}"
            )
        return _Info(shape, kind, begin, begin + count // kind.elements * kind.nbytes)
