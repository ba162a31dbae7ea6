"""The table of backends, and opening devices: the only place where renderers meet compilers.

    Device.DEFAULT            -> "CPU"
    Device["CPU"]             -> the opened device, made at the first use
    DEV=CPU:CLANG python ...  -> the same program through clang

A device is chosen by `DEV=[IFACE+]DEVICE[:INDEX][:COMPILER[:ARCH]]` or by the older spellings in
`_SPELLINGS` (`CPU=1`, `CPU_LLVM=1`, `CLANG=1`, ...). Contradictions and typos are errors that name
both sides. Looking at this table opens nothing.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..compile.clang import ClangCompiler
from ..compile.llvm import LLVMCompiler
from ..config import settings
from ..errors import DeviceError, SettingError
from ..render.llvm import LLVMRenderer
from ..runtime.buffer import HostAllocator, HostBuffer
from ..runtime.cpu import CpuDevice
from ..runtime.null import NullDevice
from ..target import Target, host_target
from .cache import CompileCache, digest_of_sources

__all__ = ["Device", "Opened", "Row", "cached_compile", "compile_cache", "inventory"]


@dataclass(frozen=True)
class Row:
    """One line of `treadle doctor`: whether a way to run works here, and what mends it if not."""

    runtime: str
    compiler: str
    interface: str
    usable: bool
    reason: str
    fix: str


@dataclass(frozen=True)
class _Backend:
    """A runtime with one of its compilers. The first of a runtime is its default."""

    runtime: str
    compiler: str
    make_compiler: Callable[[Target], Any] | None
    make_renderer: Callable[[Target, bool], Any] | None
    about: str


def _llvm_renderer(target: Target, contract: bool) -> LLVMRenderer:
    return LLVMRenderer(
        triple=target.triple, vector_bits=8 * target.vector_bytes, contract=contract
    )


def _c_renderer(target: Target, contract: bool) -> Any:
    from ..render.c import CRenderer

    return CRenderer(contract)


_BACKENDS = (
    _Backend("CPU", "LLVM", LLVMCompiler, _llvm_renderer, "the embedded LLVM"),
    _Backend("CPU", "CLANG", ClangCompiler, _c_renderer, "clang"),
    _Backend("REF", "NUMPY", None, None, "the reference interpreter"),
    _Backend("NULL", "LLVM", LLVMCompiler, _llvm_renderer, "compiles, but runs nothing"),
)
# Runtimes that the specification names and this version does not have yet.
_LATER = ("CL", "WEBGPU", "CUDA", "NV", "AMD", "QCOM", "METAL")
# Older environment variables: what each of them means when it is 1.
_SPELLINGS = {
    "CPU": "CPU", "CPU_LLVM": "CPU:LLVM", "LLVM": "CPU:LLVM", "CPU_CLANG": "CPU:CLANG",
    "CLANG": "CPU:CLANG", "REF": "REF", "NULL": "NULL", "GPU": "CL", **{n: n for n in _LATER},
}  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """A parsed DEV value."""

    runtime: str
    index: int
    compiler: str | None
    arch: str | None

    @property
    def name(self) -> str:
        return self.runtime if self.index == 0 else f"{self.runtime}:{self.index}"


def parse_choice(text: str, source: str = "DEV") -> Choice:
    """`[IFACE+]DEVICE[:INDEX][:COMPILER[:ARCH]]`. Raises SettingError naming what is unknown."""
    head, *rest = text.split(":")
    runtime = head.rpartition("+")[2].upper()
    known = sorted({b.runtime for b in _BACKENDS})
    if runtime not in known and runtime not in _LATER:
        raise SettingError(f"{source}={text}: no device {runtime!r}; known are {', '.join(known)}")
    index = 0
    if rest and rest[0].isdigit():
        index = int(rest.pop(0))
    compiler = rest.pop(0).upper() if rest else None
    choices = [b.compiler for b in _BACKENDS if b.runtime == runtime]
    if compiler is not None and choices and compiler not in choices:
        raise SettingError(
            f"{source}={text}: {runtime} has no compiler {compiler!r}; it has {', '.join(choices)}"
        )
    return Choice(runtime, index, compiler, ":".join(rest) or None)


@functools.cache
def _from_environment() -> Choice | None:
    """The choice that the environment makes; None if it makes none."""
    found: dict[str, Choice] = {}
    if os.environ.get("DEV"):
        found["DEV=" + os.environ["DEV"]] = parse_choice(os.environ["DEV"])
    for name, meaning in _SPELLINGS.items():
        value = os.environ.get(name, "0")
        if value not in ("0", ""):
            if value != "1":
                raise SettingError(f"{name}={value} is not allowed: it is 0 or 1")
            found[f"{name}=1"] = parse_choice(meaning, name)
    return _agreed(found)


def _agreed(found: dict[str, Choice]) -> Choice | None:
    agreed: tuple[str, Choice] | None = None
    for spelling, choice in found.items():
        if agreed is None:
            agreed = (spelling, choice)
            continue
        old = agreed[1]
        if old.runtime != choice.runtime or (
            old.compiler and choice.compiler and old.compiler != choice.compiler
        ):
            raise SettingError(f"{agreed[0]} and {spelling} contradict each other: keep one")
        if choice.compiler and not old.compiler:
            agreed = (spelling, replace(old, compiler=choice.compiler, arch=choice.arch))
    return None if agreed is None else agreed[1]


# -- opened devices -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Opened:
    """A device in use. `compiler` and `renderers` are None for REF, which interprets."""

    name: str
    target: Target
    runtime: Any
    compiler: Any
    renderers: tuple[Any, Any] | None

    @property
    def renderer(self) -> Any:
        """The renderer that the settings ask for: with contraction, or without."""
        assert self.renderers is not None  # REF has neither compiler nor renderer
        return self.renderers[settings.REPRODUCIBLE]

    @property
    def allocator(self) -> Any:
        return self.runtime.allocator

    @property
    def interprets(self) -> bool:
        return self.compiler is None

    def synchronize(self) -> None:
        """Wait until everything that was started has finished."""
        self.runtime.synchronize()


class _RefRuntime:
    """Memory for the interpreter."""

    has_addresses = True
    shares_memory = True

    def __init__(self) -> None:
        self.allocator = HostAllocator()

    def read(self, buffer: HostBuffer, into: memoryview) -> None:
        """Copies the start of a buffer."""
        into.cast("B")[:] = buffer.view()[: into.nbytes]

    def write(self, buffer: HostBuffer, data: memoryview) -> None:
        """Copies `data` to the start of a buffer."""
        buffer.view()[: data.nbytes] = data.cast("B")

    def synchronize(self) -> None:
        """Nothing to wait for: the interpreter returns when it is done."""


@functools.cache
def compile_cache() -> CompileCache:
    """The disk cache of this process, as the settings say."""
    return CompileCache(settings.CACHE_DIR if settings.CACHE else None)


def cached_compile(compiler: Any, target: Target, source: str) -> bytes:
    """`compiler.compile(source)`, from the disk cache where it is there."""
    key = "\0".join((compiler.name, compiler.version, target.code_key, digest_of_sources(), source))
    found = compile_cache().get(key)
    if found is None:
        found = compiler.compile(source)
        compile_cache().put(key, found)
    return found


class _Devices:
    """`Device["CPU"]`, `Device.DEFAULT`, `Device.canonicalize(name)`."""

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}
        self._lock = threading.RLock()
        self._default: str | None = None

    @property
    def DEFAULT(self) -> str:
        """The device of tensors for which none is named."""
        if self._default is not None:
            return self._default
        choice = _from_environment()
        return "CPU" if choice is None else choice.name

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:
        self._default = self.canonicalize(name)

    def canonicalize(self, name: str | None) -> str:
        """The one spelling of a device name: upper case, no ":0"; None is the default.

        Raises DeviceError if there is no such device.
        """
        if name is None:
            return self.DEFAULT
        try:
            return parse_choice(name, "device").name
        except SettingError as error:
            raise DeviceError(str(error)) from None

    def __getitem__(self, name: str) -> Opened:
        name = self.canonicalize(name)
        found = self._opened.get(name)
        if found is None:
            with self._lock:
                found = self._opened.get(name) or _open(parse_choice(name))
                self._opened[name] = found
        return found


def _open(choice: Choice) -> Opened:
    if choice.runtime in _LATER:
        raise DeviceError(
            f"{choice.runtime} is not part of this version of treadle; `treadle devices` lists "
            "what is"
        )
    wished = _from_environment()
    compiler = choice.compiler
    arch = choice.arch
    if compiler is None and wished is not None and wished.runtime == choice.runtime:
        compiler, arch = wished.compiler, wished.arch
    backends = [b for b in _BACKENDS if b.runtime == choice.runtime]
    backend = next((b for b in backends if b.compiler == compiler), backends[0])
    target = Target.parse(arch) if arch else host_target()
    if backend.make_compiler is None or backend.make_renderer is None:
        return Opened(choice.name, target, _RefRuntime(), None, None)
    made = backend.make_compiler(target)
    missing = made.available()
    if missing is not None:
        raise DeviceError(f"{choice.name}:{backend.compiler} cannot be used: {missing}")
    renderers = (backend.make_renderer(target, True), backend.make_renderer(target, False))
    if settings.DEBUG >= 1:
        print(f"opened {choice.name} with {backend.compiler}", file=sys.stderr)
    return Opened(choice.name, target, _runtime(choice, target), made, renderers)


def _runtime(choice: Choice, target: Target) -> Any:
    if choice.runtime == "NULL":
        return NullDevice(choice.name, target)
    embedded = LLVMCompiler(host_target())
    compile_ir = functools.partial(cached_compile, embedded, embedded.target)
    threads = settings.CPU_COUNT or None
    return CpuDevice(choice.name, target, compile_ir, threads)


Device = _Devices()


def inventory() -> list[Row]:
    """Every runtime and compiler, whether it can be used here, and what to do if not."""
    rows = []
    for backend in _BACKENDS:
        missing = None
        if backend.make_compiler is not None:
            missing = backend.make_compiler(host_target()).available()
        reason, _, fix = (missing or backend.about).partition("; ")
        rows.append(
            Row(
                backend.runtime,
                backend.compiler,
                "",
                missing is None,
                reason,
                fix if missing else "",
            )
        )
    for name in _LATER:
        rows.append(Row(name, "", "", False, "not part of this version of treadle", ""))
    return rows
