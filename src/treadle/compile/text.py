"""Text that the driver compiles itself, when a kernel is loaded: WGSL for Dawn, MSL for Metal.

TextCompiler("WGSL", target).compile(source)  ->  the same text, as the bytes that the cache keeps
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["TextCompiler"]


class TextCompiler:
    """Passes source through."""

    travels = False

    def __init__(self, name: str, target: Target) -> None:
        self.name, self.target = name, target

    @property
    def version(self) -> str:
        """What the text was made for."""
        return f"{self.target.cpu} {self.target.features}"

    def available(self) -> str | None:
        """None: there is nothing to miss."""
        return None

    def compile(self, source: str) -> bytes:
        """The text in UTF-8."""
        return source.encode()
