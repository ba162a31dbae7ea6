"""Pictures take timestamps at their first slice, the user's first, then a counter's."""

import numpy as np
import pytest

from treadle.video.annexb import iter_annexb_nalus
from treadle.video.timestamps import Timestamps

from .streams import SLICED

VPS, SEI = b"\x40\x01\x0c", b"\x4e\x01\x80"
FIRST, FURTHER = b"\x26\x01\xac", b"\x26\x01\x2c"


def stamped(units, user=None):
    stamps = Timestamps(user)
    return [stamps.stamp(unit) for unit in units], stamps.used


def test_units_before_a_picture_carry_its_timestamp_and_its_slices_share_it():
    units = [VPS, SEI, FIRST, FURTHER, SEI, FIRST, FURTHER]
    assert stamped(units) == ([0, 0, 0, 0, 1, 1, 1], 2)
    assert stamped(units, [100, 200]) == ([100, 100, 100, 100, 200, 200, 200], 2)


def test_a_counter_goes_on_where_the_users_timestamps_end():
    assert stamped([FIRST] * 4, iter([100, 200])) == ([100, 200, 2, 3], 4)
    assert stamped([FIRST] * 2, []) == ([0, 1], 2)


def test_a_first_slice_begins_a_picture_without_anything_between():
    assert stamped([FIRST, FIRST, FURTHER]) == ([0, 1, 1], 2)


def test_a_picture_without_its_first_slice_takes_a_timestamp_too():
    assert stamped([VPS, FURTHER, FURTHER, SEI, FURTHER]) == ([0, 0, 0, 1, 1], 2)


@pytest.mark.parametrize(
    "odd", [b"", b"\x40", b"\x26\x01", b"\xa6\x01\xac", b"\xc0\x01\x0c", b"\x26\x00\xac"]
)
def test_units_that_are_too_short_or_not_sound_change_nothing(odd):
    assert stamped([odd, FIRST, odd, FURTHER, odd]) == ([0, 0, 0, 0, 0], 1)


def test_timestamps_may_be_an_array():
    assert stamped([FIRST] * 3, np.array([7, 8])) == ([7, 8, 2], 3)


def test_timestamps_are_taken_from_the_user_no_earlier_than_needed():
    asked = []

    def user():
        for value in (5, 6, 7):
            asked.append(value)
            yield value

    stamps = Timestamps(user())
    assert [stamps.stamp(unit) for unit in (VPS, FIRST, FURTHER)] == [5, 5, 5]
    assert asked == [5]


def test_a_real_stream_takes_one_timestamp_a_picture():
    assert stamped(iter_annexb_nalus(SLICED), "abc") == (list("aaaaabbcc"), 3)
