"""METAL's runtime on emulated GPUs: launches, replays, errors, memory of others."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Tensor, TinyJit, dtypes
from treadle.emulate.metal import EmulatedMetal, Misuse
from treadle.emulate.metal.objects import Object
from treadle.errors import DeviceError, InternalError, OutOfMemory
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.metal import MetalDevice
from treadle.runtime.metal import calls as call_lists
from treadle.target import APPLE_FAMILIES

ADDED = b"""
#include <metal_stdlib>
using namespace metal;
kernel void added(device const int *a [[buffer(0)]], device int *b [[buffer(1)]],
                  constant int *n [[buffer(30)]], uint at [[thread_index_in_threadgroup]],
                  uint group [[threadgroup_position_in_grid]]) {
  b[group * 32 + at] = a[group * 32 + at] + n[0];
}
"""
ENTRY = Entry("added", 2, 32, (Slot(0, 256, False), Slot(1, 256, True)), (0,))
NUMBERS = np.arange(64, dtype=np.int32)


@pytest.fixture(params=APPLE_FAMILIES)
def messages(request):
    try:
        return EmulatedMetal(request.param)
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def device(messages):
    return MetalDevice("METAL", messages)


def put(device, array):
    buffer = device.allocator.alloc(array.nbytes)
    device.write(buffer, array.data)
    return buffer


def get(device, buffer):
    found = np.empty(64, np.int32)
    device.read(buffer, found.data)
    return found


def test_a_list_runs_once_encoded_and_then_from_the_gpus_own_commands(device):
    phases = device.load(ADDED, [ENTRY]).phases
    a, b, c = put(device, NUMBERS), *(device.allocator.alloc(256) for _ in range(2))
    calls = device.call_list([Launch(phases, [a, b], [1]), Launch(phases, [b, c], [10])])
    for turn in range(4):
        calls.set_var(0, 0, turn)
        calls.run()
        assert (get(device, c) == NUMBERS + turn + 10).all()
    other = put(device, NUMBERS * 100)
    calls.set_arg(0, 0, other)
    calls.run()
    assert (get(device, c) == NUMBERS * 100 + 13).all()
    times = calls.run_timed()
    assert len(times) == 2
    assert all(start <= end for start, end in times)
    assert times[0][1] <= times[1][0]


def test_arguments_are_changed_while_the_gpu_is_behind(device):
    """Nothing has run yet when the next replay changes what it takes."""
    phases = device.load(ADDED, [ENTRY]).phases
    results = [device.allocator.alloc(256) for _ in range(5)]
    calls = device.call_list([Launch(phases, [put(device, NUMBERS), results[0]], [0])])
    for turn, result in enumerate(results):
        calls.set_arg(0, 1, result)
        calls.set_var(0, 0, turn)
        calls.run()
    for turn, result in enumerate(results):
        assert (get(device, result) == NUMBERS + turn).all()


def test_a_change_of_arguments_waits_for_no_replay_but_the_last_but_one(device, messages):
    phases = device.load(ADDED, [ENTRY]).phases
    results = [device.allocator.alloc(256) for _ in range(6)]
    calls = device.call_list([Launch(phases, [put(device, NUMBERS), results[0]], [0])])
    waits, made = [], []

    def answer(receiver, selector, arguments):
        if selector == "waitUntilCompleted":
            waits.append(made.index(receiver))
        found = EmulatedMetal.answer(messages, receiver, selector, arguments)
        if selector == "commandBuffer":
            made.append(found)
        return found

    messages.answer = answer
    for turn, result in enumerate(results):
        calls.set_arg(0, 1, result)
        calls.set_var(0, 0, turn)
        calls.run()
        # The first run is encoded, and is no replay: it has come to its end with the next one.
        assert waits == list(range(turn - 1 if turn > 2 else 0)), turn
    calls.run()  # without a change
    assert waits == list(range(len(results) - 2))
    for turn, result in enumerate(results):
        assert (get(device, result) == NUMBERS + turn).all()


def test_what_failed_is_said_at_the_next_launch_once_it_is_known(device):
    phases = device.load(ADDED, [ENTRY]).phases
    short, whole = device.allocator.alloc(64), put(device, NUMBERS)
    device.run([Launch(phases, [short, short], [1])])
    (queue,) = device.handle.queues
    queue.finish_all()
    with pytest.raises(DeviceError, match=r"METAL: the device was lost \(the GPU broke off: "):
        device.run([Launch(phases, [whole, whole], [1])])


def test_results_of_failed_work_are_never_read(device):
    phases = device.load(ADDED, [ENTRY]).phases
    short, other = device.allocator.alloc(64), put(device, NUMBERS)
    device.run([Launch(phases, [short, short], [1])])
    for buffer in (other, short, other):
        with pytest.raises(DeviceError, match="METAL: the device was lost"):
            get(device, buffer)


def interrupting(messages, wanted, behind=False):
    """The next message of that selector is interrupted, before it is sent or behind."""
    left = [wanted]

    def answer(receiver, selector, arguments):
        is_now = selector in left
        if is_now:
            left.remove(selector)
        if is_now and not behind:
            raise KeyboardInterrupt
        found = EmulatedMetal.answer(messages, receiver, selector, arguments)
        if is_now:
            raise KeyboardInterrupt
        return found

    messages.answer = answer


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("selector", ["waitUntilCompleted", "status"])
def test_work_whose_wait_was_interrupted_is_waited_for(device, messages, selector, behind):
    phases = device.load(ADDED, [ENTRY]).phases
    a, b = put(device, NUMBERS), put(device, NUMBERS * 0 - 7)
    device.run([Launch(phases, [a, b], [1])])
    interrupting(messages, selector, behind)
    with pytest.raises(KeyboardInterrupt):
        device.synchronize()
    assert (get(device, b) == NUMBERS + 1).all()


@pytest.mark.parametrize(
    ("selector", "behind"),
    [
        ("setComputePipelineState:", False), ("setComputePipelineState:", True),
        ("endEncoding", True), ("commit", False), ("commit", True),
    ],
)  # fmt: skip
def test_launches_that_are_interrupted_run_at_once_or_never(device, messages, selector, behind):
    phases = device.load(ADDED, [ENTRY]).phases
    buffer = put(device, NUMBERS)
    for turn in range(80):  # more than a queue has room for
        interrupting(messages, selector, behind)
        with pytest.raises(KeyboardInterrupt):
            device.run([Launch(phases, [buffer, buffer], [1])])
        del messages.answer
        was_sent = behind and selector == "commit"
        assert (get(device, buffer) == NUMBERS + (turn + 1 if was_sent else 0)).all()
    before = get(device, buffer)
    device.run([Launch(phases, [buffer, buffer], [1])])
    assert (get(device, buffer) == before + 1).all()


def test_more_launches_than_indirect_commands_are_encoded_each_time(device, monkeypatch):
    monkeypatch.setattr(call_lists, "_MOST_COMMANDS", 3)
    phases = device.load(ADDED, [ENTRY]).phases
    for count in (3, 4):
        buffer = put(device, NUMBERS)
        made = device.call_list([Launch(phases, [buffer, buffer], [1])] * count)
        for _ in range(3):
            made.run()
        assert (get(device, buffer) == NUMBERS + 3 * count).all()
        assert bool(made._indirect) == (count == 3)


def test_an_older_macos_is_told_by_name(device, messages):
    def answer(receiver, selector, arguments):
        if selector == "setMathMode:":
            raise AttributeError(selector)
        return EmulatedMetal.answer(messages, receiver, selector, arguments)

    messages.answer = answer
    with pytest.raises(DeviceError, match="METAL needs macOS 15 or newer"):
        device.load(ADDED, [ENTRY])


def test_a_gpu_that_is_lost_while_it_compiles_is_said_to_be_lost(device, messages):
    """Metal gives no pipeline then, and its reason is of the pipeline."""

    def answer(receiver, selector, arguments):
        if selector.startswith("newComputePipelineState"):
            device.handle.lose()
        return EmulatedMetal.answer(messages, receiver, selector, arguments)

    messages.answer = answer
    with pytest.raises(DeviceError, match=r"METAL: the device was lost \(the GPU was removed\)"):
        device.load(ADDED, [ENTRY])


def test_more_command_buffers_than_a_queue_has_room_for(device):
    phases = device.load(ADDED, [ENTRY]).phases
    buffer = put(device, NUMBERS)
    for _ in range(200):
        device.run([Launch(phases, [buffer, buffer], [1])])
    assert (get(device, buffer) == NUMBERS + 200).all()


def test_an_access_out_of_bounds_is_an_error_of_the_gpu_at_the_next_wait(device):
    phases = device.load(ADDED, [ENTRY]).phases
    short = device.allocator.alloc(64)
    device.run([Launch(phases, [short, short], [1])])
    with pytest.raises(DeviceError, match=r"the GPU broke off: .* right behind the alloc"):
        device.synchronize()


def test_a_text_that_is_no_metal_is_told_with_the_text(device):
    with pytest.raises(InternalError, match="Metal rejected generated code"):
        device.load(b"kernel void f(device float *a [[buffer(0)]]) { a[0] = b; }", [])
    with pytest.raises(InternalError, match="generated code has no kernel missing"):
        device.load(ADDED, [Entry("missing", 1, 32)])


def test_memory_ends_by_name(device):
    with pytest.raises(OutOfMemory, match=r"this GPU's buffers have at most 1\.0 GiB"):
        device.allocator.alloc((1 << 30) + 1)
    held = [device.allocator.alloc(1 << 30)]
    with pytest.raises(OutOfMemory, match=r"the GPU has no .* left"):
        held += [device.allocator.alloc(1 << 30) for _ in range(3)]


def test_the_index_and_the_family_are_checked(messages):
    with pytest.raises(DeviceError, match="there is no METAL:1: Metal has 1 device here"):
        MetalDevice("METAL:1", messages, 1)
    with pytest.raises(ValueError, match="no Apple GPU of 'apple6' is emulated"):
        EmulatedMetal("apple6")


def test_a_buffer_of_somebody_else_is_used_in_place(device, messages):
    theirs = Object()
    with messages.pool():
        handle = messages.send(device.handle, "newBufferWithLength:options:", 256, 0)
    pointer = messages.pointer_to(handle)
    buffer = device.allocator.from_pointer(pointer, 256, theirs)
    phases = device.load(ADDED, [ENTRY]).phases
    device.run([Launch(phases, [put(device, NUMBERS), buffer], [5])])
    device.synchronize()
    assert (np.frombuffer(messages.contents(handle, 256), np.int32) == NUMBERS + 5).all()
    with pytest.raises(DeviceError, match="the buffer has 256 bytes, but 257 are needed"):
        device.allocator.from_pointer(pointer, 257)
    with pytest.raises(DeviceError, match="there is no MTLBuffer at 0x1234"):
        device.allocator.from_pointer(0x1234, 1)


class Changed:
    """Messages of which one is changed, or left out."""

    def __init__(self, messages, number, change):
        self.messages, self.number, self.change, self.count = messages, number, change, 0

    def __call__(self, receiver, selector, arguments):
        self.count += 1
        if self.count != self.number:
            return EmulatedMetal.answer(self.messages, receiver, selector, arguments)
        return self.change(self.messages, receiver, selector, arguments)


def misspelt(messages, receiver, selector, arguments):
    return EmulatedMetal.answer(messages, receiver, selector + "x:", arguments)


def one_more(messages, receiver, selector, arguments):
    return EmulatedMetal.answer(messages, receiver, selector, (*arguments, 0))


def of_other_type(messages, receiver, selector, arguments):
    if not arguments:
        return one_more(messages, receiver, selector, arguments)
    return EmulatedMetal.answer(messages, receiver, selector, (1.5, *arguments[1:]))


def to_nothing(messages, receiver, selector, arguments):
    return EmulatedMetal.answer(messages, None, selector, arguments)


def test_where_pyobjc_refuses_indirect_commands_launches_are_encoded_each_time(messages):
    """Its tables have numbers for the two sizes of such a command."""
    refused = []

    def answer(receiver, selector, arguments):
        if selector.startswith("concurrentDispatch"):
            refused.append(selector)
            raise ValueError("depythonifying 'long long', got 'tuple' of 3")
        return EmulatedMetal.answer(messages, receiver, selector, arguments)

    messages.answer = answer
    device = MetalDevice("METAL", messages)
    phases = device.load(ADDED, [ENTRY]).phases
    a, b = put(device, NUMBERS), device.allocator.alloc(256)
    calls = device.call_list([Launch(phases, [a, b], [1])])
    for turn in range(4):
        calls.set_var(0, 0, turn)
        calls.run()
        assert (get(device, b) == NUMBERS + turn).all()
    assert len(refused) == 1


@pytest.mark.parametrize("change", [misspelt, one_more, of_other_type, to_nothing])
def test_each_message_that_is_changed_is_refused(messages, change):
    """All messages of a program with launches, a replay with changes, and times."""

    def program():
        device = MetalDevice("METAL", messages)
        phases = device.load(ADDED, [ENTRY]).phases
        a, b = put(device, NUMBERS), device.allocator.alloc(256)
        calls = device.call_list([Launch(phases, [a, b], [1])])
        for turn in range(3):
            calls.set_var(0, 0, turn)
            calls.run()
        assert (get(device, b) == NUMBERS + 2).all()
        calls.run_timed()

    whole = messages.answer = Changed(messages, -1, change)
    program()
    assert whole.count > 60
    for number in range(1, whole.count + 1, 7):
        messages.answer = Changed(messages, number, change)
        with pytest.raises(Misuse):
            program()
    del messages.answer


def test_a_program_of_tensors_with_a_captured_step(monkeypatch):
    monkeypatch.setenv("EMULATE", "1")

    @TinyJit
    def step(x, y):
        return (x.half() @ y.half()).float().softmax(1).realize()

    random = np.random.default_rng(0)
    for _ in range(4):
        a, b = (random.standard_normal(s).astype(np.float32) for s in ((70, 90), (90, 50)))
        try:
            found = step(*(Tensor(one, device="METAL") for one in (a, b))).numpy()
        except DeviceError as error:
            pytest.skip(str(error))
        product = a.astype(np.float16).astype(float) @ b.astype(np.float16).astype(float)
        exact = np.exp(product - product.max(1, keepdims=True))
        np.testing.assert_allclose(found, exact / exact.sum(1, keepdims=True), atol=2e-2)
    with pytest.raises(Exception, match="METAL has no float64"):
        Tensor([1.0], dtype=dtypes.float64, device="METAL").add(1).realize()
