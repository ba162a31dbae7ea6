"""How much longer the tiles take that the heuristic chooses by some prices than the best ones.

    CPU_COUNT=1 python -m treadle.bench.beam.trials --keep measured.jsonl [--seed TEXT]
    python scripts/tile_prices.py measured.jsonl [--seed TEXT]

Each kernel of the file with a register tile is scheduled again, with other prices of `accesses` and
`into_l1` for each of `arithmetic`, and what is chosen is looked up among the schedules that were
measured. A line for each pair of prices: how much longer these take than the best of their kernel
on average (of logarithms) and at most, how many more than 5 %, and how many were not measured. The
first line has the target's own prices. Prices of `target/costs.py` for vectors of 64 bytes are the
pair that takes least.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from treadle.bench.beam import EACH
from treadle.bench.beam.trials import kernels_of
from treadle.bench.drawn import drawn_rows
from treadle.bench.rows import works
from treadle.engine.devices import Device
from treadle.ir.remembered import remembered
from treadle.optimize.heuristic import optimize
from treadle.schedule.kernel import Kernel
from treadle.target import Costs, Target

ACCESSES = (0.05, 0.1, 0.2, 0.4, 1.0)
INTO_L1 = (0.0, 0.1, 0.2, 0.5)

Seconds = dict[str, float]  # by the text of a schedule


def measured(file: Path, seed: str | None) -> Iterator[tuple[Kernel, Seconds]]:
    """The kernels of a file that have tiles, and what their schedules took."""
    rows = {work.name: work for work in (drawn_rows(seed, EACH) if seed else works(quick=False))}
    for line in map(json.loads, file.read_text().splitlines()):
        for kernel, tried in zip(kernels_of(rows[line["row"]]), line["kernels"], strict=True):
            seconds = {text: took for took, _, text in tried}
            if any("register_tile" in text for text in seconds):
                yield kernel, seconds


def longer(kernels: list[tuple[Kernel, Seconds]], target: Target) -> tuple[list[float], int]:
    """How many times as long as the best each chosen schedule takes; how many were not measured."""
    found, missing = [], 0
    for kernel, seconds in kernels:
        with remembered():
            _, schedule = optimize(kernel.ast, target)
        took = seconds.get(str(schedule))
        missing += took is None
        found += [] if took is None else [took / min(seconds.values())]
    return found, missing


def report(name: str, kernels: list[tuple[Kernel, Seconds]], target: Target) -> None:
    found, missing = longer(kernels, target)
    print(
        f"{name}: {np.exp(np.mean(np.log(found))) - 1:.1%} longer, {max(found) - 1:.0%} at most, "
        f"{sum(one > 1.05 for one in found)} of {len(found)} beyond 5 %, {missing} not measured"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="what `treadle.bench.beam.trials` kept")
    parser.add_argument("--seed", metavar="TEXT", help="whose rows the file has")
    options = parser.parse_args()
    target, kernels = Device[Device.DEFAULT].code_target, [*measured(options.file, options.seed)]
    own: Costs = target.costs
    report("own", kernels, target)
    for accesses, into_l1 in itertools.product(ACCESSES, INTO_L1):
        prices = own._replace(accesses=own.arithmetic * accesses, into_l1=own.arithmetic * into_l1)
        with mock.patch.object(Target, "costs", prices):
            report(f"accesses {accesses}, into_l1 {into_l1}", kernels, target)


if __name__ == "__main__":
    main()
