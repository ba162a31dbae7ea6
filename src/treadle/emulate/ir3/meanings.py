"""Meanings of instructions by their names.

@MEANINGS.of("add.f")
def _add(w: Wave) -> None: ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.emulate.ir3.wave import Wave

__all__ = ["MEANINGS", "Meaning", "Meanings"]

Meaning = Callable[["Wave"], None]


class Meanings:
    """Functions that write what an instruction does, once for each of its steps."""

    def __init__(self) -> None:
        self._known: dict[str, Meaning] = {}

    def of(self, *names: str) -> Callable[[Meaning], Meaning]:
        def register(meaning: Meaning) -> Meaning:
            for name in names:
                if name in self._known:
                    raise ValueError(f"{name} has two meanings")
                self._known[name] = meaning
            return meaning

        return register

    def find(self, name: str) -> Meaning | None:
        return self._known.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._known))


MEANINGS = Meanings()
