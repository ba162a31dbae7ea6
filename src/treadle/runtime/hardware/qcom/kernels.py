"""What the compiler leaves of kernels: their machine code, and what a dispatch has to know.

    kernels(data)["k_0"].code

The layout is that of `compile/ir3_object`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from treadle.errors import InternalError

__all__ = ["KernelCode", "KernelImage", "kernels"]

_MAGIC = b"IR3OBJ\x02\x00"
_HEAD = struct.Struct("<14I")
_IMAGE = struct.Struct("<6I")


class KernelImage(NamedTuple):
    """Buffer `buffer` of a kernel is an image: texture or image `number`, of such texels."""

    buffer: int
    is_texture: bool
    number: int
    height: int
    width: int
    bits: int


@dataclass(frozen=True)
class KernelCode:
    """`registers` and `constants` are counted by four components, `private` bytes by work item,
    `shared` by workgroup. `literals` are constants from number 4 * `first_literal` on.
    """

    name: str
    work_items: int
    buffers: int
    variables: int
    registers: int
    branches: int
    wave: int
    private: int
    shared: int
    constants: int
    first_literal: int
    images: tuple[KernelImage, ...]
    literals: tuple[int, ...]
    code: tuple[int, ...]


def kernels(data: bytes) -> dict[str, KernelCode]:
    """The kernels by name. Raises InternalError for what is no such object, or cut short."""
    try:
        return _read(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise InternalError(f"a broken object of Adreno's machine code: {error}") from error


def _read(data: bytes) -> dict[str, KernelCode]:
    if data[: len(_MAGIC)] != _MAGIC:
        raise InternalError("no object of Adreno's machine code, or one of another version")
    (count,) = struct.unpack_from("<I", data, len(_MAGIC))
    at, found = len(_MAGIC) + 4, dict[str, KernelCode]()
    for _ in range(count):
        (length,) = struct.unpack_from("<I", data, at)
        name = struct.unpack_from(f"{length}s", data, at + 4)[0].decode()
        at += 4 + length
        *head, _, images, literals, words = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        given = [_IMAGE.unpack_from(data, at + _IMAGE.size * n) for n in range(images)]
        at += _IMAGE.size * images
        held = struct.unpack_from(f"<{literals}I", data, at)
        code = struct.unpack_from(f"<{words}Q", data, at + 4 * literals)
        at += 4 * literals + 8 * words
        found[name] = KernelCode(
            name, *head, images=tuple(KernelImage(*one) for one in given), literals=held, code=code
        )
    return found
