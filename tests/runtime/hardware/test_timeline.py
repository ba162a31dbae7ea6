"""Moments and rings, over memory that the test itself writes."""

from array import array

import pytest

from treadle.runtime.hardware.host_memory import address_of, round_up
from treadle.runtime.hardware.platform import LinuxPlatform
from treadle.runtime.hardware.ring import Ring, Room
from treadle.runtime.hardware.timeline import SlotLayout, Timeline

PAGE = 4096
LAYOUT = SlotLayout(64, 8, 32, 40)
COUNT = 8


class Clock(LinuxPlatform):
    """A platform whose clock the test moves."""

    time = 0

    def now(self):
        return self.time

    def pause(self):
        self.time += 1000


@pytest.fixture
def platform():
    return Clock()


@pytest.fixture
def memory():
    data = bytearray(3 * PAGE)
    yield round_up(address_of(data), PAGE)
    del data


@pytest.fixture
def slept():
    return []


@pytest.fixture
def timeline(platform, memory, slept):
    def sleep(nanoseconds):
        slept.append(nanoseconds)
        platform.time += nanoseconds

    return Timeline(platform, LAYOUT, memory, COUNT, sleep)


def happen(platform, timeline, moment):
    platform.store64(timeline.value_of(moment), 0)


def test_a_moment_has_happened_when_its_signal_is_zero(platform, timeline):
    moment = timeline.next(1.0)
    assert not timeline.has_passed(moment)
    happen(platform, timeline, moment)
    assert timeline.has_passed(moment)


def test_a_moment_stands_for_those_before_it(platform, timeline):
    first, second = timeline.next(1.0), timeline.next(1.0)
    happen(platform, timeline, second)
    assert timeline.has_passed(second)
    assert timeline.has_passed(first)


def test_a_wait_ends_at_its_timeout(platform, timeline, slept):
    moment = timeline.next(1.0)
    with pytest.raises(TimeoutError, match="nothing has happened for 2 seconds"):
        timeline.wait(moment, 2.0)
    assert sum(slept) == 2 * 10**9


def test_a_wait_goes_on_as_long_as_something_before_happens(platform, memory):
    """Three pieces of work of 1.5 seconds each, and a fourth that hangs."""
    moments, started = [], platform.time

    def sleep(nanoseconds):
        platform.time += min(nanoseconds, 10**8)
        for number, moment in enumerate(moments[:3]):
            if platform.time - started >= (number + 1) * 1.5e9:
                happen(platform, timeline, moment)

    timeline = Timeline(platform, LAYOUT, memory, 8 * COUNT, sleep)
    moments += [timeline.next(1.0) for _ in range(4)]
    timeline.wait(moments[2], 2.0)
    assert 4.5e9 <= platform.time - started < 4.7e9
    with pytest.raises(TimeoutError, match="nothing has happened for 2 seconds"):
        timeline.wait(moments[3], 2.0)
    assert 6.5e9 <= platform.time - started < 6.7e9


def test_a_slot_is_used_again_when_half_of_all_have_passed(platform, timeline):
    moments = [timeline.next(1.0) for _ in range(COUNT // 2)]
    with pytest.raises(TimeoutError):
        timeline.next(1.0)
    happen(platform, timeline, moments[0])
    later = [timeline.next(1.0)]
    for moment in moments:
        happen(platform, timeline, moment)
    later += [timeline.next(1.0) for _ in range(3)]
    assert [moment.address for moment in later] == [
        moments[0].address + (COUNT // 2 + i) * LAYOUT.nbytes for i in range(4)
    ]


def test_times_are_those_in_the_slot(platform, timeline):
    moment = timeline.next(1.0)
    platform.store64(timeline.start_of(moment), 5)
    platform.store64(timeline.end_of(moment), 9)
    assert timeline.times(moment) == (5, 9)


def test_a_ring_goes_around_and_counts_on(platform, timeline, memory):
    ring_at, pointer, doorbell = memory + PAGE, memory + PAGE + 1024, memory + PAGE + 1032
    ring = Ring(platform, timeline, ring_at, 64, doorbell=doorbell, write_pointer=pointer, unit=4)
    for turn in range(4):
        ring.make_room(6, 1.0)
        ring.put(array("I", range(6 * turn, 6 * turn + 6)))
        moment = timeline.next(1.0)
        ring.submit(moment)
        happen(platform, timeline, moment)
    assert platform.load64(doorbell) == platform.load64(pointer) == 24
    words = [platform.load32(ring_at + 4 * place) for place in range(16)]
    assert words == [*range(16, 24), *range(8, 16)]


def test_a_full_ring_waits_for_the_moment_that_frees_it(platform, timeline, memory):
    ring = Ring(
        platform, timeline, memory + PAGE, 64, doorbell=memory + PAGE + 1024,
        write_pointer=memory + PAGE + 1032, unit=4,
    )  # fmt: skip
    ring.make_room(10, 1.0)
    ring.put(array("I", range(10)))
    moment = timeline.next(1.0)
    ring.submit(moment)
    ring.make_room(6, 1.0)
    with pytest.raises(TimeoutError):
        ring.make_room(7, 1.0)


def test_a_wait_for_room_that_is_interrupted_is_made_up_for(platform, memory):
    def sleep(nanoseconds):
        if not interrupts:
            raise TimeoutError
        raise interrupts.pop()

    interrupts = [KeyboardInterrupt()]
    timeline = Timeline(platform, LAYOUT, memory, COUNT, sleep)
    room, moment = Room(timeline, 100), timeline.next(1.0)
    room.take(90, 1.0)
    room.used_until(moment)
    for error in (KeyboardInterrupt, TimeoutError):
        with pytest.raises(error):
            room.make(20, 1.0)
    happen(platform, timeline, moment)
    room.make(20, 1.0)


def test_room_in_one_piece_does_not_go_around_the_end(platform, timeline):
    room = Room(timeline, 100)
    assert [room.take(40, 1.0), room.take(40, 1.0)] == [0, 40]
    moment = timeline.next(1.0)
    room.used_until(moment)
    happen(platform, timeline, moment)
    assert room.take(40, 1.0) == 0
    with pytest.raises(IndexError):
        room.take(90, 1.0)  # more than is ever free: nothing can be waited for
