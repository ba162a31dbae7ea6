"""`treadle bench --instructions avx2`: as on a processor that has no more than these.

    run_held("sse", None, ["--only=matmul"])  ->  the exit code of a bench held to SSE

Libraries look at the processor when they are imported, so that is a process of its own, in whose
environment each finds the setting that it obeys. treadle's is its target. PyTorch has three: for
its own loops, for oneDNN (convolutions), and for MKL (products). MKL_ENABLE_INSTRUCTIONS holds it
on Intel's processors alone; on AMD's it takes AVX2 whatever that says, or SSE2 where it is asked
for results that all processors have in common. NumPy has two: for its loops (from 2.4 on), and for
OpenBLAS.
Other libraries have no such setting, or compile for the processor that they find.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from ..errors import UserError
from .peers import PEERS, installed

__all__ = ["INSTRUCTIONS", "run_held"]

INSTRUCTIONS: dict[str, dict[str, str]] = {
    "avx2": {
        "DEV": "CPU:LLVM:x86-64-v3",
        "EMULATE": "0",
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "sse": {
        "DEV": "CPU:LLVM:x86-64-v2",
        "EMULATE": "0",
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_CBWR": "COMPATIBLE",
        "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}
HELD = ("torch", "torch out=", "numpy")


def run_held(name: str, peers: Sequence[str] | None, options: Sequence[str]) -> int:
    """The exit code of `treadle bench` with these options, in a process held to instructions.

    `peers` None takes those that can be held and are installed. Raises UserError for another.
    """
    for peer in peers or ():
        if peer not in HELD:
            raise UserError(
                f"nothing holds the peer {peer!r} to {name}; these can be: {', '.join(HELD)}"
            )
    chosen = [peer for peer in HELD if installed(PEERS[peer])] if peers is None else peers
    command = [sys.executable, "-m", "treadle", "bench", f"--peers={','.join(chosen)}", *options]
    with subprocess.Popen(command, env={**os.environ, **INSTRUCTIONS[name]}) as bench:
        while True:
            try:
                return bench.wait()
            except KeyboardInterrupt:  # which the bench has got, too, and prints what there is
                continue
