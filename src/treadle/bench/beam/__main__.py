"""python -m treadle.bench.beam: how near the heuristic is to BEAM=4, row by row, in parts.

    python -m treadle.bench.beam --keep rows.jsonl --seconds 100     again until no row is left
    DEV=CL python -m treadle.bench.beam --keep rows.jsonl            on another device
    python -m treadle.bench.beam --keep rows.jsonl --seed abc        rows that a seed draws

FILE has a line of JSON for each row of each device, and grows; rows that are in it are not measured
again. What is printed is a table of all that it has of this device.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ...engine.selection import environment_choice
from ...errors import UserError
from ..report import markdown
from ..results import BeamResult
from . import drawn_names, measure_beam, searched_rows

NEAR = 1.05  # times as fast: what a search may find beyond the heuristic
WANTED = 0.9  # of the rows


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a row failed or too few are near, 3 where rows are left, else 0."""
    options = _parser().parse_args(arguments)
    chosen = environment_choice()
    device = chosen.full_name if chosen else "CPU"
    kept, end = _kept(options.keep, device, options.seed), time.monotonic() + options.seconds
    names = drawn_names(options.seed) if options.seed else searched_rows(options.quick)
    words = [word.strip().lower() for word in (options.only or "").split(",") if word.strip()]
    names = [name for name in names if not words or any(word in name.lower() for word in words)]
    for name in names:
        if name in kept:
            continue
        if time.monotonic() > end:
            break
        kept[name] = _measured(name, options.quick, options.seed)
        line = {"device": device, "seed": options.seed, **asdict(kept[name])}
        with options.keep.open("a") as file:
            file.write(json.dumps(line) + "\n")
    rows = [kept[name] for name in names if name in kept]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print(as_text(rows, len(names)))
    if len(rows) < len(names):
        return 3
    return int(any(row.failed for row in rows) or _near(rows) < WANTED * len(rows))


def as_text(rows: Sequence[BeamResult], wanted: int) -> str:
    """A Markdown table, and how many of its rows are near."""
    lines = markdown(
        ["search", "heuristic ms", "BEAM=4 ms", "times as fast", "other kernels", "search s"],
        [
            [row.name, row.failed, "-", "-", "-", "-"] if row.failed else
            [row.name, f"{1e3 * row.heuristic:.3g}", f"{1e3 * row.beam:.3g}", f"{row.ratio:.2f}",
             str(row.others), f"{row.search:.1f}"]
            for row in rows
        ],
    )  # fmt: skip
    near = f"{_near(rows)} of {len(rows)} rows within {NEAR:.2f}"
    return "\n".join([*lines, "", f"{near}; {wanted - len(rows)} left"])


def _near(rows: Sequence[BeamResult]) -> int:
    return sum(not row.failed and (not row.others or row.ratio <= NEAR) for row in rows)


def _measured(name: str, quick: bool, seed: str | None) -> BeamResult:
    try:
        return measure_beam(name, quick, seed)
    except UserError as error:
        return BeamResult(name, failed=str(error))


def _kept(file: Path, device: str, seed: str | None) -> dict[str, BeamResult]:
    """What a file has of a device, and of a seed; what failed is measured again."""
    if not file.exists():
        return {}
    found: dict[str, BeamResult] = {}
    for line in map(json.loads, file.read_text().splitlines()):
        if (line.pop("device"), line.pop("seed")) == (device, seed) and not line["failed"]:
            found[line["name"]] = BeamResult(**line)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m treadle.bench.beam", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--keep", type=Path, required=True, metavar="FILE", help="what is measured")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no row after so long")
    parser.add_argument("--seed", metavar="TEXT", help="rows that it draws")
    parser.add_argument("--only", metavar="WORDS", help="rows whose name has one of WORDS")
    parser.add_argument("--quick", action="store_true", help="a small row: a smoke test")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
