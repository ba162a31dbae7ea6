"""A fake of a group of two processes, of which the other one gives 3 times what this one does.

A call takes many steps. It reads its operand at the last, and has filled its result with NaN at the
first: so who reads or overwrites too early gets other numbers.
"""

from __future__ import annotations

import time

import numpy as np

from treadle.runtime.communicator import Call, finished

PAUSE = 200e-6  # seconds of a step
SMALL, LARGE = 48, 40_000  # elements: 64 KiB are between them


class Slow:
    """The group, and its channel: `opened` is what its channels have compared."""

    name, rank, size = "world", 0, 2

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.prepared: list[Call] = []

    def steps(self, call: Call, given, result):
        if result is not None and result.dtype.kind == "f":
            result[...] = np.nan
        for _ in range(10):
            time.sleep(PAUSE)
            yield
        if call.kind == "all_gather":
            result[...] = np.stack([given, 3 * given])
        elif call.kind == "reduce_scatter":
            result[...] = given[0] * 4
        elif result is not None:
            result[...] = given * 4

    def take_part(self, call: Call, given, result) -> None:
        finished(self.steps(call, given, result))

    def channel(self, check: str, where: str):
        self.opened.append(check)
        return self

    def repeated(self, call: Call, given, result):
        self.prepared.append(call)
        return lambda: self.take_part(call, given, result)
