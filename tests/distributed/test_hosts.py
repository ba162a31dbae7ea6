"""Jobs on two hosts, made of network namespaces, and what hosts do to a job."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from treadle.distributed import hosts as of_hosts
from treadle.distributed.hosts import check_hosts, read_hosts
from treadle.distributed.versions import versions
from treadle.errors import DistributedError

from .job import NEEDS_MPI, ended, run, start
from .network import NEEDS_HOSTS, TwoHosts

FULL = "FULL_TESTS" in os.environ


# -- a file of hosts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("a:2\nb:3\n", 5, {"a": 2, "b": 3}),
        ("a:2\nb:3\n", 4, {"a": 2, "b": 2}),
        ("a:8\nb:3\n", 4, {"a": 4}),
        ("# all\n\na\nb  # the other\n", 5, {"a": 3, "b": 2}),
        ("a:1\nb\n", 4, {"a": 1, "b": 3}),
        ("a slots=2\nb slots=1\n", 3, {"a": 2, "b": 1}),
        ("fe80::1\n10.0.0.2:2\n", 3, {"fe80::1": 1, "10.0.0.2": 2}),
    ],
)
def test_processes_are_shared_out(tmp_path, text, count, expected):
    file = tmp_path / "hosts"
    file.write_text(text)
    found = read_hosts(file, count)
    assert found == expected
    assert sum(found.values()) == count


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names no host"),
        ("a:2\nb:x\n", "hosts:2: 'x' is no number of processes for b"),
        ("a:0\n", "hosts:1: '0' is no number of processes for a"),
        ("a:\n", "hosts:1: '' is no number of processes for a"),
        ("a slots=\n", "hosts:1: '' is no number of processes for a"),
        ("a:2 slots=3\n", "is no host such as"),
        (":3\n", "is no host such as"),
        ("a b\n", "hosts:1: 'a b' is no host such as node1 or node1:8"),
        ("-oProxyCommand=x\n", "is no host such as"),
        ("a\na:2\n", "hosts:2: the host a comes twice"),
        ("a:2\nb:1\n", "have room for 3 processes, not for 4"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path, text, words):
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(DistributedError) as raised:
        read_hosts(file, 4)
    assert words in str(raised.value)


def test_a_file_that_is_no_text_or_no_file_is_named(tmp_path):
    file = tmp_path / "hosts"
    with pytest.raises(DistributedError, match="cannot be read"):
        read_hosts(file, 1)
    file.write_bytes(b"\xff\xfe\n")
    with pytest.raises(DistributedError, match="cannot be read"):
        read_hosts(file, 1)


# -- what hosts answer ----------------------------------------------------------------------------


def _answering(folder: Path, lines: str) -> str:
    """A program in place of ssh."""
    file = folder / "ssh"
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)
    return str(file)


def _refusal(ssh: str, *hosts: str) -> str:
    with pytest.raises(DistributedError) as raised:
        check_hosts(hosts or ["far"], [ssh])
    return str(raised.value)


def test_hosts_that_have_what_this_machine_has_are_taken(tmp_path):
    asked = tmp_path / "asked"
    lines = f'echo $1 >> {asked}; shift; echo welcome; eval "$*"'
    check_hosts(["far", "farther"], [_answering(tmp_path, lines)])
    assert sorted(asked.read_text().split()) == ["far", "farther"]


def test_a_host_that_cannot_be_reached_is_named(tmp_path):
    ssh = _answering(tmp_path, 'echo "ssh: connect to host $1 port 22: no route" >&2; exit 255')
    text = _refusal(ssh, "far", "farther")
    for host in ("far", "farther"):
        words = f"host {host} cannot be reached: ssh: connect to host {host} port 22: no route"
        assert words in text


def test_a_host_without_treadle_is_named(tmp_path):
    ssh = _answering(tmp_path, 'echo "No module named treadle" >&2; exit 1')
    assert f"host far cannot run treadle with {sys.executable}: No module" in _refusal(ssh)


def test_a_host_of_other_versions_is_named_with_both(tmp_path):
    told = {**versions(), "NumPy": "1.0"}
    del told["MPI"]
    text = _refusal(_answering(tmp_path, f"echo '{json.dumps(told)}'"))
    assert f"host far has NumPy 1.0, this machine {versions()['NumPy']}" in text
    assert f"host far has MPI of no version, this machine {versions()['MPI']}" in text
    assert "Python" not in text


@pytest.mark.parametrize("answer", ["", "welcome", "[]"])
def test_a_host_that_answers_something_else_is_named(tmp_path, answer):
    assert "host far answered" in _refusal(_answering(tmp_path, f"echo '{answer}'"))


def test_a_host_that_hangs_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(of_hosts, "_asked", _with_time(of_hosts._asked, monkeypatch))
    text = _refusal(_answering(tmp_path, "exec sleep 60"))
    assert "host far did not answer within 1 seconds" in text


def _with_time(asked, monkeypatch):
    """Hosts have a second, this machine as long as it takes."""

    def timed(command, who):
        with monkeypatch.context() as inner:
            inner.setattr(of_hosts, "TIME", 60.0 if who == "this machine" else 1.0)
            return asked(command, who)

    return timed


def test_a_missing_program_in_place_of_ssh_is_named(tmp_path):
    assert "far cannot be reached: " in _refusal(str(tmp_path / "none"))


# -- two hosts ------------------------------------------------------------------------------------


@NEEDS_MPI
@NEEDS_HOSTS
@pytest.mark.parametrize(
    "wire",
    [
        {"loss": 0.01, "delay": 0.001},
        *([{}, {"rate": 4e6, "queue": 30_000}, {"loss": 0.05}] if FULL else []),
    ],
    ids=str,
)
def test_values_are_right_whatever_the_wire_does(tmp_path, wire):
    """Among them: frames that are lost, a wire that is full."""
    with TwoHosts(tmp_path, **wire) as hosts:
        job = run(2, "exchanges.py", hosts=hosts)
        assert job.status == 0, job.text
        assert [job.lines_of(process)[-1] for process in (0, 1)] == ["4 right"] * 2, job.text
        assert hosts.carried > 1000  # it was not shared memory
        assert (hosts.lost > 0) == bool(wire)
        assert not hosts.running()


@NEEDS_MPI
@NEEDS_HOSTS
def test_values_are_right_over_a_wire_of_the_kernel(tmp_path):
    with TwoHosts(tmp_path, is_direct=True) as hosts:
        before = hosts.bytes_sent()
        job = run(2, "exchanges.py", hosts=hosts)
        assert job.status == 0, job.text
        assert [job.lines_of(process)[-1] for process in (0, 1)] == ["4 right"] * 2, job.text
        assert hosts.bytes_sent() - before > 1_000_000
    with pytest.raises(ValueError, match="no delay"):
        TwoHosts(tmp_path, delay=0.1, is_direct=True)


@NEEDS_MPI
@NEEDS_HOSTS
def test_a_host_that_is_cut_off_ends_the_job_on_both(tmp_path):
    with TwoHosts(tmp_path) as hosts:
        started = start(2, "failing.py", "goes on", hosts=hosts)
        assert started.stdout is not None
        began = 0
        while began < 2:
            line = started.stdout.readline()
            assert line, "the job has ended before"
            began += "began" in line
        hosts.is_cut = True
        job = ended(started)
        assert job.status != 0
        assert "process 1 did not answer: stopped, or gone; process 0 waits in" in job.text
        assert not hosts.running()


@NEEDS_MPI
@NEEDS_HOSTS
def test_a_host_that_is_not_there_is_named_before_anything_starts(tmp_path):
    with TwoHosts(tmp_path) as hosts:
        hosts.file.write_text("10.77.0.1:1\n10.77.0.9:1\n")
        job = run(2, "exchanges.py", hosts=hosts)
        assert job.status == 2, job.text
        assert "[run] host 10.77.0.9 cannot be reached: no route to 10.77.0.9" in job.text
        assert "began" not in job.text
