"""`pytest --full`, which takes hours, in parts that can be stopped and taken up again.

    python -m tests.full --part 1/8              runs what has not passed yet at these sources
    python -m tests.full --part 1/8 --record     and adds the outcome to tests/results/full.jsonl
    python -m tests.full --show                  what is written there, as a table

What follows goes to pytest: `python -m tests.full --part 1/8 -n 2`. What passed is kept in
`.full/`, a file for each state of the sources. Only the outcome of a commit is recorded, and only
once all tests of the part have run.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import platform
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

from treadle.config import describe

from .records import RESULTS, ROOT, belongs, parse_part, read_records, sources

FILE = ROOT / RESULTS / "full.jsonl"
KEPT = ROOT / ".full"
COLUMNS = ("date", "commit", "part", "passed", "failed", "skipped", "minutes", "python", "torch")
# Settings that change no outcome.
HARMLESS = {"DEBUG", "CPU_COUNT", "COMPILE_PROCESSES", "CACHE", "CACHE_DIR", "EMULATE"}
# pytest's statuses: all passed, some failed, nothing was left to run.
ENDED = (0, 1, 5)


def outcome(kept: Path, state: str, part: str) -> dict[str, Any]:
    """What a part came to: the last outcome of each of its tests, and the time of all runs."""
    number = parse_part(part)
    records = [r for r in read_records(kept) if r.sources == state and belongs(r.test, number)]
    counts = Counter({r.test: r.outcome for r in records}.values())
    return {
        "date": today(),
        "commit": state,
        "part": part,
        **{name: counts[name] for name in ("passed", "failed", "skipped")},
        "minutes": round(sum(r.cpu for r in records) / 60, 1),
        "python": platform.python_version(),
        "torch": _version("torch"),
    }


def today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


def settings_of_environment() -> list[str]:
    """["IMAGE=1"] where the environment sets what tests may fail with and pass without."""
    rows = [row for row in describe() if row.name not in HARMLESS and row.value != row.default]
    return [f"{row.name}={row.value}" for row in rows]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def table(rows: list[dict[str, Any]], columns: tuple[str, ...] = COLUMNS) -> str:
    """Rows as Markdown, commits by their first digits; minutes are those of one core."""
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    cells = (
        [str(row[name])[: 12 if name == "commit" else None] for name in columns] for row in rows
    )
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in cells)])


def recorded() -> list[dict[str, Any]]:
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return [json.loads(line) for line in lines]


def run(part: str, more: list[str], *, record: bool) -> int:
    """pytest's status; 2 where nothing was run: the environment has a setting, or a change is not
    committed.
    """
    parse_part(part)
    if stray := settings_of_environment():
        print(
            f"the environment has {', '.join(stray)}, which would be taken for plain runs: unset "
            "it; `python -m tests.chips NV --set NAME=VALUE` keeps such runs apart",
            file=sys.stderr,
        )
        return 2
    state = sources()
    if record and "+" in state:
        print("only a commit is recorded: commit what is changed first", file=sys.stderr)
        return 2
    kept = KEPT / f"{state}.jsonl"
    command = [sys.executable, "-m", "pytest", "--full", "--part", part, f"--resume={kept}"]
    status = subprocess.run([*command, *more], cwd=ROOT, check=False).returncode
    found = outcome(kept, state, part)
    print(table([found]))
    if record and status in ENDED:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        with FILE.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")
    return 0 if status == 5 else status


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.full", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--record", action="store_true", help="write the outcome down")
    parser.add_argument("--show", action="store_true", help="print what is written down")
    options, more = parser.parse_known_args(arguments)
    if options.show:
        print(table(recorded()))
        return 0
    return run(options.part, more, record=options.record)


if __name__ == "__main__":
    sys.exit(main())
