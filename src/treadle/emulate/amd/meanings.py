"""Meanings of instructions by their names, each once for all of its encodings.

    @MEANINGS.of("v_add_nc_u32")
    def _add(w: Wave) -> None: ...

Names here are those of gfx11 (see names).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.emulate.amd.names import canonical

if TYPE_CHECKING:
    from treadle.emulate.amd.wave import Wave

__all__ = ["MEANINGS", "Meaning", "Meanings"]

Meaning = Callable[["Wave"], None]


class Meanings:
    """Functions by name, and makers of functions for names of a form."""

    def __init__(self) -> None:
        self._known: dict[str, Meaning] = {}

    def of(self, *names: str) -> Callable[[Meaning], Meaning]:
        def register(meaning: Meaning) -> Meaning:
            for name in names:
                self.add(name, meaning)
            return meaning

        return register

    def add(self, name: str, meaning: Meaning) -> None:
        if name in self._known:
            raise ValueError(f"{name} has two meanings")
        self._known[name] = meaning

    def find(self, operation: str) -> Meaning | None:
        """The meaning of an operation as some chip calls it."""
        return self._known.get(operation) or self._known.get(canonical(operation))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._known))


MEANINGS = Meanings()
