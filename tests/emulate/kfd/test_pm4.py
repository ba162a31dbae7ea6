"""PM4 on an emulated GPU: what a compute queue does, and what it refuses."""

import pytest

from .conftest import Process
from .queues import COMPUTE, PAGE, RawQueue, halves, packet3, set_registers

ACQUIRE = packet3(0x58, 0, 0xFFFFFFFF, 0xFF, 0, 0, 0, 1 << 7 | 1 << 8 | 1 << 9)
FLUSH = packet3(0x46, 7 | 4 << 8)


def release(address, value, writes_back=True, select=2, event=0):
    caches = 1 << 21 if writes_back else 0
    interrupts = 2 << 24 if event else 0
    how = select << 29 | interrupts
    return packet3(0x49, 0x14 | 5 << 8 | caches, how, *halves(address), *halves(value), event)


def wait_until(address, value, function=3):
    return packet3(0x3C, function | 1 << 4, *halves(address), value, 0xFFFFFFFF, 4)


def kernel(program, rsrc2=0, size=32, without=None):
    """Registers for a dispatch, all that it needs, or all but one group."""
    groups = {
        "PGM": set_registers(0x2E0C, program >> 8 & 0xFFFFFFFF, program >> 40),
        "RSRC": set_registers(0x2E12, 1, rsrc2),
        "RSRC3": set_registers(0x2E28, 3),
        "LIMITS": set_registers(0x2E15, 0),
        "NUM_THREAD": set_registers(0x2E07, size, 2, 1),
        "USER_DATA": set_registers(0x2E40, 11, 12),
    }
    return [word for name, words in groups.items() if name != without for word in words]


def dispatch(x, y=1, z=1, how=1 | 4):
    return packet3(0x15, x, y, z, how)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def process(seen):
    process = Process(execute=seen.append)
    process.acquire()
    return process


@pytest.fixture
def queue(process):
    return RawQueue(process, COMPUTE)


@pytest.fixture
def at(process):
    return process.mapped(PAGE)


def why(process):
    assert process.gpu.is_halted
    return process.platform.failure


def test_a_dispatch_has_what_the_registers_hold(queue, seen, at):
    words = [*ACQUIRE, *kernel(0x12_3456_7800, 2 << 1 | 4 << 15), *dispatch(3, 4, 5)]
    queue.run(*words, *release(at, 1))
    (one,) = seen
    assert one.program == 0x12_3456_7800
    assert (one.rsrc1, one.rsrc3, one.user_sgprs) == (1, 3, (11, 12))
    assert (one.workgroup, one.work_items, one.lds) == ((32, 2, 1), (96, 8, 5), 2048)
    assert one.wave == 64


def test_waves_and_partial_workgroups_are_read_from_the_initiator(queue, seen, at):
    words = [*ACQUIRE, *kernel(0x1000), *set_registers(0x2E07, 32 | 5 << 16, 1, 1)]
    queue.run(*words, *dispatch(3, how=1 | 2 | 4 | 1 << 15), *release(at, 1))
    assert (seen[0].work_items, seen[0].wave) == ((69, 1, 1), 32)
    queue.run(*ACQUIRE, *dispatch(40, how=1 | 4 | 1 << 5), *release(at, 1))
    assert seen[1].work_items == (40, 1, 1)


@pytest.mark.parametrize(
    ("without", "name"),
    [
        ("PGM", "COMPUTE_PGM_LO"), ("RSRC", "COMPUTE_PGM_RSRC2"), ("RSRC3", "COMPUTE_PGM_RSRC3"),
        ("LIMITS", "COMPUTE_RESOURCE_LIMITS"), ("NUM_THREAD", "COMPUTE_NUM_THREAD_X"),
        ("USER_DATA", "COMPUTE_USER_DATA_0"),
    ],
)  # fmt: skip
def test_a_register_that_nobody_wrote_is_a_fault(process, queue, without, name):
    queue.run(*ACQUIRE, *kernel(0x1000, 2 << 1, without=without), *dispatch(1))
    assert f"a dispatch needs {name}, which nobody has written" in why(process)


def test_a_kernel_with_scratch_needs_its_registers(process, queue, seen, at):
    scratch = [*set_registers(0x2E18, 8 | 3 << 12), *set_registers(0x2E10, 0x40, 1)]
    queue.run(*ACQUIRE, *kernel(0x1000, 1), *scratch, *dispatch(1), *release(at, 1))
    assert (seen[0].scratch, seen[0].scratch_wave) == ((1 << 32 | 0x40) << 8, 3 * 256)
    queue.run(*ACQUIRE, *set_registers(0x2E18, 0), *dispatch(1))
    assert "COMPUTE_TMPRING_SIZE has none" in why(process)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (packet3(0x2D, 0), "opcode 0x2d (draw_index_auto) is not emulated"),
        (packet3(0xFE, 0), "opcode 0xfe (None) is not emulated"),
        ([1 << 30], "no packets of type 1"),
        (packet3(0x46, 9), "event 0x9 of EVENT_WRITE"),
        (packet3(0x3C, 3, 0, 0, 0, 0, 0), "waits for registers"),
        (packet3(0x76, 0x3FF0, 1), "has no register"),
        (packet3(0x15, 1, 1, 1, 0), "COMPUTE_SHADER_EN is 0"),
        (packet3(0x3F, 0x1000, 0, 4), "not valid"),
    ],
)
def test_what_is_not_known_stops_the_queue_and_is_told(process, queue, words, told):
    queue.run(*words)
    assert told in why(process)


def test_a_dispatch_that_may_read_stale_caches_is_a_fault(process, queue, at):
    queue.run(*ACQUIRE, *wait_until(at, 0), *kernel(0x1000), *dispatch(1))
    assert "nothing was acquired" in why(process)


def test_caches_of_scalars_have_to_be_acquired_too(process, queue):
    only_vectors = [*ACQUIRE[:-1], 1 << 8]
    queue.run(*only_vectors, *kernel(0x1000), *dispatch(1))
    assert "nothing was acquired" in why(process)


def test_memory_that_is_not_the_gpus_is_a_memory_fault(process, queue):
    queue.run(*packet3(0x37, 5 << 8, 0x5000, 0, 1))
    assert why(process) == "unmapped address 0x5000"


def test_data_are_written_and_copied(process, queue, at):
    queue.run(
        *packet3(0x37, 5 << 8 | 1 << 20, *halves(at), 1, 2, 3),
        *packet3(0x40, 1 | 5 << 8 | 1 << 16, *halves(at + 4), *halves(at + 64)),
        *packet3(0x40, 5 | 5 << 8, 77, 0, *halves(at + 80)),
        *packet3(0x40, 9 | 5 << 8 | 1 << 16, 0, 0, *halves(at + 96)),
    )
    load = process.platform.load32
    assert [load(at + 4 * i) for i in range(3)] == [1, 2, 3]
    assert (load(at + 64), load(at + 68), load(at + 80)) == (2, 3, 77)
    assert 0 < process.platform.load64(at + 96) <= process.gpu.clock()


@pytest.mark.parametrize(
    ("function", "below", "equal", "above"),
    [
        (1, 1, 0, 0),
        (2, 1, 1, 0),
        (3, 0, 1, 0),
        (4, 1, 0, 1),
        (5, 0, 1, 1),
        (6, 0, 0, 1),
        (0, 1, 1, 1),
    ],
)
def test_waits_compare_in_every_way(function, below, equal, above):
    for value, passes in ((4, below), (5, equal), (6, above)):
        process = Process()
        process.acquire()
        queue, at = RawQueue(process, COMPUTE), process.mapped(PAGE)
        process.platform.store32(at, value)
        queue.run(*wait_until(at, 5, function), *packet3(0x37, 5 << 8, *halves(at + 8), 1))
        assert process.platform.load32(at + 8) == passes


def test_a_wait_goes_on_when_the_host_writes(process, queue, at):
    queue.run(*wait_until(at, 9), *packet3(0x37, 5 << 8, *halves(at + 8), 1))
    assert process.platform.load32(at + 8) == 0
    process.platform.store32(at, 9)
    process.platform.scheduler.settle()
    assert process.platform.load32(at + 8) == 1


def test_a_wait_compares_64_bits_too(process, queue, at):
    wait = packet3(0x93, 3 | 1 << 4, *halves(at), 1, 2, 0xFFFFFFFF, 0xFFFFFFFF, 4)
    queue.run(*wait, *packet3(0x37, 5 << 8, *halves(at + 8), 1))
    assert process.platform.load32(at + 8) == 0
    process.platform.store64(at, 2 << 32 | 1)
    process.platform.scheduler.settle()
    assert process.platform.load32(at + 8) == 1


def test_a_release_writes_what_it_selects(process, queue, at):
    queue.run(
        *release(at, 1 << 32 | 5, select=1), *release(at + 8, 1 << 32 | 5, select=2),
        *release(at + 16, 0, select=3), *release(at + 24, 7, select=0),
    )  # fmt: skip
    load = process.platform.load64
    assert (load(at), load(at + 8), load(at + 24)) == (5, 1 << 32 | 5, 0)
    assert load(at + 16) > 0


def test_an_indirect_buffer_is_run_and_the_ring_goes_on(process, queue, at):
    inside = packet3(0x37, 5 << 8, *halves(at + 512), 1)
    for place, word in enumerate(inside):
        process.platform.store32(at + 4 * place, word)
    queue.run(
        *packet3(0x3F, *halves(at), len(inside) | 1 << 23),
        *packet3(0x37, 5 << 8, *halves(at + 516), 2),
    )
    assert process.platform.load64(at + 512) == 2 << 32 | 1


def test_no_operation_has_one_word_or_many(process, queue, at):
    queue.run(
        0x80000000, 3 << 30 | 0x3FFF << 16 | 0x10 << 8, *packet3(0x10, 1, 2, 3),
        *packet3(0x37, 5 << 8, *halves(at), 1),
    )  # fmt: skip
    assert process.platform.load32(at) == 1


def test_a_packet_that_is_not_all_there_is_waited_for(process, queue, at):
    first, *rest = packet3(0x37, 5 << 8, *halves(at), 1)
    queue.run(first, *rest[:2])
    assert process.platform.load32(at) == 0
    queue.run(*rest[2:])
    assert process.platform.load32(at) == 1


def overlap(seed, *between, writes_back=True):
    """Which of two kernels have run when a signal is there, in their order."""
    log = []
    process = Process(seed=seed, execute=lambda one: log.append(one.program))
    process.acquire()
    queue, at = RawQueue(process, COMPUTE), process.mapped(PAGE)
    queue.put(
        *ACQUIRE, *kernel(0x100), *dispatch(1), *between, *kernel(0x200), *dispatch(1),
        *release(at, 1, writes_back),
    )  # fmt: skip
    while not process.platform.load32(at):
        process.platform.pause()
    return tuple(log)


def test_kernels_without_a_barrier_end_in_either_order():
    assert {overlap(seed) for seed in range(60)} == {(0x100, 0x200), (0x200, 0x100)}


def test_kernels_with_a_barrier_end_in_order():
    assert {overlap(seed, *FLUSH) for seed in range(60)} == {(0x100, 0x200)}


def test_a_release_that_does_not_write_back_tells_nothing():
    found = {overlap(seed, *FLUSH, writes_back=False) for seed in range(60)}
    assert found == {(), (0x100,), (0x100, 0x200)}
