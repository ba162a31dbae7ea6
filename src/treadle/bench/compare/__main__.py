"""python -m treadle.bench.compare: the command."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...errors import UserError
from . import __doc__ as ABOUT
from .bounds import LEAST
from .checkout import Checkout
from .turns import Plan, Row, compare


def main(arguments: Sequence[str] | None = None) -> int:
    """1 if a row falls short or fails, 2 for what cannot be measured at all, else 0."""
    options = _parser().parse_args(arguments)
    plan = Plan(options.pairs, options.limit, options.quick)
    words = [word.strip().lower() for word in (options.only or "").split(",") if word.strip()]
    with tempfile.TemporaryDirectory() as caches:
        old = Checkout(options.old, Path(caches, "old"))
        new = Checkout(options.new, Path(caches, "new"))
        try:
            rows = compare(old, new, lambda group, name: _wanted(group, name, words), plan, _say)
        except UserError as error:
            print(f"treadle.bench.compare: {error}", file=sys.stderr)
            return 2
    print(json.dumps(as_json(rows), indent=2) if options.json else as_text(rows))
    return int(any(row.failed or row.falls_short for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m treadle.bench.compare", description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("old", type=Path, metavar="OLD", help="a checkout")
    parser.add_argument("new", type=Path, metavar="NEW", help="another one, or the same")
    parser.add_argument("--only", metavar="WORDS", help="groups, rows whose name has one of WORDS")
    parser.add_argument("--pairs", type=_pairs, default=15, help="of each run (default: 15)")
    parser.add_argument(
        "--limit", type=float, default=0.97, help="the least ratio of speeds (default: 0.97)"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes: a smoke test")
    parser.add_argument("--json", action="store_true", help="print every single time")
    return parser


def _pairs(text: str) -> int:
    if not text.isdecimal() or int(text) < LEAST:
        raise argparse.ArgumentTypeError(f"must be a whole number of {LEAST} or more, not {text}")
    return int(text)


def _wanted(group: str, name: str, words: Sequence[str]) -> bool:
    return not words or group in words or any(word in name.lower() for word in words)


def _say(text: str) -> None:
    print(f"\r{text:<70}", end="\n" if not sys.stderr.isatty() else "", file=sys.stderr, flush=True)


def as_text(rows: Sequence[Row]) -> str:
    """A Markdown table: times in ms, and of each run the ratio between its bounds."""
    lines = [
        "| row | old ms | new ms | new's speed over old's, by run | |",
        "|---|--:|--:|---|---|",
    ]
    lines += [_line(row) for row in rows]
    short = sum(row.falls_short for row in rows)
    failed = sum(bool(row.failed) for row in rows)
    return "\n".join([*lines, "", f"{len(rows)} rows: {short} fall short, {failed} failed"])


def _line(row: Row) -> str:
    if row.failed:
        return f"| {row.name} | | | {row.failed} | failed |"
    old, new = (f"{1e3 * seconds:.3f}" for seconds in row.seconds)
    ratios = "; ".join(f"{b.median:.3f} ({b.low:.3f} to {b.high:.3f})" for b in row.found)
    verdict = f"below {row.limit:g}" if row.falls_short else ""
    return f"| {row.name} | {old} | {new} | {ratios} | {verdict} |"


def as_json(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Every pair of seconds, with what was made of them."""
    return [
        {
            "row": row.name,
            "limit": row.limit,
            "falls short": row.falls_short,
            "failed": row.failed or None,
            "runs": [
                {"low": b.low, "median": b.median, "high": b.high, "seconds": pairs}
                for b, pairs in zip(row.found, row.runs, strict=True)
            ],
        }
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
