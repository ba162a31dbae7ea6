"""What has been run so far: kernels, operations, bytes and time, for the whole process."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["GlobalCounters"]


class GlobalCounters:
    """Totals since the last `reset()`.

    `global_ops` counts floating point and integer operations, `global_mem` the bytes of every
    kernel's buffers, each buffer once a kernel; `time_sum_s` is seconds of running kernels;
    `mem_used` is bytes of device memory in use now.
    """

    kernel_count: ClassVar[int] = 0
    global_ops: ClassVar[int] = 0
    global_mem: ClassVar[int] = 0
    time_sum_s: ClassVar[float] = 0.0
    compile_count: ClassVar[int] = 0
    compile_time_s: ClassVar[float] = 0.0
    cache_hits: ClassVar[int] = 0
    mem_used: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        """Set every total to zero; `mem_used` stays, it is no total."""
        cls.kernel_count = cls.global_ops = cls.global_mem = 0
        cls.compile_count = cls.cache_hits = 0
        cls.time_sum_s = cls.compile_time_s = 0.0
