"""What has been run so far: kernels, operations, bytes and time, for the whole process."""

from __future__ import annotations

from typing import ClassVar

from .backends import Device

__all__ = ["GlobalCounters"]


class _Gauges(type):
    """What is looked up when it is asked for."""

    @property
    def mem_used(cls) -> int:
        """Bytes of memory in use now, on all devices that are open."""
        allocators = {id(opened.allocator): opened.allocator for opened in Device.opened}
        return sum(allocator.stats.live for allocator in allocators.values())


class GlobalCounters(metaclass=_Gauges):
    """Totals since the last `reset()`.

    `global_ops` counts floating point and integer operations, `global_mem` the bytes of every
    kernel's buffers, each buffer once a kernel; `time_sum_s` is seconds of running kernels.
    `mem_used` is no total: the bytes of memory in use now, on all devices that are open.
    """

    kernel_count: ClassVar[int] = 0
    global_ops: ClassVar[int] = 0
    global_mem: ClassVar[int] = 0
    time_sum_s: ClassVar[float] = 0.0
    compile_count: ClassVar[int] = 0
    compile_time_s: ClassVar[float] = 0.0
    cache_hits: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        """Set every total to zero."""
        cls.kernel_count = cls.global_ops = cls.global_mem = 0
        cls.compile_count = cls.cache_hits = 0
        cls.time_sum_s = cls.compile_time_s = 0.0

    @classmethod
    def count(cls, kernels: int, ops: int, nbytes: int, seconds: float) -> None:
        """Add what has just run."""
        cls.kernel_count += kernels
        cls.global_ops += ops
        cls.global_mem += nbytes
        cls.time_sum_s += seconds
