"""The table of backends, and opening devices: the only place where renderers meet compilers.

    Device.DEFAULT            -> "CPU"
    Device["CPU"]             -> the opened device, made at the first use

What the names mean stands in selection.py. Looking at the table opens nothing.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..compile.clang import ClangCompiler, clang_target
from ..compile.llvm import LLVMCompiler
from ..config import settings
from ..errors import DeviceError, SettingError, UserError
from ..explained import IS_PLAIN
from ..forks import fork_safe
from ..kinds import shown
from ..render.llvm import LLVMRenderer
from ..runtime.buffer import HostAllocator, HostBuffer
from ..runtime.cpu import CpuDevice
from ..runtime.null import NullDevice
from ..target import Target, host_target, nvidia_target, parse_target
from .cache import CompileCache, digest_of_sources
from .selection import (
    COMPILERS,
    LATER,
    PREFERRED,
    Choice,
    environment_choice,
    may_have_gpu,
    parse_choice,
)

__all__ = [
    "Device", "Opened", "cached_compile", "compile_cache", "compile_for_host", "cuda_driver",
]  # fmt: skip


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
    def code_target(self) -> Target:
        """The target as the settings let it be used: matrix units round sums as they like."""
        target = self.target
        if settings.REPRODUCIBLE:
            return replace(target, matrix_units=(), warpgroup_units=())
        if settings.ALLOW_TF32 and target.rounding_units:
            return replace(
                target,
                matrix_units=(*target.matrix_units, *target.rounding_units),
                warpgroup_units=(*target.warpgroup_units, *target.rounding_warpgroup_units),
            )
        return target

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


def cached_compile(compiler: Any, target: Target, source: str, **options: object) -> bytes:
    """`compiler.compile(source, **options)`, from the disk cache where it is there."""
    made_by = (compiler.name, compiler.version, target.code_key, digest_of_sources())
    key = "\0".join((*made_by, *map(repr, options.items()), source))
    found = compile_cache().get(key)
    if found is None:
        found = compiler.compile(source, **options)
        compile_cache().put(key, found)
    return found


def compile_for_host(source: str, *, quick: bool = False) -> bytes:
    """LLVM IR that runs in this process, whatever a device's own compiler is.

    `quick` compiles soon what hardly runs.
    """
    embedded = LLVMCompiler(host_target())
    return cached_compile(embedded, embedded.target, source, quick=quick)


class _Devices:
    """`Device["CPU"]`, `Device.DEFAULT`, `Device.canonicalize(name)`."""

    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}
        self._lock = fork_safe(threading.RLock(), 4)
        self._default: str | None = None

    @property
    def DEFAULT(self) -> str:
        """The device of tensors for which none is named."""
        if self._default is not None:
            return self._default
        choice = environment_choice()
        return _best_hardware() if choice is None else choice.name

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:
        self._default = self.canonicalize(name)

    @property
    def default(self) -> Opened:
        """The default device itself, opened: `Device[Device.DEFAULT]`."""
        return self[self.DEFAULT]

    @property
    def opened(self) -> tuple[Opened, ...]:
        """The devices that have been opened so far."""
        return tuple(self._opened.values())

    def canonicalize(self, name: Any) -> Any:
        """The one spelling of a device name: upper case, no ":0"; None is the default.

        A compiler stays in the name, "CPU:CLANG", where it is not the one that the device has
        anyhow. A tuple of names gives a tuple. Raises DeviceError if there is no such device.
        """
        if name is None:
            return self.DEFAULT
        if isinstance(name, (tuple, list)) and name:
            return tuple(self.canonicalize(one) for one in name)
        if not isinstance(name, str):
            raise DeviceError(
                f"[device] a device is named by a text such as 'CPU', not by {shown(name)}"
            )
        try:
            return _own_name(parse_choice(name, "device"))
        except SettingError as error:
            raise DeviceError(f"[device] {error}") from None

    def __getitem__(self, name: str) -> Opened:
        try:
            known = self._opened.get(name)
        except TypeError:  # what is no key is no name either
            known = None
        if known is not None:
            return known
        name = self.canonicalize(name)
        if not isinstance(name, str):
            raise DeviceError(
                f"[device] one device has one name, not {name!r}; open each by its own"
            )
        found = self._opened.get(name)
        if found is None:
            with self._lock:
                found = self._opened.get(name) or replace(_opened(parse_choice(name)), name=name)
                self._opened[name] = found
        return found

    def ready(self, name: Any) -> Any:
        """`canonicalize`, of a device that opens: what it lacks is said at the user's line, and not
        where the first value is asked for.

        A default that nobody asked for is left closed. Raises DeviceError.
        """
        found = self.canonicalize(name)
        if name is not None or environment_choice() is not None:
            for one in (found,) if isinstance(found, str) else found:
                if one not in self._opened:
                    self[one]
        return found


def _own_name(choice: Choice) -> str:
    """The name of a device, with its compiler if that is not the usual one."""
    if choice.compiler is None and choice.arch is None:
        return choice.name
    usual = COMPILERS.get(choice.runtime, (None,))[0]
    wished = environment_choice()
    here = wished if wished is not None and wished.runtime == choice.runtime else None
    standard = (here.compiler or usual, here.arch) if here else (usual, None)
    is_standard = (choice.compiler or usual, choice.arch) == standard
    return choice.name if is_standard else choice.full_name


def _opened(choice: Choice) -> Opened:
    """The device, or an error without the drivers' own behind it: its sentence says what they do.

    DEBUG=1 shows all of them.
    """
    try:
        return _open(choice)
    except UserError as error:
        if settings.DEBUG:
            raise
        setattr(error, IS_PLAIN, True)
        raise error.with_traceback(None) from None


def _open(choice: Choice) -> Opened:
    if choice.runtime in LATER:
        raise DeviceError(
            f"{choice.runtime} is not part of this version of treadle; `treadle devices` lists "
            "what is"
        )
    wished = environment_choice()
    if choice.compiler is None and wished is not None and wished.runtime == choice.runtime:
        choice = Choice(choice.runtime, choice.index, wished.compiler, wished.arch)
    compiler = choice.compiler or COMPILERS[choice.runtime][0]
    opened = _OPEN[choice.runtime, compiler](choice)
    if settings.DEBUG >= 1:
        print(f"opened {choice.name} with {compiler}: {opened.target.name}", file=sys.stderr)
    return opened


# -- how each backend is opened -----------------------------------------------------------------


def _open_cpu(
    choice: Choice, make_compiler: Callable[[Target], Any], make_renderer: Callable[..., Any]
) -> Opened:
    host = host_target()
    target = parse_target(choice.arch) if choice.arch else host
    if target.workgroup is not None:
        raise SettingError(f"{choice.full_name}: {choice.arch} is no processor's architecture")
    if choice.runtime != "NULL":  # whatever instructions it uses, it runs on this machine
        _check_runs_here(choice, target, host)
        target = replace(target, l1=host.l1, l2=host.l2, l3=host.l3, cores=host.cores)
    if make_compiler is ClangCompiler:
        target = clang_target(target)
    compiler = make_compiler(target)
    missing = compiler.available()
    if missing is not None:
        raise DeviceError(f"{choice.name}:{compiler.name} cannot be used: {missing}")
    if choice.runtime == "NULL":
        runtime: Any = NullDevice(choice.name, target)
    else:
        runtime = CpuDevice(choice.name, target, compile_for_host, settings.CPU_COUNT or None)
    renderers = (make_renderer(target, True), make_renderer(target, False))
    return Opened(choice.name, target, runtime, compiler, renderers)


def _check_runs_here(choice: Choice, target: Target, host: Target) -> None:
    """Raises DeviceError for instructions that this processor lacks: they would end the process."""
    lacks = target.arch != host.arch or target.vector_bytes > host.vector_bytes
    if lacks or (target.has_fma and not host.has_fma):
        raise DeviceError(
            f"{choice.full_name}: this machine ({host.cpu}, vectors of {host.vector_bytes} bytes) "
            f"lacks instructions of {choice.arch}; DEV=NULL:0:LLVM:{choice.arch} compiles for that "
            "and runs nothing"
        )


def _llvm_renderer(target: Target, contract: bool) -> LLVMRenderer:
    return LLVMRenderer(
        triple=target.triple, vector_bits=8 * target.vector_bytes, contract=contract
    )


def _c_renderer(target: Target, contract: bool) -> Any:
    from ..render.c import CRenderer

    return CRenderer(contract)


def _open_llvm(choice: Choice) -> Opened:
    return _open_cpu(choice, LLVMCompiler, _llvm_renderer)


def _open_clang(choice: Choice) -> Opened:
    return _open_cpu(choice, ClangCompiler, _c_renderer)


def _open_reference(choice: Choice) -> Opened:
    return Opened(choice.name, host_target(), _RefRuntime(), None, None)


def _open_cl(choice: Choice) -> Opened:
    from ..compile.opencl import OpenCLCompiler
    from ..render.opencl import OpenCLRenderer
    from ..runtime.cl import CLDevice

    runtime = CLDevice(choice.name, choice.index, choice.arch)
    target = runtime.target
    renderers = (OpenCLRenderer(target, True), OpenCLRenderer(target, False))
    return Opened(choice.name, target, runtime, OpenCLCompiler(target, runtime.build), renderers)


def _open_webgpu(choice: Choice) -> Opened:
    from ..compile.wgsl import WGSLCompiler
    from ..render.wgsl import WGSLRenderer
    from ..runtime.webgpu import WebGPUDevice

    runtime = WebGPUDevice(choice.name, choice.index, choice.arch)
    target = runtime.target
    renderers = (WGSLRenderer(target, True), WGSLRenderer(target, False))
    return Opened(choice.name, target, runtime, WGSLCompiler(target), renderers)


def _open_cuda_nvrtc(choice: Choice) -> Opened:
    from ..compile.nvrtc import NVRTCCompiler
    from ..render.cuda import CUDARenderer

    # A GPU's own machine code where it is made for just that GPU; drivers refuse newer PTX.
    return _open_cuda(
        choice,
        lambda target, is_native: NVRTCCompiler(target, "cubin" if is_native else "ptx"),
        CUDARenderer,
    )


def _open_cuda_ptx(choice: Choice) -> Opened:
    from ..compile.ptx import PTXCompiler
    from ..render.ptx import PTXRenderer

    return _open_cuda(choice, lambda target, _: PTXCompiler(target), PTXRenderer)


def _open_cuda(
    choice: Choice, make_compiler: Callable[[Target, bool], Any], make_renderer: Callable[..., Any]
) -> Opened:
    from ..runtime.cuda import CUDADevice, runs_as_it_is, target_of

    arch = choice.arch
    if choice.runtime == "NULL":
        target = nvidia_target(arch or _EMULATED)
        runtime: Any = NullDevice(choice.name, target)
        compiler = make_compiler(target, False)
    else:
        runtime = CUDADevice(
            choice.name, cuda_driver(arch), choice.index, lambda facts: target_of(facts, arch)
        )
        target = runtime.target
        compiler = make_compiler(target, runs_as_it_is(runtime.facts, target))
    missing = compiler.available()
    if missing is not None:
        raise DeviceError(f"{choice.name}:{compiler.name} cannot be used: {missing}")
    renderers = (make_renderer(target, True), make_renderer(target, False))
    return Opened(choice.name, target, runtime, compiler, renderers)


def cuda_driver(arch: str | None) -> Any:
    """NVIDIA's driver, or the emulator that plays so many devices. Raises DeviceError."""
    if settings.EMULATE:
        return _emulated_driver(arch, settings.EMULATE, settings.EMULATE_RACES)
    from ..runtime.cuda import open_driver

    return open_driver()


_EMULATED = "sm_80"  # the oldest architecture with all that kernels are written for


@functools.cache
def _emulated_driver(arch: str | None, devices: int, checks_races: bool) -> Any:
    from ..emulate.cuda import EmulatedDriver

    try:
        return EmulatedDriver(
            arch or _EMULATED, devices, compile_for_host, checks_races=checks_races
        )
    except ValueError as error:
        raise DeviceError(f"CUDA: {error}") from error


_OPEN: dict[tuple[str, str], Callable[[Choice], Opened]] = {
    ("CPU", "LLVM"): _open_llvm,
    ("CPU", "CLANG"): _open_clang,
    ("CL", "OPENCL"): _open_cl,
    ("WEBGPU", "WGSL"): _open_webgpu,
    ("CUDA", "NVRTC"): _open_cuda_nvrtc,
    ("CUDA", "PTX"): _open_cuda_ptx,
    ("REF", "NUMPY"): _open_reference,
    ("NULL", "LLVM"): _open_llvm,
    ("NULL", "NVRTC"): _open_cuda_nvrtc,
    ("NULL", "PTX"): _open_cuda_ptx,
}

Device: _Devices = _Devices()


@functools.cache
def _best_hardware() -> str:
    """The first runtime that opens on a real GPU, else the CPU; loads nothing without a GPU."""
    for name in PREFERRED if may_have_gpu() else ():
        try:
            if not Device[name].runtime.is_software:
                return name
        except DeviceError:  # its library or driver is missing: `treadle doctor` says which
            continue
    return "CPU"
