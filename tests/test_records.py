"""--part, --resume, the budgets of suites and the record of --full, on a small project."""

import json
import subprocess
import sys

import pytest

from . import budgets, full, records

CONFTEST = """
from pathlib import Path
from tests import records
records.ROOT = Path(__file__).parent
def pytest_addoption(parser):
    records.add_options(parser)
def pytest_configure(config):
    config.pluginmanager.register(records.Records(config))
"""
TESTS = """
import os
import pytest
from pathlib import Path
@pytest.mark.parametrize("i", range(20))
def test_even(i):
    with Path("ran").open("a") as file:
        file.write(f"{i} ")
def test_fails():
    assert not Path("fails").exists()
@pytest.mark.xfail
def test_fails_as_expected():
    raise AssertionError
def test_skips():
    pytest.skip("no such thing here")
def test_starts_no_pytest_that_records():
    assert "PYTEST_ADDOPTS" not in os.environ
def test_computes():
    sum(i * i for i in range(1_000_000))
"""


def git(project, *arguments):
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_few.py").write_text(TESTS)
    (tmp_path / ".gitignore").write_text("ran\nfails\nkept\n__pycache__\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def run(project, *arguments, **variables):
    """pytest's output on the project, and how often each parametrized test has run so far."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rA", *arguments]
    environment = {"PYTHONPATH": str(records.ROOT), "PATH": "/usr/bin:/bin", **variables}
    done = subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    ran = project / "ran"
    return done.stdout + done.stderr, sorted(ran.read_text().split()) if ran.exists() else []


EVERY = sorted(str(i) for i in range(20))


def test_each_test_belongs_to_one_part(project):
    for part in ("1/3", "2/3", "3/3"):
        said, _ = run(project, "--part", part)
        assert " passed" in said
    assert run(project, "--collect-only")[1] == EVERY


@pytest.mark.parametrize("part", ["0/3", "4/3", "2", "x/y", "-1/3", "2/3/4", "²/3"])
def test_what_is_no_part_is_refused(part):
    with pytest.raises(pytest.UsageError, match="--part takes a number of parts, as 2/8 does, not"):
        records.parse_part(part)


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_what_passed_is_not_run_again_and_what_failed_is(project, processes):
    (project / "fails").touch()
    said, ran = run(project, *processes, PYTEST_ADDOPTS="--resume=kept")
    assert "1 failed, 22 passed, 1 skipped, 1 xfailed" in said
    assert ran == EVERY
    (project / "fails").unlink()
    said, ran = run(project, "--resume", "kept", *processes)
    assert "1 passed, 1 skipped" in said
    assert ran == EVERY
    found = records.read_records(project / "kept")
    assert len(found) == 27
    assert {r.test: r.outcome for r in found}["test_few.py::test_skips"] == "skipped"
    assert max(found, key=lambda r: r.cpu).test == "test_few.py::test_computes"
    assert {r.suite for r in found} == {"test_few.py"}


def test_with_other_sources_everything_runs_anew(project):
    run(project, "--resume", "kept", "-k", "even")
    (project / "notes.txt").write_text("a change that is not committed")
    assert run(project, "--resume", "kept", "-k", "even")[1] == sorted(2 * EVERY)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "the change")
    assert run(project, "--resume", "kept", "-k", "even")[1] == sorted(3 * EVERY)


def test_a_line_that_was_cut_off_is_dropped(project):
    run(project, "--resume", "kept", "-k", "even")
    with (project / "kept").open("a") as file:
        file.write('{"test": "test_few.py::test_fa')
    said, ran = run(project, "--resume", "kept", "-k", "even or computes")
    assert "1 passed" in said
    assert ran == EVERY
    assert len(records.read_records(project / "kept")) == 21


def test_without_git_resume_says_so(project):
    subprocess.run(["rm", "-r", str(project / ".git")], check=True)
    said, _ = run(project, "--resume", "kept")
    assert "--resume compares sources by git, which says here: " in said


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_folders_are_shown_with_what_they_took_the_longest_first(project, processes):
    (project / "tests" / "quick").mkdir(parents=True)
    (project / "tests" / "quick" / "test_one.py").write_text("def test_one():\n    assert 1\n")
    said, _ = run(project, "--folders", *processes)
    _, _, table = said.partition("seconds of one core by folder")
    rows = [line.split() for line in table.splitlines()[1:3]]
    assert [name for name, _ in rows] == ["test_few.py", "tests/quick"]
    assert float(rows[0][1]) >= float(rows[1][1]) >= 0  # a clock may be coarse
    assert "by folder" not in run(project, *processes)[0]


# -- budgets --------------------------------------------------------------------------------------


def record(test, outcome="passed", cpu=1.0, environment="plain"):
    return records.Record(test, outcome, cpu, cpu, environment, "commit")


def test_each_suite_has_a_budget():
    folders = {path.parent for path in (records.ROOT / "tests").glob("*/**/test_*.py")}
    suites = {"/".join(folder.relative_to(records.ROOT).parts[:2]) for folder in folders}
    assert {"tests", *suites} <= set(budgets.budgets())


def test_the_budgets_of_all_suites_fit_two_cores_in_the_time_for_all():
    assert sum(budgets.budgets().values()) <= 2 * 60 * budgets.minutes()[0]


def test_what_suites_used_stands_beside_their_budgets():
    rows = [
        record("tests/io/test_npy.py::test_a", cpu=2.0),
        record("tests/io/test_npy.py::test_b", cpu=10_000.0),
        record("tests/nn/deep/test_c.py::test_c", "skipped", cpu=0.5),
        record("tests/nn/deep/test_c.py::test_c", cpu=3.0, environment="oracle"),
        record("tests/test_docs.py::test_d", cpu=4.0),
        record("tests/test_docs.py::test_e", "skipped", cpu=0.0),
    ]
    lines = budgets.report(rows).splitlines()
    cells = {line.split()[0]: line.split()[1:] for line in lines if line}
    allowed = budgets.budgets()
    assert cells["tests/io"] == ["2", "10002", f"{allowed['tests/io']:.0f}", "over"]
    assert cells["tests/nn"][:2] == ["1", "4"]
    assert cells["tests"][:2] == ["1", "4"]
    assert "plain: 3 passed, 0 failed, 2 skipped" in lines
    assert "oracle: 1 passed, 0 failed, 0 skipped" in lines
    assert lines[-1] == "4 passed, 0 of them twice; 1 passed nowhere"


@pytest.mark.parametrize(
    ("outcome", "minutes", "status"),
    [("passed", 49.9, 0), ("passed", 50.1, 1), ("failed", 1, 1), (None, 1, 1)],
)
def test_a_failure_or_too_long_a_time_is_an_exit_code(outcome, minutes, status, tmp_path, capsys):
    path = tmp_path / "kept"
    if outcome:
        path.write_text(json.dumps(vars(record("tests/io/test_npy.py::test_a", outcome))) + "\n")
    assert budgets.main([str(path), "--seconds", str(60 * minutes)]) == status
    assert ("more than 50" in capsys.readouterr().err) == (minutes > 50)


# -- the record of --full -------------------------------------------------------------------------


@pytest.fixture
def full_runs(tmp_path, monkeypatch):
    """What `python -m tests.full` starts: it writes down what `outcomes` says and ends so."""
    monkeypatch.setattr(full, "FILE", tmp_path / "results" / "full.jsonl")
    monkeypatch.setattr(full, "KEPT", tmp_path)
    monkeypatch.setattr(full, "sources", lambda: "c0ffee")
    commands, outcomes = [], {"test_1": "passed", "test_2": "failed"}

    def start(command, **options):
        commands.append(command)
        # Without `=` it would be a path of tests as soon as it exists: no option of ours is known.
        [kept] = [word.removeprefix("--resume=") for word in command if "--resume=" in word]
        rows = [record(test, outcome, cpu=90.0) for test, outcome in outcomes.items()]
        with open(kept, "a") as file:
            file.writelines(json.dumps({**vars(r), "sources": "c0ffee"}) + "\n" for r in rows)
        return subprocess.CompletedProcess(command, int("failed" in outcomes.values()))

    monkeypatch.setattr(full.subprocess, "run", start)
    return commands, outcomes


def test_a_part_of_full_is_run_and_recorded(full_runs, capsys):
    commands, outcomes = full_runs
    assert full.main(["--part", "1/1", "--record", "-n", "2"]) == 1
    assert commands[0][1:6] == ["-m", "pytest", "--full", "--part", "1/1"]
    assert commands[0][-2:] == ["-n", "2"]
    outcomes.update(test_2="passed")
    assert full.main(["--part", "1/1", "--record"]) == 0
    first, second = full.recorded()
    assert (first["commit"], first["part"], first["passed"], first["failed"]) == (
        "c0ffee", "1/1", 1, 1,
    )  # fmt: skip
    assert (second["passed"], second["failed"], second["minutes"]) == (2, 0, 6.0)
    capsys.readouterr()
    assert full.main(["--show"]) == 0
    assert capsys.readouterr().out.count("| c0ffee | 1/1 |") == 2


def test_parts_share_what_is_kept_and_count_their_own(full_runs):
    full.main(["--part", "1/2", "--record"])
    full.main(["--part", "2/2", "--record"])
    counts = [row["passed"] + row["failed"] for row in full.recorded()]
    assert sum(counts) == 2


def test_what_is_not_committed_is_not_recorded(full_runs, monkeypatch, capsys):
    monkeypatch.setattr(full, "sources", lambda: "c0ffee+abcdef")
    assert full.main(["--record"]) == 2
    assert full_runs[0] == []
    assert "only a commit is recorded" in capsys.readouterr().err
    assert full.recorded() == []


def test_a_run_that_was_stopped_is_not_recorded(full_runs, monkeypatch):
    monkeypatch.setattr(
        full.subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 2)
    )
    assert full.main(["--record"]) == 2
    assert full.recorded() == []
