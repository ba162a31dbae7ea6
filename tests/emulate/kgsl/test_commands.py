"""Packets: what they do, in which order, and what is refused."""

import errno
import re
import struct

import pytest
from tests.emulate.kgsl import rig as kgsl
from tests.emulate.kgsl.rig import (
    EVENT_WRITE,
    EXEC_CS,
    EXEC_INDIRECT,
    MEM_TO_MEM,
    MEM_TO_REG,
    MEM_WRITE,
    NOP,
    REG_TO_MEM,
    RUN_OPENCL,
    WAIT_FOR_IDLE,
    WAIT_MEM_GTE,
    WAIT_REG_MEM,
    Rig,
    constants,
    constants_at,
    halves,
    packet,
    setup,
    signal,
    write,
)  # fmt: skip

from treadle.emulate.kgsl import Injection, KernelFault

SEEDS = range(12)


class Kernels:
    """Stands for the shader processors: keeps dispatches, and may do something."""

    def __init__(self, effect=None):
        self.seen, self.effect = [], effect

    def __call__(self, dispatch):
        self.seen.append(dispatch)
        if self.effect:
            self.effect(dispatch)


@pytest.fixture
def kernels():
    return Kernels()


@pytest.fixture
def machine(kernels):
    return Rig(kernels)


def flat(*parts):
    return [word for part in parts for word in part]


def test_a_dispatch_has_what_registers_and_state_say(machine, kernels):
    program, data = machine.memory(), machine.memory()
    data.put(struct.pack("<8I", *range(100, 108)))
    machine.run(
        setup(program.address, 3, 12, 1, (8, 4, 2), (5, 3, 2), shared=7, registers=9),
        constants([1, 2, 3, 4, 5]),
        constants_at(data.address, 2, first=8),
        packet(EXEC_CS, 0, 5, 3, 2),
    )
    (found,) = kernels.seen
    assert (found.program, found.instructions, found.wave) == (program.address, 48, 128)
    assert (found.workgroup, found.workgroups) == ((8, 4, 2), (5, 3, 2))
    assert (found.workgroup_register, found.local_register) == (192, 0)
    assert (found.registers, found.shared_bytes, found.private_bytes) == (9, 8 << 10, 0)
    assert found.constants[:8] == (1, 2, 3, 4, 5, 0, 0, 0)
    assert found.constants[8:32] == (0xFFFFFFFF,) * 24, "nobody has loaded these"
    assert found.constants[32:40] == tuple(range(100, 108))
    assert len(found.constants) == 48
    assert found.has_demotion


def test_workgroups_are_counted_by_packets_registers_or_memory(machine, kernels):
    program, counts = machine.memory(), machine.memory()
    counts.put(struct.pack("<3I", 4, 1, 1))
    machine.run(
        setup(program.address, workgroups=(4, 1, 1)),
        packet(RUN_OPENCL, 0),
        packet(EXEC_INDIRECT, 0, *halves(counts.address), 0),
        packet(EXEC_CS, 0, 4, 1, 1),
    )
    assert [found.workgroups for found in kernels.seen] == [(4, 1, 1)] * 3


def test_private_memory_is_memory_of_the_gpu(machine, kernels):
    program, private = machine.memory(), machine.memory(1 << 16)
    words = setup(program.address, private=(1024, private.address, 1 << 16))
    machine.run(words, packet(EXEC_CS, 0, 1, 1, 1))
    assert kernels.seen[0].private_bytes == 1024
    for address, total in ((0x1234000, 1 << 16), (private.address, 1 << 17)):
        refused(machine, "unmapped|for the work items' own", setup(
            program.address, private=(1024, address, total)
        ), packet(EXEC_CS, 0, 1, 1, 1))  # fmt: skip


def test_buffers_lead_to_buffers(machine):
    inner, out = machine.memory(), machine.memory()
    words = packet(MEM_WRITE, *halves(out.address), 7, 8)
    inner.put(struct.pack(f"<{len(words)}I", *words))
    machine.run(packet(kgsl.BUFFER, *halves(inner.address), len(words)))
    assert out.words(2) == [7, 8]
    ring = packet(kgsl.BUFFER, *halves(inner.address), 4)
    inner.put(struct.pack("<4I", *ring))
    refused(machine, "more than 3 deep", ring)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_for_idle_comes_behind_all_kernels(seed):
    order = []
    machine = Rig(Kernels(lambda dispatch: order.append(dispatch.constants[0])), seed)
    program, out = machine.memory(), machine.memory()
    words = [setup(program.address)]
    for i in range(6):
        words += [constants([i]), packet(EXEC_CS, 0, 1, 1, 1)]
        if i % 2:
            words.append(packet(WAIT_FOR_IDLE))
    machine.run(*words, signal(out.address, 77))
    assert [sorted(order[i : i + 2]) for i in (0, 2, 4)] == [[0, 1], [2, 3], [4, 5]]
    assert out.words(1) == [77]


def test_kernels_run_in_any_order_without_a_wait():
    orders = set()
    for seed in range(40):
        order = []
        machine = Rig(Kernels(lambda d, order=order: order.append(d.constants[0])), seed)
        program = machine.memory()
        words = [setup(program.address)]
        for i in range(3):
            words += [constants([i]), packet(EXEC_CS, 0, 1, 1, 1)]
        machine.run(*words)
        orders.add(tuple(order))
    assert len(orders) > 2


@pytest.mark.parametrize("seed", SEEDS)
def test_an_event_is_written_behind_what_came_before(seed):
    done = []
    machine = Rig(Kernels(lambda _: done.append(out.words(1)[0])), seed)
    program, out = machine.memory(), machine.memory()
    machine.run(
        packet(MEM_WRITE, *halves(out.address), 0),
        setup(program.address), packet(EXEC_CS, 0, 1, 1, 1), signal(out.address, 5),
        packet(WAIT_REG_MEM, 3 | 1 << 4, *halves(out.address), 5, 0xFFFFFFFF, 16),
        packet(MEM_WRITE, *halves(out.address + 8), 6),
    )  # fmt: skip
    assert done == [0]
    assert (out.words(1), out.words(1, 8)) == ([5], [6])


@pytest.mark.parametrize("kind", ["idle", "wait"])
def test_a_forgotten_wait_is_noticed(kind):
    early = 0
    for seed in range(30):
        order = []
        machine = Rig(Kernels(lambda _, order=order: order.append("kernel")), seed)
        machine.driver.inject(Injection(kind))
        program, out = machine.memory(), machine.memory()
        out.put(bytes(16))
        waits = {
            "idle": packet(WAIT_FOR_IDLE),
            "wait": flat(
                signal(out.address, 5),
                packet(WAIT_REG_MEM, 3 | 1 << 4, *halves(out.address), 5, 0xFFFFFFFF, 16),
            ),
        }
        machine.submit(machine.context(), flat(
            setup(program.address), packet(EXEC_CS, 0, 1, 1, 1), waits[kind],
            packet(MEM_WRITE, *halves(out.address + 8), 1),
        ))  # fmt: skip
        while out.words(1, 8) != [1]:
            machine.platform.scheduler.step()
        early += not order
    assert early > 3


def test_a_forgotten_event_is_noticed(machine):
    machine.driver.inject(Injection("event"))
    out, context = machine.memory(), machine.context()
    out.put(bytes(4))
    wait = packet(WAIT_REG_MEM, 3 | 1 << 4, *halves(out.address), 5, 0xFFFFFFFF, 16)
    stamp = machine.submit(context, flat(signal(out.address, 5), wait))
    with pytest.raises(OSError, match=r".") as error:
        machine.wait(context, stamp)
    assert error.value.errno == errno.ETIMEDOUT


def test_an_object_that_was_not_mapped_is_noticed(machine):
    machine.driver.inject(Injection("mapping"))
    out = machine.memory()
    machine.driver.inject(None)
    refused(machine, "unmapped", packet(MEM_WRITE, *halves(out.address), 5))


def test_memory_and_registers_are_copied(machine):
    out = machine.memory()
    out.put(struct.pack("<6Q", 0, 1000, 400, 30, 0, 0))
    at = out.address
    machine.run(
        packet(MEM_TO_MEM, 1 << 29 | 2, *halves(at), *halves(at + 8), *halves(at + 16),
               *halves(at + 24)),
        packet(MEM_TO_REG, 0xB999 | 2 << 19, *halves(at + 8)),
        packet(REG_TO_MEM, 0xB999 | 2 << 18, *halves(at + 32)),
    )  # fmt: skip
    assert out.words(2) == [630, 0]
    assert out.words(2, 32) == [1000, 0]


def test_the_clock_counts_and_a_wait_compares_with_a_sign(machine):
    out = machine.memory()
    at = out.address
    out.put(struct.pack("<I", 0xFFFFFFF0), 64)
    machine.run(
        packet(REG_TO_MEM, 0x980 | 1 << 30, *halves(at)),
        packet(WAIT_MEM_GTE, 0, *halves(at + 64), 0xFFFFFFE0),
        packet(WAIT_REG_MEM, 1 | 1 << 3 | 1 << 4, *halves(at + 64), 3, 0xFFFFFFFF, 1),
        packet(EVENT_WRITE, 4 | 1 << 30, *halves(at + 8), 0),
    )  # fmt: skip
    first, second = struct.unpack("<2Q", struct.pack("<4I", *out.words(4)))
    assert 0 < first <= second


def refused(machine, message, *words):
    """The context ends with a fault, and the platform tells why."""
    with pytest.raises(OSError, match="a fault has ended the context") as error:
        machine.run(*words)
    assert error.value.errno == errno.EDEADLK
    assert re.search(message, machine.platform.explain()), machine.platform.explain()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([packet(NOP)[0] ^ 1 << 15], "wrong parity"),
        ([packet(NOP)[0] ^ 1 << 23], "wrong parity"),
        ([write(0xB990, 1)[0] ^ 1 << 7, 1], "wrong parity"),
        ([write(0xB990, 1)[0] ^ 1 << 27, 1], "wrong parity"),
        ([0], "no packet of type 0"),
        ([0xC0001000, 0], "no packet of type 12"),
        (packet(NOP, 1, 2)[:2], "goes on behind its buffer's end"),
        (write(0xA9D4, 1), "a630 has no register 0xa9d4"),  # of A7XX
        (packet(0x7F), r"opcode 0x7f \(None\) is not emulated"),
        (packet(0x22), r"opcode 0x22 \(CP_DRAW_INDX\) is not emulated"),
        (packet(EVENT_WRITE, 9), r"event 9 \(WRITE_PRIMITIVE_COUNTS\) is not emulated"),
        (packet(EXEC_CS, 0, 1, 1, 1), "which this submission has not written"),
        (packet(MEM_WRITE, 0, 1, 5), "unmapped address"),
        (packet(kgsl.MARKER, 1), "mode 1 is not emulated"),
        (packet(WAIT_REG_MEM, 3, 0, 0, 0, 0, 0), "polled by 0 is not emulated"),
        (packet(kgsl.LOAD_STATE, 5 << 18, 0, 0), "state of block 5, type 0 is not emulated"),
    ],
)
def test_what_is_wrong_or_not_emulated_ends_the_context(machine, words, message):
    refused(machine, message, words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (write(0xA9B0, 0), "half registers beside the full ones"),
        (write(0xB987, 1), "does not enable the kernel"),
        (write(0xB991, 65), "65 work items along X in 1 workgroups of 64"),
        (write(0xB992, 1), "do not begin with 0"),
        (write(0xA9B4, 64), "is not the one that was loaded"),
        (write(0xBB08, 1 << 5), "is not the one that was loaded"),
        (write(0xB997, 0xFCFCFC00), "which lanes do not share"),
        (write(0xB998, 0xFC | 1 << 9), "different widths of waves"),
        (constants(range(100)), "constants up to 100 are loaded, and there are 16"),
    ],
)
def test_a_dispatch_that_does_not_fit_together_is_a_fault(machine, change, message):
    program = machine.memory()
    refused(machine, message, setup(program.address, constants=4), change,
            packet(EXEC_CS, 0, 1, 1, 1))  # fmt: skip


def test_the_first_chip_of_the_generation_has_no_wide_waves(kernels):
    machine = Rig(kernels, arch="a610")
    program = machine.memory()
    refused(machine, "a610 has no waves of 128", setup(program.address, wave=1),
            packet(EXEC_CS, 0, 1, 1, 1))  # fmt: skip


def test_what_a_submission_has_set_is_gone_in_the_next(machine):
    program, context = machine.memory(), machine.context()
    machine.wait(context, machine.submit(context, setup(program.address)))
    with pytest.raises(OSError, match="a fault"):
        machine.wait(context, machine.submit(context, packet(EXEC_CS, 0, 1, 1, 1)))


def test_a_kernel_that_fails_ends_its_context_and_no_other(machine, kernels):
    def fail(dispatch):
        raise KernelFault("an instruction that is none")

    program, others = machine.memory(), machine.context()
    kernels.effect = fail
    refused(machine, "an instruction that is none", setup(program.address),
            packet(EXEC_CS, 0, 1, 1, 1))  # fmt: skip
    machine.wait(others, machine.submit(others, packet(NOP)))
