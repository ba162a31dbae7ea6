"""Commands: a list of them without one, tables as wide as the terminal, JSON for devices."""

import json
import os
import subprocess
import sys

import pytest

from treadle import cli


def test_3_11_no_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 2
    shown = capsys.readouterr().err
    assert all(f"\n    {name}" in shown for name in ("doctor", "devices", "bench", "video"))


def test_3_11_python_m_treadle_lists_the_commands():
    done = subprocess.run(
        [sys.executable, "-m", "treadle"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "what runs here, and what would mend the rest" in done.stderr


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_3_11_doctor_fits_the_terminal(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].split() == ["runtime", "compiler", "interface", "state", "why"]
    text = " ".join(" ".join(lines).split())
    assert "NULL LLVM ok compiles, but runs nothing" in text


def test_3_11_devices_as_json(capsys):
    assert cli.main(["devices", "--json"]) == 0
    devices = json.loads(capsys.readouterr().out)
    cpu = next(row for row in devices if row["device"] == "CPU")
    assert "LLVM" in cpu["compilers"]
    assert sum(row["default"] for row in devices) == 1


def test_3_11_bench_lists_its_rows_readably(capsys):
    assert cli.main(["bench", "--only", "origami"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "treadle bench: no row matches origami; the rows are:"
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("matmul: ")


def test_3_11_a_pipe_gets_a_line_for_each_row():
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "doctor"], capture_output=True, text=True, check=False,
        env={**os.environ, "COLUMNS": "40"},
    )  # fmt: skip
    assert "mend with" in done.stdout.splitlines()[0]
