"""Processes that are started one by one, with variables that say who belongs together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec

import pytest

from treadle.distributed.rendezvous import Membership, place_of
from treadle.errors import DistributedError

from .job import NEEDS_MPI, PROGRAMS

GIVEN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "29500"}
FULL = "FULL_TESTS" in os.environ
NEEDS_MPICH = pytest.mark.skipif(
    find_spec("mpich") is None and not os.path.exists(f"{sys.prefix}/lib/libmpi.so.12"),
    reason="needs MPICH, which asks by PMI-1: pip install mpich",
)


def test_variables_say_who_belongs_together():
    assert place_of(GIVEN) == Membership(1, 2, "here", 29500)
    assert place_of({**GIVEN, "TORCHELASTIC_USE_AGENT_STORE": "True"}) == Membership(
        1, 2, "here", 29501
    )
    for alone in ({}, {"WORLD_SIZE": "1", "RANK": "0"}, {"WORLD_SIZE": "4"}):
        assert place_of(alone) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"MASTER_PORT": ""}, "WORLD_SIZE=2, and MASTER_PORT is not set"),
        ({"RANK": "one"}, "have to be numbers"),
        ({"RANK": "2"}, "RANK=2 is none of WORLD_SIZE=2 processes"),
        ({"RANK": "-1"}, "RANK=-1 is none of"),
    ],
)
def test_wrong_variables_are_named(changed, words):
    with pytest.raises(DistributedError) as raised:
        place_of({**GIVEN, **changed})
    assert words in str(raised.value)


@pytest.fixture
def port() -> str:
    with socket.create_server(("", 0)) as free:
        number = free.getsockname()[1]
    return str(number)


def _start(rank: int, size: int, port: str, *words: str, **variables: str):
    given = {
        "RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "localhost",
        "MASTER_PORT": port, **variables,
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / words[0]), *words[1:]], env={**os.environ, **given},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def _texts(started) -> list[str]:
    return [process.communicate(timeout=240)[0] for process in started]


@NEEDS_MPI
@NEEDS_MPICH
def test_processes_find_each_other_and_leave_the_port_to_the_next_job(port):
    for size in (3, 2):
        started = [_start(rank, size, port, "exchanges.py", "1") for rank in reversed(range(size))]
        texts = _texts(started)
        assert [process.returncode for process in started] == [0] * size, texts
        assert all(text.endswith("1 right\n") for text in texts), texts


@NEEDS_MPI
@NEEDS_MPICH
@pytest.mark.parametrize("how", ["killed", *(["fails"] if FULL else [])])
def test_who_is_gone_ends_the_others(port, how):
    started = [_start(rank, 3, port, "failing.py", how) for rank in range(3)]
    texts = _texts(started)
    assert all(process.returncode != 0 for process in started), texts
    assert "done" not in "".join(texts)
    if how == "killed":
        assert all("process 2 is gone: this process ends" in text for text in texts[:2]), texts
    else:  # MPICH ends the others, and they say nothing
        assert "ValueError: no more" in texts[2]


@NEEDS_MPI
def test_who_does_not_come_is_named_to_those_who_have(port):
    started = [_start(rank, 3, port, "exchanges.py", DISTRIBUTED_TIMEOUT="12") for rank in (0, 2)]
    for text in _texts(started):
        assert "1 of 3 processes did not come within 12 seconds" in text
        assert "RANK 1" in text


@NEEDS_MPI
def test_a_process_that_cannot_reach_the_first_says_so(port):
    (text,) = _texts([_start(1, 2, port, "exchanges.py", DISTRIBUTED_TIMEOUT="1")])
    assert f"process 1 cannot reach process 0 at localhost:{port}" in text


@NEEDS_MPI
def test_a_port_that_another_program_has_is_told():
    with socket.create_server(("", 0)) as other:
        port = str(other.getsockname()[1])
        other.close()
        with socket.socket() as bound:
            bound.bind(("", int(port)))  # and does not listen
            (text,) = _texts([_start(0, 2, port, "exchanges.py")])
    assert f"process 0 cannot keep the list of processes at port {port}" in text


@NEEDS_MPI
@NEEDS_MPICH
def test_processes_of_other_sizes_are_told(port):
    started = [_start(0, 2, port, "exchanges.py", DISTRIBUTED_TIMEOUT="15"),
               _start(1, 3, port, "exchanges.py", DISTRIBUTED_TIMEOUT="15")]  # fmt: skip
    texts = _texts(started)
    assert "process 1 is one of 3 (WORLD_SIZE), and process 0 one of 2" in texts[1]
    assert "1 of 2 processes did not come" in texts[0]
