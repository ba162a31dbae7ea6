"""WGSL needs no compiler of ours: Dawn takes the text when a kernel is loaded.

WGSLCompiler(target).compile(source)  ->  the same text, as the bytes that the cache keeps
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["WGSLCompiler"]


class WGSLCompiler:
    """Passes source through."""

    name = "WGSL"
    travels = False

    def __init__(self, target: Target) -> None:
        self.target = target

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
