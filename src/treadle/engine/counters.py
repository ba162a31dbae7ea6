"""What has been run so far: kernels, operations, bytes and time, for the whole process."""

from __future__ import annotations

from typing import ClassVar

from .devices import Device

__all__ = ["GlobalCounters", "count"]


class _Totals:
    """The numbers themselves, in one place: each replay adds to them."""

    __slots__ = ("bytes", "kernels", "ops", "seconds")

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.kernels = self.ops = self.bytes = 0
        self.seconds = 0.0


_totals = _Totals()


def count(work: tuple[int, int, int], seconds: float) -> None:
    """Add kernels, operations and bytes of what has just run, and how long it took."""
    totals, (kernels, ops, nbytes) = _totals, work
    totals.kernels += kernels
    totals.ops += ops
    totals.bytes += nbytes
    totals.seconds += seconds


class _Gauges(type):
    """What is looked up when it is asked for."""

    @property
    def kernel_count(cls) -> int:
        """Kernels that ran."""
        return _totals.kernels

    @property
    def global_ops(cls) -> int:
        """Floating point and integer operations."""
        return _totals.ops

    @property
    def global_mem(cls) -> int:
        """Bytes read and written by kernels, each element once a kernel."""
        return _totals.bytes

    @property
    def time_sum_s(cls) -> float:
        """Seconds of running kernels."""
        return _totals.seconds

    @property
    def mem_used(cls) -> int:
        """Bytes of memory in use now, on all devices that are open."""
        allocators = {id(opened.allocator): opened.allocator for opened in Device.opened}
        return sum(allocator.stats.live for allocator in allocators.values())


class GlobalCounters(metaclass=_Gauges):
    """Totals since the last `reset()`.

    `schedule_count` are the graphs that were divided into kernels, `compile_count` the kernels that
    were compiled, in `compile_time_s` seconds of this process, `cache_hits` those that were found
    on disk.
    `global_ops` counts floating point and integer operations, `global_mem` the bytes that
    kernels read and write, each element once a kernel; `time_sum_s` is seconds of running kernels.
    `mem_used` is no total: the bytes of memory in use now, on all devices that are open.
    """

    schedule_count: ClassVar[int] = 0
    compile_count: ClassVar[int] = 0
    compile_time_s: ClassVar[float] = 0.0
    cache_hits: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        """Set every total to zero."""
        _totals.clear()
        cls.schedule_count = cls.compile_count = cls.cache_hits = 0
        cls.compile_time_s = 0.0
