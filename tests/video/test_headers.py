"""What frames of NVDEC say of themselves is told of the right picture, by its timestamp."""

from treadle.video.annexb import iter_units
from treadle.video.decode import _Headers
from treadle.video.timestamps import Timestamps

from .streams import SLICED

OTHERS = [b"\x02\x09\x80\x00", b"\x14\x01\x80\x00"]  # first slices of layer 1, and of type 10


def test_pictures_of_other_layers_and_reserved_types_shift_nothing():
    mixed = []
    for unit in iter_units(SLICED):
        mixed += [unit, *(unit._replace(data=data) for data in OTHERS if unit.data[0] < 64)]
    stamps, headers, of_base = Timestamps(), _Headers(), []
    for unit in mixed:
        before = stamps.used
        stamp = stamps.stamp(unit.data)
        begins = stamp if stamps.used > before else None
        if begins is not None and unit.data not in OTHERS:
            of_base.append(stamp)
        headers.take(unit, begins)
    headers.take(None, None)
    assert headers.error is None
    found = [headers.of(stamp) for stamp in of_base]
    assert [unit and unit.poc for unit in found] == [0, 2, 1]
