"""The machine and its ceilings: what it is called, and how fast anything has been seen to go.

    ceilings() -> Ceilings(flops=2.4e11, read=1.2e10, copy=1.0e10)

The probes are independent of treadle's compiler: a fused multiply-add loop in LLVM IR written
out here, and NumPy's and PyTorch's own sums and copies.
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from dataclasses import dataclass
from typing import Any

from .timing import timed

__all__ = ["Ceilings", "ceilings", "describe_machine", "versions"]

PACKAGES = ("numpy", "llvmlite", "ml_dtypes", "torch", "jax", "tinygrad")
ROUNDS = 7


@dataclass(frozen=True)
class Ceilings:
    """float32 operations a second, and bytes a second read, and read plus written."""

    flops: float
    read: float
    copy: float


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
    """The processor's name, how many cores this process may use, and the versions."""
    return {"processor": _processor(), "cores": str(cores()), **versions()}


def cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    """The best of several probes each; `quick` takes small arrays that may fit the caches."""
    count = 1 << (20 if quick else 24)
    probes = _bandwidth_probes(count)
    read, copy = (max(rates) for rates in zip(*probes, strict=True))
    return Ceilings(_fma_peak(1 << (16 if quick else 22)), read, copy)


def _bandwidth_probes(count: int) -> list[tuple[float, float]]:
    """(read, copy) in bytes a second, by NumPy and, where it is installed, by PyTorch."""
    import numpy as np

    source, target = np.ones(count, np.float32), np.zeros(count, np.float32)
    rates = [(_rate(4 * count, source.sum), _rate(8 * count, lambda: np.copyto(target, source)))]
    try:
        import torch
    except ImportError:
        return rates
    a, b = torch.from_numpy(source), torch.from_numpy(target)
    return [*rates, (_rate(4 * count, a.sum), _rate(8 * count, lambda: b.copy_(a)))]


def _rate(amount: float, function: Any) -> float:
    function()
    return amount / min(timed(function) for _ in range(ROUNDS))


def _fma_peak(steps: int) -> float:
    """Multiply-adds of all cores at once, each on independent accumulators in registers."""
    from llvmlite import binding

    lanes, accumulators = _registers(binding.get_host_cpu_features())
    engine = _compile(binding, _fma_source(lanes, accumulators))
    address = engine.get_function_address("probe")
    # ctypes lets go of the interpreter's lock during the call, so plain threads do here.
    probe = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    flops = 2.0 * lanes * accumulators * steps * cores()
    return _rate(flops, lambda: _on_all_cores(probe, steps))


def _on_all_cores(function: Any, argument: int) -> None:
    threads = [threading.Thread(target=function, args=(argument,)) for _ in range(cores())]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _registers(features: Any) -> tuple[int, int]:
    """float32 lanes of a register, and how many accumulators fit without spilling."""
    table = {"avx512f": (16, 24), "avx2": (8, 12), "sse2": (4, 12)}
    return next((shape for name, shape in table.items() if features.get(name)), (4, 24))


def _fma_source(lanes: int, accumulators: int) -> str:
    """LLVM IR of `float probe(int64 steps)`: the loop, then a sum so that nothing is dropped."""
    vector, each = f"<{lanes} x float>", range(accumulators)
    slope, step = _splat(lanes, "0x3FEFFFFFE0000000"), _splat(lanes, "1.0")
    # Each accumulator starts elsewhere, or the compiler would merge them all into one.
    starts = [_splat(lanes, f"{i + 2}.0") for i in each]
    phis = "\n".join(f"%a{i} = phi {vector} [{starts[i]}, %top], [%b{i}, %loop]" for i in each)
    call = f"call {vector} @llvm.fma.v{lanes}f32({vector}"
    fmas = "\n".join(f"%b{i} = {call} %a{i}, {vector} {slope}, {vector} {step})" for i in each)
    sums = "\n".join(
        f"%s{i} = fadd {vector} {'%b0' if i == 1 else f'%s{i - 1}'}, %b{i}" for i in each if i
    )
    return f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define float @probe(i64 %steps) "prefer-vector-width"="512" {{
top:
  br label %loop
loop:
  %n = phi i64 [0, %top], [%next, %loop]
  {phis}
  {fmas}
  %next = add i64 %n, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  {sums}
  %r = extractelement {vector} %s{accumulators - 1}, i32 0
  ret float %r
}}
"""


def _splat(lanes: int, value: str) -> str:
    return f"<{', '.join([f'float {value}'] * lanes)}>"


def _compile(binding: Any, source: str) -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features().flatten()
    target = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features, opt=2
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(source), target)
    engine.finalize_object()
    return engine
