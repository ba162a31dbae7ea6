"""Opening devices, once each: a name becomes a runtime's device with its compiler and renderers.

    Device.DEFAULT            -> "CPU"
    Device["CPU"]             -> the opened device, made at the first use

What a backend is stands in its record in `treadle.backends`, which holds no state; what the names
mean stands in selection.py. What is open, and how the settings bend it, is the engine's: it changes
while a program runs, and a record could not know of either without knowing the engine.
"""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from ..backends import BACKENDS, CPU, Backend, Request, Toolchain, emulation_of
from ..config import settings
from ..errors import DeviceError, SettingError, UserError
from ..explained import IS_PLAIN
from ..forks import fork_safe
from ..ir.args import Mesh
from ..kinds import shown
from ..target import Target
from .cache import cached
from .host_code import compile_for_host
from .selection import Choice, environment_choice, parse_choice

if TYPE_CHECKING:
    from ..render.base import Renderer

__all__ = ["Device", "Opened", "Placement", "request_of"]

Placement: TypeAlias = str | tuple[str, ...]  # one device, or several


@dataclass(frozen=True, eq=False)
class Opened:
    """A device in use. `compiler` and `renderers` are None for REF, which interprets.

    `runtime` is what `runtime.base.Device` says, REF's a MemoryDevice; those who know which one it
    is use what else it offers.
    """

    name: str
    target: Target
    runtime: Any
    compiler: Any
    renderers: tuple[Renderer, Renderer] | None

    @property
    def renderer(self) -> Renderer:
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

    @overload
    def canonicalize(self, name: str | None) -> str: ...
    @overload
    def canonicalize(self, name: object) -> Any: ...
    def canonicalize(self, name: object) -> Placement:
        """The one spelling of a device name: upper case, no ":0"; None is the default.

        A compiler stays in the name, "CPU:CLANG", where it is not the one that the device has
        anyhow. A tuple of names gives a tuple. Raises DeviceError if there is no such device.
        """
        if name is None:
            return self.DEFAULT
        if isinstance(name, Mesh):
            return name
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

    @overload
    def ready(self, name: str | None) -> str: ...
    @overload
    def ready(self, name: object) -> Any: ...
    def ready(self, name: object) -> Placement:
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
    """The name of a device, with its interface and compiler if those are not the usual ones."""
    if choice.compiler is None and choice.arch is None and choice.interface is None:
        return choice.name
    usual = choice.usual_compiler
    wished = environment_choice()
    here = wished if wished is not None and wished.runtime == choice.runtime else None
    standard = (here.compiler or usual, here.arch) if here else (usual, None)
    is_standard = (choice.compiler or usual, choice.arch) == standard
    is_standard &= choice.interface in (None, here.interface if here else None)
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
    backend = choice.backend
    if backend.open is None:
        raise DeviceError(
            f"{choice.runtime} is not part of this version of treadle; `treadle devices` lists "
            "what is"
        )
    wished = environment_choice()
    if wished is not None and wished.runtime == choice.runtime:
        if choice.compiler is None:
            choice = replace(choice, compiler=wished.compiler, arch=wished.arch)
        choice = replace(choice, interface=choice.interface or wished.interface)
    request = request_of(backend, backend.toolchain(choice.compiler), choice)
    opened = _with_code(backend.open(request), request)
    if settings.DEBUG >= 1:
        name = request.toolchain.name
        print(f"opened {choice.name} with {name}: {opened.target.name}", file=sys.stderr)
    return opened


def request_of(backend: Backend, toolchain: Toolchain, choice: Choice) -> Request:
    """What a record's functions are called with."""
    return Request(
        choice.name, choice.index, toolchain, choice.arch, choice.interface, compile_for_host,
        cached, emulation_of(backend, choice.arch),
    )  # fmt: skip


def _with_code(runtime: Any, request: Request) -> Opened:
    """A runtime's device with what makes its code. Raises DeviceError if that is missing."""
    target, toolchain = runtime.target, request.toolchain
    if toolchain.compiler is None or toolchain.renderer is None:
        return Opened(request.name, target, runtime, None, None)
    compiler = toolchain.compiler(target, runtime)
    missing = compiler.available()
    if missing is not None:
        raise DeviceError(f"{request.name}:{compiler.name} cannot be used: {missing}")
    renderers = (toolchain.renderer(target, True), toolchain.renderer(target, False))
    return Opened(request.name, target, runtime, compiler, renderers)


Device: _Devices = _Devices()


@functools.cache
def _best_hardware() -> str:
    """The first runtime that opens on a real GPU, else the CPU; loads nothing without a GPU."""
    for backend in BACKENDS:
        if not backend.is_chosen_unasked or not backend.may_be_here():
            continue
        try:
            if not Device[backend.name].runtime.is_software:
                return backend.name
        except DeviceError:  # its library or driver is missing: `treadle doctor` says which
            continue
    return CPU.name
