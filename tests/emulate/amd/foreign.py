"""Code objects that ROCm's compiler made, out of a library: images with kernels by their names.

    found = code_objects(Path("libbitsandbytes_rocm72.so").read_bytes(), "gfx1100")
    found[0].kernels["_Z12kfunc..."]

A HIP library holds bundles, compressed by zstd, with a shared object for each chip. The form of
both is in Clang's documentation of its offload bundler; the shared object is linked, and its
segments are loaded at any multiple of a page.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.runtime.hardware.codeobject import Descriptor
from treadle.runtime.hardware.messagepack import unpacked

_COMPRESSED, _BUNDLE = b"CCOB", b"__CLANG_OFFLOAD_BUNDLE__"
_LOAD, _NOTE = 1, 4  # types of program headers


class Argument(NamedTuple):
    """Where an argument lies in the kernarg segment, and what it is."""

    offset: int
    size: int
    kind: str


@dataclass(frozen=True)
class Kernel:
    """A kernel: its descriptor's and its code's places in the image, and its arguments."""

    name: str
    at: int
    entry: int
    descriptor: Descriptor
    arguments: tuple[Argument, ...]

    @property
    def wave(self) -> int:
        return self.descriptor.wave


@dataclass(frozen=True)
class CodeObject:
    """A linked code object. `code` has the place and the size of each section of instructions."""

    data: bytes
    elf: bytes
    kernels: dict[str, Kernel]
    code: tuple[tuple[int, int], ...]


def code_objects(library: bytes, wanted: str) -> list[CodeObject]:
    """The code objects that a library has for a chip."""
    found = []
    at = library.find(_COMPRESSED)
    while at >= 0:
        size, bundle = _decompressed(library, at)
        found += [_loaded(elf) for chip, elf in _members(bundle) if chip == wanted]
        at = library.find(_COMPRESSED, at + size)
    return found


def _decompressed(library: bytes, at: int) -> tuple[int, bytes]:
    """The size of a compressed bundle, and what it holds."""
    version = struct.unpack_from("<H", library, at + 4)[0]
    form = "<QQ" if version >= 3 else "<II"
    size, whole = struct.unpack_from(form, library, at + 8)
    start = at + 8 + struct.calcsize(form) + 8  # behind a hash
    zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    out = ctypes.create_string_buffer(whole)
    packed = library[start : at + size]
    if zstd.ZSTD_decompress(out, whole, packed, len(packed)) != whole:
        raise ValueError(f"the bundle at {at} does not decompress to {whole} bytes")
    return size, out.raw


def _members(bundle: bytes) -> list[tuple[str, bytes]]:
    """Chips and their files; the host's part is empty."""
    if not bundle.startswith(_BUNDLE):
        raise ValueError("no offload bundle")
    count = struct.unpack_from("<Q", bundle, len(_BUNDLE))[0]
    at, found = len(_BUNDLE) + 8, []
    for _ in range(count):
        start, size, letters = struct.unpack_from("<QQQ", bundle, at)
        target = bundle[at + 24 : at + 24 + letters].decode()
        at += 24 + letters
        if size:
            found.append((target.split("--")[-1], bundle[start : start + size]))
    return found


def _loaded(elf: bytes) -> CodeObject:
    headers, sections = _program_headers(elf), _sections(elf)
    size = max(address + nbytes for kind, _, address, nbytes, _ in headers if kind == _LOAD)
    data = bytearray(size)
    for kind, offset, address, _, nbytes in headers:
        if kind == _LOAD:
            data[address : address + nbytes] = elf[offset : offset + nbytes]
    note = next(elf[offset : offset + n] for kind, offset, _, _, n in headers if kind == _NOTE)
    symbols = _symbols(elf, sections)
    records: Any = unpacked(_description(note))
    kernels = {}
    for record in records["amdhsa.kernels"]:
        at = symbols[record[".symbol"]]
        descriptor = Descriptor.read(bytes(data), at)
        arguments = tuple(
            Argument(one[".offset"], one[".size"], one[".value_kind"])
            for one in record.get(".args", ())
        )
        name = record[".name"]
        kernels[name] = Kernel(name, at, at + descriptor.entry, descriptor, arguments)
    code = tuple((s.address, s.size) for s in sections if s.flags & 4)
    return CodeObject(bytes(data), elf, kernels, code)


def _program_headers(elf: bytes) -> list[tuple[int, int, int, int, int]]:
    """Type, place in the file, address, and sizes in memory and in the file."""
    start, count = struct.unpack_from("<Q", elf, 32)[0], struct.unpack_from("<H", elf, 56)[0]
    found = []
    for number in range(count):
        kind, _, offset, address, _, nbytes, memory, _ = struct.unpack_from(
            "<IIQQQQQQ", elf, start + 56 * number
        )
        found.append((kind, offset, address, memory, nbytes))
    return found


class _Section(NamedTuple):
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


def _sections(elf: bytes) -> list[_Section]:
    start, count = struct.unpack_from("<Q", elf, 40)[0], struct.unpack_from("<H", elf, 60)[0]
    found = []
    for number in range(count):
        _, kind, flags, address, offset, size, link, _, _, _ = struct.unpack_from(
            "<IIQQQQIIQQ", elf, start + 64 * number
        )
        found.append(_Section(kind, flags, address, offset, size, link))
    return found


def _symbols(elf: bytes, sections: list[_Section]) -> dict[str, int]:
    """The addresses of dynamic symbols."""
    table = next(section for section in sections if section.kind == 11)
    names = sections[table.link]
    found = {}
    for at in range(table.offset, table.offset + table.size, 24):
        name, _, _, _, address, _ = struct.unpack_from("<IBBHQQ", elf, at)
        start = names.offset + name
        found[elf[start : elf.index(b"\0", start)].decode()] = address
    return found


def _description(note: bytes) -> bytes:
    name, size, _ = struct.unpack_from("<III", note)
    start = 12 + -(-name // 4) * 4
    return note[start : start + size]
