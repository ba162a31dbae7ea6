"""Functions that programs bring along, printed only where they are used.

with_needed({"f": (("g",), "F"), "g": ((), "G")}, ["f"])   ->  ["G", "F"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["Functions", "with_needed"]

Functions = Mapping[str, tuple[tuple[str, ...], str]]
"""By name: the names of what a function calls, and its text."""


def with_needed(functions: Functions, names: Iterable[str]) -> list[str]:
    """The text of the functions `names` and of all that they call, each after what it needs."""
    order: dict[str, None] = {}

    def add(name: str) -> None:
        for needed in functions[name][0]:
            add(needed)
        order[name] = None

    for name in sorted(names):
        add(name)
    return [functions[name][1] for name in order]
