"""`treadle run`: programs and modules with arguments of their own, and their output."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .job import NEEDS_MPI
from .test_lines import all_of, rows_of

TELLS = "import sys\nprint(__name__, __spec__ and __spec__.name, sys.argv[1:], sys.path[0])\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package with a module, and a script beside it."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    for name in ("package/train.py", "package/__main__.py", "train.py"):
        (tmp_path / name).write_text(TELLS)
    return tmp_path


def told(folder: Path, *words: str) -> tuple[int, str, str]:
    """The exit code of `treadle run -n 2 *words` there, what it has printed, and its errors."""
    ended = subprocess.run(
        [sys.executable, "-m", "treadle", "run", "-n", "2", *words], cwd=folder, text=True,
        capture_output=True, check=False, env={**os.environ, "PYTHONSAFEPATH": ""},
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


# What treadle's own parser would take for options of its own, or for none.
HARD = ["a", "--h", "3", "-n", "7", "-m", "x", "--", "--version", "--hosts"]


@NEEDS_MPI
@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["train.py"], "None"),
        (["--", "train.py"], "None"),
        (["-m", "package.train"], "package.train"),
        (["-m", "package"], "package.__main__"),
    ],
)
def test_a_program_gets_its_own_arguments_as_from_python(words, name, folder):
    status, text, errors = told(folder, *words, *HARD)
    assert (status, errors) == (0, "")
    line = f"__main__ {name} {HARD} {folder}"
    assert sorted(text.splitlines()) == [f"[0] {line}", f"[1] {line}"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "treadle run: give a script, such as train.py\n"),
        (["--"], "treadle run: give a script, such as train.py\n"),
        (["-m"], "treadle run: give a module, such as package.train\n"),
        (["--flag", "train.py"], "treadle: error: unrecognized arguments: --flag\n"),
    ],
)
def test_no_program_is_a_usage_error(words, error, folder):
    status, text, errors = told(folder, *words)
    assert (status, text) == (2, "")
    assert errors.endswith(error)


@NEEDS_MPI
def test_a_script_that_is_not_there_is_one_sentence_of_each_process(folder):
    status, _, errors = told(folder, "nothing.py", "--epochs=3")
    assert status == 1
    *lines, last = sorted(errors.splitlines())
    sentence = f"treadle run: there is no file nothing.py in {folder}"
    assert lines == [f"[0] {sentence}", f"[1] {sentence}"]
    assert last == "treadle run: the job has failed: exit code 1"


@NEEDS_MPI
def test_a_module_that_is_not_there_is_pythons_error(folder):
    status, _, errors = told(folder, "-m", "package.nothing")
    assert status == 1
    assert "[1] ImportError: No module named package.nothing" in errors


BARS = """
import sys, time
from treadle import distributed
world = distributed.init()
for n in range(4):
    sys.stderr.write(f"\\rstep {n} ")
    sys.stderr.flush()
    world.barrier()
    print(f"line {n}")
    world.barrier()
    time.sleep(0.1)  # for lines to get where they are printed
sys.stderr.write("\\n")
"""
LINES = [f"[{process}] line {n}" for n in range(4) for process in range(2)]


@NEEDS_MPI
def test_progress_of_process_0_is_not_torn_and_that_of_others_not_shown_while_it_goes_on(folder):
    (folder / "bars.py").write_text(BARS)
    status, text, errors = told(folder, "bars.py")
    assert status == 0, errors
    assert sorted(text.splitlines()) == sorted(LINES)
    assert sorted(errors.splitlines()) == ["[0] step 3 ", "[1] step 3 "]


@NEEDS_MPI
def test_a_terminal_shows_progress_below_the_lines_of_all(folder):
    (folder / "bars.py").write_text(BARS)
    master, slave = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "treadle", "run", "-n", "2", "bars.py"], cwd=folder,
        stdout=slave, stderr=slave, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(slave)
    text = all_of(master)
    assert started.wait() == 0, text
    *rows, last = rows_of(text.decode())
    assert last == ""
    assert sorted(rows) == sorted([*LINES, "[0] step 3 ", "[1] step 3 "])
    shown = dict.fromkeys(re.findall(r"\[0\] step \d", text.decode()))
    assert [*shown] == [f"[0] step {n}" for n in range(4)]
    assert text.count(b"[1] step") == 1


@NEEDS_MPI
def test_a_job_ends_when_nobody_reads_what_it_prints(folder):
    (folder / "prints.py").write_text("while True:\n    print('line')\n")
    command = [sys.executable, "-m", "treadle", "run", "-n", "2", "prints.py"]
    started = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stdout.readline().endswith(b"] line\n")
    started.stdout.close()
    try:
        assert started.wait(timeout=60) != 0
    finally:
        if started.poll() is None:
            started.terminate()
            started.wait()
