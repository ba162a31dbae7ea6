"""What this machine can do at best, measured: multiply-adds a second and bytes read a second.

    fma_peak(1 << 22)  ->  2.4e11        read_peak(1 << 24)  ->  1.2e10

The probes are independent of treadle's own kernels: a loop of multiply-adds in LLVM IR that is
written out here, and NumPy's sum.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from typing import TYPE_CHECKING

from ..dtype import dtypes
from ..target import available_cores, host_target

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from llvmlite.binding.executionengine import ExecutionEngine

    from ..target import Target

__all__ = ["fma_peak", "peaks", "rate"]

ROUNDS = 7


@functools.cache
def peaks() -> tuple[float, float]:
    """(operations a second, bytes read a second) of all cores, measured once in about 0.2 s."""
    import numpy as np

    source = np.ones(1 << 22, np.float32)
    return fma_peak(1 << 18), available_cores() * rate(4 * source.size, source.sum)


def rate(amount: float, function: Callable[[], object]) -> float:
    function()
    return amount / min(_timed(function) for _ in range(ROUNDS))


def _timed(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def fma_peak(steps: int, target: Target | None = None) -> float:
    """Multiply-adds of all cores at once, each on independent accumulators in registers.

    In the instructions of `target`, by default all that this machine has.
    """
    from llvmlite import binding

    target = target or host_target()
    # Three quarters of the registers: no accumulator spills, and none is waited for.
    lanes, accumulators = target.lanes(dtypes.float32), target.vector_registers * 3 // 4
    engine = _compile(binding, _fma_source(lanes, accumulators), target)
    address = engine.get_function_address("probe")
    # ctypes lets go of the interpreter's lock during the call, so plain threads do here.
    probe = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(address)
    flops = 2.0 * lanes * accumulators * steps * available_cores()
    return rate(flops, lambda: _on_all_cores(probe, steps))


def _on_all_cores(function: Callable[[int], object], argument: int) -> None:
    threads = [
        threading.Thread(target=function, args=(argument,)) for _ in range(available_cores())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _fma_source(lanes: int, accumulators: int) -> str:
    """LLVM IR of `float probe(int64 steps)`: the loop, then a sum so that nothing is dropped."""
    vector, each = f"<{lanes} x float>", range(accumulators)
    slope, step = _splat(lanes, "0x3FEFFFFFE0000000"), _splat(lanes, "1.0")
    # Each accumulator starts elsewhere, or the compiler would merge them all into one.
    starts = [_splat(lanes, f"{i + 2}.0") for i in each]
    phis = "\n".join(f"%a{i} = phi {vector} [{starts[i]}, %top], [%b{i}, %loop]" for i in each)
    call = f"call {vector} @llvm.fmuladd.v{lanes}f32({vector}"
    fmas = "\n".join(f"%b{i} = {call} %a{i}, {vector} {slope}, {vector} {step})" for i in each)
    sums = "\n".join(
        f"%s{i} = fadd {vector} {'%b0' if i == 1 else f'%s{i - 1}'}, %b{i}" for i in each if i
    )
    return f"""
declare {vector} @llvm.fmuladd.v{lanes}f32({vector}, {vector}, {vector})
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


def _compile(binding: ModuleType, source: str, target: Target) -> ExecutionEngine:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=2
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(source), machine)
    engine.finalize_object()
    return engine
