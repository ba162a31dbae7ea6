"""The NULL device accepts everything and does nothing."""

import pytest

from treadle.errors import DeviceError
from treadle.runtime.base import Entry
from treadle.runtime.null import NullDevice
from treadle.target import parse_target


@pytest.fixture
def null():
    return NullDevice("NULL", parse_target("aarch64"))


def test_buffers_count_bytes_but_have_no_contents(null):
    a, b = null.allocator.alloc(1 << 50), null.allocator.alloc(100)
    assert a.pointer != b.pointer
    assert null.allocator.stats.live == (1 << 50) + 100
    with pytest.raises(DeviceError, match="has no contents"):
        b.view()
    assert b.slice(10, 5).pointer == b.pointer + 10
    del a
    assert null.allocator.stats.live == 100
    assert null.allocator.stats.peak == (1 << 50) + 100
    assert null.allocator.trim() == 0


def test_launches_are_accepted_and_not_run(null):
    library = null.load(b"", [Entry("f", 1), Entry("g", 1)])
    assert len(library.phases) == 2
    calls = null.call_list([([], [], [])] * 3)
    calls.set_arg(0, 0, 1)
    calls.set_var(0, 0, 1)
    calls.run()
    assert calls.run_timed() == [(0, 0)] * 3
    null.run([])
    null.synchronize()
    assert null.target.arch == "aarch64"
