"""Accesses that nothing orders: of two contexts, of kernels, of packets and of the host.

Each is a fault that names both, whatever the engines happen to do in time.
"""

import re

import pytest
from tests.emulate.kgsl.rig import (
    DESTROY,
    EVENT_WRITE,
    EXEC_CS,
    EXEC_INDIRECT,
    MEM_TO_MEM,
    MEM_WRITE,
    WAIT_FOR_IDLE,
    WAIT_REG_MEM,
    Rig,
    constants,
    constants_at,
    halves,
    packet,
    setup,
    signal,
)

from treadle.emulate.kgsl import Injection
from treadle.errors import DeviceError

SEEDS = range(8)
FIRST, DONE = 0, 64  # bytes of the shared memory: data, and a signal
INVALIDATE = packet(EVENT_WRITE, 49)  # CACHE_INVALIDATE
RB_DONE = 22


class Machine:
    """A computer whose kernels read or write one word: c0 says which, and c1 where."""

    def __init__(self, seed):
        self.rig = Rig(self.execute, seed)
        self.program, self.memory = self.rig.memory(), self.rig.memory()
        self.memory.put(bytes(256))
        self.read = []

    def execute(self, dispatch):
        does_write, low, high, value = dispatch.constants[:4]
        address = low | high << 32
        if does_write:
            dispatch.space.write32(address, value)
        else:
            self.read.append(dispatch.space.read32(address))

    def at(self, offset):
        return self.memory.address + offset

    def kernel(self, does_write, offset=FIRST, value=0):
        words = constants([does_write, *halves(self.at(offset)), value])
        return [*setup(self.program.address), *words, *packet(EXEC_CS, 0, 1, 1, 1)]

    def wait(self):
        return packet(WAIT_REG_MEM, 3 | 1 << 4, *halves(self.at(DONE)), 1, 0xFFFFFFFF, 16)

    def run(self, *lists):
        """Each list of packets in a context of its own; waits for all, and tells of a fault."""
        contexts = [self.rig.context() for _ in lists]
        stamps = [
            self.rig.submit(context, [word for part in words for word in part])
            for context, words in zip(contexts, lists, strict=True)
        ]
        try:
            for pair in zip(contexts, stamps, strict=True):
                self.rig.wait(*pair)
        except OSError:
            return self.rig.platform.explain()
        return "right"


@pytest.fixture(params=SEEDS)
def machine(request):
    return Machine(request.param)


def unordered(told, first=r"context \d, which runs the code at 0x\w+", second=None):
    """Whether a fault names both, of which nothing orders the accesses."""
    pattern = (
        rf"{first}, (reads|writes) 0x\w+; {second or first}, (read|wrote) it, and nothing says "
        "that this has ended"
    )
    return re.fullmatch(pattern, told)


def test_a_context_that_waits_for_another_reads_what_it_wrote(machine):
    told = machine.run(
        [machine.kernel(1, value=7), signal(machine.at(DONE), 1)],
        [machine.wait(), INVALIDATE, machine.kernel(0)],
    )
    assert told == "right"
    assert machine.read == [7]


@pytest.mark.parametrize("kind", ["wait", "flush"])
def test_what_two_contexts_do_without_a_signal_that_covers_it_is_a_fault(machine, kind):
    machine.rig.driver.inject(Injection(kind))
    told = machine.run(
        [machine.kernel(1, value=7), signal(machine.at(DONE), 1)],
        [machine.wait(), INVALIDATE, machine.kernel(0)],
    )
    assert unordered(told), told


def test_an_event_that_flushes_no_cache_tells_nothing_of_what_was_written(machine):
    told = machine.run(
        [machine.kernel(1), signal(machine.at(DONE), 1, event=RB_DONE)],
        [machine.wait(), INVALIDATE, machine.kernel(0)],
    )
    assert unordered(told), told


@pytest.mark.parametrize("is_dropped", [False, True])
def test_a_cache_that_is_not_invalidated_since_the_signal_is_a_fault(machine, is_dropped):
    before, behind = (INVALIDATE, []) if not is_dropped else ([], INVALIDATE)
    if is_dropped:
        machine.rig.driver.inject(Injection("invalidate"))
    told = machine.run(
        [machine.kernel(1), signal(machine.at(DONE), 1)],
        [before, machine.wait(), behind, machine.kernel(0)],
    )
    assert "no cache was invalidated since" in told


def test_kernels_of_a_context_see_what_others_of_it_wrote_when_they_have_ended(machine):
    write, read = machine.kernel(1, value=3), machine.kernel(0)
    assert machine.run([write, packet(WAIT_FOR_IDLE), read]) == "right"
    assert machine.read == [3]
    told = machine.run([INVALIDATE, machine.kernel(1), read])
    assert unordered(told), told


def test_an_event_is_no_wait(machine):
    told = machine.run([machine.kernel(1), INVALIDATE, machine.kernel(1)])
    assert unordered(told), told


def test_the_next_submission_of_a_context_has_to_wait_too(machine):
    rig, context = machine.rig, machine.rig.context()
    rig.platform.scheduler.is_paused = True
    _, second = (rig.submit(context, machine.kernel(1)) for _ in range(2))
    rig.platform.scheduler.is_paused = False
    with pytest.raises(OSError, match="a fault has ended the context"):
        rig.wait(context, second)
    told = rig.platform.explain()
    assert unordered(told), told


def copy(machine):
    """A packet that copies the word to another."""
    return packet(MEM_TO_MEM, 0, *halves(machine.at(32)), *halves(machine.at(FIRST)))


def test_packets_read_what_kernels_wrote_when_it_was_flushed_and_waited_for(machine):
    flush, idle = signal(machine.at(DONE), 1), packet(WAIT_FOR_IDLE)
    assert machine.run([machine.kernel(1, value=9), flush, idle, copy(machine)]) == "right"
    assert machine.memory.words(1, 32) == [9]
    who = r"the command processor of context \d, which reads for a packet"
    kernel = r"context \d, which runs the code at 0x\w+"
    told = machine.run([machine.kernel(1), flush, copy(machine)])
    assert unordered(told, who, kernel), told
    told = machine.run([machine.kernel(1), idle, copy(machine)])
    assert "no cache was invalidated since" in told


def test_workgroups_are_counted_by_what_was_flushed(machine):
    counts = [word for n in range(3) for word in machine.kernel(1, 4 * n, 1)]
    indirect = packet(EXEC_INDIRECT, 0, *halves(machine.at(FIRST)), 0)
    flush, idle = signal(machine.at(DONE), 1), packet(WAIT_FOR_IDLE)
    state = [*setup(machine.program.address), *constants([1, *halves(machine.at(32)), 5])]
    assert machine.run([counts, flush, idle, state, indirect]) == "right"
    assert machine.memory.words(1, 32) == [5]
    assert "no cache was invalidated since" in machine.run([counts, idle, state, indirect])


def test_kernels_read_what_packets_wrote_when_caches_were_invalidated(machine):
    write = packet(MEM_WRITE, *halves(machine.at(FIRST)), 11)
    assert machine.run([write, INVALIDATE, machine.kernel(0)]) == "right"
    assert machine.read == [11]
    told = machine.run([write, machine.kernel(0)])
    assert re.search("the command processor of .*wrote it, and no cache was invalidated", told)


def test_constants_are_read_when_the_kernel_begins(machine):
    """What writes them meanwhile is a fault."""
    block = machine.rig.memory()
    block.put(b"".join(word.to_bytes(4, "little") for word in [0, *halves(machine.at(0)), 0]))
    load = [*setup(machine.program.address), *constants_at(block.address, 1)]
    write = packet(MEM_WRITE, *halves(block.address + 12), 1)
    told = machine.run([load, packet(EXEC_CS, 0, 1, 1, 1), write])
    assert re.search("nothing says that this has ended|no cache was invalidated", told), told


def test_a_call_that_waits_tells_the_host(machine):
    rig, context = machine.rig, machine.rig.context()
    stamp = rig.submit(context, machine.kernel(1))
    with pytest.raises(DeviceError, match=r"the host, reads 0x\w+; context 1, .*, wrote it"):
        rig.platform.will_read(machine.memory.host, 4)
    rig.wait(context, stamp)
    rig.platform.will_read(machine.memory.host, 4)
    rig.platform.will_write(machine.memory.host, 4)


def test_a_context_that_is_no_more_writes_nothing(machine):
    rig, context = machine.rig, machine.rig.context()
    rig.wait(context, rig.submit(context, machine.kernel(1)))
    rig.ioctl(DESTROY, bytearray(context.to_bytes(4, "little")))
    assert machine.run([machine.kernel(1)]) == "right"


@pytest.mark.parametrize("words", [packet(MEM_WRITE, 0x1001, 0, 5), packet(MEM_WRITE, 0x1000, 0)])
def test_a_packet_that_writes_no_whole_words_is_a_fault(machine, words):
    assert "a packet writes" in machine.run([words])


def test_an_event_that_writes_no_whole_word_is_a_fault(machine):
    assert "event CACHE_FLUSH_TS writes to" in machine.run([signal(machine.at(2), 1)])
