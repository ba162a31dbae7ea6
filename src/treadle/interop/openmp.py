"""PyTorch's threads, which treadle's kernels run on as well where both compute in turns.

PyTorch's OpenMP runtime keeps its threads spinning for milliseconds after each of its operators.
Threads of treadle's own would share cores with them: a training step of BERT on two cores took 16
ms so, and 11 where PyTorch's threads slept (OMP_WAIT_POLICY=passive).
"""

from __future__ import annotations

import ctypes
import sys

import torch

from ..engine.devices import Device

__all__ = ["borrow_threads"]


def borrow_threads() -> bool:
    """Let the CPU's kernels run on PyTorch's threads from now on; False where that cannot be done.

    It can on Linux, where PyTorch's OpenMP runtime is GNU's, or has its entry points.
    """
    if not sys.platform.startswith("linux") or not torch.backends.openmp.is_available():
        return False
    everywhere = ctypes.CDLL(None)  # PyTorch loads its runtime for all of the process
    try:
        found = [everywhere.GOMP_parallel, everywhere.omp_get_thread_num]
    except AttributeError:
        return False
    region, rank = (ctypes.cast(function, ctypes.c_void_p).value or 0 for function in found)
    return Device["CPU"].runtime.borrow_threads(region, rank)
