"""Calls that go on meanwhile: their order, who takes their steps, and what they fail with."""

from __future__ import annotations

import threading
import time

import pytest

from treadle.engine.background_calls import call_in_order, finish_calls, in_one_step, run_in_order

TIME = 20.0  # seconds until a test gives up


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    finish_calls()


def steps(count: int, done: list[str], name: str):
    for number in range(count):
        done.append(f"{name}{number}")
        yield


def test_calls_are_made_in_order_and_their_first_step_at_once():
    done: list[str] = []
    first = call_in_order(steps(3, done, "a"))
    assert done[0] == "a0"
    second = call_in_order(steps(2, done, "b"))
    second.wait()
    assert done == ["a0", "a1", "a2", "b0", "b1"]
    assert first.is_over
    first.wait()


def test_who_waits_takes_the_steps_and_otherwise_a_thread_does():
    takers: list[int] = []

    def noted(count: int):
        for _ in range(count):
            takers.append(threading.get_ident())
            yield

    call_in_order(noted(3)).wait()
    assert takers[-1] == threading.get_ident()
    takers.clear()
    job = call_in_order(noted(5))
    until = time.monotonic() + TIME
    while not job.is_over and time.monotonic() < until:
        time.sleep(0.001)
    assert job.is_over
    assert takers[0] == threading.get_ident() != takers[-1]


def test_an_error_is_raised_to_whoever_waits_each_time_and_the_next_call_is_made():
    def failing():
        yield
        raise ValueError("no more")

    done: list[str] = []
    job, following = call_in_order(failing()), call_in_order(steps(1, done, "b"))
    following.wait()
    for _ in range(2):
        with pytest.raises(ValueError, match="no more"):
            job.wait()
    assert done == ["b0"]


def test_finishing_raises_nothing_for_what_has_failed():
    def fail() -> None:
        raise ValueError("no more")

    job = call_in_order(in_one_step(fail))
    finish_calls()
    with pytest.raises(ValueError, match="no more"):
        job.wait()


def test_a_call_behind_others_is_made_behind_them():
    done: list[str] = []
    call_in_order(steps(3, done, "a"))
    run_in_order(steps(1, done, "b"))
    assert done == ["a0", "a1", "a2", "b0"]


def test_many_threads_wait_for_their_own_calls():
    done: list[str] = []
    jobs = [call_in_order(steps(50, done, f"{n} ")) for n in range(8)]
    threads = [threading.Thread(target=job.wait) for job in reversed(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIME)
    assert all(job.is_over for job in jobs)
    assert done == [f"{n} {i}" for n in range(8) for i in range(50)]


def test_an_interrupt_ends_the_call_that_it_has_met():
    def interrupted():
        yield
        raise KeyboardInterrupt

    job = call_in_order(interrupted())
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    done: list[str] = []
    run_in_order(steps(2, done, "a"))
    assert done == ["a0", "a1"]
