"""AQL on an emulated GPU: kernels, barriers, completion signals."""

import struct

import pytest

from .conftest import Process
from .queues import (
    AQL,
    PAGE,
    RawQueue,
    aql_barrier,
    aql_dispatch,
    aql_words,
    halves,
    packet3,
)

BARRIER, RELEASE, ACQUIRE = 1 << 8, 2 << 11, 2 << 9


class Bench:
    """A process with a queue, some signals, and a kernel's descriptor."""

    def __init__(self, arch="gfx942", seed=0):
        self.seen = []
        self.process = Process(arch, seed, self.seen.append)
        self.process.acquire()
        self.platform, self.gpu = self.process.platform, self.process.gpu
        self.queue = RawQueue(self.process, AQL)
        self.memory = self.process.mapped(PAGE)
        self.kernel = self.memory + 1024

    def signal(self, number, value=1):
        at = self.memory + 64 * number
        self.platform.store64(at + 8, value)
        return at

    def value(self, signal):
        return self.platform.load64(signal + 8)

    def describe(self, properties=1 << 3, rsrc2=2 << 1, group=0, private=0, preload=0):
        block = struct.pack(
            "<IIIIq20sIIIHHI", group, private, 0, 0, 256, bytes(20), 33, 11, rsrc2, properties,
            preload, 0,
        )  # fmt: skip
        self.gpu.space.write(self.kernel, block)
        return self.kernel

    def settle(self):
        self.platform.scheduler.settle()

    @property
    def why(self):
        assert self.gpu.is_halted
        return self.platform.failure


@pytest.fixture
def bench():
    return Bench()


def test_a_dispatch_has_what_packet_and_descriptor_say(bench):
    kernel, signal = bench.describe(), bench.signal(0)
    bench.queue.run(*aql_dispatch(kernel, 0x1_0000_2000, signal, items=100, size=64))
    (one,) = bench.seen
    assert (one.program, one.rsrc1, one.rsrc2, one.rsrc3) == (kernel + 256, 11, 4, 33)
    assert (one.workgroup, one.work_items, one.workgroups) == ((64, 1, 1), (100, 1, 1), (2, 1, 1))
    assert (one.user_sgprs, one.wave) == ((0x2000, 1), 64)
    assert bench.value(signal) == 0


def test_scalar_registers_come_in_the_order_of_the_descriptors_bits(bench):
    bench.platform.store32(bench.queue.pointers + 0x90, 77)
    kernel = bench.describe(0b1111111 | 1 << 10)
    bench.queue.run(*aql_dispatch(kernel, 0x5000, bench.signal(0)))
    words = bench.seen[0].user_sgprs
    assert words[0] == 77
    assert words[4] | words[5] << 32 == bench.queue.ring
    assert words[6] | words[7] << 32 == bench.queue.pointers
    assert words[8:10] == (0x5000, 0)
    assert len(words) == 15
    assert bench.seen[0].wave == 32


def test_arguments_are_preloaded_where_the_chip_can():
    for arch, count in (("gfx942", 5), ("gfx1100", 2)):
        bench = Bench(arch)
        for word in range(8):
            bench.platform.store32(bench.memory + 512 + 4 * word, 100 + word)
        kernel = bench.describe(preload=3 | 2 << 7)
        bench.queue.run(*aql_dispatch(kernel, bench.memory + 512, bench.signal(0)))
        assert len(bench.seen[0].user_sgprs) == count
        assert bench.seen[0].user_sgprs[2:] == (102, 103, 104)[: count - 2]


def test_scratch_is_what_the_queue_has(bench):
    bench.platform.store32(bench.queue.pointers + 0x8C, 8 | 3 << 12)
    bench.platform.store64(bench.queue.pointers + 0xA0, 0x7000_0000)
    kernel = bench.describe(rsrc2=2 << 1 | 1)
    bench.queue.run(*aql_dispatch(kernel, 0, bench.signal(0)))
    assert (bench.seen[0].scratch, bench.seen[0].scratch_wave) == (0x7000_0000, 3 * 1024)


def test_a_queue_without_scratch_refuses_kernels_that_need_some(bench):
    bench.queue.run(*aql_dispatch(bench.describe(rsrc2=2 << 1 | 1), 0, bench.signal(0)))
    assert "its queue has none" in bench.why


def test_too_little_memory_in_a_packet_is_a_fault(bench):
    bench.queue.run(*aql_dispatch(bench.describe(group=64), 0, bench.signal(0)))
    assert "has less memory than its kernel asks for" in bench.why


def test_commands_of_pm4_are_done_from_an_indirect_buffer(bench):
    write = packet3(0x37, 5 << 8, *halves(bench.memory + 512), 99)
    bench.gpu.space.write(bench.memory + 2048, struct.pack(f"<{len(write)}I", *write))
    jump = packet3(0x3F, *halves(bench.memory + 2048), len(write) | 1 << 23)
    signal = bench.signal(0)
    bench.queue.run(*aql_words(struct.pack("<HH4II32xQ", 0, 1, *jump, 10, signal)))
    assert bench.platform.load32(bench.memory + 512) == 99
    assert bench.value(signal) == 0


@pytest.mark.parametrize(
    ("condition", "before", "met"), [(0, 4, 5), (1, 5, 4), (2, 5, -1), (3, 4, 13)]
)
def test_a_barrier_waits_for_a_value_of_a_signal(bench, condition, before, met):
    waited, signal = bench.signal(0, before), bench.signal(1)
    packet = struct.pack("<HHIQqqI20xQ", 0, 2, 0, waited, 5, -1, condition, signal)
    bench.queue.run(*aql_words(packet))
    assert bench.value(signal) == 1
    bench.platform.store64(waited + 8, met & (1 << 64) - 1)
    bench.settle()
    assert bench.value(signal) == 0


@pytest.mark.parametrize(("header", "told"), [(4, "type 4"), (0, "format 0"), (9, "type 9")])
def test_what_is_not_known_is_a_fault(bench, header, told):
    bench.queue.run(*aql_words(struct.pack("<H62x", header)))
    assert told in bench.why


def test_a_dispatch_of_nothing_is_a_fault(bench):
    bench.queue.run(*aql_dispatch(bench.describe(), items=0))
    assert "an AQL dispatch of (0, 1, 1)" in bench.why


def test_an_invalid_packet_is_waited_for_and_a_done_one_is_invalid(bench):
    kernel, signal = bench.describe(), bench.signal(0)
    words = aql_dispatch(kernel, 0, signal)
    bench.queue.run(words[0] & 0xFFFF0000 | 1, *words[1:])
    assert (bench.seen, bench.value(signal)) == ([], 1)
    bench.platform.store32(bench.queue.ring, words[0])
    bench.settle()
    assert bench.value(signal) == 0
    assert bench.platform.load32(bench.queue.ring) & 0xFF == 1
    assert bench.platform.load64(bench.queue.pointers + 0x80) == 1


def test_packets_behind_the_write_index_are_not_read(bench):
    kernel, signal = bench.describe(), bench.signal(0)
    bench.queue.put(*aql_dispatch(kernel, 0, signal))
    bench.platform.store64(bench.queue.pointers + 0x38, 0)
    bench.settle()
    assert bench.value(signal) in (0, 1)
    fresh = Bench()
    fresh.platform.scheduler.is_paused = True
    fresh.queue.put(*aql_dispatch(fresh.describe(), 0, fresh.signal(0)))
    fresh.platform.store64(fresh.queue.pointers + 0x38, 0)
    fresh.platform.scheduler.is_paused = False
    fresh.settle()
    assert fresh.seen == []


def test_a_barrier_and_waits_for_all_and_an_or_for_any(bench):
    first, second = bench.signal(0), bench.signal(1)
    both, either = bench.signal(2), bench.signal(3)
    bench.queue.run(*aql_barrier(first, second, completion=either, any_of=True))
    bench.queue.run(*aql_barrier(first, second, completion=both))
    assert (bench.value(both), bench.value(either)) == (1, 1)
    bench.signal(1, 0)
    bench.settle()
    assert (bench.value(both), bench.value(either)) == (1, 0)
    bench.signal(0, 0)
    bench.settle()
    assert bench.value(both) == 0


def test_a_signal_is_counted_down_and_has_times_where_the_queue_profiles(bench):
    bench.platform.store32(bench.queue.pointers + 0xB4, 1 << 3)
    signal = bench.signal(0, 5)
    bench.queue.run(*aql_dispatch(bench.describe(), 0, signal))
    start, end = (bench.platform.load64(signal + at) for at in (32, 40))
    assert bench.value(signal) == 4
    assert 0 < start <= end


def overlap(seed, header, other_header=None):
    """Which kernels have run when the second one's signal is there."""
    bench, log = Bench(seed=seed), []
    bench.gpu.execute = lambda one: log.append(one.user_sgprs[0])
    kernel, signal = bench.describe(), bench.signal(0)
    bench.queue.put(
        *aql_dispatch(kernel, 1, 0, header=other_header or header),
        *aql_dispatch(kernel, 2, signal, header=header),
    )
    while bench.value(signal):
        bench.platform.pause()
    return tuple(log)


def test_packets_without_the_barrier_bit_run_beside_each_other():
    found = {overlap(seed, 2 | ACQUIRE | RELEASE) for seed in range(80)}
    assert found == {(1, 2), (2, 1), (2,)}


def test_packets_with_the_barrier_bit_run_in_order():
    assert {overlap(seed, 2 | BARRIER | ACQUIRE | RELEASE) for seed in range(80)} == {(1, 2)}


def test_a_packet_without_a_release_tells_nothing_of_its_writes():
    found = {overlap(seed, 2 | BARRIER | ACQUIRE) for seed in range(80)}
    assert () in found
