"""What a backend is: all that the rest of treadle knows of one runtime, as one value.

    CL = Backend("CL", open=_open, describe=_describe, toolchains=(OPENCL,), nodes=GPU_NODES, ...)

A record is made when devices are first named, and opens nothing. So it holds names, numbers and
functions; the functions import what they need when they are called. A renderer meets the compiler
that reads its text in a Toolchain, and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from glob import glob
from typing import TYPE_CHECKING, Any, Protocol

from ..config import settings

if TYPE_CHECKING:
    from ..render.base import Renderer
    from ..runtime.base import MemoryDevice
    from ..target import Target

__all__ = [
    "GPU_NODES", "Backend", "Cached", "CompileIR", "Emulation", "Request", "Toolchain",
    "emulation_of",
]  # fmt: skip

# What the driver of a GPU, of whatever make, shows of itself on Linux.
GPU_NODES = (
    "/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/kfd", "/dev/kgsl-3d0", "/dev/mali*",
    "/dev/dxg",  # Windows' GPU, in its Linux
)  # fmt: skip


class Cached(Protocol):
    """Gives what the disk cache has under a key, or what `make` makes, which it keeps."""

    def __call__(self, key: str, make: Callable[[], bytes], /) -> bytes: ...


class CompileIR(Protocol):
    """Makes native code of LLVM IR for this machine; `quick` compiles soon what hardly runs."""

    def __call__(self, source: str, /, *, quick: bool = False) -> bytes: ...


@dataclass(frozen=True)
class Toolchain:
    """One way from a kernel to code: a renderer, and the compiler that reads what it prints.

    `name` is the compiler's, as users write it in `DEV=CUDA:PTX`. `compiler` makes what
    compile/base.py says of the target and the opened device, None where there is only a target.
    `renderer` takes the target and whether multiplications and additions may be contracted. Both
    are None where nothing is compiled. `target` is what it makes code for where no device says so.
    `is_tested` says whether tests that take a device run through it as often as through the first
    one. `tested_architectures` are those that they run on beside the default one; without
    `is_tested` they share the runs of the first toolchain.
    """

    name: str
    summary: str
    compiler: Callable[[Target, Any], Any] | None = None
    renderer: Callable[[Target, bool], Renderer] | None = None
    target: Callable[[Request], Target] | None = None
    spellings: tuple[str, ...] = ()
    is_tested: bool = True
    tested_architectures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Emulation:
    """Hardware that is played on this machine's processor: so many devices with one chip."""

    devices: int
    chip: str
    checks_races: bool


@dataclass(frozen=True)
class Request:
    """A device that is asked for, with all that was said of it.

    `compile_ir` goes through the disk cache, as `cached` does. `emulation` is None where the
    hardware is meant.
    """

    name: str
    index: int
    toolchain: Toolchain
    arch: str | None
    interface: str | None
    compile_ir: CompileIR
    cached: Cached
    emulation: Emulation | None

    @property
    def full_name(self) -> str:
        """The device with its compiler and architecture."""
        arch = f":{self.arch}" if self.arch else ""
        return f"{self.name}:{self.toolchain.name}{arch}"


@dataclass(frozen=True)
class Backend:
    """One runtime. Its first toolchain is the default.

    * `open` gives the runtime's Device (see runtime/base.py), a MemoryDevice where graphs are
      interpreted; it is None for a backend that is only
      known by name. `describe` says in one line what is there, for `treadle doctor`. Both raise
      DeviceError, "what is missing; the one command that mends it".
    * `spellings` and those of its toolchains are environment variables that choose it when they
      are 1, as its name is; NAME_IFACE chooses one of `interfaces`. `variables` are others that its
      driver or its compilers read.
    * `extra` is the optional dependency that brings its libraries: `pip install "treadle[extra]"`.
    * `nodes` are files that its drivers show on Linux: where there are none, nothing is loaded to
      look for it. `is_chosen_unasked` says whether it is taken without a wish, on real hardware.
    * `emulated_chip` is what EMULATE=1 plays; None where nothing is emulated.
    * `dlpack` is DLPack's type of memory that the host does not see, `dlpack_host` that of its
      memory that the host sees.
    * `computes` is False where kernels are compiled and never run.
    """

    name: str
    summary: str
    toolchains: tuple[Toolchain, ...] = ()
    open: Callable[[Request], MemoryDevice] | None = None
    describe: Callable[[Request], str] | None = None
    spellings: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    has_architectures: bool = True
    has_several: bool = False
    extra: str | None = None
    nodes: tuple[str, ...] = ()
    is_chosen_unasked: bool = False
    emulated_chip: str | None = None
    dlpack: int | None = None
    dlpack_host: int | None = None
    computes: bool = True

    @property
    def is_here(self) -> bool:
        """Whether this version of treadle has it."""
        return self.open is not None

    def toolchain(self, name: str | None) -> Toolchain:
        """The toolchain with a compiler of that name; None is the default one."""
        return next(one for one in self.toolchains if name in (None, one.name))

    @property
    def all_spellings(self) -> dict[str, str]:
        """Each environment variable that chooses it when it is 1, with the DEV that it means."""
        found = dict.fromkeys((self.name, *self.spellings), self.name)
        for one in self.toolchains:
            found |= dict.fromkeys(one.spellings, f"{self.name}:{one.name}")
        return found

    def may_be_here(self) -> bool:
        """Whether a driver of it may be on this machine: False is certain, on Linux."""
        return not sys.platform.startswith("linux") or any(map(glob, self.nodes))

    @property
    def tested_devices(self) -> dict[str, list[str]]:
        """The names by which tests that take a device open it.

        Of each tested toolchain there is the name without an architecture, and under it all names
        that share its runs.
        """
        if not (self.is_here and self.computes):
            return {}
        found: dict[str, list[str]] = {}
        for number, one in enumerate(self.toolchains):
            plain = f"{self.name}:{one.name}" if number and one.is_tested else self.name
            others = [f"{self.name}:{one.name}:{arch}" for arch in one.tested_architectures]
            found.setdefault(plain, [plain]).extend(others)
        return found

    @property
    def table_row(self) -> str:
        """Its row of the table in docs/devices.md."""
        names = f"`{self.name}`" + (f", `{self.name}:1`, ..." if self.has_several else "")
        install = f': `pip install "treadle[{self.extra}]"`' if self.extra else ""
        first, *others = [f"`{one.name}` ({one.summary}" for one in self.toolchains]
        compilers = [f"{first}, the default)" if others else f"{first})"]
        compilers += [f"{one})" for one in others]
        return f"| {names} | {self.summary}{install} | {', '.join(compilers)} |"


def emulation_of(backend: Backend, arch: str | None) -> Emulation | None:
    """What EMULATE asks for of a backend: None for the hardware itself.

    EMULATE names a chip, or a number of devices; these have the chip of `arch`, where one is given.
    """
    wish = settings.EMULATE
    if not wish or backend.emulated_chip is None:
        return None
    devices, chip = (1, wish) if isinstance(wish, str) else (wish, arch or backend.emulated_chip)
    return Emulation(devices, chip, settings.EMULATE_RACES)
