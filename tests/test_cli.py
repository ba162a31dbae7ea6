"""The treadle command: reports, exit codes, and one clear sentence for each mistake."""

import json
import subprocess
import sys

import pytest

from treadle import cli
from treadle.config import Context
from treadle.engine.cache import CompileCache


def test_no_command_is_a_usage_error_with_exit_code_2(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([])
    assert stop.value.code == 2
    assert "command" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--epochs=0", "--epochs=-1", "--epochs=many", "--seed=-1"])
def test_a_bad_number_names_the_option_and_what_is_allowed(option, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", option])
    name = option.partition("=")[0]
    assert stop.value.code == 2
    assert f"argument {name}: must be a whole number of" in capsys.readouterr().err


def test_a_device_that_does_not_exist_is_one_sentence_and_exit_code_2(capsys):
    assert cli.main(["demo", "--device", "TOASTER"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("treadle demo: ")
    assert "TOASTER" in err
    assert err.count("\n") == 1


def test_a_bad_setting_in_the_environment_is_one_sentence_and_exit_code_2():
    done = subprocess.run(
        [sys.executable, "-m", "treadle", "env"],
        env={"DEBUG": "loud", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == ("treadle env: DEBUG=loud is not allowed: DEBUG is an integer 0 to 7\n")


def test_doctor_lists_every_backend_and_says_what_mends_those_that_are_off(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert any(r["runtime"] == "CPU" and r["usable"] for r in rows)
    assert all(r["reason"] for r in rows if not r["usable"])
    assert set(rows[0]) == {"runtime", "compiler", "interface", "usable", "reason", "fix"}


def test_doctor_prints_a_table_with_one_line_for_each_row_of_its_json(capsys):
    cli.main(["doctor", "--json"])
    rows = json.loads(capsys.readouterr().out)
    cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["runtime", "compiler", "interface", "state"]
    assert len(lines) == len(rows) + 1


def test_devices_marks_one_default(capsys):
    assert cli.main(["devices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("CPU") for line in lines)
    assert sum(line.endswith("default") for line in lines) == 1


def test_env_reports_versions_and_every_setting_as_json(capsys):
    assert cli.main(["env", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"treadle", "python", "numpy", "llvmlite"} <= set(report["versions"])
    assert {"DEBUG", "CACHE_DIR"} <= {r["name"] for r in report["settings"]}


def test_bench_refuses_a_row_that_does_not_exist_and_lists_those_that_do(capsys):
    assert cli.main(["bench", "--only", "origami"]) == 2
    assert "no row matches origami; the rows are:\nmatmul: matmul 256" in capsys.readouterr().err


def test_bench_refuses_a_peer_that_does_not_exist(capsys):
    assert cli.main(["bench", "--peers", "abacus"]) == 2
    assert "there is no peer 'abacus'" in capsys.readouterr().err


def test_cache_counts_and_clears_the_kernels_but_no_other_file(capsys, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with Context(CACHE_DIR=tmp_path):
        CompileCache(tmp_path).put("key", b"code")
        assert cli.main(["cache"]) == 0
        assert capsys.readouterr().out.startswith("1 kernels, 0.0 MB in ")
        assert cli.main(["cache", "--clear"]) == 0
        assert capsys.readouterr().out.startswith("removed 1 kernels from ")
        assert CompileCache(tmp_path).get("key") is None
    assert other.read_text() == "mine"
