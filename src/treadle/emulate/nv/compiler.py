"""A compiler of cubins that also records the PTX, for an emulated GPU to run.

RecordingCompiler(cubins).compile(source)      # see `programs.pack`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.nv.programs import pack

if TYPE_CHECKING:
    from treadle.compile.nvrtc import NVRTCCompiler
    from treadle.compile.ptxas import PTXASCompiler

__all__ = ["RecordingCompiler"]


class RecordingCompiler:
    """`cubins` is the compiler of a real GPU."""

    def __init__(self, cubins: NVRTCCompiler | PTXASCompiler) -> None:
        self._cubins = cubins

    @property
    def name(self) -> str:
        """That of the real one."""
        return self._cubins.name

    @property
    def travels(self) -> bool:
        """As the real one."""
        return self._cubins.travels

    @property
    def version(self) -> str:
        """The real one's, and that PTX is with it."""
        return f"{self._cubins.version} with PTX"

    def available(self) -> str | None:
        """None, or why it cannot be used."""
        return self._cubins.available()

    def compile(self, source: str) -> bytes:
        """Cubin and PTX of one program; raises what the real one does."""
        return pack(*self._cubins.compile_both(source))
