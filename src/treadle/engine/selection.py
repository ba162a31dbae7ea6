"""Which device is meant: names and environment variables. Nothing is opened here.

    parse_choice("CL:1")            ->  Choice("CL", 1, None, None)
    DEV=CPU:CLANG python ...        ->  environment_choice() is Choice("CPU", 0, "CLANG", None)

A device is chosen by `DEV=[IFACE+]DEVICE[:INDEX][:COMPILER[:ARCH]]` or by the variables in its
backend's record (`CPU=1`, `GPU=1`, `CLANG=1`, `AMD_IFACE=KFD`, ...). Contradictions and typos are
errors that name both sides.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace

from ..backends import BACKENDS, Backend, find
from ..config import Settings
from ..errors import SettingError

__all__ = ["Choice", "environment_choice", "parse_choice", "spellings"]


@dataclass(frozen=True)
class Choice:
    """A parsed DEV value. `runtime` is the name of a backend."""

    runtime: str
    index: int
    compiler: str | None
    arch: str | None
    interface: str | None = None

    @property
    def name(self) -> str:
        """The device alone."""
        return self.runtime if self.index == 0 else f"{self.runtime}:{self.index}"

    @property
    def backend(self) -> Backend:
        """The record of its backend."""
        return _known(self.runtime)

    @property
    def usual_compiler(self) -> str | None:
        """The compiler that its backend has where none is named."""
        return next((one.name for one in self.backend.toolchains), None)

    @property
    def full_name(self) -> str:
        """The device with the interface, compiler and architecture that are asked for."""
        arch = f":{self.arch}" if self.arch else ""
        compiler = self.compiler or self.usual_compiler if self.compiler or arch else ""
        interface = f"{self.interface}+" if self.interface else ""
        return f"{interface}{self.name}{f':{compiler}' if compiler else ''}{arch}"


def _known(name: str) -> Backend:
    found = find(name)
    assert found is not None
    return found


def parse_choice(text: str, source: str = "DEV") -> Choice:
    """`[IFACE+]DEVICE[:INDEX][:COMPILER[:ARCH]]`. Raises SettingError naming what is unknown."""
    head, *rest = text.split(":")
    interface, _, runtime = head.upper().rpartition("+")
    backend = find(runtime)
    if backend is None:
        known = ", ".join(sorted(one.name for one in BACKENDS if one.is_here))
        raise SettingError(f"{source}={text}: no device {runtime!r}; known are {known}")
    index = int(rest.pop(0)) if rest and rest[0].isdigit() else 0
    compiler = rest.pop(0).upper() or None if rest else None
    choice = Choice(runtime, index, compiler, ":".join(rest) or None, interface or None)
    if backend.is_here:
        _check(choice, backend, f"{source}={text}: {runtime}")
    return choice


def _check(choice: Choice, backend: Backend, where: str) -> None:
    """Raises SettingError for an interface, compiler or architecture that a backend has not."""
    if choice.interface and choice.interface not in backend.interfaces:
        if not backend.interfaces:
            raise SettingError(
                f"{where} has no interfaces to choose from: leave {choice.interface}+ out"
            )
        raise SettingError(
            f"{where} has no interface {choice.interface!r}; it has {', '.join(backend.interfaces)}"
        )
    compilers = [one.name for one in backend.toolchains]
    if choice.compiler is not None and choice.compiler not in compilers:
        raise SettingError(
            f"{where} has no compiler {choice.compiler!r}; it has {', '.join(compilers)}"
        )
    if choice.arch is not None and not backend.has_architectures:
        raise SettingError(f"{where} has no architectures to choose from")


def spellings() -> dict[str, str]:
    """Environment variables that choose a device when they are 1, and the DEV that each means."""
    found: dict[str, str] = {}
    for backend in BACKENDS:
        found |= backend.all_spellings
    return found


@functools.cache
def environment_choice() -> Choice | None:
    """The choice that the environment makes; None if it makes none."""
    found: dict[str, Choice] = {}
    if os.environ.get("DEV"):
        found["DEV=" + os.environ["DEV"]] = parse_choice(os.environ["DEV"])
    for name, meaning in spellings().items():
        value = os.environ.get(name, "0")
        if value not in ("0", ""):
            if value != "1":
                raise SettingError(f"{name}={value} is not allowed: it is 0 or 1")
            found[f"{name}=1"] = parse_choice(meaning, name)
    for backend in BACKENDS:
        name = f"{backend.name}_IFACE"
        if backend.interfaces and (value := os.environ.get(name)):
            found[f"{name}={value}"] = parse_choice(f"{value}+{backend.name}", name)
    agreed = _agreed(found)
    if agreed is not None:
        _check_emulation(next(iter(found)), agreed.backend)
    return agreed


def _agreed(found: dict[str, Choice]) -> Choice | None:
    agreed: tuple[str, Choice] | None = None
    for spelling, choice in found.items():
        if agreed is None:
            agreed = (spelling, choice)
            continue
        old = agreed[1]
        if (
            old.runtime != choice.runtime
            or _differ(old.compiler, choice.compiler)
            or _differ(old.interface, choice.interface)
        ):
            raise SettingError(f"{agreed[0]} and {spelling} contradict each other: keep one")
        if choice.compiler and not old.compiler:
            old = replace(old, compiler=choice.compiler, arch=choice.arch)
            agreed = (spelling, old)
        if choice.interface and not old.interface:
            agreed = (spelling, replace(old, interface=choice.interface))
    return None if agreed is None else agreed[1]


def _differ(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one != other


def _check_emulation(spelling: str, backend: Backend) -> None:
    """Raises SettingError where the environment asks for a backend, and that it be emulated, which
    has no emulator.
    """
    wish, origin = Settings.EMULATE.resolve()
    if not wish or origin not in os.environ or backend.emulated_chip or not backend.is_here:
        return
    emulated = ", ".join(one.name for one in BACKENDS if one.emulated_chip)
    raise SettingError(
        f"{spelling} and {origin}={wish} contradict each other: {backend.name} has no emulator, "
        f"only {emulated}; keep one of the two"
    )
