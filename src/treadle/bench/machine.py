"""The machine and its ceilings: what it is called, and how fast anything has been seen to go.

    ceilings() -> Ceilings(flops=2.4e11, read=1.2e10, copy=1.0e10)

The probes are independent of treadle's compiler: a fused multiply-add loop in LLVM IR written
out here, and NumPy's and PyTorch's own sums and copies.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from ..engine.devices import Device
from ..engine.selection import environment_choice
from ..runtime.probe import fma_peak, rate
from ..target import available_cores, host_target

__all__ = ["Ceilings", "ceilings", "describe_machine", "peak_flops", "versions"]

PACKAGES = (
    "numpy", "llvmlite", "ml_dtypes", "torch", "jax", "onnxruntime", "tinygrad", "av",
    "cuda-bindings", "nvidia-cuda-nvrtc",
)  # fmt: skip


@dataclass(frozen=True)
class Ceilings:
    """float32 operations a second, and bytes a second read, and read plus written.

    Of a GPU also `matrix`, the operations a second of its matrix units on bfloat16.
    """

    flops: float
    read: float
    copy: float
    matrix: float = 0.0


def versions() -> dict[str, str]:
    """Python, the system, and the installed packages that matter, without importing them."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "system": platform.platform()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def describe_machine() -> dict[str, str]:
    """The processor's name, how many cores this process may use, and the versions.

    And the architecture that treadle makes code for, where the environment names one.
    """
    choice = environment_choice()
    named = {"architecture": choice.arch} if choice is not None and choice.arch else {}
    return {"processor": _processor(), **named, "cores": str(available_cores()), **versions()}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [
                line.split(":", 1)[1].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


def ceilings(quick: bool = False) -> Ceilings:
    """The best of several probes each; `quick` takes small arrays that may fit the caches.

    Else arrays have four times the bytes of the last-level cache, as the STREAM benchmark asks for
    (https://www.cs.virginia.edu/stream/ref.html): what stays in a cache is no memory bandwidth.
    """
    count = 1 << 20 if quick else max(host_target().l3, 1 << 24)  # of four bytes each
    probes = _bandwidth_probes(count)
    read, copy = (max(rates) for rates in zip(*probes, strict=True))
    return Ceilings(peak_flops(1 << (13 if quick else 17)), read, copy)


def peak_flops(steps: int) -> float:
    """float32 operations a second, in the instructions that the CPU's kernels are made of."""
    return fma_peak(steps, Device["CPU"].target)


def _bandwidth_probes(count: int) -> list[tuple[float, float]]:
    """(read, copy) in bytes a second, by NumPy and, where it is installed, by PyTorch."""
    import numpy as np

    source, target = np.ones(count, np.float32), np.zeros(count, np.float32)
    rates = [(rate(4 * count, source.sum), rate(8 * count, lambda: np.copyto(target, source)))]
    try:
        import torch
    except ImportError:
        return rates
    a, b = torch.from_numpy(source), torch.from_numpy(target)
    return [*rates, (rate(4 * count, a.sum), rate(8 * count, lambda: b.copy_(a)))]
