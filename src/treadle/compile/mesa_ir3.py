"""Machine code of Adreno 6xx by Mesa's compiler, beside ours.

    MesaIR3Compiler(parse_target("a630")).compile(text)   ->  an object (see ir3_object)

The text is what render/ir3 prints. `mesa_nir` says it in NIR, in a process of `mesa_process`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.compile import nir
from treadle.compile.mesa_process import compile_beside
from treadle.compile.report import save_rejected
from treadle.errors import InternalError

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["MesaIR3Compiler"]


class MesaIR3Compiler:
    """Compiles text for one Adreno. All threads may call it; one at a time compiles."""

    name = "IR3"
    travels = True

    def __init__(self, target: Target) -> None:
        self.target = target

    @property
    def version(self) -> str:
        """Mesa's version, and the chip."""
        return f"Mesa {nir.release()} {self.target.cpu}"

    def available(self) -> str | None:
        """None, or why Mesa's library cannot be used."""
        return nir.missing()

    def compile(self, source: str) -> bytes:
        """The object of a text.

        Raises DeviceError if Mesa's library is missing, InternalError, naming the file where the
        text was saved, if the text or a kernel of it is rejected.
        """
        nir.library()
        try:
            return compile_beside(self.target.cpu, source)
        except InternalError as error:
            path = save_rejected(source, ".ir3")
            raise InternalError(f"Mesa's compiler rejected (saved as {path}): {error}") from error
