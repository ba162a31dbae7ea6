"""Code objects that other compilers made and linked: images with kernels by their names.

    found = code_objects(Path("libbitsandbytes_rocm72.so").read_bytes(), "gfx1100")
    found[0].kernels["_Z12kfunc..."]
    launched(gpu, loaded(elf), "add", (3, 1, 1), 256, [array, array, np.int32(700)])

A HIP library holds bundles, compressed by zstd, with a shared object for each chip. The form of
both is in Clang's documentation of its offload bundler; the shared object is linked, and its
segments are loaded at any multiple of a page. pyelftools reads them, not the reader of treadle.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import io
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from treadle.emulate.machine.memory import Permission
from treadle.runtime.hardware.codeobject import Argument, Descriptor
from treadle.runtime.hardware.messagepack import unpacked

_COMPRESSED, _BUNDLE = b"CCOB", b"__CLANG_OFFLOAD_BUNDLE__"
_RELATIVE = 13  # R_AMDGPU_RELATIVE64


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
    """A linked code object. `code` has the place and the size of each section of instructions.

    `addresses` are places of 64 bits that hold an address, and how far behind the image's start it
    is.
    """

    data: bytes
    elf: bytes
    kernels: dict[str, Kernel]
    code: tuple[tuple[int, int], ...]
    addresses: tuple[tuple[int, int], ...]

    def at(self, start: int) -> bytes:
        """Its bytes where it is loaded at `start`."""
        data = bytearray(self.data)
        for place, behind in self.addresses:
            struct.pack_into("<Q", data, place, start + behind)
        return bytes(data)


def code_objects(library: bytes, wanted: str) -> list[CodeObject]:
    """The code objects that a library has for a chip."""
    found = []
    at = library.find(_COMPRESSED)
    while at >= 0:
        size, bundle = _decompressed(library, at)
        found += [loaded(elf) for chip, elf in _members(bundle) if chip == wanted]
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


def loaded(elf: bytes) -> CodeObject:
    """A linked code object as it lies in memory."""
    file = ELFFile(io.BytesIO(elf))
    segments = [segment for segment in file.iter_segments() if segment["p_type"] == "PT_LOAD"]
    data = bytearray(max(one["p_vaddr"] + one["p_memsz"] for one in segments))
    for one in segments:
        data[one["p_vaddr"] : one["p_vaddr"] + one["p_filesz"]] = one.data()
    symbols = {symbol.name: symbol["st_value"] for symbol in _dynamic(file).iter_symbols()}
    kernels = {}
    for record in _metadata(file)["amdhsa.kernels"]:
        at = symbols[record[".symbol"]]
        descriptor = Descriptor.read(bytes(data), at)
        arguments = tuple(
            Argument(one[".offset"], one[".size"], one[".value_kind"])
            for one in record.get(".args", ())
        )
        name = record[".name"]
        kernels[name] = Kernel(name, at, at + descriptor.entry, descriptor, arguments)
    code = tuple(
        (section["sh_addr"], section["sh_size"])
        for section in file.iter_sections()
        if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR
    )
    return CodeObject(bytes(data), elf, kernels, code, _addresses(file))


def _addresses(file: ELFFile) -> tuple[tuple[int, int], ...]:
    found = []
    for section in file.iter_sections():
        if isinstance(section, RelocationSection):
            for one in section.iter_relocations():
                assert one["r_info_type"] == _RELATIVE
                found.append((one["r_offset"], one["r_addend"]))
    return tuple(found)


def _dynamic(file: ELFFile) -> SymbolTableSection:
    table = file.get_section_by_name(".dynsym")
    assert isinstance(table, SymbolTableSection)
    return table


def _metadata(file: ELFFile) -> Any:
    """What the note of AMD's ABI says of the kernels."""
    notes = [
        note["n_descdata"] for section in file.iter_sections() if isinstance(section, NoteSection)
        for note in section.iter_notes() if note["n_name"] == "AMDGPU"
    ]  # fmt: skip
    (note,) = notes
    return unpacked(note if isinstance(note, bytes) else note.encode("latin-1"))


# -- launches -------------------------------------------------------------------------------------


def launched(
    gpu: Any, code: CodeObject, name: str, groups: tuple[int, int, int], workgroup: int,
    given: list[Any], shared: int = 0,
) -> list[Any]:  # fmt: skip
    """What the arrays among the arguments hold after a launch.

    `shared` are bytes of shared memory beyond those that the kernel's descriptor has.
    """
    at = gpu.put(code.data, Permission.READ | Permission.WRITE | Permission.EXECUTE)
    gpu.space.write(at, code.at(at))
    values, places = [], []
    for one in given:
        if isinstance(one, np.ndarray) and one.ndim:
            places.append((gpu.put(np.ascontiguousarray(one).tobytes()), one))
            values.append(places[-1][0])
        else:
            values.append(one)
    segment = kernargs(code.kernels[name].arguments, values, groups, workgroup)
    gpu.launch((code, at), name, groups, (workgroup, 1, 1), segment, shared)
    return [
        np.frombuffer(gpu.space.read(at, one.nbytes), one.dtype).reshape(one.shape)
        for at, one in places
    ]


def kernargs(
    arguments: tuple[Argument, ...], values: list[Any], groups: tuple[int, int, int], workgroup: int
) -> bytes:
    """The kernarg segment: places are the metadata's, and so are the hidden values wanted."""
    hidden = {
        **{f"hidden_block_count_{axis}": n for axis, n in zip("xyz", groups, strict=True)},
        "hidden_group_size_x": workgroup, "hidden_group_size_y": 1, "hidden_group_size_z": 1,
        "hidden_grid_dims": 1 + max(axis for axis, n in enumerate(groups) if n > 1 or not axis),
    }  # fmt: skip
    data = bytearray(max((one.offset + one.size for one in arguments), default=0))
    left = list(values)
    for one in arguments:
        if one.kind.startswith("hidden_"):
            value = hidden.get(one.kind, 0).to_bytes(one.size, "little")
        elif one.kind == "global_buffer":
            value = struct.pack("<Q", left.pop(0))
        else:
            value = np.asarray(left.pop(0)).tobytes()
        assert len(value) == one.size
        data[one.offset : one.offset + one.size] = value
    assert not left
    return bytes(data)
