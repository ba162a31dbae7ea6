"""The roofline: which ceiling binds, when it is measured again, and that no share is cut."""

import math

import pytest

from treadle.engine import ceilings
from treadle.engine.cache import CompileCache
from treadle.engine.ceilings import MOST_PROBES, PAUSE, TRIES, Ceilings, Level, Measured
from treadle.engine.work import Work
from treadle.runtime.probe import Rates
from treadle.target import host_target

TARGET = host_target()


def flat(rate):
    return Rates(rate, rate, rate)


def roof(flops=1e9, inner=1e9, memory=1e8):
    return Ceilings(
        flops, (Level("L2", 1000, flat(inner)), Level("memory", math.inf, flat(memory)))
    )


def work(ops=0, read=0, written=0):
    return Work(ops, float(ops), read, written, read + written, read + written)


@pytest.fixture(autouse=True)
def cache(monkeypatch):
    """A disk cache that is empty and in memory."""
    made = CompileCache(None)
    monkeypatch.setattr(ceilings, "compile_cache", lambda: made)
    return made


def test_operations_bind_where_they_take_longer_than_memory():
    share = roof().share(work(ops=2000, read=100), 4e-6)
    assert (share.name, share.value) == ("compute", pytest.approx(0.5))


def test_what_fits_into_a_cache_is_held_to_the_speed_of_the_cache():
    share = roof().share(work(read=500), 1e-6)
    assert (share.name, share.value) == ("L2", pytest.approx(0.5))


def test_what_fits_into_no_cache_is_held_to_the_speed_of_memory():
    share = roof().share(work(read=10_000), 2e-4)
    assert (share.name, share.value) == ("memory", pytest.approx(0.5))


def test_what_is_quicker_than_memory_came_from_a_cache_in_part():
    # 1000 of 2000 bytes from the cache: 1 us and 10 us, where memory alone would take 20 us
    share = roof().share(work(read=2000), 15e-6)
    assert share.name == "memory and L2"
    assert share.value == pytest.approx(11 / 15)


def test_what_is_changed_in_place_needs_room_once():
    changed = Work(0, 0.0, 800, 800, 800, 800)
    assert roof().share(changed, 16e-6).name == "L2"


def test_a_share_above_one_is_told_as_it_is():
    assert roof().share(work(ops=3000), 1e-6).value == pytest.approx(3)


class Machine:
    """A machine whose probes find `found`, one after the other, and a clock that stands still."""

    def __init__(self, *found):
        self.found, self.probes, self.now = found, 0, 0.0
        self.measured = Measured(self.probe, lambda: self.now)

    def probe(self, target, names):
        self.probes += 1
        self.names = names
        return self.found[min(self.probes, len(self.found)) - 1]

    def share(self, ops, seconds):
        return self.measured.share(work(ops), seconds, TARGET).value


def test_a_ceiling_that_was_measured_too_low_is_measured_again():
    machine = Machine(roof(flops=0.5e9), roof(flops=1e9))
    assert machine.share(900, 1e-6) == pytest.approx(0.9)
    assert machine.probes == 2


def test_only_the_ceiling_that_is_exceeded_is_measured_again():
    machine = Machine(roof())
    machine.share(2000, 1e-6)
    assert machine.names == ["compute"]
    machine.now += PAUSE
    machine.measured.share(work(read=2000), 1e-6, TARGET)
    assert machine.names == ["memory", "L2"]


def test_what_is_not_measured_is_not_known():
    found = ceilings.measure(TARGET, ["L1"])
    assert found.flops == 0
    assert [level.name for level in found.levels if any(level.rates)] == ["L1"]


def test_a_worse_probe_lowers_nothing():
    machine = Machine(roof(flops=1e9, memory=2e8), roof(flops=0.5e9, memory=3e8))
    assert machine.share(1200, 1e-6) == pytest.approx(1.2)
    best = machine.measured.of(TARGET)
    assert (best.flops, best.levels[-1].rates.read) == (1e9, 3e8)


def test_probes_wait_for_a_machine_that_is_busy_and_end_some_time():
    machine = Machine(roof())
    for _ in range(5):
        machine.share(2000, 1e-6)
    assert machine.probes == 1 + TRIES
    for _ in range(20):
        machine.now += PAUSE * MOST_PROBES
        machine.share(2000, 1e-6)
    assert machine.probes == 1 + TRIES * (MOST_PROBES - 1)


def test_nothing_is_measured_again_while_shares_are_possible():
    machine = Machine(roof())
    for _ in range(5):
        machine.share(900, 1e-6)
    assert machine.probes == 1


def test_the_best_is_remembered_for_other_processes():
    first = Machine(roof(flops=1e9), roof(flops=3e9))
    first.share(2000, 1e-6)
    later = Machine(roof(flops=1e9))
    assert later.measured.of(TARGET) == roof(flops=3e9)
    assert later.probes == 0


def test_the_probes_find_caches_quicker_than_nothing_at_all():
    found = ceilings.measure(TARGET)
    assert [level.name for level in found.levels] == ["L1", "L2", "L3", "memory"]
    assert found.levels[-1].size == math.inf
    assert min(found.flops, *(rate for level in found.levels for rate in level.rates)) > 1e6
