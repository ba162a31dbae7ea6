"""Work that an engine has taken on: in which orders it may get done, at 200 seeds."""

from random import Random

from treadle.emulate.machine.ordering import Ordering
from treadle.emulate.machine.work import After, Worklist

SEEDS = range(200)


def done(seed, *steps):
    """What is done, in order, when nothing more can be."""
    work, log = Worklist(Random(seed), Ordering().stream("a queue")), []
    for step in steps:
        if step == "|":
            work.barrier()
        elif step == "!":
            work.add(lambda: log.append("!"), After.ALL, is_urgent=True)
        elif step == "?":
            work.add(lambda: log.append("?"), After.NOTHING, is_urgent=True)
        else:
            work.add(lambda step=step: log.append(step))
    while work.do_one():
        pass
    return "".join(log)


def test_work_without_a_barrier_is_done_in_either_order_or_not_yet():
    assert {"", "a", "b", "ab", "ba"} == {done(seed, "a", "b") for seed in SEEDS}


def test_work_behind_a_barrier_comes_later():
    found = {done(seed, "a", "|", "b", "!") for seed in SEEDS}
    assert found == {"ab!"}


def test_a_signal_comes_after_all_work_before_it():
    found = {done(seed, "a", "b", "!", "c") for seed in SEEDS}
    assert all({"a", "b"} <= set(one[: one.index("!")]) for one in found)
    assert len(found) > 4


def test_a_signal_that_waits_for_nothing_may_come_first():
    found = {done(seed, "a", "?") for seed in SEEDS}
    assert found == {"a?", "?a", "?"}
