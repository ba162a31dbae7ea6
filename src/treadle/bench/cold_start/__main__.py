"""python -m treadle.bench.cold_start: the command."""

from __future__ import annotations

import argparse

from . import measured, table
from .programs import PROGRAMS

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m treadle.bench.cold_start", description="Times the first calls of programs."
    )
    parser.add_argument("words", nargs="*", help="only programs whose name has one of these")
    words = parser.parse_args().words
    names = [name for name in PROGRAMS if not words or any(word in name for word in words)]
    print(table([row for name in names for row in measured(name)]))
