"""Metal's language becomes LLVM IR like Apple's, by clang and a metal_stdlib of our own."""

from __future__ import annotations

__all__ = ["compile_msl", "find_clang"]


def find_clang() -> str | None:
    """The clang to use (of CLANG in PATH: the newest), or None."""


def compile_msl(source: str, clang: str | None = None) -> bytes:
    """The module of a text, as IR. Raises CompileError with clang's messages.

    Their lines are those of the text.
    """
