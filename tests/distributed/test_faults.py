"""What one process does wrong, or what happens to it: the others say so, and nothing hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from .job import NEEDS_MPI, PROGRAMS, run

pytestmark = NEEDS_MPI


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("kind", ["processes make different calls", "processes 0, 1: all_reduce add",
                  "process 2: all_gather of float32 (2,) at", "failing.py:"]),
        ("shape", ["processes 0, 1: all_reduce add of float32 (2,)",
                   "process 2: all_reduce add of float32 (3,)"]),
        ("mesh", ["process 2: all_gather of float32 (1, 2) at", "rows.shard(world.mesh()) if last",
                  "processes 0, 1: all_reduce add of float32 (1, 2) at"]),
        ("replays", ["process 2: all_gather of float32 (2,)", "processes 0, 1: all_reduce add"]),
        ("captures", ["process 2: broadcast", "processes 0, 1: all_reduce add"]),
        ("many captures", ["process 2: all_gather of float32 (2,)",
                           "processes 0, 1: all_reduce add of float32 (2,)"]),
        ("unread", ["process 2: all_reduce add of float32 (50001,)"]),
        ("ends", ["process 2 has ended its program", "waits for it in all_reduce"]),
        ("stops", ["process 2 did not answer: stopped, or gone"]),
    ],
)  # fmt: skip
def test_the_others_name_who_makes_another_call_or_none(how, words):
    ended = run(3, "failing.py", how)
    assert ended.status != 0
    assert "done" not in ended.text
    for word in words:
        assert word in ended.text, ended.text
    # who looks first tells, and ends the job: that may be the one who made the other call
    lines = [line for process in range(3) for line in ended.lines_of(process)]
    seconds = [int(line.split()[1]) for line in lines if line.startswith("after ")]
    assert seconds
    assert max(seconds) < 30


def test_a_killed_process_ends_the_job_with_one_sentence():
    ended = run(3, "failing.py", "killed")
    assert ended.status != 0
    assert "a process was ended by SIGKILL, and so were all others" in ended.text


def test_a_failing_process_shows_its_error_and_ends_the_others():
    ended = run(3, "failing.py", "fails")
    assert ended.status != 0
    assert any("ValueError: no more" in line for line in ended.lines_of(2)), ended.text
    assert "done" not in ended.text


def test_a_process_that_is_late_is_waited_for():
    ended = run(3, "failing.py", "late")
    assert ended.status == 0, ended.text
    assert [ended.lines_of(process)[-1] for process in range(3)] == ["done"] * 3


def test_a_process_that_stays_at_work_is_waited_for_until_the_timeout():
    ended = run(2, "failing.py", "late", DISTRIBUTED_TIMEOUT="1")
    assert ended.status != 0
    assert "process 1 did not come to all_reduce add" in ended.text, ended.text


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_an_interrupt_ends_all_processes(how, status, words):
    command = [sys.executable, "-m", "treadle", "run", "-n", "2", str(PROGRAMS / "failing.py")]
    # What a shell runs in the background ignores interrupts, and so does what that starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        started = subprocess.Popen(
            [*command, "stops"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, before)
    assert started.stdout is not None
    assert "began" in started.stdout.readline()
    os.kill(started.pid, how)
    text, _ = started.communicate(timeout=60)  # until the last process has closed its output
    assert started.returncode == status, text
    assert words in text


def test_programs_that_cannot_be_started_say_why(tmp_path):
    def told(*words: str, **variables: str) -> tuple[int, str]:
        ended = subprocess.run(
            [sys.executable, "-m", "treadle", "run", *words], text=True, capture_output=True,
            env={**os.environ, **variables}, check=False,
        )  # fmt: skip
        return ended.returncode, ended.stderr

    assert told("-n", "2") == (2, "treadle run: give a script, such as train.py\n")
    assert told("-n", "0", "x.py")[0] == 2
    missing = str(tmp_path / "hosts")
    status, text = told("-n", "2", "--hosts", missing, "x.py")
    assert (status, f"the file {missing} with the names of hosts" in text) == (2, True)


def test_a_process_that_another_launcher_started_is_told(tmp_path):
    code = "from treadle import distributed; distributed.init()"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "WORLD_SIZE": "4"}, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode != 0
    assert (
        "WORLD_SIZE says that this process is one of 4, but MPI knows of it alone" in ended.stderr
    )


def test_a_process_alone_is_a_group_of_one():
    code = (
        "from treadle import Tensor, distributed; w = distributed.init(); "
        "assert w is distributed.init(); "
        "print(w, w.allreduce(Tensor([2.0])).tolist(), w.allgather(Tensor([[1]]), 1).tolist())"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, check=False
    )
    assert ended.stdout == "<Group 'world': process 0 of 1> [2.0] [[1]]\n", ended.stderr
