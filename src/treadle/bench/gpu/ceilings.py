"""What the GPU itself can do: copies, float32 multiply-adds, and its matrix units on bfloat16.

The probes are PTX written out here (`probes`), and copies by the driver and by PyTorch: nothing of
treadle's compiler is in them. Matrices hold numbers of random bits, since those cost the power that
real ones do.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from ..machine import Ceilings
from . import probes

__all__ = ["gpu_ceilings"]

_TRIES = 5
_WARPS_OF_FLOATS, _WARPS_OF_MATRICES = 8, 4
_BLOCKS = 16  # for each multiprocessor: several rounds of those that fit


def gpu_ceilings(small: bool) -> Ceilings:
    """The best of several tries each; `small` ones only show that the probes run."""
    gpu = _Gpu(small)
    copy = max([gpu.copy_rate(1 << (14 if small else 30)), *_pytorch_rates(small)])
    return Ceilings(gpu.flops(), copy, copy, gpu.matrix())


class _Gpu:
    """The default CUDA device by its driver's calls."""

    def __init__(self, small: bool) -> None:
        from ... import Device

        self._runtime = Device["CUDA"].runtime
        self._context, self._stream = self._runtime.context, self._runtime.stream
        self._blocks = 1 if small else _BLOCKS * self._runtime.facts.multiprocessors
        self._steps = 1 if small else 2000

    def _seconds(self, start: Callable[[], object]) -> float:
        """The least time of several tries, by the device's clock."""
        context, times = self._context, []
        for _ in range(_TRIES):
            before, after = context.new_event(True), context.new_event(True)
            context.record(before, self._stream)
            start()
            context.record(after, self._stream)
            context.wait_stream(self._stream)
            times.append(context.elapsed(before, after) * 1e-9)
            context.delete_event(before)
            context.delete_event(after)
        return max(min(times), 1e-9)

    def copy_rate(self, nbytes: int) -> float:
        """Bytes read plus written in a second, from one half of memory to another."""
        source, target = (self._runtime.allocator.alloc(nbytes) for _ in range(2))
        context, addresses = self._context, (target.argument, source.argument)
        copy = lambda: context.copy(*addresses, nbytes, self._stream)
        copy()
        return 2 * nbytes / self._seconds(copy)

    def flops(self) -> float:
        """float32 operations a second."""
        return self._rate(probes.fma_probe(), _WARPS_OF_FLOATS)

    def matrix(self) -> float:
        """bfloat16 operations a second; 0 where there are no such matrix units."""
        arch = self._runtime.target.cpu
        if int(arch.removeprefix("sm_").rstrip("af")) < 80:
            return 0.0
        found = [self._rate(probes.mma_probe(), 2 * _WARPS_OF_MATRICES)]
        if arch == "sm_90a":
            found.append(self._rate(probes.wgmma_probe(), _WARPS_OF_MATRICES))
        return max(found)

    def _rate(self, probe: probes.Probe, warps: int) -> float:
        kernel = self._context.load(probe.text.encode()).function("probe")
        out = self._runtime.allocator.alloc(4)
        args = [("address", out.argument), ("int32", self._steps)]
        sizes = (self._blocks, 1, 1), (32 * warps, 1, 1)
        start: Callable[[], object] = lambda: self._context.launch(
            kernel, *sizes, 0, self._stream, args
        )
        operations = probe.operations * self._steps * self._blocks * warps
        return operations / self._seconds(start)


def _pytorch_rates(small: bool) -> list[float]:
    if small or importlib.util.find_spec("torch") is None:
        return []
    try:
        import torch
    except Exception:  # PyTorch is broken: the driver's own copies are measured anyhow
        return []
    if not torch.cuda.is_available():
        return []
    a, b = (torch.empty(1 << 28, device="cuda") for _ in range(2))
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(_TRIES):
        before.record()
        b.copy_(a)
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) * 1e-3)
    return [2 * a.nbytes / min(times)]
