"""python -m tests.choices DEVICE [--count N] [--only NAME ...]: what programs reach there."""

from __future__ import annotations

import argparse

from treadle.engine.check_kernels import TALLY

from .report import matrix
from .running import run_all

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.choices")
    parser.add_argument("device")
    parser.add_argument("--count", type=int, default=1, help="programs of each kind")
    parser.add_argument("--only", nargs="*", default=[], help="the kinds to run")
    options = parser.parse_args()
    seen, failed = run_all(options.device, range(options.count), options.only)
    print(matrix(seen, options.device))
    print(f"{TALLY.kernels} kernels and {TALLY.elements} elements compared")
    print(*failed or ["all programs are right"], sep="\n")
