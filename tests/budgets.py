"""What the suites took beside what they may take.

    python -m tests.budgets FILE --seconds 840

FILE is what `pytest --resume=FILE` wrote, in one environment or several. A suite is a folder of
tests; its budget, in seconds of one core, is in budgets.toml. Ends with status 1 if a test failed
or all of it, `--seconds` by the clock, took longer than any machine may take. With `--shares` it
writes shares.toml, by which long tests run a share of their cases.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

from .records import Record, read_records
from .thinning import SHARES, shares, shares_for

TABLE = Path(__file__).with_name("budgets.toml")


def budgets() -> dict[str, float]:
    """Seconds of one core by suite."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))["suites"]


def minutes() -> tuple[float, float]:
    """How long all tests of `.ci/run` take by the clock: as they are meant to, and at most."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return table["minutes"], table["most"]


def report(records: list[Record]) -> str:
    """A line for each suite, then the counts of each environment and of what ran in none."""
    spent = Counter[str]()
    for record in records:
        spent[record.suite] += record.cpu
    allowed = budgets()
    lines = [f"{'suite':24} {'tests':>6} {'used':>7} {'budget':>7}  (seconds of one core)"]
    for suite in sorted({*spent, *allowed}):
        count = len({r.test for r in records if r.suite == suite and r.outcome == "passed"})
        budget = allowed.get(suite)
        text = f"{budget:7.0f}" if budget is not None else "   none"
        over = "  over" if spent[suite] > (budget or 0) else ""
        lines.append(f"{suite:24} {count:6} {spent[suite]:7.0f} {text}{over}")
    total = sum(spent.values())
    lines.append(f"{'all':24} {'':6} {total:7.0f} {sum(allowed.values()):7.0f}")
    return "\n".join([*lines, "", *_counts(records)])


def _counts(records: list[Record]) -> list[str]:
    """How many tests ran where; a test that passed twice is said to have."""
    ran = Counter((r.environment, r.outcome) for r in records)
    environments = dict.fromkeys(r.environment for r in records)
    lines = [
        f"{name}: {ran[name, 'passed']} passed, {ran[name, 'failed']} failed, "
        f"{ran[name, 'skipped']} skipped"
        for name in environments
    ]
    passed = Counter(r.test for r in records if r.outcome == "passed")
    nowhere = {r.test for r in records} - {*passed}
    twice = sum(count > 1 for count in passed.values())
    return [*lines, f"{len(passed)} passed, {twice} of them twice; {len(nowhere)} passed nowhere"]


def write_shares(records: list[Record]) -> None:
    """Writes what share of each test's cases runs, by a run with the shares that are there now."""
    spent: dict[str, list[float]] = defaultdict(list)
    for record in {r.test: r for r in records if r.outcome == "passed"}.values():
        spent[record.test.partition("[")[0]].append(record.cpu * record.stands_for)
    SHARES.write_text(shares_for(spent, shares()), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.budgets", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=0.0, help="what all took by the clock")
    parser.add_argument("--shares", action="store_true", help="write shares.toml by FILE instead")
    options = parser.parse_args(arguments)
    records = read_records(options.file)
    if options.shares:
        write_shares(records)
        return 0
    print(report(records))
    took, (meant, most) = options.seconds / 60, minutes()
    print(f"{took:.1f} of {meant:.0f} minutes by the clock")
    if took > most:
        print(f"the tests took {took:.1f} minutes, more than {most:.0f}", file=sys.stderr)
    return int(took > most or any(r.outcome == "failed" for r in records) or not records)


if __name__ == "__main__":
    sys.exit(main())
