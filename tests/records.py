"""What each test did, written down as it ends, so that another run goes on from there.

    pytest --resume=FILE        leaves out what passed in FILE, and adds to FILE what it runs
    pytest --part 2/8           one eighth of the tests, which no other part has
    pytest --folders            says at the end what each folder of tests took

Only what passed with these very sources is left out: a commit, or a commit and what was changed
since. `=` keeps pytest from taking FILE, where it exists, for a path of tests, beside which it then
looks for options. One surprise: with pytest-xdist the processes that run tests write nothing. They
are told what passed before, and the one that started them writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
RESULTS = "tests/results"  # results that were recorded are no change of what is tested


@dataclass(frozen=True)
class Record:
    """One run of a test: its seconds by the clock, those that processors spent on it, and how many
    cases it stands for, itself and those that were left out (see thinning.py).
    """

    test: str
    outcome: str
    seconds: float
    cpu: float
    environment: str
    sources: str
    stands_for: float = 1.0

    @property
    def suite(self) -> str:
        return suite_of(self.test)


def suite_of(test: str) -> str:
    """The folder of tests that one is in, or `tests` for what lies in no folder of its own."""
    folders = test.partition("::")[0].split("/")
    return "/".join(folders[:2]) if len(folders) > 2 else folders[0]


def read_records(path: Path) -> list[Record]:
    """All whole lines of a file, none where there is no file."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [Record(**json.loads(line)) for line in lines]


def _drop_cut_line(path: Path) -> None:
    """Takes away the end of a file whose writer was killed in the middle of a line."""
    if path.exists():
        text = path.read_bytes()
        path.write_bytes(text[: text.rfind(b"\n") + 1])


def sources() -> str:
    """The commit of this checkout, with a digest of what differs from it where something does."""
    commit = _git("rev-parse", "HEAD").decode().strip()
    changed = _git("status", "--porcelain", "-uall", "--", ".", f":!{RESULTS}")
    if not changed:
        return commit
    digest = hashlib.sha256(_git("diff", "HEAD", "--", ".", f":!{RESULTS}"))
    for name in _git("ls-files", "-o", "-z", "--exclude-standard").split(b"\0")[:-1]:
        path = ROOT / name.decode()
        digest.update(name + (path.read_bytes() if path.is_file() else b""))
    return f"{commit}+{digest.hexdigest()[:12]}"


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise pytest.UsageError(
            f"--resume compares sources by git, which says here: {done.stderr.decode().strip()}"
        )
    return done.stdout


def parse_part(text: str) -> tuple[int, int]:
    """(2, 8) of "2/8". Raises UsageError for what is no part."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise pytest.UsageError(f"--part takes a number of parts, as 2/8 does, not {text!r}")
    return int(number), int(count)


def belongs(test: str, part: tuple[int, int]) -> bool:
    """Whether a test belongs to a part: each belongs to one, and its name alone decides."""
    number, count = part
    return zlib.crc32(test.encode()) % count == number - 1


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--part", metavar="I/N", help="run one part of the tests, as 2/8")
    parser.addoption("--resume", metavar="FILE", type=Path, help="leave out what passed in FILE")
    parser.addoption("--folders", action="store_true", help="print what each folder took")


class Records:
    """The plugin behind these options."""

    def __init__(self, config: pytest.Config) -> None:
        self._part = parse_part(text) if (text := config.getoption("--part")) else (1, 1)
        self._path: Path | None = config.getoption("--resume")
        self._told: dict[str, Any] | None = getattr(config, "workerinput", None)
        self._sources = sources() if self._path and self._told is None else ""
        if self._path and self._told is None:
            os.environ.pop("PYTEST_ADDOPTS", None)  # a pytest that a test starts records nothing
            _drop_cut_line(self._path)
        self._passed = self._passed_before()
        self._reports: dict[str, list[Any]] = {}
        self._folders = Counter[str]()
        self._spent = cpu_seconds()

    def _passed_before(self) -> frozenset[str]:
        if self._told is not None:
            return frozenset(self._told["passed before"])
        records = read_records(self._path) if self._path else ()
        return frozenset(
            r.test for r in records if r.outcome == "passed" and r.sources == self._sources
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a process of pytest-xdist what passed before it."""
        node.workerinput["passed before"] = sorted(self._passed)

    def pytest_report_header(self) -> list[str]:
        if self._path is None:
            return []
        return [f"{self._path}: {len(self._passed)} tests passed before at {self._sources}"]

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[Any]) -> None:
        chosen = [
            item
            for item in items
            if belongs(item.nodeid, self._part) and item.nodeid not in self._passed
        ]
        if len(chosen) < len(items):
            kept = {*chosen}
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = chosen

    def pytest_collection_finish(self) -> None:
        self._spent = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report = yield
        report.stands_for = getattr(item, "stands_for", 1.0)
        before, self._spent = self._spent, cpu_seconds()
        report.cpu = self._spent - before
        return report

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        if not config.getoption("--folders"):
            return
        terminalreporter.section("seconds of one core by folder")
        for folder, seconds in self._folders.most_common():
            terminalreporter.write_line(f"{folder:24} {seconds:8.1f}")

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._folders[suite_of(report.nodeid)] += getattr(report, "cpu", 0.0)  # crashes have none
        if self._path is None or self._told is not None:
            return
        self._reports.setdefault(report.nodeid, []).append(report)
        if report.when == "teardown":
            self._write(self._path, self._reports.pop(report.nodeid))

    def _write(self, path: Path, reports: list[Any]) -> None:
        record = Record(
            reports[0].nodeid,
            _outcome(reports),
            round(sum(report.duration for report in reports), 3),
            round(sum(report.cpu for report in reports), 3),
            Path(sys.prefix).name,
            self._sources,
            round(reports[0].stands_for, 3),
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")


def _outcome(reports: list[Any]) -> str:
    """`passed` also for what fails as it is expected to."""
    if any(report.failed for report in reports):
        return "failed"
    skipped = any(report.skipped and not hasattr(report, "wasxfail") for report in reports)
    return "skipped" if skipped else "passed"


def cpu_seconds() -> float:
    """What this process and those that it has waited for have spent, in all of their threads."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
