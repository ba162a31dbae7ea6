"""python -m tests.choices DEVICE [--count N] [--chains M] [--only NAME ...]: what programs reach.

Recipes and chains run with the device's caches and, on processors, with caches of a few KiB.
"""

from __future__ import annotations

import argparse

from treadle.engine.check_kernels import TALLY

from .report import kind_of, matrix, merged
from .running import run_all, run_every_two, run_meetings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.choices")
    parser.add_argument("device")
    parser.add_argument("--count", type=int, default=1, help="programs of each kind")
    parser.add_argument("--chains", type=int, default=0, help="more programs of several parts")
    parser.add_argument("--only", nargs="*", default=[], help="the kinds to run")
    parser.add_argument(
        "--every-two", action="store_true", help="every two terms in one kernel, and other pairs"
    )
    options = parser.parse_args()
    seen, failed = [], []
    for small in (False, True) if kind_of(options.device) == "processors" else (False,):
        for seeds, only in ((options.count, options.only), (options.chains, ["chain"])):
            found, wrong = run_all(options.device, range(seeds), only, small)
            seen.append(found)
            failed += wrong
    if options.every_two:
        for run in (run_every_two, run_meetings):
            found, wrong = run(options.device)
            seen.append(found)
            failed += wrong
    print(matrix(merged(seen), options.device))
    print(f"{TALLY.kernels} kernels and {TALLY.elements} elements compared")
    print(*failed or ["all programs are right"], sep="\n")
