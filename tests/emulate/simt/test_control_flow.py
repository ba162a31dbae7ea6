"""Divergence, loops, barriers and turns, with lanes' program counters and with a mask EXEC."""

import numpy as np
import pytest

from treadle.emulate.simt.execute import EmulationFault
from treadle.emulate.simt.machine import Fault, Machine

ONE = ("const", "h", 1)


def parity(name, of):
    """`name` is whether a register is odd."""
    return [ONE, ("and", name, of, "h")]


def test_lanes_part_and_meet_again(toy):
    threads = toy.width * 2 + toy.width // 2 + 1
    inner = [
        ("const", "e", 10), ("less", "f", "a", "e"),
        ("if", "f", [("const", "j", 100)], [("const", "j", 200)]),
    ]  # fmt: skip
    program = [
        *parity("d", "a"),
        ("if", "d", inner, [("const", "j", 300)]),
        ("add", "j", "j", "a"),
    ]
    found = toy.results(program, threads)
    n = np.arange(threads)
    np.testing.assert_array_equal(found, n + np.where(n % 2, np.where(n < 10, 100, 200), 300))


def test_each_lane_takes_its_own_number_of_turns_in_nested_loops(toy):
    threads = toy.width + 5
    body = [
        ("const", "f", 0),
        (
            "while", [("less", "g", "f", "e")], "g",
            [("add", "f", "f", "h"), ("add", "j", "j", "f")],
        ),
        ("add", "e", "e", "h"),
    ]  # fmt: skip
    program = [ONE, ("const", "e", 0), ("const", "j", 0), ("const", "d", 7), ("and", "d", "a", "d"),
               ("while", [("less", "g", "e", "d")], "g", body)]  # fmt: skip
    found = toy.results(program, threads)
    expected = [sum(sum(range(e + 1)) for e in range(n % 8)) for n in range(threads)]
    np.testing.assert_array_equal(found, expected)


def test_a_loop_in_a_branch_that_no_lane_takes_is_jumped_over(toy):
    endless = [("while", [], "h", [("add", "e", "e", "h")])]
    program = [ONE, ("const", "e", 0), ("less", "d", "h", "e"), ("if", "d", endless),
               ("const", "j", 5)]  # fmt: skip
    np.testing.assert_array_equal(toy.results(program, toy.width), np.full(toy.width, 5))


def test_lanes_go_by_a_table(toy):
    """With one counter a warp goes by its first lane's number, so all of it has the same."""
    cases = [("label", "0"), ("const", "j", 10), ("goto", "end"), ("label", "1"),
             ("const", "j", 20), ("goto", "end"), ("label", "2"), ("const", "j", 30),
             ("label", "end")]  # fmt: skip
    shift = 0 if toy.has_lane_counters else toy.width.bit_length() - 1
    mask = 1 if toy.has_lane_counters else 3
    program = [("const", "d", shift), ("shr", "e", "a", "d"), ("const", "d", mask),
               ("and", "e", "e", "d"), ("switch", "e", ["0", "1", "2"]), *cases]  # fmt: skip
    threads = 3 * toy.width
    number = (np.arange(threads) >> shift) & mask
    np.testing.assert_array_equal(toy.results(program, threads), 10 + 10 * number)


def test_a_jump_to_where_no_code_is(with_exec):
    toy = with_exec
    program = [("const", "e", 77), ("switch", "e", ["0"]), ("label", "0")]
    with pytest.raises(EmulationFault, match="jumps to 0x4d, where no instruction begins") as fault:
        toy.run(program, 1)
    assert fault.value.kind == Fault.BAD_JUMP
    assert "(instruction 2 of the toy)" in str(fault.value)


def test_lanes_that_an_instruction_names_execute_it_together(with_counters):
    """How many have an odd number is counted by those that come late, too."""
    toy = with_counters
    delay = [("const", "e", 0), ("const", "f", 20),
             ("while", [("less", "g", "e", "f")], "g", [("add", "e", "e", "h")])]  # fmt: skip
    program = [*parity("d", "a"), ("if", "d", delay), ("together", -1), ("count", "j", "d")]
    found = toy.results(program, toy.width)
    np.testing.assert_array_equal(found, np.full(toy.width, toy.width // 2))


def test_lanes_that_never_come_together_are_a_deadlock_that_names_those_who_wait(with_counters):
    toy = with_counters
    last = toy.width - 1
    wait = [("together", -1)]
    program = [("id", "a"), ("const", "e", last), ("equal", "d", "a", "e"),
               ("if", "d", [*wait, ("count", "f", "d")], [*wait, ("count", "g", "d")])]  # fmt: skip
    with pytest.raises(EmulationFault, match="lanes which never come to it") as fault:
        toy.run(program, toy.width)
    assert fault.value.kind == Fault.WARP_DEADLOCK
    assert f"lanes {', '.join(map(str, range(toy.width)))} wait" in str(fault.value)


# -- barriers and shared memory


def reverse(*between):
    """Each thread takes what its opposite has put into shared memory: 4 bytes a thread."""
    return [
        ("const", "c", 4), ("mul", "d", "a", "c"), ("store", "shared", "d", "a"),
        *between,
        ("mul", "e", "b", "c"), ("load", "shared", "j", "e"),
    ]  # fmt: skip


def opposite(threads):
    """`b` becomes the number of the opposite thread."""
    return [("const", "b", threads - 1), ("sub", "b", "b", "a")]


def test_a_barrier_is_between_what_warps_write_and_read(toy):
    threads = 3 * toy.width
    program = [*opposite(threads), *reverse(("barrier",))]
    found = toy.results(program, threads, shared=4 * threads)
    np.testing.assert_array_equal(found, np.arange(threads)[::-1])


def test_without_a_barrier_that_is_a_race(toy):
    threads = 2 * toy.width
    written = [("store", "shared", "d", "a"), ("barrier",)]
    program = [*opposite(threads), ("const", "c", 4), ("mul", "d", "a", "c"), *written, *reverse()]
    with pytest.raises(EmulationFault, match="a data race with thread") as fault:
        toy.results(program, threads, shared=4 * threads)
    assert fault.value.kind == Fault.RACE
    # The last warp to come to the barrier has gone on and read what the first now writes.
    assert str(fault.value) == (
        "kernel k, block (0, 0, 0), thread (0, 0, 0): a data race with thread "
        f"({threads - 1}, 0, 0), which reads it on 4 bytes at offset 0 of shared memory: "
        "no barrier is between them (instruction 18 of the toy)"
    )


def test_what_nobody_wrote_is_an_error_to_read(toy):
    program = [("id", "a"), ("const", "c", 4), ("mul", "d", "a", "c"), ("load", "shared", "j", "d")]
    with pytest.raises(EmulationFault, match="at offset 0 of shared memory that the") as fault:
        toy.run(program, toy.width, shared=4 * toy.width)
    assert fault.value.kind == Fault.UNINITIALISED


def test_what_a_warp_does_is_in_the_order_of_the_program_if_it_has_one_counter(toy):
    program = [*opposite(toy.width), *reverse()]
    if toy.has_lane_counters:
        with pytest.raises(EmulationFault, match="a data race") as fault:
            toy.results(program, toy.width, shared=4 * toy.width)
        assert fault.value.kind == Fault.RACE
        return
    found = toy.results(program, toy.width, shared=4 * toy.width)
    np.testing.assert_array_equal(found, np.arange(toy.width)[::-1])


def test_a_warp_may_arrive_at_a_barrier_and_wait_later(with_exec):
    """Twice, so that nobody takes the first meeting for the second."""
    threads = 3 * with_exec.width
    delay = [("const", "f", 3000), ("const", "g", 0),
             ("while", [("less", "h", "g", "f")], "h", [("add", "g", "g", "c")])]  # fmt: skip
    program = [*opposite(threads), *reverse(("signal",), *delay, ("wait_barrier",)),
               ("signal",), ("wait_barrier",), ("store", "shared", "d", "j"),
               ("signal",), *delay, ("wait_barrier",), ("load", "shared", "j", "e")]  # fmt: skip
    found = with_exec.results(program, threads, shared=4 * threads)
    np.testing.assert_array_equal(found, np.arange(threads))


def test_a_warp_that_waits_where_others_never_arrive_is_a_deadlock(with_exec):
    width = with_exec.width
    program = [
        ("id", "a"), ("const", "b", width), ("less", "d", "a", "b"), ("signal", 1),
        ("if", "d", [("signal", 2), ("wait_barrier", 2)], [("wait_barrier", 1), ("barrier", 1)]),
    ]  # fmt: skip
    with pytest.raises(EmulationFault, match="wait at barriers that others never reach") as fault:
        with_exec.run(program, 2 * width)
    assert fault.value.kind == Fault.DEADLOCK
    with pytest.raises(EmulationFault, match="there is no barrier 16, only 0 to 15"):
        with_exec.run([("wait_barrier", 16)], width)


def test_a_warp_that_arrives_again_before_the_others_is_an_error(with_exec):
    twice = [("signal",), ("signal",), ("wait_barrier",)]
    message = "the warp arrives at barrier 0 again before all others have"
    with pytest.raises(EmulationFault, match=message) as fault:
        with_exec.run(twice, 2 * with_exec.width)
    assert fault.value.kind == Fault.ARRIVED_TWICE
    with_exec.run(twice, with_exec.width)  # nobody else is there


def test_warps_that_have_left_are_not_waited_for(toy):
    """The second warp leaves at once; the first waits for whoever is there, and goes on."""
    width = toy.width
    program = [
        ("id", "a"), ("const", "b", width), ("less", "d", "a", "b"), ("const", "j", 7),
        ("if", "d", [("barrier",), ("add", "j", "j", "a")]),
    ]  # fmt: skip
    found = toy.results(program, 2 * width)
    np.testing.assert_array_equal(found, np.r_[7 + np.arange(width), np.full(width, 7)])


def test_warps_at_different_barriers_are_a_deadlock(toy):
    width = toy.width
    program = [
        ("id", "a"), ("const", "b", width), ("less", "d", "a", "b"),
        ("if", "d", [("barrier", 1)], [("barrier", 2)]),
    ]  # fmt: skip
    with pytest.raises(EmulationFault, match="wait at barriers that others never reach") as fault:
        toy.run(program, 2 * width)
    assert fault.value.kind == Fault.DEADLOCK


def test_lanes_of_a_warp_at_two_instructions_of_a_barrier_are_an_error(with_counters):
    toy = with_counters
    program = [("id", "a"), *parity("d", "a"), ("if", "d", [("barrier",)], [("barrier",)])]
    with pytest.raises(EmulationFault, match="wait at different instructions") as fault:
        toy.run(program, toy.width)
    assert fault.value.kind == Fault.DIVERGED_BARRIER


def test_warps_wait_for_each_other_through_memory(toy):
    """The first warp turns in a loop until the last has written: nobody is kept from running."""
    threads = 3 * toy.width
    flag = np.zeros(1, np.uint32)
    place = toy.put(flag)
    spin = [("atomic", "add", "global", "f", "e", "g"), ("equal", "d", "f", "g")]
    program = [
        ("id", "a"), ONE, ("const", "e", place), ("const", "g", 0), ("const", "b", threads - 1),
        ("equal", "d", "a", "b"), ("if", "d", [("atomic", "exch", "global", "f", "e", "h")]),
        ("const", "b", toy.width), ("less", "c", "a", "b"),
        ("if", "c", [("while", spin, "d", [])]),
    ]  # fmt: skip
    toy.run(program, threads)
    assert flag[0] == 1


def test_a_loop_without_end_is_stopped(toy, monkeypatch):
    monkeypatch.setattr("treadle.emulate.simt.execute.TURNS", 5)
    with pytest.raises(EmulationFault, match="it does not end") as fault:
        toy.run([ONE, ("while", [], "h", [])], 2 * toy.width)
    assert fault.value.kind == Fault.RUNAWAY


# -- the start of a block


def test_a_front_end_says_how_blocks_start(toy):
    """Coordinates are packed by its hook, and a scalar of the launch reaches each warp."""
    x, y, z = 5, 7, toy.width // 16
    threads, blocks = x * y * z, 3
    array = np.zeros((blocks, threads), np.uint64)
    address = toy.put(array)
    program = [
        ("id", "a"), ("user", "b"), ("const", "c", 1023), ("and", "d", "a", "c"),
        ("const", "e", 10), ("shr", "f", "a", "e"), ("and", "f", "f", "c"),
        ("shr", "g", "a", "e"), ("shr", "g", "g", "e"),
        ("const", "e", x), ("mul", "f", "f", "e"), ("const", "e", x * y), ("mul", "g", "g", "e"),
        ("add", "d", "d", "f"), ("add", "d", "d", "g"), ("add", "j", "b", "d"),
        ("const", "e", 40), ("sub", "b", "b", "e"), ("const", "e", threads), ("mul", "b", "b", "e"),
        ("add", "d", "d", "b"), ("const", "e", 8), ("mul", "d", "d", "e"),
        ("const", "e", address), ("add", "d", "d", "e"), ("store", "global", "d", "j", 64),
    ]  # fmt: skip
    toy.run(program, (x, y, z), blocks, user=40)
    expected = 40 + np.arange(blocks)[:, None] + np.arange(threads)
    np.testing.assert_array_equal(array, expected)


def test_several_host_threads_run_blocks(toy):
    threads, blocks = toy.width + 3, 20
    found = toy.results([("user", "j")], threads, blocks, host_threads=3)
    np.testing.assert_array_equal(found.reshape(blocks, threads)[:, 0], np.arange(blocks))


def test_a_block_has_at_most_1024_threads(toy):
    toy.run([], 1024)
    with pytest.raises(ValueError, match="at most 1024"):
        toy.run([], 1025)


@pytest.mark.parametrize("width", [0, 16, 48, 256])
def test_other_widths_are_refused(width):
    with pytest.raises(ValueError, match="32, 64, 128 lanes"):
        Machine(width)
