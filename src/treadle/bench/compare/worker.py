"""The process of one checkout: requests come in as lines of JSON, answers go out as such.

    {"do": "rows", "quick": false}     ->  the rows: {"names": {name: [group, what it is]}}
    {"do": "prepare", "name": ...}     ->  {} once the row is compiled and captured
    {"do": "run", "count": 5}          ->  {"seconds": the median of so many calls}
    {"do": "drop"}                     ->  {} once the row's memory is free

It runs beside sources of any age, so it imports no more of them than a row needs. What fails is
answered by {"failed": why}. What the sources print goes to the standard error.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from treadle.bench.work import Work

Answer: TypeAlias = dict[str, object]

CAPTURED = 4  # calls, behind which a step replays and what follows it is packed
SETTLE_SECONDS = 0.05  # until the threads of the other process sleep


class Worker:
    def __init__(self) -> None:
        import treadle
        from treadle.bench.libraries.tensor import TensorLibrary

        self._library = TensorLibrary("treadle")
        self._file = str(treadle.__file__)
        self._works: dict[str, Work] = {}
        self._run: Callable[[], object] | None = None

    def rows(self, quick: bool) -> Answer:
        from treadle.bench.rows import works

        self._works = {work.name: work for work in works(quick)}
        names = {name: [w.group, _meaning(w)] for name, w in self._works.items()}
        return {"names": names, "file": self._file}

    def prepare(self, name: str) -> Answer:
        self._run = self._library.prepare(self._works[name])
        for _ in range(CAPTURED):
            self._run()
        return {}

    def run(self, count: int) -> Answer:
        """The median of `count` calls behind one that is not counted."""
        assert self._run is not None
        time.sleep(SETTLE_SECONDS)
        self._run()
        return {"seconds": statistics.median(self._timed() for _ in range(count))}

    def _timed(self) -> float:
        assert self._run is not None
        start = time.perf_counter()
        self._run()
        return time.perf_counter() - start

    def drop(self) -> Answer:
        self._run = None
        gc.collect()
        return {}


def _meaning(work: Work) -> str:
    """What two checkouts have to agree on to be compared."""
    return f"{work.task} of {work.inputs} and {dict(work.weights)}, {work.repeat} x {work.film}"


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a line that treadle prints is no answer
    worker = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            worker = worker or Worker()
            answer = getattr(worker, request.pop("do"))(**request)
        except Exception as error:
            lines = str(error).strip().splitlines() or ["no message"]
            answer = {"failed": f"{type(error).__name__}: {lines[0]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve()
