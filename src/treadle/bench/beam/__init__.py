"""Rows about BEAM: what a search finds beside the heuristic, how long it takes, and what is left.

    python -m treadle.bench.beam --keep rows.jsonl --seconds 100

One process searches; another one, which has nothing but what the first left on disk, replays both
in turns. If that has to compile anything, the row fails.
"""

from __future__ import annotations

import contextlib
import io
import json
import statistics
import tempfile

from ...config import Context
from ...engine.counters import GlobalCounters
from ...errors import UserError
from ..drawn import drawn_rows
from ..peers import PEERS
from ..process import said
from ..results import BeamResult
from ..rows import works
from ..timing import interleave, median_ratio, timed
from ..work import Work

__all__ = ["PREFIX", "compared", "drawn_names", "measure_beam", "searched", "searched_rows"]

PREFIX = "BEAM: "
WIDTH = 4
CALLS = 3  # as many as TinyJit needs to replay
ROUNDS, BUDGET = 31, 3.0
QUICK_ROUNDS, QUICK_BUDGET = 3, 0.1
NAMES = (
    "matmul 256", "matmul 1024", "matmul 1000x999x1001", "matmul 64x4096x4096",
    "matmul 4096x64x4096", "matmul 32x128x128x64", "matmul 1024, left operand transposed",
    "conv2d 1x1 256->64 8x56x56", "conv2d 3x3 64->64 8x56x56",
    "conv2d 3x3 64->64 8x56x56, gradient to weight", "conv2d 7x7 stride 2 3->64 8x224x224",
    "conv2d 3x3 depthwise 128->128 8x56x56",
    "conv2d 3x3 in 4 groups 128->128 8x28x28, gradient to input",
    "attention 8x512x64", "attention 8x512x64, with gradients", "attention 8x1024x64, causal",
    "matvec 4096, float32 weights", "matvec 4096, int8 weights", "sum 4096x4096",
    "sum axis 0 4096x4096", "argmax axis 0 4096x4096", "softmax 4096x4096",
    "layer norm 4096x4096", "gelu(2x+1)*x 4096x4096", "silu(x)*y+x 4096x4096",
    "cross-entropy 1024x50257", "transpose 4096x4096", "permute (0, 3, 1, 2) 8x256x128x64",
    "gather axis 0, a quarter of 4096x4096", "embedding 50257x768, 16x512",
)  # fmt: skip
EACH = 3  # rows of a family that a seed draws
CODE = (
    "import json; from treadle.bench.beam import {what}; "
    "print(json.dumps({what}({name!r}, {quick}, {seed!r})))"
)


def searched_rows(quick: bool) -> list[str]:
    """The names of the rows; a smoke test has the first."""
    return [PREFIX + work.name for work in works(quick) if work.name in NAMES or quick][
        : 1 if quick else None
    ]


def drawn_names(seed: str) -> list[str]:
    """The names of rows whose sizes nobody chose, which `seed` draws."""
    return [PREFIX + work.name for work in drawn_rows(seed, EACH)]


def measure_beam(row: str, quick: bool, seed: str | None = None) -> BeamResult:
    """Search in a fresh process with an empty cache, then measure in another one."""
    name = row.removeprefix(PREFIX)
    with tempfile.TemporaryDirectory() as folder:

        def run(what: str) -> str:
            code = CODE.format(what=what, name=name, quick=quick, seed=seed)
            return said(code, TREADLE_CACHE_DIR=folder)

        search, found = json.loads(run("searched"))
        heuristic, beam, ratio, compiled = json.loads(run("compared"))
    if compiled:
        raise UserError(f"[bench] {name}: {compiled:.0f} kernels were not remembered")
    others = sum("times as fast" in line for line in found)
    return BeamResult(row, heuristic, beam, ratio, search, found, others)


def searched(name: str, quick: bool, seed: str | None = None) -> tuple[float, list[str]]:
    """What the first calls take longer than with the heuristic's choice, both never seen before,
    and what was said of each kernel.
    """
    work, library = _work(name, quick, seed), PEERS["treadle"].library()
    seconds, heard = [], io.StringIO()
    for width in (0, WIDTH):
        run = library.prepare(work)
        with Context(BEAM=width, DEBUG=1 if width else 0), contextlib.redirect_stderr(heard):
            seconds.append(sum(timed(run) for _ in range(CALLS)))
    lines = heard.getvalue().splitlines()
    said_of = [line.partition("beam: ")[2] for line in lines if "beam: " in line]
    return seconds[1] - seconds[0], said_of


def compared(name: str, quick: bool, seed: str | None = None) -> tuple[float, float, float, int]:
    """The median seconds of both, the ratio, and how many kernels had to be compiled."""
    work, library = _work(name, quick, seed), PEERS["treadle"].library()
    runs = {}
    GlobalCounters.reset()
    for width in (0, WIDTH):
        runs[str(width)] = library.prepare(work)
        with Context(BEAM=width):
            for _ in range(CALLS):
                runs[str(width)]()
    rounds, budget = (QUICK_ROUNDS, QUICK_BUDGET) if quick else (ROUNDS, BUDGET)
    own, found = interleave(runs, rounds, budget).values()
    ratio, count = median_ratio(own, found), GlobalCounters.compile_count
    each = [statistics.median(times) / work.count for times in (own, found)]
    return each[0], each[1], ratio, count


def _work(name: str, quick: bool, seed: str | None) -> Work:
    rows = works(quick) if seed is None else drawn_rows(seed, EACH, quick)
    return next(work for work in rows if work.name == name)
