"""Messages that Metal does not allow: each is refused, by an error that says which and why."""

from __future__ import annotations

import pytest

from treadle.emulate.metal.commands import CommandQueue
from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.memory import Buffer, Memory
from treadle.emulate.metal.objects import Object, perform, pool


def ask(receiver, selector, *arguments):
    with pool():
        return perform(receiver, selector, arguments)


@pytest.fixture
def queue():
    return CommandQueue(4, loads_all=False)


def buffer(nbytes=64):
    memory = Memory(1 << 20)
    return Buffer(Object(), memory, nbytes, memory.take(nbytes))


def encoder_of(queue):
    commands = ask(queue, "commandBuffer")
    return commands, ask(commands, "computeCommandEncoder")


@pytest.mark.parametrize(
    ("selector", "arguments", "why"),
    [
        ("setBuffer:offset:index:", (1, 2, 3), "Encoder has no method setBuffer:offset:index:"),
        ("commit", (), "Encoder has no method commit"),
        ("setBuffer:offset:atIndex:", (1, 2), "takes 3 arguments, not 2"),
        ("setBuffer:offset:atIndex:", (3.5, 0, 0), "argument 1 of .* is 3.5, not of type @"),
        ("setBytes:length:atIndex:", (memoryview(b"1"), 1, 0), "argument 1 .* not of type n"),
        ("setBytes:length:atIndex:", (b"1", -1, 0), "argument 2 of .* is -1, not of type Q"),
        ("setBytes:length:atIndex:", (b"1", True, 0), "argument 2 of .* is True, not of type Q"),
        ("setBytes:length:atIndex:", (b"1", 2, 0), "2 bytes of 1"),
        ("setBytes:length:atIndex:", (bytes(5000), 5000, 0), "setBytes: takes up to 4096"),
        ("setBytes:length:atIndex:", (b"1", 1, 31), "buffer 31: a kernel has 31"),
        ("dispatchThreadgroups:threadsPerThreadgroup:", (1, 1), "argument 1 .* type S"),
        ("dispatchThreadgroups:threadsPerThreadgroup:", ((1, 1), (1, 1)), "argument 1 .* type S"),
        (
            "dispatchThreadgroups:threadsPerThreadgroup:", ((1, 1, 1), (1, 1, 1)),
            "a dispatch without a pipeline",
        ),
    ],
)  # fmt: skip
def test_selectors_types_and_ranges(queue, selector, arguments, why):
    _, encoder = encoder_of(queue)
    with pytest.raises(Misuse, match=why):
        ask(encoder, selector, *arguments)


def test_a_message_to_nothing_is_no_message():
    with pytest.raises(Misuse, match="commit was sent to None"):
        ask(None, "commit")


def test_what_is_lent_without_a_pool_would_stay_for_ever(queue):
    with pytest.raises(Misuse, match="no autorelease pool"):
        perform(queue, "commandBuffer", ())
    with pool():
        perform(queue, "commandBuffer", ())


def test_an_encoder_that_has_ended_takes_nothing(queue):
    _, encoder = encoder_of(queue)
    ask(encoder, "endEncoding")
    for selector, arguments in (
        ("endEncoding", ()), ("setBuffer:offset:atIndex:", (buffer(), 0, 0)),
        ("setBytes:length:atIndex:", (b"1", 1, 0)),
        ("dispatchThreadgroups:threadsPerThreadgroup:", ((1, 1, 1), (1, 1, 1))),
    ):  # fmt: skip
        with pytest.raises(Misuse, match="in an encoder that has ended"):
            ask(encoder, selector, *arguments)


def test_a_command_buffer_has_one_encoder_at_a_time(queue):
    commands, encoder = encoder_of(queue)
    with pytest.raises(Misuse, match="a second encoder before the first has ended"):
        ask(commands, "computeCommandEncoder")
    ask(encoder, "endEncoding")
    ask(commands, "computeCommandEncoder")


def test_a_command_buffer_is_committed_once_at_its_end(queue):
    commands, encoder = encoder_of(queue)
    with pytest.raises(Misuse, match="committed before its encoder ended"):
        ask(commands, "commit")
    with pytest.raises(Misuse, match="not committed: it never ends"):
        ask(commands, "waitUntilCompleted")
    ask(encoder, "endEncoding")
    ask(commands, "commit")
    with pytest.raises(Misuse, match="committed twice"):
        ask(commands, "commit")
    with pytest.raises(Misuse, match="that was committed"):
        ask(commands, "computeCommandEncoder")
    ask(commands, "waitUntilCompleted")
    assert ask(commands, "status") == 4
    assert ask(commands, "GPUEndTime") >= ask(commands, "GPUStartTime") > 0


def test_a_queue_that_is_full_waits_for_the_first_and_not_for_ever(queue):
    first, *_ = opened = [encoder_of(queue) for _ in range(4)]
    with pytest.raises(Misuse, match="4 command buffers are open and none is committed"):
        ask(queue, "commandBuffer")
    commands, encoder = first
    ask(encoder, "endEncoding")
    ask(commands, "commit")
    assert ask(commands, "status") == 2
    ask(queue, "commandBuffer")
    assert ask(commands, "status") == 4
    assert len(opened) == 4


def test_an_encoder_that_is_dropped_before_its_end_is_told(queue):
    commands, encoder = encoder_of(queue)
    del encoder
    with pytest.raises(Misuse, match="a command encoder was released without endEncoding"):
        ask(queue, "commandBuffer")
    del commands
    assert queue.open == 0


def test_offsets_are_inside_of_a_buffer(queue):
    _, encoder = encoder_of(queue)
    ask(encoder, "setBuffer:offset:atIndex:", buffer(), 63, 0)
    with pytest.raises(Misuse, match="offset 64 in a buffer of 64 bytes"):
        ask(encoder, "setBuffer:offset:atIndex:", buffer(), 64, 0)


def test_memory_is_poisoned_and_its_address_is_not_the_hosts():
    memory = Memory(1 << 20)
    one = Buffer(Object(), memory, 100, memory.take(100))
    assert bytes(ask(one, "contents")) == b"\xff" * 100
    assert one.region.start != one.host
    assert one.region.start + one.region.delta == one.host
    assert memory.used == 100
    assert memory.take(1 << 20) is None
    del one
    assert memory.used == 0
