"""The scheduler: engines take turns in an order that a seed decides."""

from treadle.emulate.machine.scheduler import Scheduler


def counter(name, count, log):
    for _ in range(count):
        log.append(name)
        yield True


def order(seed):
    scheduler, log = Scheduler(seed), []
    for name in "abc":
        scheduler.add(counter(name, 4, log))
    scheduler.settle()
    return "".join(log)


def test_a_seed_gives_the_same_order_again():
    assert order(3) == order(3)


def test_seeds_give_different_orders_of_the_same_steps():
    orders = {order(seed) for seed in range(20)}
    assert len(orders) > 10
    assert {"".join(sorted(one)) for one in orders} == {"aaaabbbbcccc"}


def test_an_engine_that_waits_is_asked_again():
    scheduler, happened = Scheduler(), []

    def waits():
        while not happened:
            yield False
        happened.append("seen")
        yield True

    scheduler.add(waits())
    assert not scheduler.step()
    happened.append("now")
    assert scheduler.step()
    assert happened == ["now", "seen"]


def test_nothing_runs_while_it_is_paused():
    scheduler, log = Scheduler(), []
    scheduler.add(counter("a", 1, log))
    scheduler.is_paused = True
    assert not scheduler.step()
    scheduler.is_paused = False
    assert scheduler.step()


def test_an_engine_that_is_removed_does_nothing_more():
    scheduler, log = Scheduler(), []
    engine = counter("a", 2, log)
    scheduler.add(engine)
    scheduler.step()
    scheduler.remove(engine)
    assert not scheduler.step()
    assert log == ["a"]
