"""Rates of probes: what all cores did in the best stretch of time, however busy the rest was."""

import threading
from types import SimpleNamespace

import pytest

from treadle.runtime import probe
from treadle.runtime.probe import Rates

CALL = 0.001  # seconds


class Clocks:
    """Two cores whose calls take a millisecond, and longer where another process has the core.

    `waits` are calls of each core, by number, that wait so many seconds more.
    """

    def __init__(self, *waits):
        self.waits = waits
        self.now = [0.0 for _ in waits]
        self.core = threading.local()

    def call(self, core, number):
        self.core.number = core
        if number or self.now[core]:
            self.now[core] += CALL + self.waits[core].get(number, 0)
        else:
            self.now[core] = CALL  # the first call of all warms up, and ends at one time

    def perf_counter(self):
        return self.now[getattr(self.core, "number", 0)]


@pytest.fixture
def measured(monkeypatch):
    def rate(*waits, shares):
        clocks = Clocks(*waits)
        monkeypatch.setattr(probe, "time", SimpleNamespace(perf_counter=clocks.perf_counter))
        monkeypatch.setattr(probe, "available_cores", lambda: len(waits))
        return probe._rate_of_cores(1.0, clocks.call, shares=shares)

    return rate


@pytest.mark.parametrize("shares", [True, False])
def test_cores_that_nobody_disturbs_do_twice_what_one_does(measured, shares):
    assert measured({}, {}, shares=shares) == pytest.approx(2 / CALL, rel=0.02)


def test_moments_in_which_one_core_is_taken_do_not_count(measured):
    busy = dict.fromkeys(range(50), 0.02)
    assert measured(busy, {}, shares=False) == pytest.approx(2 / CALL, rel=0.02)


def test_what_is_shared_is_measured_at_one_time(measured):
    always = dict.fromkeys(range(probe.BURSTS), 0.009)  # a tenth of the speed of the other
    assert measured(always, {}, shares=True) == pytest.approx(1.1 / CALL, rel=0.02)


def test_reads_writes_and_copies_have_rates_of_their_own():
    rates = Rates(read=10.0, write=40.0, copy=20.0)
    assert rates.seconds(100, 0) == 10
    assert rates.seconds(0, 100) == 2.5
    assert rates.seconds(50, 50) == 5
    assert rates.seconds(100, 50) == 5 + 5  # a copy of 50, and 50 more that are read
    assert rates.best(Rates(11.0, 1.0, 21.0)) == Rates(11.0, 40.0, 21.0)
