"""python -m tests.choices DEVICE [--count N] [--chains M] [--only NAME ...]: what programs reach.

Recipes and chains run with the device's caches and, on processors, with caches of a few KiB. What
takes long can be run in pieces, whose report is of all of them:

    python -m tests.choices CPU --count 2 --chains 20 --keep runs.jsonl
    python -m tests.choices CPU --count 0 --every-two --part 1/8 --keep runs.jsonl
    python -m tests.choices CPU --join runs.jsonl
"""

from __future__ import annotations

import argparse
from pathlib import Path

from treadle.engine.check_kernels import TALLY

from ..records import parse_part, sources
from .kept import Run, read_runs
from .report import kind_of, matrix, merged
from .running import run_all, run_every_two, run_meetings


def run(options: argparse.Namespace) -> Run:
    """Run what was asked for."""
    device, results = options.device, []
    for small in (False, True) if kind_of(device) == "processors" else (False,):
        for seeds, only in ((options.count, options.only), (options.chains, ["chain"])):
            if seeds:
                results.append(run_all(device, range(seeds), only, small))
    number, parts = parse_part(options.part)
    part = slice(number - 1, None, parts)
    if options.every_two:
        results.append(run_every_two(device, part))
    if options.every_two or options.meetings:
        only = () if options.every_two else options.only
        results.append(run_meetings(device, part, only))
    failed = [line for _, lines in results for line in lines]
    counts = (TALLY.kernels, TALLY.elements)
    return Run.of(device, sources(), counts, failed, merged(found for found, _ in results))


def _short(state: str) -> str:
    """A commit, and a plus where files differed from it."""
    commit, changed, _ = state.partition("+")
    return commit[:12] + changed


def report(runs: list[Run]) -> str:
    """The matrix of all runs, and what was wrong."""
    kernels, elements = sum(r.kernels for r in runs), sum(r.elements for r in runs)
    states = sorted({_short(r.sources) for r in runs})
    return "\n".join((
        matrix(merged(r.observed() for r in runs), runs[0].device),
        f"{kernels} kernels and {elements} elements compared, at {', '.join(states)}",
        *([line for r in runs for line in r.failed] or ["all programs are right"]),
    ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.choices", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("device")
    parser.add_argument("--count", type=int, default=1, help="programs of each kind; 0 for none")
    parser.add_argument("--chains", type=int, default=0, help="more programs of several parts")
    parser.add_argument("--only", nargs="*", default=[], help="the kinds, or the pairs, to run")
    parser.add_argument(
        "--every-two", action="store_true", help="every two terms in one kernel, and other pairs"
    )
    parser.add_argument("--meetings", action="store_true", help="those other pairs")
    parser.add_argument(
        "--part", default="1/1", metavar="I/N", help="of every two terms, and of those other pairs"
    )
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add what was seen to a file")
    parser.add_argument("--join", type=Path, nargs="+", metavar="FILE", help="report what was kept")
    options = parser.parse_args()
    if options.join:
        print(report(read_runs(options.join)))
        return
    made = run(options)
    if options.keep:
        made.append_to(options.keep)
    print(report([made]))


if __name__ == "__main__":
    main()
