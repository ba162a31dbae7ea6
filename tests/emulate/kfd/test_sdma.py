"""SDMA on emulated GPUs: what a copy queue does, and what it refuses."""

import pytest

from .conftest import Process
from .queues import PAGE, SDMA, RawQueue, halves


@pytest.fixture(params=["gfx90a", "gfx1030", "gfx1100"])
def process(request):
    process = Process(request.param)
    process.acquire()
    return process


@pytest.fixture
def queue(process):
    return RawQueue(process, SDMA)


@pytest.fixture
def at(process):
    return process.mapped(PAGE)


def fence(address, value):
    return [5, *halves(address), value]


def copy(target, source, nbytes):
    return [1, nbytes - 1, 0, *halves(source), *halves(target)]


def test_bytes_are_copied_before_a_fence_is_written(process, queue, at):
    process.gpu.space.write(at, b"hello")
    queue.run(*copy(at + 100, at, 5), *fence(at + 512, 7))
    assert process.gpu.space.read(at + 100, 6) == b"hello\0"
    assert process.platform.load64(at + 512) == 7


def test_words_are_written_and_memory_is_filled(process, queue, at):
    queue.run(
        2, *halves(at), 2, 10, 11, 12,  # three words
        11 | 2 << 30, *halves(at + 64), 0x01020304, 16 - 4,  # sixteen bytes, by words
        11, *halves(at + 128), 0xAB, 3 - 1,  # three bytes
        *fence(at + 512, 1),
    )  # fmt: skip
    load = process.platform.load32
    assert [load(at + 4 * i) for i in range(4)] == [10, 11, 12, 0]
    assert [load(at + 64 + 4 * i) for i in range(5)] == [0x01020304] * 4 + [0]
    assert load(at + 128) == 0x00ABABAB


def test_rows_of_a_rectangle_are_copied(process, queue, at):
    process.gpu.space.write(at, bytes(range(100)))
    element, last = 1 << 29, 2 - 1  # of two bytes; sizes are one less than they mean
    queue.run(
        1 | 4 << 8 | element, *halves(at), 1 | 1 << 16, (10 - 1) << 13, 0,
        *halves(at + 512), 0, (4 - 1) << 13, 0, (3 - 1) | last << 16, 0, *fence(at + 1024, 1),
    )  # fmt: skip
    assert process.gpu.space.read(at + 512, 6) == bytes(range(22, 28))
    assert process.gpu.space.read(at + 520, 6) == bytes(range(42, 48))
    assert process.gpu.space.read(at + 526, 2) == bytes(2)


def test_caches_are_written_back_by_a_packet(process, queue, at):
    if process.gpu.chip.sdma == "4.4":
        pytest.skip("SDMA 4.4 has no such packet")
    queue.run(17 | 1 << 8, 0, 0, 0, 0, *fence(at + 512, 1))
    assert process.platform.load32(at + 512) == 1


def test_a_poll_waits_for_memory(process, queue, at):
    queue.run(8 | 3 << 28 | 1 << 31, *halves(at), 5, 0xFF, 0, *fence(at + 512, 1))
    assert process.platform.load32(at + 512) == 0
    process.platform.store32(at, 0x105)
    process.platform.scheduler.settle()
    assert process.platform.load32(at + 512) == 1


def test_numbers_are_added_and_times_written(process, queue, at):
    process.platform.store64(at, 5)
    queue.run(
        10 | 0x2F << 25, *halves(at), *halves((1 << 64) - 1), 0, 0, 0,
        13 | 2 << 8, *halves(at + 64), *fence(at + 512, 1),
    )  # fmt: skip
    assert process.platform.load64(at) == 4
    assert process.platform.load64(at + 64) > 0


def test_an_indirect_buffer_is_run_and_the_ring_goes_on(process, queue, at):
    for place, word in enumerate([0, *fence(at + 512, 3)]):
        process.platform.store32(at + 4 * place, word)
    queue.run(4, *halves(at), 5, 0, 0, *fence(at + 516, 4))
    assert process.platform.load64(at + 512) == 4 << 32 | 3


def test_no_operation_may_have_words_behind_it(process, queue, at):
    queue.run(2 << 16, 0xDEAD, 0xBEEF, *fence(at, 1))
    assert process.platform.load32(at) == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([99], "opcode 0x63.0x0 is not emulated"),
        ([1 | 7 << 8], "opcode 0x1.0x7"),
        ([8 | 3 << 28, 0, 0, 0, 0, 0], "polls of registers"),
        ([10 | 5 << 25, 0, 0, 0, 0, 0, 0, 0], "the SDMA atomic 0x5"),
        ([5, 0x3000, 0, 1], "unmapped address 0x3000"),
    ],
)
def test_what_is_not_known_stops_the_queue_and_is_told(process, queue, words, told):
    queue.run(*words)
    assert process.gpu.is_halted
    assert told in process.platform.failure


def test_a_copy_to_memory_that_is_not_the_gpus_is_a_fault(process, queue, at):
    queue.run(*copy(at + PAGE - 4, at, 8), *fence(at, 1))
    assert process.platform.failure == f"unmapped address {at + PAGE:#x}"


def test_a_pointer_that_is_no_multiple_of_a_word_is_refused(process, queue):
    process.platform.store64(queue._doorbell, 6)
    assert process.gpu.is_halted
