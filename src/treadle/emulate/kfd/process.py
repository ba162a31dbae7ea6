"""What one process has of /dev/kfd: the GPUs whose memory it has acquired, and numbers."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from treadle.emulate.machine.platform import refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treadle.emulate.kfd.gpu import EmulatedGPU

__all__ = ["Process", "gpu_id_of"]


class Process:
    """The process, for all kinds of calls."""

    def __init__(self, gpus: Sequence[EmulatedGPU]) -> None:
        self.gpus = gpus
        self._acquired: set[int] = set()
        self._numbers = 0

    def number(self) -> int:
        """One that nothing else has."""
        self._numbers += 1
        return self._numbers

    def gpu(self, gpu_id: int) -> EmulatedGPU:
        """A GPU, acquired or not. EINVAL where there is none; ENODEV if it is lost."""
        for gpu in self.gpus:
            if gpu.gpu_id == gpu_id:
                if gpu.is_lost:
                    raise refusal(errno.ENODEV)
                return gpu
        raise refusal(errno.EINVAL, f"there is no GPU {gpu_id:#x}")

    def acquire(self, gpu: EmulatedGPU) -> None:
        """From now on the process has the GPU's memory."""
        self._acquired.add(gpu.gpu_id)

    def own(self, gpu_id: int) -> EmulatedGPU:
        """A GPU whose memory the process has acquired; else ENODEV."""
        gpu = self.gpu(gpu_id)
        if gpu_id not in self._acquired:
            raise refusal(errno.ENODEV, "the process has not acquired the GPU's memory")
        return gpu


def gpu_id_of(offset: int) -> int:
    """The GPU that a place in /dev/kfd belongs to."""
    return offset >> 46 & 0xFFFF
