"""HIP becomes a relocatable object through libamd_comgr, AMD's library of its own compilers.

    ComgrCompiler(amd_target("gfx1030")).compile(source)  ->  an ELF object

It needs neither a GPU nor a driver, nor the headers of HIP. Functions that the source names as
`__ocml_...` come from AMD's device libraries, which the library carries. Two surprises: the numbers
of actions and of languages are others in version 3; and version 2 does not link device libraries by
the action that says so (Debian's 5.2.3), so they are added and linked apart.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
from contextlib import ExitStack, contextmanager
from ctypes import byref, c_bool, c_char_p, c_int, c_size_t, c_uint64
from typing import TYPE_CHECKING, NamedTuple

from treadle.compile.report import save_rejected
from treadle.errors import DeviceError, InternalError
from treadle.forks import fork_safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from treadle.target import Target

__all__ = ["ComgrCompiler"]

_NAMES = ("libamd_comgr.so.3", "libamd_comgr.so.2")
_DOES_WITHOUT = "AMD_LLVM=1 does without"
_INSTALL = (
    "Debian and Ubuntu: `apt-get install libamd-comgr2` brings it, and so does "
    f"ROCm (its package comgr); {_DOES_WITHOUT}"
)
_ISA = "amdgcn-amd-amdhsa--"
_SOURCE, _LOG, _BITCODE, _RELOCATABLE = 1, 5, 6, 7  # kinds of data
# Loops arrive as they are to be: unrolled, sums of tiles took all registers and more.
_OPTIMIZE = ("-O3", "-fno-unroll-loops")
# What is fused is written so. Memory is read as words where matrix units take some.
_OPTIONS = (
    *_OPTIMIZE, "-nogpuinc", "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-narrowing",
)  # fmt: skip
# Functions of the device libraries that a kernel does not call are left out.
_GENERATING = (*_OPTIMIZE, "-mllvm", "-amdgpu-internalize-symbols")
_LIBRARY_FUNCTION = "__ocml_"
_LOCK = fork_safe(threading.RLock())  # clang's options are global


class _Step(NamedTuple):
    """An action's number, what it is given besides data, and the kind of data that it makes."""

    action: int
    options: tuple[str, ...]
    makes: int = _BITCODE


class _Interface(NamedTuple):
    """The numbers of one major version: of the language HIP, and the steps of compiling it."""

    language: int
    compile: tuple[_Step, ...]
    compile_with_libraries: tuple[_Step, ...]
    generate: _Step


_PREPROCESS = _Step(0, ("-nogpuinc",), _SOURCE)
_COMPILE = _Step(2, _OPTIONS)
_VERSIONS = {
    2: _Interface(
        4,
        (_COMPILE,),
        (_COMPILE, _Step(3, ("correctly_rounded_sqrt",)), _Step(4, ())),
        _Step(6, _GENERATING, _RELOCATABLE),
    ),
    3: _Interface(3, (_COMPILE,), (_Step(12, _OPTIONS),), _Step(4, _GENERATING, _RELOCATABLE)),
}


class ComgrCompiler:
    """Compiles HIP for one chip. Threads may call it at once: they take turns."""

    name = "HIP"
    travels = True

    def __init__(self, target: Target) -> None:
        self.target = target

    @property
    def version(self) -> str:
        """The version of the library's interface, and of the clang in it."""
        return _version()

    def available(self) -> str | None:
        """None, or why the library cannot be used."""
        try:
            chips = _chips()
        except DeviceError as error:
            return str(error)
        if self.target.cpu in chips:
            return None
        return (
            f"{self.version} has no code for {self.target.cpu}, only for {chips[0]} to "
            f"{chips[-1]}; ROCm's newer comgr may have it, and {_DOES_WITHOUT}"
        )

    def compile(self, source: str) -> bytes:
        """The relocatable object of one program.

        Raises DeviceError if the library is missing or does not know the chip, InternalError,
        naming the file where the source was saved, if clang rejects it.
        """
        missing = self.available()
        if missing is not None:
            raise DeviceError(missing)
        interface = _interface()
        has_libraries = _LIBRARY_FUNCTION in source
        steps = interface.compile_with_libraries if has_libraries else interface.compile
        try:
            return _perform((*steps, interface.generate), self.target.cpu, source)
        except _RejectedError as error:
            path = save_rejected(source, ".hip")
            raise InternalError(
                f"{self.version} rejected generated HIP (saved as {path}): {str(error)[:2000]}"
            ) from None


class _RejectedError(Exception):
    """An action failed; the message is its log."""


# -- the library ----------------------------------------------------------------------------------


@functools.cache
def _library() -> ctypes.CDLL:
    """libamd_comgr: of ROCM_PATH, of /opt/rocm, or the system's. Raises DeviceError."""
    roots = filter(None, (os.environ.get("ROCM_PATH"), "/opt/rocm"))
    paths = [os.path.join(root, "lib", name) for root in roots for name in _NAMES]
    failures: list[str] = []
    for path in (*filter(os.path.exists, paths), *_NAMES):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            failures.append(str(error))
    raise DeviceError(
        f"libamd_comgr, AMD's compiler for HIP, is missing ({failures[0]}); {_INSTALL}"
    )


def _call(name: str, *arguments: object) -> None:
    """Calls a function of the library. Raises DeviceError for a status other than success."""
    status = getattr(_library(), f"amd_comgr_{name}")(*arguments)
    if status:
        said = c_char_p()
        _library().amd_comgr_status_string(c_int(status), byref(said))
        reason = (said.value or b"").decode() or str(status)
        raise DeviceError(f"libamd_comgr broke off: amd_comgr_{name} gave {reason}")


@functools.cache
def _numbers() -> tuple[int, int]:
    """The major and the minor version of the library's interface."""
    major, minor = c_size_t(), c_size_t()
    _library().amd_comgr_get_version(byref(major), byref(minor))
    return major.value, minor.value


def _interface() -> _Interface:
    """What is known of this version. Raises DeviceError for another one."""
    major, minor = _numbers()
    found = _VERSIONS.get(major)
    if found is None:
        known = " and ".join(map(str, _VERSIONS))
        raise DeviceError(
            f"libamd_comgr {major}.{minor} is not known here, only versions {known}; {_INSTALL}"
        )
    return found


@functools.cache
def _chips() -> tuple[str, ...]:
    """All that it makes code for."""
    _interface()
    count = c_size_t()
    _call("get_isa_count", byref(count))
    found = []
    for number in range(count.value):
        name = c_char_p()
        _call("get_isa_name", c_size_t(number), byref(name))
        found.append((name.value or b"").decode().removeprefix(_ISA))
    return tuple(found)


@functools.cache
def _version() -> str:
    major, minor = _numbers()
    text = _perform((_PREPROCESS,), _chips()[0], "__clang_version__").decode()
    clang = re.search(r'"([^"]+)"\s*\Z', text)
    return f"comgr {major}.{minor} (clang {clang[1].strip() if clang else 'of no version'})"


# -- actions --------------------------------------------------------------------------------------


@contextmanager
def _owned(create: str, release: str, *arguments: object) -> Iterator[c_uint64]:
    """A new handle, released at the end."""
    handle = c_uint64()
    _call(create, *arguments, byref(handle))
    try:
        yield handle
    finally:
        _call(release, handle)


def _perform(steps: Sequence[_Step], chip: str, source: str) -> bytes:
    """What the last of some actions makes of `source`, each from what the one before made."""
    with _LOCK, ExitStack() as owned:
        data = owned.enter_context(_owned("create_data_set", "destroy_data_set"))
        _add_source(data, source.encode())
        makes = _SOURCE
        for step in steps:
            result = owned.enter_context(_owned("create_data_set", "destroy_data_set"))
            _act(step, chip, data, result)
            data, makes = result, step.makes
        return _content(data, makes)


def _add_source(data: c_uint64, source: bytes) -> None:
    with _owned("create_data", "release_data", c_int(_SOURCE)) as one:
        _call("set_data", one, c_size_t(len(source)), source)
        _call("set_data_name", one, b"kernel.hip")
        _call("data_set_add", data, one)


def _act(step: _Step, chip: str, data: c_uint64, result: c_uint64) -> None:
    """One action. Raises _RejectedError with its log."""
    options = (c_char_p * len(step.options))(*(one.encode() for one in step.options))
    with _owned("create_action_info", "destroy_action_info") as info:
        _call("action_info_set_isa_name", info, f"{_ISA}{chip}".encode())
        _call("action_info_set_language", info, c_int(_interface().language))
        _call("action_info_set_option_list", info, options, c_size_t(len(options)))
        _call("action_info_set_logging", info, c_bool(True))
        if _library().amd_comgr_do_action(c_int(step.action), info, data, result) == 0:
            return
    raise _RejectedError(_content(result, _LOG).decode(errors="replace").strip())


def _content(data: c_uint64, kind: int) -> bytes:
    """The first data of a kind in a set; b"" if there is none."""
    count, size = c_size_t(), c_size_t()
    _call("action_data_count", data, c_int(kind), byref(count))
    if not count.value:
        return b""
    get = ("action_data_get_data", "release_data", data, c_int(kind), c_size_t(0))
    with _owned(*get) as one:
        _call("get_data", one, byref(size), None)
        room = ctypes.create_string_buffer(size.value)
        _call("get_data", one, byref(size), room)
        return room.raw
