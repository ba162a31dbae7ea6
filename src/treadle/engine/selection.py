"""Which device is meant: names, environment variables, and the default. Nothing is opened here.

    parse_choice("CL:1")            ->  Choice("CL", 1, None, None)
    DEV=CPU:CLANG python ...        ->  environment_choice() is Choice("CPU", 0, "CLANG", None)

A device is chosen by `DEV=[IFACE+]DEVICE[:INDEX][:COMPILER[:ARCH]]` or by the older spellings in
`SPELLINGS` (`CPU=1`, `GPU=1`, `CLANG=1`, ...). Contradictions and typos are errors that name both
sides.
"""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass, replace
from glob import glob

from ..errors import SettingError

__all__ = [
    "COMPILERS", "LATER", "PREFERRED", "Choice", "environment_choice", "may_have_gpu",
    "parse_choice",
]  # fmt: skip

# Every runtime with its compilers; the first of them is the default.
COMPILERS: dict[str, tuple[str, ...]] = {
    "CPU": ("LLVM", "CLANG"), "CL": ("OPENCL",), "WEBGPU": ("WGSL",), "REF": ("NUMPY",),
    "CUDA": ("NVRTC", "PTX"), "NULL": ("LLVM", "NVRTC", "PTX"),
}  # fmt: skip
# Runtimes whose compilers know several architectures.
_WITH_ARCH = ("CPU", "CL", "CUDA", "NULL", "WEBGPU")
# Runtimes that the specification names and this version does not have yet.
LATER = ("NV", "AMD", "QCOM", "METAL")
# Where no device is named: the first of these that opens on real hardware, else the CPU.
PREFERRED = ("CUDA", "CL", "WEBGPU")
# Older environment variables: what each of them means when it is 1.
SPELLINGS = {
    "CPU": "CPU", "CPU_LLVM": "CPU:LLVM", "LLVM": "CPU:LLVM", "CPU_CLANG": "CPU:CLANG",
    "CLANG": "CPU:CLANG", "REF": "REF", "NULL": "NULL", "CL": "CL", "GPU": "CL",
    "WEBGPU": "WEBGPU", "CUDA": "CUDA", "CUDA_PTX": "CUDA:PTX", **{n: n for n in LATER},
    # Compilers of runtimes that are not here yet: what asks for one of them is refused by name.
    **{name: name.partition("_")[0] for name in (
        "NV_PTX", "NV_NAK", "NV_NVCC", "AMD_LLVM", "AMD_HIP", "QCOM_IR3", "QCOM_CL",
    )},
}  # fmt: skip
_INTERFACES = {f"{name}_IFACE": name for name in LATER}  # AMD_IFACE=KFD

# What a driver for a GPU shows of itself on Linux; without any, no library has to be loaded.
_GPU_NODES = (
    "/dev/dri/renderD*", "/dev/nvidia[0-9]*", "/dev/kfd", "/dev/kgsl-3d0", "/dev/mali*",
    "/dev/dxg",  # Windows' GPU, in its Linux
)  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """A parsed DEV value."""

    runtime: str
    index: int
    compiler: str | None
    arch: str | None

    @property
    def name(self) -> str:
        """The device alone."""
        return self.runtime if self.index == 0 else f"{self.runtime}:{self.index}"

    @property
    def full_name(self) -> str:
        """The device with the compiler and the architecture that are asked for."""
        arch = f":{self.arch}" if self.arch else ""
        compiler = self.compiler or COMPILERS[self.runtime][0] if self.compiler or arch else ""
        return f"{self.name}:{compiler}{arch}" if compiler else self.name


def parse_choice(text: str, source: str = "DEV") -> Choice:
    """`[IFACE+]DEVICE[:INDEX][:COMPILER[:ARCH]]`. Raises SettingError naming what is unknown."""
    head, *rest = text.split(":")
    interface, _, runtime = head.upper().rpartition("+")
    if runtime not in COMPILERS and runtime not in LATER:
        known = ", ".join(sorted(COMPILERS))
        raise SettingError(f"{source}={text}: no device {runtime!r}; known are {known}")
    if interface and runtime in COMPILERS:
        raise SettingError(
            f"{source}={text}: {runtime} has no interfaces to choose from: leave {interface}+ out"
        )
    index = 0
    if rest and rest[0].isdigit():
        index = int(rest.pop(0))
    compiler = rest.pop(0).upper() or None if rest else None
    choices = COMPILERS.get(runtime, ())
    if compiler is not None and choices and compiler not in choices:
        raise SettingError(
            f"{source}={text}: {runtime} has no compiler {compiler!r}; it has {', '.join(choices)}"
        )
    arch = ":".join(rest) or None
    if arch is not None and runtime in COMPILERS and runtime not in _WITH_ARCH:
        raise SettingError(f"{source}={text}: {runtime} has no architectures to choose from")
    return Choice(runtime, index, compiler, arch)


@functools.cache
def environment_choice() -> Choice | None:
    """The choice that the environment makes; None if it makes none."""
    found: dict[str, Choice] = {}
    if os.environ.get("DEV"):
        found["DEV=" + os.environ["DEV"]] = parse_choice(os.environ["DEV"])
    for name, meaning in SPELLINGS.items():
        value = os.environ.get(name, "0")
        if value not in ("0", ""):
            if value != "1":
                raise SettingError(f"{name}={value} is not allowed: it is 0 or 1")
            found[f"{name}=1"] = parse_choice(meaning, name)
    for name, runtime in _INTERFACES.items():
        if value := os.environ.get(name):
            found[f"{name}={value}"] = parse_choice(runtime, name)
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


def may_have_gpu() -> bool:
    """Whether this machine may have a GPU with a driver: False is certain on Linux."""
    return not sys.platform.startswith("linux") or any(glob(pattern) for pattern in _GPU_NODES)
