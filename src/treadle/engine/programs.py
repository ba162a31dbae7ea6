"""The programs that a process remembers: those that ran last, of as many kernels as it can hold.

    programs = Programs()
    programs.put(key, program)
    programs.get(key)  ->  program, or None if it is not known, or no longer

A program that goes takes its kernels along, unless another program or a captured function has
them: code, its mappings and its text, which a process that meets ever new shapes would otherwise
gather until Linux gives it no further mapping. It comes back from disk.
"""

from __future__ import annotations

import itertools

from .program import Program

__all__ = ["MOST_KERNELS", "Programs"]

# Loaded code is two mappings, four if it is emulated, and Linux gives a process 65,530.
MOST_KERNELS = 4096
_KERNEL = 1 << 18  # bytes: one that takes more counts as several, so that all fit into 1 GiB
_LAUNCHES = 64  # of a kernel that runs again and again: their places take as much room as a kernel


class Programs:
    """Programs by key. `put` is for one thread at a time; any number may `get` meanwhile."""

    def __init__(self, most: int = MOST_KERNELS) -> None:
        self._most, self._weight = most, 0
        self._programs: dict[object, Program] = {}
        self._uses = itertools.count()

    def get(self, key: object) -> Program | None:
        """The program of that key, which is now the one that was used last."""
        program = self._programs.get(key)
        if program is not None:
            program.used = next(self._uses)
        return program

    def put(self, key: object, program: Program) -> None:
        """Remembers a program; where they get too many, a quarter goes, the longest unused ones."""
        program.used = next(self._uses)
        self._programs[key] = program
        self._weight += _weight(program)
        if self._weight <= self._most:
            return
        for old, unused in sorted(self._programs.items(), key=lambda item: item[1].used)[:-1]:
            self._weight -= _weight(unused)
            del self._programs[old]
            if self._weight <= self._most * 3 // 4:
                break

    def __len__(self) -> int:
        return len(self._programs)

    def values(self) -> list[Program]:
        """All programs."""
        return list(self._programs.values())


def _weight(program: Program) -> int:
    loaded = sum(max(1, -(-kernel.room // _KERNEL)) for kernel in set(program.kernels))
    return loaded + len(program.kernels) // _LAUNCHES
