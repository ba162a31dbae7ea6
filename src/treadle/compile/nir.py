"""Mesa's intermediate language NIR, built through the library of the package tinymesa.

    shader = Shader(library(), options, work_items=64)
    total = shader.alu("iadd", shader.number(1), shader.number(2))
    shader.intrinsic("store_shared", total, shader.number(0), write_mask=1, align_mul=4)

A value is the address of a nir_def. Operations and intrinsics are found by the names that the
library itself has of them. Offsets in structures are those of Mesa 25.2.7; another version is
refused. The package is optional: MESA_LIBRARY may name a libtinymesa.so instead of it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import importlib.util
import os
from pathlib import Path

from treadle.errors import DeviceError, InternalError

__all__ = ["Shader", "library", "missing", "release"]

VERSION = "25.2.7"
_MEND = f"`pip install tinymesa=={VERSION}.2` brings it (x86-64 Linux)"
_COMPUTE = 5  # MESA_SHADER_COMPUTE
_ALU_INFO, _INTRINSIC_INFO = 56, 112  # bytes of an entry of the tables, which begins with a name
_INPUTS = 8
_ALU_COUNT, _INTRINSIC_COUNT, _INDEX_COUNT = 489, 732, 75
_SOURCE_COUNT, _SOURCE_COMPONENTS, _HAS_RESULT, _RESULT_COMPONENTS, _INDEX_MAP = 8, 9, 20, 21, 33
_INFO = 48  # of a nir_shader: shader_info
_NUM_UBOS, _SHARED_SIZE, _WORKGROUP_SIZE = _INFO + 54, _INFO + 268, _INFO + 280
_LOAD_CONST_DEF, _LOAD_CONST_VALUE = 32, 64
_INTRINSIC_DEF, _COMPONENTS, _CONST_INDEX, _SOURCES = 40, 72, 76, 120
_SOURCE, _SOURCE_DEF = 32, 24  # bytes of a nir_src, and where the value is named
_ALU_DEF, _ALU_SOURCES, _ALU_SWIZZLE = 40, 72, 32
_BREAK = 2


class _Builder(ctypes.Structure):
    """nir_builder."""

    _fields_ = (
        ("option", ctypes.c_uint), ("block", ctypes.c_void_p), ("exact", ctypes.c_bool),
        ("fp_fast_math", ctypes.c_uint), ("shader", ctypes.c_void_p), ("impl", ctypes.c_void_p),
    )  # fmt: skip


def _path() -> Path | None:
    """Where the library is; None where it is missing."""
    named = os.environ.get("MESA_LIBRARY")
    if named:
        return Path(named)
    found = importlib.util.find_spec("tinymesa")
    if found is None or found.origin is None:
        return None
    return Path(found.origin).with_name("libtinymesa.so")


def release() -> str:
    """The version of Mesa."""
    return VERSION


def missing() -> str | None:
    """Why the library cannot be used; None where it can."""
    try:
        library()
    except DeviceError as error:
        return str(error)
    return None


def library() -> ctypes.CDLL:
    """The library. Raises DeviceError where it is missing, or is of another version."""
    path = _path()
    if path is None:
        raise DeviceError(f"the package tinymesa is missing; {_MEND}")
    if not os.environ.get("MESA_LIBRARY"):
        found = importlib.metadata.version("tinymesa")
        if not found.startswith(f"{VERSION}."):
            raise DeviceError(f"tinymesa {found} is not Mesa {VERSION}; {_MEND}")
    return _loaded(path)


@functools.cache
def _loaded(path: Path) -> ctypes.CDLL:
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"Mesa's library does not load: {error}; {_MEND}") from error
    for name in (
        "rzalloc_size", "fd_dev_info_raw", "ir3_compiler_create", "ir3_get_compiler_options",
        "ir3_shader_assemble", "nir_alu_instr_create", "nir_build_alu1", "nir_build_alu2",
        "nir_build_alu3", "nir_build_alu4", "nir_intrinsic_instr_create",
        "nir_load_const_instr_create", "nir_push_if", "nir_push_loop", "nir_jump_instr_create",
    ):  # fmt: skip
        getattr(found, name).restype = ctypes.c_void_p
    found.nir_builder_init_simple_shader.restype = _Builder
    found.glsl_type_singleton_init_or_ref()
    return found


def _names(table: str, count: int, step: int) -> dict[str, int]:
    start = ctypes.addressof(ctypes.c_char.in_dll(library(), table))
    return {_text(start + number * step): number for number in range(count)}


def _text(address: int) -> str:
    return ctypes.string_at(ctypes.c_void_p.from_address(address).value or 0).decode()


@functools.cache
def _operations() -> dict[str, int]:
    return _names("nir_op_infos", _ALU_COUNT, _ALU_INFO)


@functools.cache
def _intrinsics() -> dict[str, int]:
    return _names("nir_intrinsic_infos", _INTRINSIC_COUNT, _INTRINSIC_INFO)


@functools.cache
def _indices() -> dict[str, int]:
    return _names("nir_intrinsic_index_names", _INDEX_COUNT, 8)


class Shader:
    """A compute shader that is built from its beginning to its end. All of it is Mesa's memory."""

    def __init__(self, mesa: ctypes.CDLL, options: int, work_items: int, shared: int) -> None:
        self._mesa = mesa
        self._builder = mesa.nir_builder_init_simple_shader(
            _COMPUTE, ctypes.c_void_p(options), ctypes.c_void_p()
        )
        self._builder.exact = True
        self.address: int = self._builder.shader
        sizes = (ctypes.c_uint16 * 3).from_address(self.address + _WORKGROUP_SIZE)
        sizes[:] = (work_items, 1, 1)
        ctypes.c_uint32.from_address(self.address + _SHARED_SIZE).value = shared

    def _call(self, name: str, *values: int) -> int:
        """A function of the builder's, of values or other things in memory."""
        found = getattr(self._mesa, name)(
            ctypes.byref(self._builder), *(ctypes.c_void_p(value) for value in values)
        )
        return found or 0

    def _create(self, name: str, *values: int) -> int:
        return getattr(self._mesa, name)(ctypes.c_void_p(self.address), *values)

    def _insert(self, instruction: int) -> None:
        self._call("nir_builder_instr_insert", instruction)

    def number(self, value: int, bits: int = 32) -> int:
        """A constant."""
        made = self._create("nir_load_const_instr_create", 1, bits)
        data = (value & (1 << bits) - 1).to_bytes(8, "little")
        ctypes.memmove(made + _LOAD_CONST_VALUE, data, 8)
        self._insert(made)
        return made + _LOAD_CONST_DEF

    def alu(self, name: str, *sources: int) -> int:
        """An operation of single numbers, or one that makes a vector of them."""
        number = _operations()[name]
        info = ctypes.addressof(ctypes.c_char.in_dll(self._mesa, "nir_op_infos"))
        wanted = ctypes.c_uint8.from_address(info + number * _ALU_INFO + _INPUTS).value
        if len(sources) != wanted:
            raise InternalError(f"{len(sources)} operands for {name}, which takes {wanted}")
        return getattr(self._mesa, f"nir_build_alu{len(sources)}")(
            ctypes.byref(self._builder), number, *(ctypes.c_void_p(one) for one in sources)
        )

    def component(self, vector: int, number: int, bits: int) -> int:
        """One component of a vector."""
        made = self._create("nir_alu_instr_create", _operations()["mov"])
        ctypes.c_void_p.from_address(made + _ALU_SOURCES + _SOURCE_DEF).value = vector
        ctypes.c_uint8.from_address(made + _ALU_SOURCES + _ALU_SWIZZLE).value = number
        self._define(made, made + _ALU_DEF, 1, bits)
        self._insert(made)
        return made + _ALU_DEF

    def _define(self, instruction: int, result: int, count: int, bits: int) -> None:
        self._mesa.nir_def_init(
            ctypes.c_void_p(instruction), ctypes.c_void_p(result), ctypes.c_uint(count),
            ctypes.c_uint(bits),
        )  # fmt: skip

    def intrinsic(
        self, name: str, *sources: int, count: int = 1, bits: int = 32, **indices: int
    ) -> int:
        """An intrinsic with a result of components, where it has one. 0 where it has none."""
        number = _intrinsics()[name]
        info = ctypes.addressof(ctypes.c_char.in_dll(self._mesa, "nir_intrinsic_infos"))
        info += number * _INTRINSIC_INFO
        told = ctypes.string_at(info, _INTRINSIC_INFO)
        made = self._create("nir_intrinsic_instr_create", number)
        sizes = told[_SOURCE_COMPONENTS : _SOURCE_COMPONENTS + told[_SOURCE_COUNT]]
        has_result = told[_HAS_RESULT]
        if 0 in sizes or (has_result and not told[_RESULT_COMPONENTS]):  # one of any size
            ctypes.c_uint8.from_address(made + _COMPONENTS).value = count
        for index, value in indices.items():
            place = told[_INDEX_MAP + _indices()[index]]
            if not place:
                raise InternalError(f"Mesa's {name} has no {index}")
            ctypes.c_int32.from_address(made + _CONST_INDEX + 4 * (place - 1)).value = value
        for at, source in enumerate(sources):
            place = made + _SOURCES + at * _SOURCE + _SOURCE_DEF
            ctypes.c_void_p.from_address(place).value = source
        if has_result:
            self._define(made, made + _INTRINSIC_DEF, count, bits)
        self._insert(made)
        return made + _INTRINSIC_DEF if has_result else 0

    # -- control flow

    def push_if(self, condition: int) -> int:
        """What follows runs where a condition of one bit holds; for `pop_if`."""
        return self._call("nir_push_if", condition)

    def pop_if(self, opened: int) -> None:
        self._call("nir_pop_if", opened)

    def push_loop(self) -> int:
        return self._call("nir_push_loop")

    def pop_loop(self, opened: int) -> None:
        self._call("nir_pop_loop", opened)

    def leave_loop(self) -> None:
        """The loop ends for whoever comes here."""
        self._insert(self._create("nir_jump_instr_create", _BREAK))
