"""The order of accesses to an emulated machine's memory: what is known to come after what."""

import re

import numpy as np
import pytest

from treadle.emulate.machine.faults import OrderFault
from treadle.emulate.machine.knowledge import Knowledge, stamp
from treadle.emulate.machine.memory import AddressSpace, MemoryObject, Permission
from treadle.emulate.machine.ordering import Ordering

BASE, PAGE = 0x10000, 4096
SIGNAL = BASE + 1024


class Two:
    """Two streams, and memory that both have. `write` and `read` do a work of one of them."""

    def __init__(self, sees_host=True, has_caches=False):
        self.ordering = Ordering(sees_host)
        self.space, self.memory = AddressSpace(self.ordering), MemoryObject(PAGE)
        self.space.map(BASE, PAGE, self.memory, Permission.READ | Permission.WRITE)
        self.streams = [self.ordering.stream(name, has_caches) for name in ("left", "right")]
        self.counts = [0, 0]

    def do(self, which, run, known=None):
        stream, number = self.streams[which], self.counts[which]
        self.counts[which] += 1
        known = stream.before() if known is None else known
        with self.ordering.doing(stream.work(number, known, f"does {number}")):
            run()

    def write(self, which, at=0, nbytes=4):
        self.do(which, lambda: self.space.write(BASE + at, bytes(nbytes)))

    def read(self, which, at=0, nbytes=4):
        self.do(which, lambda: self.space.read(BASE + at, nbytes))

    def change(self, which):
        """An atomic access to the first word."""
        words = slice(0, 1)
        self.do(which, lambda: self.ordering.writes(self.memory, words, BASE, is_atomic=True))

    def signal(self, which):
        """A signal that says that all the stream's work has ended."""
        known = self.streams[which].after_all(self.counts[which])
        data = b"\1\0\0\0"
        self.do(which, lambda: self.space.signal(SIGNAL, data), known)

    def wait(self, which):
        self.streams[which].hear(self.space.heard_at(SIGNAL))


@pytest.fixture
def two():
    return Two()


def fault(action, *told):
    """The action is a fault that says these things in turn."""
    with pytest.raises(OrderFault, match=".*".join(map(re.escape, told))):
        action()


def test_knowledge_covers_the_first_works_of_streams_and_single_ones():
    known = Knowledge().with_first(2, 3).with_one(stamp(2, 5))
    assert [known.covers(stamp(2, n)) for n in range(7)] == [True] * 3 + [False] * 2 + [True, False]
    assert not known.covers(stamp(3, 0))
    assert known.with_first(2, 6).covers(stamp(2, 5))
    both = known.joined(Knowledge().with_first(3, 1))
    assert both.covers(stamp(3, 0))
    assert both.covers(stamp(2, 5))
    assert known.joined(Knowledge().with_first(2, 1)) is known


def test_the_next_single_work_is_one_of_the_first():
    known = Knowledge().with_first(1, 4).with_one(stamp(1, 4))
    assert known.covers(stamp(1, 4))
    assert not known.covers(stamp(1, 5))


def test_a_read_of_what_another_stream_wrote_is_a_fault_that_names_both(two):
    two.write(0, 16)
    fault(
        lambda: two.read(1, 8, 16),
        "right, which does 0, reads 0x10010", "left, which does 0, wrote it",
        "nothing says that this has ended",
    )  # fmt: skip


def test_so_is_a_write_of_what_another_wrote_or_read(two):
    two.write(0)
    fault(lambda: two.write(1), "right, which does 0, writes 0x10000", "wrote it")
    two.read(0, 64)
    fault(lambda: two.write(1, 64), "writes 0x10040", "left, which does 1, read it")


def test_readers_need_no_order_and_other_words_neither(two):
    two.read(0)
    two.read(1)
    two.write(0, 4)
    two.write(1, 8)
    assert not two.ordering.faults


def test_a_write_has_to_come_after_all_readers_and_not_only_the_last(two):
    two.read(0)
    two.signal(0)
    two.read(1)
    third = two.ordering.stream("third")
    third.hear(two.streams[1].after_all(two.counts[1]))
    with two.ordering.doing(third.work(0, third.before())):
        fault(lambda: two.space.write(BASE, b"1"), "third, writes", "left, which does 0, read it")


def test_words_with_different_readers_are_told_apart(two):
    two.read(0, 0, 64)
    two.read(1, 32, 64)
    two.signal(0)
    two.wait(1)
    fault(lambda: two.write(1, 0, 128), "writes 0x10020", "right, which does 0, read it")
    two.streams[1].barrier(two.counts[1])
    two.write(1, 0, 128)
    fault(lambda: two.read(0, 96), "left", "right, which does 2, wrote it")


def test_a_signal_orders_what_was_before_it_and_nothing_behind(two):
    two.write(0)
    two.signal(0)
    two.write(0, 4)
    two.wait(1)
    two.read(1)
    fault(lambda: two.read(1, 4), "reads 0x10004", "left, which does 2, wrote it")


def test_what_was_heard_is_passed_on(two):
    two.write(0)
    two.signal(0)
    two.wait(1)
    two.signal(1)
    third = two.ordering.stream("third")
    third.hear(two.space.heard_at(SIGNAL))
    with two.ordering.doing(third.work(0, third.before())):
        two.space.read(BASE, 4)
    assert not two.ordering.faults


def test_works_of_one_stream_are_ordered_by_its_barrier_alone(two):
    two.write(0)
    fault(lambda: two.read(0), "left, which does 1, reads", "left, which does 0, wrote it")
    two.streams[0].barrier(two.counts[0])
    two.read(0)


def test_a_work_may_access_its_own_words_again(two):
    def both():
        two.space.write(BASE, b"1234")
        two.space.read(BASE, 4)
        two.space.write(BASE, b"5678")

    two.do(0, both)
    assert not two.ordering.faults


def test_reads_through_caches_need_an_acquire_behind_what_was_heard():
    two = Two(has_caches=True)
    two.write(0)
    two.signal(0)
    two.streams[1].acquire()
    two.wait(1)
    fault(lambda: two.read(1), "left, which does 0, wrote it", "no cache was invalidated since")
    two.write(1, 64)  # writes go past the caches
    two.streams[1].acquire()
    two.read(1)


def test_atomic_accesses_need_no_order_among_themselves(two):
    two.change(0)
    two.change(1)
    two.change(0)
    fault(lambda: two.read(1), "right", "left, which does", "wrote it")
    two.signal(0)
    two.wait(1)
    two.streams[1].barrier(two.counts[1])
    two.read(1)
    fault(lambda: two.change(0), "left", "writes 0x10000", "right, which does 2, read it")


def test_what_a_stream_that_is_over_did_is_no_fault(two):
    two.write(0)
    two.streams[0].is_over = True
    two.read(1)
    assert not two.ordering.faults


def test_arrays_of_words_are_as_good_as_ranges(two):
    words = np.array([1, 5, 9])
    two.do(0, lambda: two.ordering.writes(two.memory, words, BASE))
    two.read(1, 0)
    fault(lambda: two.read(1, 16, 8), "reads 0x10014")


def test_the_host_reads_what_it_has_heard_of(two):
    two.write(0)
    two.signal(0)
    read = lambda: two.ordering.host_reads(two.memory, 0, 4, BASE)
    fault(read, "the host, reads 0x10000", "left, which does 0, wrote it")
    two.ordering.host_loads(two.memory, SIGNAL - BASE)
    read()


def test_a_doorbell_tells_what_the_host_has_written_by_then(two):
    two.ordering.host_writes(two.memory, 0, 4, BASE)
    two.streams[0].hear(two.ordering.submitted())
    two.ordering.host_writes(two.memory, 4, 4, BASE)
    two.read(0)
    fault(lambda: two.read(0, 4), "left, which does 1, reads 0x10004", "the host, wrote it")


def test_the_host_may_not_write_what_is_still_read(two):
    two.ordering.host_writes(two.memory, 0, 4, BASE)
    two.streams[0].hear(two.ordering.submitted())
    two.read(0)
    write = lambda: two.ordering.host_writes(two.memory, 0, 4, BASE)
    fault(write, "the host, writes 0x10000", "left, which does 0, read it")


def test_what_the_host_stores_is_a_signal(two):
    two.ordering.host_writes(two.memory, 0, 4, BASE)
    two.ordering.host_stores(two.memory, SIGNAL - BASE)
    two.wait(0)
    two.read(0)
    assert not two.ordering.faults


def test_where_nobody_tells_of_the_host_all_that_was_signalled_is_known_at_a_doorbell():
    two = Two(sees_host=False)
    two.write(0)
    fault(lambda: two.read(1), "right")
    two.signal(0)
    two.streams[1].hear(two.ordering.submitted())
    two.read(1)


def test_names_of_works_long_ago_are_forgotten(two):
    two.write(0, 4)
    for _ in range(1 << 12):
        two.read(0)
    fault(lambda: two.read(1, 4), "left, which did something long ago, wrote it")


def test_memory_that_nobody_holds_leaves_nothing(two):
    other = MemoryObject(PAGE)
    two.space.map(BASE + PAGE, PAGE, other, Permission.READ | Permission.WRITE)
    two.write(0, PAGE)
    two.space.unmap(BASE + PAGE)
    del other
    two.space.map(BASE + PAGE, PAGE, MemoryObject(PAGE), Permission.READ | Permission.WRITE)
    two.read(1, PAGE)
    assert not two.ordering.faults
