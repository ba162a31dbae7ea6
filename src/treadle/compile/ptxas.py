"""LLVM IR becomes PTX in this process, and machine code through ptxas, NVIDIA's assembler.

    PTXASCompiler(parse_target("sm_90")).compile("define ptx_kernel void @f() { ret void }")

The assembler is a program of the wheel nvidia-cuda-nvcc, or one on the PATH. It needs neither a GPU
nor a driver. PTX goes in and a cubin comes out by files of a folder that is gone afterwards.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from treadle.compile.ptx import PTXCompiler
from treadle.compile.report import save_rejected
from treadle.errors import DeviceError, InternalError

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["PTXASCompiler"]

MEND = '`pip install "treadle[nv]"` brings it'
_TIMEOUT_SECONDS = 300


class PTXASCompiler:
    """Compiles LLVM IR for one target, to a cubin. All threads may call it."""

    name = "PTX"
    travels = True

    def __init__(self, target: Target) -> None:
        self.target = target
        self._ptx = PTXCompiler(target)

    @functools.cached_property
    def version(self) -> str:
        """LLVM's version and the assembler's."""
        told = _run([_assembler(), "--version"]).stdout
        release = next((line for line in told.splitlines() if "release" in line), told)
        return f"{self._ptx.version}, ptxas {release.rpartition('release ')[2].strip()}"

    def available(self) -> str | None:
        """None, or why it cannot be used."""
        try:
            _assembler()
        except DeviceError as error:
            return str(error)
        return self._ptx.available()

    def compile(self, source: str) -> bytes:
        """The cubin of one module of LLVM IR.

        Raises DeviceError if ptxas is missing, InternalError, naming the file where the source was
        saved, if LLVM or ptxas rejects it.
        """
        return self.compile_both(source)[0]

    def compile_both(self, source: str) -> tuple[bytes, bytes]:
        """The cubin, and the PTX that it was made of."""
        ptx = self._ptx.compile(source)
        with tempfile.TemporaryDirectory(prefix="treadle-") as folder:
            text, cubin = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
            text.write_bytes(ptx)
            done = _run([_assembler(), f"-arch={self.target.cpu}", text, "-o", cubin])
            if done.returncode:
                path = save_rejected(ptx.decode(), ".ptx")
                raise InternalError(
                    f"ptxas rejected generated PTX (saved as {path}): {done.stderr[:2000]}"
                )
            return cubin.read_bytes(), ptx


@functools.cache
def _assembler() -> str:
    """The program in use. Raises DeviceError if there is none."""
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found else None
    for folder in folders or ():
        for place in sorted(Path(folder).glob("cu*/bin/ptxas"), reverse=True):
            return str(place)
    path = shutil.which("ptxas")
    if path is None:
        raise DeviceError(f"ptxas, NVIDIA's assembler, is missing; {MEND}")
    return path


def _run(command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"ptxas, NVIDIA's assembler, could not run: {error}; {MEND}") from error
