"""Events of the emulated driver: interrupts, faults, timeouts."""

import ctypes
import errno

import pytest

from treadle.emulate.kfd import tables
from treadle.emulate.machine.memory import MemoryFault

SIGNAL, HW_EXCEPTION, MEMORY = 0, 3, 8
DATA = tables.layout("kfd_event_data")


@pytest.fixture
def page(process):
    """The page of signals, and the first event."""
    at, handle, offset = process.alloc(0x8000)
    process.platform.map(process.render, 0x8000, offset, at)
    process.on_gpus("map_memory_to_gpu", handle, process.gpu.gpu_id)
    event = process.call("create_event", event_page_offset=handle, event_type=SIGNAL, auto_reset=1)
    return at, event


def wait(process, *events, wants_all=0, timeout=1000):
    block = (ctypes.c_char * (DATA.nbytes * len(events)))()
    for number, event in enumerate(events):
        part = memoryview(block).cast("B")[number * DATA.nbytes :]
        DATA.put(part, "event_id", event)
    result = process.call(
        "wait_events", events_ptr=ctypes.addressof(block), num_events=len(events),
        wait_for_all=wants_all, timeout=timeout,
    )["wait_result"]  # fmt: skip
    return result, bytes(block)


def test_a_signal_event_needs_a_page(process):
    with pytest.raises(OSError) as info:
        process.call("create_event", event_type=SIGNAL)
    assert info.value.errno == errno.EINVAL


def test_a_signal_event_tells_where_its_slot_is(process, page):
    """AMD's user space takes no offset for no slot, and lets no GPU interrupt."""
    event = page[1]
    assert event["event_page_offset"] == 2 << 62  # KFD_MMAP_TYPE_EVENTS
    other = process.call("create_event", event_type=SIGNAL)
    assert other["event_page_offset"] == 2 << 62
    assert other["event_slot_index"] != event["event_slot_index"]
    assert process.call("create_event", event_type=MEMORY)["event_page_offset"] == 0


def test_a_wait_ends_when_its_time_is_over_and_takes_none(process, page):
    before = process.platform.now()
    assert wait(process, page[1]["event_id"], timeout=60_000)[0] == 1
    assert process.platform.now() - before >= 60 * 10**9


def test_an_interrupt_sets_an_event_whose_slot_is_written(process, page):
    at, event = page
    number = event["event_id"]
    process.gpu.interrupt(number)
    assert wait(process, number)[0] == 1  # nobody has written the slot
    process.gpu.space.write64(at + 8 * event["event_slot_index"], number)
    process.gpu.interrupt(number)
    assert wait(process, number)[0] == 0
    assert wait(process, number)[0] == 1  # it was reset by the wait


def test_a_program_sets_and_resets_events_itself(process, page):
    number = page[1]["event_id"]
    process.call("set_event", event_id=number)
    process.call("reset_event", event_id=number)
    assert wait(process, number)[0] == 1
    process.call("set_event", event_id=number)
    assert wait(process, number)[0] == 0


def test_a_wait_for_all_waits_for_all(process, page):
    first = page[1]["event_id"]
    second = process.call("create_event", event_type=MEMORY)["event_id"]
    process.call("set_event", event_id=first)
    assert wait(process, first, second, wants_all=1)[0] == 1  # and the first is reset by it
    process.call("set_event", event_id=second)
    assert wait(process, first, second, wants_all=1)[0] == 1
    process.call("set_event", event_id=first)
    assert wait(process, first, second, wants_all=1)[0] == 0


def test_all_who_wait_for_an_event_hear_of_it(process, page):
    number, events = page[1]["event_id"], process.driver.events
    waits = [events.wait([number], False) for _ in range(2)]
    process.call("set_event", event_id=number)
    assert all(one.is_over for one in waits)
    for one in waits:
        events.leave(one)
    assert wait(process, number)[0] == 1  # it was reset, since somebody waited


@pytest.mark.parametrize(
    ("reason", "field"),
    [("unmapped", "NotPresent"), ("read-only", "ReadOnly"), ("no execute", "NoExecute")],
)
def test_a_memory_fault_tells_page_and_reason(process, reason, field):
    number = process.call("create_event", event_type=MEMORY)["event_id"]
    process.gpu.fail(MemoryFault(0x123456, reason))
    result, block = wait(process, number)
    told = tables.layout("kfd_hsa_memory_exception_data")
    failure = tables.layout("kfd_memory_exception_failure")
    assert result == 0
    assert told.get(block, "va") == 0x123000
    assert told.get(block, "gpu_id") == process.gpu.gpu_id
    assert [name for name in failure.fields if failure.get(block, name)] == [field]


def test_a_hardware_exception_tells_whether_memory_is_lost(process):
    number = process.call("create_event", event_type=HW_EXCEPTION)["event_id"]
    process.gpu.lose()
    _, block = wait(process, number)
    told = tables.layout("kfd_hsa_hw_exception_data")
    assert (told.get(block, "memory_lost"), told.get(block, "gpu_id")) == (1, process.gpu.gpu_id)


def test_events_that_are_destroyed_are_unknown(process, page):
    number = page[1]["event_id"]
    process.call("destroy_event", event_id=number)
    with pytest.raises(OSError) as info:
        wait(process, number)
    assert info.value.errno == errno.EINVAL


def test_a_wait_for_an_event_that_is_destroyed_fails(process, page):
    number, driver = page[1]["event_id"], process.driver
    wait_events, block = tables.layout("kfd_ioctl_wait_events_args"), bytearray(DATA.nbytes)
    DATA.put(block, "event_id", number)
    held = ctypes.create_string_buffer(bytes(block))
    argument = bytearray(wait_events.nbytes)
    wait_events.put(argument, "events_ptr", ctypes.addressof(held))
    wait_events.put(argument, "num_events", 1)
    begun = driver.begin_wait(argument)
    process.call("destroy_event", event_id=number)
    assert begun.is_over
    driver.end_wait(begun, argument)
    assert wait_events.get(argument, "wait_result") == 2  # KFD_IOC_WAIT_RESULT_FAIL
