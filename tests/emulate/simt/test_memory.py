"""Regions with addresses and permissions of their own, atomics, races, and faults of memory."""

import numpy as np
import pytest

from treadle.emulate.simt.execute import EmulationFault
from treadle.emulate.simt.machine import Access, Fault

from .toy import ODD, WINDOWS

BASE = 0x7_0000_0000  # an address that is none of the host's


def place_of(address, nbytes=4):
    """`d` becomes the address of each thread's element of an array."""
    return [("id", "a"), ("const", "c", nbytes), ("mul", "d", "a", "c"), ("const", "c", address),
            ("add", "d", "d", "c")]  # fmt: skip


# -- global memory


def test_kernels_know_memory_by_its_address_and_not_by_the_hosts(toy):
    threads = 2 * toy.width
    given = np.arange(threads, dtype=np.uint32) * 3
    address = toy.put(given, BASE)
    program = [*place_of(address), ("load", "global", "e", "d"), ("add", "e", "e", "a"),
               ("store", "global", "d", "e")]  # fmt: skip
    toy.run(program, threads)
    np.testing.assert_array_equal(given, np.arange(threads) * 4)


def test_a_pointer_of_the_host_is_an_error(toy):
    given = np.arange(toy.width, dtype=np.uint32)
    toy.put(given, BASE)
    program = [*place_of(given.ctypes.data + 16), ("load", "global", "e", "d")]
    message = (
        rf"thread \(0, 0, 0\): access to 4 bytes at 0x{given.ctypes.data + 16:x}, the host's "
        rf"address of byte 16 of the allocation of {given.nbytes} at 0x{BASE:x}"
    )
    with pytest.raises(EmulationFault, match=message) as fault:
        toy.run(program, 1)
    assert fault.value.kind == Fault.GLOBAL
    assert str(fault.value).endswith("(instruction 6 of the toy)")


def test_lanes_may_be_in_regions_that_lie_elsewhere(toy):
    width = toy.width
    halves = [np.full(width // 2, n, np.uint32) for n in (5, 6)]
    toy.put(halves[0], BASE)
    toy.put(halves[1], BASE + halves[0].nbytes)  # right behind it, for kernels
    program = [*place_of(BASE), ("load", "global", "j", "d"), ("store", "global", "d", "a")]
    found = toy.results(program, width)
    np.testing.assert_array_equal(found, np.repeat([5, 6], width // 2))
    np.testing.assert_array_equal(np.concatenate(halves), np.arange(width))


@pytest.mark.parametrize("space", ["global", "shared", "local"])
def test_three_words_are_one_access_where_a_multiple_of_four_bytes_will_do(with_exec, space):
    width = with_exec.width
    given = np.arange(6 * width, dtype=np.uint32)
    address = with_exec.put(given, BASE)
    program = [*place_of(address, 12), ("load_three", "global", "d", "e", "f", "g")]
    if space != "global":
        program += place_of(0, 12) if space == "shared" else [("const", "d", 0)]
        program += [("store_three", space, "d", "e", "f", "g"),
                    ("load_three", space, "d", "g", "f", "e")]  # fmt: skip
    program += [*place_of(address + 12 * width, 12), ("store_three", "global", "d", "e", "f", "g")]
    with_exec.run(program, width, shared=12 * width, local=12)
    expected = given[: 3 * width].reshape(width, 3)
    expected = expected if space == "global" else expected[:, ::-1]
    np.testing.assert_array_equal(given[3 * width :], expected.ravel())


def test_three_words_race_as_others_do(with_exec):
    """The second warp begins a word early, at the last one of the first warp."""
    width = with_exec.width
    given = np.zeros(6 * width, np.uint32)
    address = with_exec.put(given, BASE)
    apart = [*place_of(address, 12), ("store_three", "global", "d", "a", "a", "a")]
    with_exec.run(apart, 2 * width)
    program = [("id", "a"), ("const", "b", width), ("less", "e", "a", "b"), ("const", "c", 12),
               ("mul", "d", "a", "c"), ("const", "c", address), ("add", "d", "d", "c"),
               ("if", "e", [], [("const", "c", 4), ("sub", "d", "d", "c")]),
               ("store_three", "global", "d", "a", "a", "a")]  # fmt: skip
    message = (
        rf"thread \({width}, 0, 0\): a data race with thread \({width - 1}, 0, 0\) of .* on 12"
    )
    with pytest.raises(EmulationFault, match=message):
        with_exec.run(program, 2 * width)


def test_a_warp_loads_scalars(toy):
    """Three words at once, as arguments of a kernel; a fault tells where."""
    given = np.array([7, 1 << 40, 9], np.uint64)
    address = toy.put(given, BASE, Access.READ)
    program = [("const", "d", address), ("load_scalars", "d", "e", "f", "g"),
               ("add", "j", "e", "f"), ("add", "j", "j", "g")]  # fmt: skip
    found = toy.results(program, toy.width + 1)
    np.testing.assert_array_equal(found, np.full(toy.width + 1, given.sum()))
    wrong = [("const", "d", address + 8), ("load_scalars", "d", "e", "f", "g")]
    message = (
        r"24 bytes at 0x700000008, of which the last 8 are past the .*\(instruction 2 of the toy"
    )
    with pytest.raises(EmulationFault, match=message):
        toy.run(wrong, 1)


def test_an_access_over_the_end_of_a_region_is_an_error_though_another_begins_there(with_exec):
    toy = with_exec
    for number in range(2):
        toy.put(np.zeros(1, np.uint32), BASE + 4 * number)
    program = [("const", "d", BASE), ("load", "global", "j", "d", 64)]
    with pytest.raises(EmulationFault, match="of which the last 4 are past the end") as fault:
        toy.run(program, 1)
    assert fault.value.kind == Fault.GLOBAL


@pytest.mark.parametrize(
    ("access", "item", "verb"),
    [
        (Access.READ, ("store", "global", "d", "a"), "writes"),
        (Access.READ, ("atomic", "add", "global", "j", "d", "a"), "writes"),
        (Access.READ, ("store", "generic", "d", "a"), "writes"),
        (Access.WRITE, ("load", "global", "j", "d"), "reads"),
        (Access.WRITE, ("atomic", "add", "global", "j", "d", "a"), "writes"),
        (Access.EXECUTE, ("load", "global", "j", "d"), "reads"),
    ],
)
def test_what_a_region_does_not_allow_is_an_error(toy, access, item, verb):
    given = np.arange(toy.width, dtype=np.uint32)
    address = toy.put(given, BASE, access)
    with pytest.raises(
        EmulationFault, match=f"{verb} 4 bytes at 0x{BASE:x}, 0 bytes into the"
    ) as f:
        toy.run([*place_of(address), item], toy.width)
    assert f.value.kind == Fault.FORBIDDEN
    np.testing.assert_array_equal(given, np.arange(toy.width))


def test_what_a_region_allows_is_done(toy):
    source, target = (np.arange(toy.width, dtype=np.uint32) + n for n in (7, 0))
    address = toy.put(source, BASE, Access.READ)
    program = [*place_of(address), ("load", "global", "e", "d")]
    address = toy.put(target, BASE + 4096, Access.WRITE)
    toy.run([*program, *place_of(address), ("store", "global", "d", "e")], toy.width)
    np.testing.assert_array_equal(target, source)


def test_one_instruction_is_asked_each_time_what_it_may(toy):
    """A region that was found before is remembered with what it allows."""
    first, second = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    toy.put(first, BASE)
    toy.put(second, BASE + 4096, Access.READ)
    body = [("store", "global", "d", "e"), ("add", "d", "d", "c"), ("add", "e", "e", "h")]
    program = [("const", "h", 1), ("const", "e", 1), ("const", "c", 4096), ("const", "d", BASE),
               ("const", "f", 3), ("while", [("less", "g", "e", "f")], "g", body)]  # fmt: skip
    with pytest.raises(EmulationFault, match=f"writes 4 bytes at 0x{BASE + 4096:x}"):
        toy.run(program, 1)
    assert (first[0], second[0]) == (1, 0)


def test_an_access_has_to_be_on_a_multiple_of_its_bytes(with_counters):
    toy = with_counters
    given = np.zeros(4, np.uint32)
    toy.put(given, BASE)
    program = [("const", "d", BASE + 4), ("load", "global", "j", "d", 64)]
    with pytest.raises(EmulationFault, match=r"8 bytes at .*, which is no multiple of 8") as fault:
        toy.run(program, 1)
    assert fault.value.kind == Fault.MISALIGNED


def at_any_byte(given, first, step, nbytes, count):
    """Integers of `nbytes` from byte `first + step * i` on."""
    data = given.tobytes()
    places = range(first, first + step * count, step)
    return np.array([int.from_bytes(data[at : at + nbytes], "little") for at in places], np.uint64)


@pytest.mark.parametrize("space", ["global", "shared", "local", "generic"])
@pytest.mark.parametrize("nbytes", [2, 4, 8])
@pytest.mark.parametrize("step", [1, 3, 8])
def test_a_machine_may_ask_for_no_alignment(with_exec, space, nbytes, step):
    """Values are read at odd addresses of one memory and written at odd addresses of another."""
    width, first = with_exec.width, 1
    size = first + step * width + nbytes
    given = np.random.default_rng(nbytes).integers(0, 256, size, np.uint8)
    copy = np.zeros(size, np.uint8)
    source, target = with_exec.put(given, BASE), with_exec.put(copy, BASE + 8192)
    program = [*place_of(source + first, step), ("load", "global", "e", "d", 8 * nbytes)]
    if space in ("shared", "local"):
        program += place_of(first, step) if space == "shared" else [("const", "d", 5)]
        program += [("store", space, "d", "e", 8 * nbytes), ("load", space, "e", "d", 8 * nbytes)]
    kind = "generic" if space == "generic" else "global"
    program += [*place_of(target + first, step), ("store", kind, "d", "e", 8 * nbytes)]
    with_exec.run(program, width, shared=size, local=16)
    np.testing.assert_array_equal(
        at_any_byte(copy, first, step, nbytes, width),
        at_any_byte(given, first, step, nbytes, width),
    )
    ends = {
        byte for i in range(width) for byte in range(first + step * i, first + step * i + nbytes)
    }
    np.testing.assert_array_equal(np.delete(copy, sorted(ends)), 0)


@pytest.mark.parametrize(("apart", "races"), [(2, False), (1, True)])
def test_parts_of_words_race_by_their_bytes(with_exec, apart, races):
    """The second warp's half word begins `apart` bytes behind the first warp's, at byte 3."""
    width = with_exec.width
    toy, given = with_exec, np.zeros(8, np.uint8)
    address = toy.put(given, BASE)
    program = [("id", "a"), ("const", "b", width), ("less", "e", "a", "b"),
               ("const", "d", address + 3), ("const", "f", 0x101),
               ("if", "e", [], [("const", "c", apart), ("add", "d", "d", "c"),
                                ("add", "f", "f", "f")]),
               ("store", "global", "d", "f", 16)]  # fmt: skip
    if not races:
        toy.run(program, 2 * width)
        return
    with pytest.raises(EmulationFault, match=r"a data race with .* on 2 bytes") as fault:
        toy.run(program, 2 * width)
    assert fault.value.kind == Fault.GLOBAL_RACE


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
def test_what_is_atomic_has_to_be_on_a_multiple_of_its_bytes(with_exec, space):
    toy = with_exec
    address = toy.put(np.zeros(4, np.uint32), BASE) if space != "shared" else 0
    program = [("const", "d", address + 2), ("const", "a", 1),
               ("atomic", "add", space, "j", "d", "a")]  # fmt: skip
    with pytest.raises(EmulationFault, match="which is no multiple of 4") as fault:
        toy.run(program, 1, shared=16)
    assert fault.value.kind == Fault.MISALIGNED


def test_a_fault_tells_the_thread_and_the_front_ends_place(toy):
    last = toy.width + 3
    given = np.zeros(last, np.uint32)
    address = toy.put(given)
    program = [*place_of(address), ("load", "global", "j", "d")]
    message = rf"thread \({last}, 0, 0\): .* right behind the allocation of {given.nbytes} bytes"
    with pytest.raises(EmulationFault, match=message) as fault:
        toy.run(program, last + 1)
    assert str(fault.value).endswith("(instruction 6 of the toy)")


def test_a_front_end_has_faults_of_its_own(toy):
    with pytest.raises(EmulationFault, match=r"thread \(0, 0, 0\): something odd \(") as fault:
        toy.run([("odd",)], 3)
    assert fault.value.kind == ODD


# -- atomics


@pytest.mark.parametrize("space", ["global", "shared"])
def test_each_lane_of_each_warp_adds_to_one_place(toy, space):
    threads, blocks = 2 * toy.width + 1, 1 if space == "shared" else 3
    counter = np.zeros(1, np.uint32)
    where = toy.put(counter, BASE) if space == "global" else 0
    zero = [("const", "e", 0), ("equal", "f", "a", "e"),
            ("if", "f", [("store", "shared", "d", "e")]), ("barrier",)]  # fmt: skip
    program = [("const", "d", where), *(zero if space == "shared" else []), ("const", "e", 1),
               ("atomic", "add", space, "j", "d", "e")]  # fmt: skip
    found = toy.results(program, threads, blocks, shared=4, host_threads=2)
    np.testing.assert_array_equal(np.sort(found), np.arange(threads * blocks))
    if space == "global":
        assert counter[0] == threads * blocks


# -- races in global memory


def test_two_blocks_that_write_one_place_are_a_race(toy):
    target = np.zeros(1, np.uint32)
    address = toy.put(target, BASE)
    program = [("const", "d", address), ("user", "e"), ("const", "f", 1), ("add", "e", "e", "f"),
               ("store", "global", "d", "e")]  # fmt: skip
    message = (
        rf"block \(1, 0, 0\), thread \(0, 0, 0\): a data race with thread \(0, 0, 0\) of block "
        rf"\(0, 0, 0\), which writes it on 4 bytes at 0x{BASE:x}, 0 bytes into the allocation"
    )
    with pytest.raises(EmulationFault, match=message) as fault:
        toy.run(program, 1, blocks=2)
    assert fault.value.kind == Fault.GLOBAL_RACE
    assert str(fault.value).endswith("(instruction 5 of the toy)")
    toy.run(program, 1, blocks=2, races=False)


def test_warps_of_a_block_race_in_global_memory_unless_a_barrier_is_between(toy):
    threads = 2 * toy.width
    target = np.arange(threads, dtype=np.uint32)
    address = toy.put(target, BASE)
    head = [*place_of(address), ("const", "b", threads - 1), ("sub", "b", "b", "a"),
            ("const", "c", 4), ("mul", "e", "b", "c"), ("const", "c", address),
            ("add", "e", "e", "c"), ("store", "global", "d", "a")]  # fmt: skip
    read = ("load", "global", "j", "e")
    with pytest.raises(EmulationFault, match="a data race with thread") as fault:
        toy.run([*head, ("add", "a", "a", "c"), read, ("store", "global", "d", "a"), read], threads)
    assert fault.value.kind == Fault.GLOBAL_RACE
    found = toy.results([*head, ("barrier",), read], threads)
    np.testing.assert_array_equal(found, np.arange(threads)[::-1])


def test_lanes_of_a_warp_race_in_global_memory_if_they_have_counters(toy):
    target = np.zeros(toy.width, np.uint32)
    address = toy.put(target, BASE)
    program = [*place_of(address), ("const", "b", toy.width - 1), ("sub", "b", "b", "a"),
               ("const", "c", 4), ("mul", "e", "b", "c"), ("const", "c", address),
               ("add", "e", "e", "c"), ("store", "global", "d", "a"),
               ("load", "global", "j", "e")]  # fmt: skip
    if toy.has_lane_counters:
        with pytest.raises(EmulationFault, match="a data race with thread"):
            toy.run(program, toy.width)
        return
    found = toy.results(program, toy.width)
    np.testing.assert_array_equal(found, np.arange(toy.width)[::-1])


# -- shared memory, local memory and generic addresses


def test_shared_memory_ends(toy):
    message = "8 bytes at offset 64 of shared memory, of which the block has 68 bytes"
    with pytest.raises(EmulationFault, match=message) as fault:
        toy.run([("const", "d", 64), ("store", "shared", "d", "d", 64)], 1, shared=68)
    assert fault.value.kind == Fault.SHARED


def test_threads_have_local_memory_of_their_own(toy):
    threads = toy.width + 2
    program = [("const", "d", 8), ("store", "local", "d", "a"), ("load", "local", "j", "d")]
    found = toy.results(program, threads, local=16)
    np.testing.assert_array_equal(found, np.arange(threads))
    with pytest.raises(EmulationFault, match="offset 16 of local memory, of which a thread has 16"):
        toy.run([("const", "d", 16), ("load", "local", "j", "d")], 1, local=16)


def test_lanes_of_one_generic_access_may_be_in_different_spaces(toy):
    """By a window of addresses for each space, which is the same for all threads."""
    width = toy.width
    given = np.arange(width, dtype=np.uint32) + 1000
    address = toy.put(given, BASE)
    select = [
        ("const", "e", 3), ("and", "e", "a", "e"), ("const", "f", 1), ("equal", "g", "e", "f"),
        ("if", "g", [("const", "c", 4), ("mul", "d", "a", "c"), ("const", "c", WINDOWS.shared),
                     ("add", "d", "d", "c")]),
        ("const", "f", 2), ("equal", "g", "e", "f"),
        ("if", "g", [("const", "d", WINDOWS.local + 4)]),
    ]  # fmt: skip
    program = [*place_of(address), *select, ("store", "generic", "d", "a"),
               ("load", "generic", "j", "d")]  # fmt: skip
    found = toy.results(program, width, shared=4 * width, local=16)
    np.testing.assert_array_equal(found, np.arange(width))
    lanes = np.arange(width)
    inside = (lanes & 3 == 0) | (lanes & 3 == 3)
    np.testing.assert_array_equal(given, np.where(inside, lanes, lanes + 1000))


def test_a_window_of_shared_memory_is_wider_than_what_a_block_has(toy):
    program = [("const", "d", WINDOWS.shared + 64), ("store", "generic", "d", "d")]
    with pytest.raises(EmulationFault, match="offset 64 of shared memory, of which") as fault:
        toy.run(program, 1, shared=64)
    assert fault.value.kind == Fault.SHARED


def test_what_is_still_being_read_must_not_be_written(toy):
    head = [("id", "a"), ("const", "c", 4), ("mul", "d", "a", "c"), ("store", "shared", "d", "a"),
            ("read_later", 0, 4 * toy.width)]  # fmt: skip
    again = ("store", "shared", "d", "c")
    message = "offset 0 of shared memory that the toy's engine of warp 0 may still read"
    with pytest.raises(EmulationFault, match=message) as fault:
        toy.run([*head, again], toy.width, shared=4 * toy.width)
    assert fault.value.kind == Fault.IN_FLIGHT
    toy.run([*head, ("wait",), again], toy.width, shared=4 * toy.width)
