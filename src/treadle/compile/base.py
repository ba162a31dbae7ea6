"""What every compiler is: text in, the bytes of one object out.

    compiler.compile(source)  ->  the bytes of an ELF object

One surprise: `version` is part of the disk cache's key, so it has to be cheap to ask for and has
to change whenever the same source might become other bytes.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Compiler"]


class Compiler(Protocol):
    """Turns source text into something that a device loads.

    Compilers are made without touching the tool behind them; the first use opens it.
    """

    @property
    def name(self) -> str:
        """What users call it in `DEV=CPU:NAME`, in capitals."""
        ...

    @property
    def travels(self) -> bool:
        """Whether it compiles in another process too, where pickle takes it."""
        ...

    @property
    def version(self) -> str:
        """The tool and its version, for cache keys and `treadle doctor`."""
        ...

    def available(self) -> str | None:
        """None if the compiler can be used, else one sentence: why not, and what mends it."""
        ...

    def compile(self, source: str) -> bytes:
        """The object code of `source`.

        Raises DeviceError if the tool is missing or breaks off, InternalError if it rejects the
        source, which treadle generated.
        """
        ...
