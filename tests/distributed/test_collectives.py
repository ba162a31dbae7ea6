"""Groups of processes on this machine: values, derivatives, captured steps, training."""

from __future__ import annotations

import os

import pytest

from .job import NEEDS_MPI, run

FULL = "FULL_TESTS" in os.environ
pytestmark = NEEDS_MPI


@pytest.mark.parametrize(
    ("program", "count"),
    [
        ("collectives.py", 3),
        ("derivatives.py", 2),
        ("training.py", 2),
        ("overlap.py", 2),
        *([("collectives.py", 1), ("collectives.py", 4), ("derivatives.py", 4)] if FULL else []),
        *([("training.py", 4), ("overlap.py", 4)] if FULL else []),
    ],
)
def test_processes_compute_what_one_computes_alone(program, count):
    ended = run(count, program)
    assert ended.status == 0, ended.text
    for process in range(count):
        assert ended.lines_of(process)[-1].endswith(" right"), ended.text


@pytest.mark.parametrize("count", [2, *([3, 4] if FULL else [])])
def test_each_call_of_a_replay_meets_its_own_when_processes_are_late(count):
    seeds = range(100 * count, 100 * count + (40 if FULL else 8))
    ended = run(count, "replays.py", *map(str, seeds))
    assert ended.status == 0, ended.text
    assert all(ended.lines_of(process)[-1].endswith(" right") for process in range(count))


def test_sums_are_in_the_order_of_processes_where_they_are_to_be_reproducible():
    ended = run(2, "training.py", REPRODUCIBLE="1")
    assert ended.status == 0, ended.text


def test_all_calls_are_compared_where_that_is_asked_for():
    ended = run(2, "overlap.py", DISTRIBUTED_CHECK="1")
    assert ended.status == 0, ended.text
