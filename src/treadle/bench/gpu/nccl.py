"""Calls of groups on GPUs' memory by NCCL: of one process, and of two by `treadle run`.

Two processes need two GPUs: NCCL refuses two on one, which is found out here, and then not
measured. On an emulated GPU there is no NCCL, and calls go through the host's memory.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec

from ...runtime.communicator import Alone, Call
from . import nccl_processes
from .findings import Findings, Skipped
from .nccl_processes import BY_NCCL, REFUSED

__all__ = ["run"]

_SECONDS = 22.0


def run(findings: Findings) -> None:
    """The calls of one process, and of two."""
    if findings.emulated:
        findings.check("an emulated GPU is not NCCL's", _by_the_host)
        return
    findings.check("a group of one process", _alone)
    findings.check("a group of two processes", _two, patience=_SECONDS)


class _OfTwo(Alone):
    """A group that nobody calls."""

    size = 2


def _by_the_host() -> None:
    from ...dtype import dtypes
    from ...engine.memory import new_memory
    from ...engine.nccl_calls import nccl_for
    from ...ir.op import Op

    memory = new_memory("CUDA", dtypes.float32, 4)
    assert nccl_for(_OfTwo(), Call("all_reduce", Op.ADD), memory) is None


def _alone() -> None:
    """All calls of a group of this process: each gives back what it got."""
    import numpy as np

    from ... import Device
    from ...ir.op import Op
    from ...runtime.cuda.device import CUDADevice
    from ...runtime.nccl import Part, is_installed, open_nccl

    if not is_installed():
        raise Skipped('unmeasured: there is no nccl4py: pip install "treadle[nccl]"')
    runtime = Device["CUDA"].runtime
    assert isinstance(runtime, CUDADevice)
    connected = open_nccl(Alone(), runtime, "")
    if isinstance(connected, str):
        raise AssertionError(connected)
    reductions = [Call(kind, Op.ADD) for kind in ("all_reduce", "reduce", "reduce_scatter")]
    moves = [Call(kind) for kind in ("broadcast", "all_gather", "all_to_all")]
    for dtype in ("float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"):
        data = (np.arange(1 << 18) % 100).astype(dtype)
        for call in (*reductions, *moves):
            parts = [
                Part(runtime.allocator.alloc(data.nbytes), dtype, data.size, data.itemsize)
                for _ in range(2)
            ]
            given, result = parts
            runtime.write(given.buffer, data.view(np.uint8).data)
            begun = connected.begin(call, [result])
            connected.take_part(call, f"{dtype} {data.shape}", [given], [result], begun)
            found = np.zeros_like(data)
            runtime.read(result.buffer, found.view(np.uint8).data)
            assert (found == data).all(), f"{call.kind} of {dtype}"
    connected.close()


def _two() -> None:
    from ...runtime.nccl import is_installed

    if not is_installed() or find_spec("mpi4py") is None:
        raise Skipped('unmeasured: it takes nccl4py and mpi4py: pip install "treadle[nccl]"')
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "processes.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"from {nccl_processes.__name__} import main\nmain()\n")
        command = [sys.executable, "-m", "treadle", "run", "-n", "2", script]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end after {_SECONDS:.0f} seconds") from None
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    if done.returncode:
        raise AssertionError((lines or [f"status {done.returncode}"])[-1])
    refused = [line.partition(REFUSED)[2] for line in lines if REFUSED in line]
    if refused:
        raise Skipped(f"unmeasured: {refused[0]}")
    assert any(line.endswith(BY_NCCL) for line in lines), lines
