"""Programs of a few words: ways, memory, what lanes share, and what is refused."""

import numpy as np
import pytest
from tests.emulate.ir3.conftest import END, NOPS
from tests.emulate.ir3.words import A0, P0, c, immed, mov, move, r, word

from treadle.emulate.ir3.machine import WAVES
from treadle.emulate.simt.execute import EmulationFault

R1, R2, R3, R4, R5, R6, R7, R8 = (4 * n for n in range(1, 9))
LT, GE, EQ, NE = 0, 3, 4, 5
SYNC = word("nop", SS=1, SY=1)
LANES = np.arange(256, dtype=np.uint32)


@pytest.fixture(params=WAVES)
def wave(request):
    return request.param


def is_less(source, number, flag=0):
    """p0's flag of whether a register is less than a number."""
    return [word("cmps.u", DST=P0 + flag, FULL=1, SRC1=r(source), SRC2=immed(number), COND=LT),
            NOPS]  # fmt: skip


def add(target, a, b):
    return word("add.u", DST=target, FULL=1, SRC1=a, SRC2=b, NOP=3)


# -- ways


def test_lanes_part_at_a_branch_and_meet_again(machine, wave):
    words = [
        *is_less(R1, 100),
        word("br", IMMED=3),
        move(R5, 7),  # those that are not less
        word("jump", IMMED=2),
        move(R5, 5),
        word("nop", JP=1, REPEAT=3),
        add(R5, r(R5), r(R1)),
    ]
    (found,) = machine.values([(words, R5)], [LANES], wave)
    assert np.array_equal(found, np.where(LANES < 100, 5, 7) + LANES)


def test_each_lane_goes_round_a_loop_as_often_as_it_likes(machine, wave):
    words = [
        move(R5, 0), move(R6, 0), NOPS,
        add(R5, r(R5), r(R6)),  # the sum of the numbers below
        add(R6, r(R6), immed(1)),
        word("cmps.u", DST=P0, FULL=1, SRC1=r(R6), SRC2=r(R1), COND=LT), NOPS,
        word("br", IMMED=-4),
    ]  # fmt: skip
    (found,) = machine.values([(words, R5)], [LANES], wave)
    counts = np.maximum(LANES, 1)
    assert np.array_equal(found, counts * (counts - 1) // 2)


@pytest.mark.parametrize(
    ("name", "fields", "holds"),
    [
        ("br", {}, LANES < 9), ("br", {"INV1": 1}, LANES >= 9),
        ("braa", {"COMP2": 1}, (LANES < 9) & (LANES < 5)),
        ("braa", {"COMP2": 1, "INV2": 1}, (LANES < 9) & (LANES >= 5)),
        ("brao", {"COMP2": 1, "INV1": 1}, (LANES >= 9) | (LANES < 5)),
        ("bany", {}, LANES < 64), ("ball", {}, LANES < 0), ("ball", {"INV1": 1}, LANES >= 64),
    ],
)  # fmt: skip
def test_conditions_of_branches(machine, name, fields, holds):
    words = [*is_less(R1, 9), *is_less(R1, 5, 1), move(R5, 1), word(name, IMMED=2, **fields),
             move(R5, 0), NOPS]  # fmt: skip
    (found,) = machine.values([(words, R5)], [LANES])
    assert np.array_equal(found, holds)


def test_lanes_that_act_by_a_predicate(machine, wave):
    words = [
        *is_less(R1, 70), move(R5, 3), NOPS,
        word("predt"), SYNC, add(R5, r(R1), immed(1)),
        word("predf"), SYNC, add(R5, r(R1), immed(2)),
        word("prede"), add(R5, r(R5), immed(10)),
    ]  # fmt: skip
    (found,) = machine.values([(words, R5)], [LANES], wave)
    assert np.array_equal(found, LANES + np.where(LANES < 70, 1, 2) + 10)


# -- registers


def test_an_instruction_that_repeats_goes_on_to_the_next_registers(machine):
    words = [
        move(R5, 1), move(R5 + 1, 2), move(R5 + 2, 3), NOPS,
        word("add.u", DST=R6, FULL=1, REPEAT=2, SRC1=r(R5), SRC2=r(R1), SRC1_R=1), NOPS,
        word("mad.u24", DST=R7, SRC1=r(R6), SRC2=R6 + 1, SRC3=r(R6 + 2)),
    ]  # fmt: skip
    (found,) = machine.values([(words, R7)], [LANES])
    assert np.array_equal(found, (LANES + 1) * (LANES + 2) + LANES + 3)


def test_the_halves_of_a_register_are_two_half_registers(machine):
    words = [
        mov(2 * R5, R1, "u32u16"), mov(2 * R5 + 1, R2, "u32u16"),  # hr10.x and hr10.y: r5.x
    ]  # fmt: skip
    values = LANES * 257
    (found,) = machine.values([(words, R5)], [values, values + 3])
    assert np.array_equal(found, (values & 0xFFFF) | (values + 3) << 16)


def test_moves_of_several_values_are_at_once(machine):
    swap = [mov(R5, R1), mov(R6, R2), NOPS,
            word("swz", SRC_TYPE=3, DST_TYPE=3, DST0=R5, DST1=R6, SRC0=R6, SRC1=R5)]  # fmt: skip
    gather = [word("gat", SRC_TYPE=3, DST_TYPE=3, DST0=R5, SRC0=R2, SRC1=R1, SRC2=R2, SRC3=R1)]
    scatter = [
        *(move(R6 + i, 9 + i) for i in range(4)), NOPS,
        word("sct", SRC_TYPE=3, DST_TYPE=3, DST0=R7, DST1=R8, DST2=R5, DST3=R4, SRC0=R6),
    ]  # fmt: skip
    pieces = [(swap, R5), (swap, R6), (gather, R5 + 1), (gather, R5 + 2), (scatter, R5)]
    found = machine.values(pieces, [LANES, LANES + 500])
    for values, expected in zip(found, (LANES + 500, LANES, LANES, LANES + 500, 11), strict=True):
        assert np.array_equal(values, np.broadcast_to(expected, 256))


def test_registers_and_constants_that_a0_names(machine):
    place = [word("and.b", DST=R3, FULL=1, SRC1=r(R1), SRC2=immed(3), NOP=3),
             mov(2 * R4, R3, "u32u16"), NOPS, mov(A0, 2 * R4, "s16s16"), NOPS]  # fmt: skip
    read = [*place, *(move(R6 + i, 30 + i) for i in range(4)), NOPS,
            mov(R5, 1 << 11 | R6, form="mov-relgpr")]  # fmt: skip
    read[-1] = mov(R5, R6, form="mov-relgpr")
    written = [*place, *(move(R6 + i, 0) for i in range(4)), NOPS,
               mov(R6, R1, DST_REL=1), NOPS,
               add(R5, r(R6), r(R6 + 1)), add(R5, r(R5), r(R6 + 2)),
               add(R5, r(R5), r(R6 + 3))]  # fmt: skip
    (found, sums) = machine.values([(read, R5), (written, R5)], [LANES])
    assert np.array_equal(found, 30 + LANES % 4)
    assert np.array_equal(sums, LANES)


# -- memory


def test_elements_of_all_sizes(machine, wave):
    data = np.arange(2048, dtype=np.uint16) * 517
    out = np.zeros(256, np.uint32)
    words = [
        add(R1, r(0), immed(0)),
        word("shl.b", DST=R1, FULL=1, SRC1=r(0), SRC2=immed(1), NOP=3),
        add(R2, c(0), r(R1)), mov(R2 + 1, 1, form="mov-const"), NOPS,
        word("ldg", DST=2 * R5, SRC1=R2, TYPE=2, SIZE=2, OFF=4),  # hr10.x, hr10.y: r5.x
        word("ldg", DST=R6, SRC1=R2, TYPE=7, SIZE=1, OFF=1),
        SYNC, add(R5, r(R5), r(R6)),
        word("shl.b", DST=R1, FULL=1, SRC1=r(0), SRC2=immed(2), NOP=3),
        SYNC, add(R2, c(2), r(R1)), mov(R2 + 1, 3, form="mov-const"), NOPS,
        word("stg", SRC1=R2, SRC3=R5, TYPE=3, SIZE=1), END,
    ]  # fmt: skip
    machine.run(words, [data, out], workgroup=(256, 1, 1), wave=wave)
    base, bytes_of = np.arange(256), data.view(np.uint8)
    expected = data[base + 2] | data[base + 3].astype(np.uint32) << 16
    assert np.array_equal(out, expected + bytes_of[2 * base + 1])


def test_an_index_is_moved_up_and_counts_elements(machine):
    data, out = np.arange(1024, dtype=np.uint32) * 3, np.zeros(512, np.uint32)
    addresses = [mov(R2 + i, i, form="mov-const", REPEAT=0) for i in range(2)]
    addresses += [mov(R3 + i, 2 + i, form="mov-const") for i in range(2)]
    words = [
        *addresses, NOPS,
        word("ldg.a", DST=R5, SRC1=R2, SRC2=0, SRC2_ADD_DWORD_SHIFT=1, OFF=1, TYPE=3, SIZE=2),
        SYNC,
        word("stg.a", SRC1=R3, SRC2=0, SRC2_ADD_DWORD_SHIFT=1, SRC3=R5, TYPE=3, SIZE=2), END,
    ]  # fmt: skip
    machine.run(words, [data, out], workgroup=(256, 1, 1))
    assert np.array_equal(out, data[1:513])


def test_shared_memory_behind_a_barrier(machine, wave):
    mirrored = [
        word("shl.b", DST=R3, FULL=1, SRC1=r(0), SRC2=immed(2), NOP=3),
        move(R4, 255 * 4), NOPS,
        word("sub.u", DST=R4, FULL=1, SRC1=r(R4), SRC2=r(R3), NOP=3), NOPS,
        word("stl", DST=R3, SRC=R1, TYPE=3, SIZE=1),
        word("bar", L=1, SS=1, SY=1),
        word("ldl", DST=R5, SRC=R4, TYPE=3, SIZE=1),
    ]  # fmt: skip
    (found,) = machine.values([(mirrored, R5)], [LANES], wave, shared_bytes=1024)
    assert np.array_equal(found, LANES[::-1])


def test_each_work_item_has_private_memory(machine, wave):
    words = [
        move(R3, 8), NOPS,
        word("stp", DST=R3, SRC=R1, TYPE=3, SIZE=1, OFF_LO=4),
        SYNC,
        word("ldp", DST=R5, SRC=R3, TYPE=3, SIZE=1, OFF=4),
    ]  # fmt: skip
    (found,) = machine.values([(words, R5)], [LANES], wave, private_bytes=16)
    assert np.array_equal(found, LANES)


@pytest.mark.parametrize(
    ("name", "start", "expected"),
    [
        ("add", 5, 5 + 255 * 128), ("sub", 0, -255 * 128), ("max", 7, 255), ("min", 7, 0),
        ("and", 255, 0), ("or", 0, 255), ("xor", 0, 0), ("xchg", 0, None), ("cmpxchg", 17, 273),
    ],
)  # fmt: skip
def test_atomic_operations(machine, name, start, expected):
    cell = np.array([start, 0], np.int32)
    words = [
        *(mov(R2 + i, i, form="mov-const") for i in range(2)), mov(R3, 0), NOPS,
        add(R3 + 1, r(0), immed(256)),  # what cmpxchg puts there
        NOPS,
        word(f"atomic.g.{name}", DST=R5, SRC1=R2, SRC2=R3, TYPE=3), END,
    ]  # fmt: skip
    machine.run(words, [cell], workgroup=(256, 1, 1))
    assert cell[0] in range(256) if expected is None else cell[0] == expected
    assert cell[1] == 0


def test_atomic_operations_in_shared_memory(machine, wave):
    words = [
        move(R3, 0), move(R4, 1), NOPS,
        word("stl", DST=R3, SRC=R3, TYPE=3, SIZE=1), word("bar", L=1, SS=1, SY=1),
        word("atomic.add", DST=R6, SRC1=R3, SRC2=R4, TYPE=3), word("bar", L=1, SS=1, SY=1),
        word("ldl", DST=R5, SRC=R3, TYPE=3, SIZE=1),
    ]  # fmt: skip
    (total,) = machine.values([(words, R5)], [LANES], wave, shared_bytes=16)
    assert np.array_equal(total, np.full(256, 256))


def test_numbers_of_workgroups_and_work_items(machine, wave):
    out = np.zeros(24 * 6, np.uint32)
    words = [
        word("mad.u24", DST=R1, SRC1=c(2, cat3=True), SRC2=2, SRC3=r(1)),  # z * 3 + y
        NOPS, word("mad.u24", DST=R1, SRC1=c(3, cat3=True), SRC2=R1, SRC3=r(0)),  # * 4 + x
        word("mad.u24", DST=R2, SRC1=c(3, cat3=True), SRC2=4 * 48 + 1, SRC3=r(4 * 48)),
        NOPS, word("mad.u24", DST=R3, SRC1=c(4, cat3=True), SRC2=R2, SRC3=r(R1)), NOPS,
        word("shl.b", DST=R4, FULL=1, SRC1=r(R3), SRC2=immed(2), NOP=3),
        add(R5, c(0), r(R4)), mov(R5 + 1, 1, form="mov-const"), NOPS,
        word("stg", SRC1=R5, SRC3=R3, TYPE=3, SIZE=1), END,
    ]  # fmt: skip
    machine.run(words, [out], [3, 4, 24], (4, 3, 2), (2, 2, 1), wave)
    assert np.array_equal(out[: 24 * 2], np.arange(48))


# -- numbers that have no exact result


@pytest.mark.parametrize(("how", "steps"), [(0, (-1, 1)), (2, (1, 1)), (3, (-1, -1))])
def test_halves_are_rounded_as_asked(machine, how, steps):
    values = np.array([1 + 2**-11 + 2**-13, -1 - 2**-11 - 2**-13, 1e30, -1e30], np.float32)
    words = [mov(2 * R4, R1, "f32f16", ROUND=how), NOPS, mov(R5, 2 * R4, "f16f32")]
    (found,) = machine.values([(words, R5)], [values])
    low, high = np.float32(1), np.float32(1 + 2**-10)
    expected = {
        0: [low, -low, 65504, -65504], 2: [high, -low, np.inf, -65504],
        3: [low, -high, 65504, -np.inf],
    }[how]  # fmt: skip
    assert np.array_equal(found.view(np.float32), np.array(expected, np.float32))


def test_floats_too_small_for_their_exponent_become_0(machine):
    tiny = np.array([1e-40, -1e-40, 2e-38, -2e-38], np.float32)
    scale = np.array([1e30, 1e30, 0.25, 0.25], np.float32)
    product = [word("mul.f", DST=R5, FULL=1, SRC1=r(R1), SRC2=r(R2))]
    moved = [mov(R5, R1, "f32f32")]
    (found, same) = machine.values([(product, R5), (moved, R5)], [tiny, scale])
    assert np.array_equal(found, np.array([0, 1 << 31, 0, 1 << 31], np.uint32))
    assert np.array_equal(same, tiny.view(np.uint32))


# -- what is refused


def swz(first, second):
    """Moves r7.x and r8.x to two registers."""
    return word("swz", SRC_TYPE=3, DST_TYPE=3, DST0=first, DST1=second, SRC0=R7, SRC1=R8)


def refused(machine, words, message, **kernel):
    with pytest.raises(EmulationFault, match=message):
        machine.run([*words, END], [np.zeros(4, np.uint32)], **kernel)


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize(
    ("first", "needed", "second"),
    [
        (move(R1, 1), 3, word("add.u", DST=R2, FULL=1, SRC1=r(R1), SRC2=immed(1))),
        (move(R1, 1), 6, word("rcp", DST=R2, FULL=1, SRC=R1)),
        (move(R1, 1), 6, mov(R2, 2 * R1, "u16u32")),
        (move(R1, 1), 1, word("mad.u24", DST=R2, SRC1=r(R3), SRC2=R3, SRC3=r(R1))),
        (move(R1, 1), 3, word("sel.b32", DST=R2, SRC1=r(R3), SRC2=R3, SRC3=r(R1))),
        (word("cmps.u", DST=P0, FULL=1, SRC1=r(0), SRC2=immed(3)), 6, word("br", IMMED=1)),
        (mov(A0, 0, "s16s16", "mov-immed"), 6, mov(R2, R1, form="mov-relgpr")),
        (swz(R1, R2), 2, word("add.u", DST=R3, FULL=1, SRC1=r(R1), SRC2=immed(1))),
        (swz(R2, R1), 3, word("add.u", DST=R3, FULL=1, SRC1=r(R1), SRC2=immed(1))),
        (mov(R1, 0, form="mov-gpr", REPEAT=2, SRC_R=1), 1,
         word("add.u", DST=R2, FULL=1, SRC1=r(R1), SRC2=immed(1))),
    ],
)  # fmt: skip
def test_a_result_takes_its_time(machine, first, needed, second, is_there):
    words = [first, *[word("nop")] * (needed if is_there else needed - 1), second]
    if is_there:
        machine.run([*words, NOPS, END])
    else:
        refused(machine, words, rf"{needed - 1} cycles between|cycles between, and it takes")


def test_what_moves_two_values_takes_two_cycles(machine):
    words = [move(R1, 1), swz(R2, R3), word("add.u", DST=R4, FULL=1, SRC1=r(R1), SRC2=immed(1))]
    refused(machine, words, "2 cycles between, and it takes 3")
    machine.run([*words[:2], word("nop"), *words[2:], END])


@pytest.mark.parametrize("flags", [{}, {"SY": 1}, {"SS": 1}])
@pytest.mark.parametrize(
    ("first", "flag"),
    [
        (word("rcp", DST=R1, FULL=1, SRC=R5), "SS"),
        (word("ldl", DST=R1, SRC=R5, TYPE=3, SIZE=1), "SS"),
        (word("ldp", DST=R1, SRC=R5, TYPE=3, SIZE=1), "SY"),
    ],
)
@pytest.mark.parametrize("second", [mov(R2, R1), move(R1, 2)])
def test_a_result_is_waited_for_by_its_flag(machine, first, flag, second, flags):
    words = [move(R5, 0), NOPS, word("stl", DST=R5, SRC=R5, TYPE=3, SIZE=1),
             word("stp", DST=R5, SRC=R5, TYPE=3, SIZE=1), first, word("nop", **flags)]  # fmt: skip
    memory = {"shared_bytes": 16, "private_bytes": 16, "workgroup": (1, 1, 1)}
    if flag in flags:
        machine.run([*words, second, END], **memory)
    else:
        refused(machine, [*words, second], rf"r1.x, which .* no \({flag.lower()}\)", **memory)


def test_a_source_is_read_late(machine):
    words = [move(R5, 0), NOPS, word("rcp", DST=R1, FULL=1, SRC=R5)]
    refused(machine, [*words, move(R5, 3)], r"r5.x, which 'rcp r1.x, r5.x' at word 2 reads")
    machine.run([*words, word("nop", SS=1), move(R5, 3), END])


def test_what_one_way_of_two_sets_late_is_too_early(machine):
    words = [
        word("cmps.u", DST=P0, FULL=1, SRC1=r(0), SRC2=immed(300), COND=LT), NOPS,
        word("br", IMMED=2), word("sqrt", DST=R1, FULL=1, SRC=R5), mov(R2, R1),
    ]  # fmt: skip
    # No lane goes that way, and yet it is a fault.
    refused(machine, words, r"mov.u32u32 r2.x, r1.x at word 4: r1.x, which 'sqrt r1.x, r5.x'")


def by_a_predicate(*words):
    return [*is_less(0, 2), move(R5, 0), NOPS, *words, word("nop"), END]


LATE = word("rcp", DST=R1, FULL=1, SRC=R5)  # sets r1.x, for which (ss) waits


def test_lanes_of_either_predicate_do_not_wait_for_each_other(machine):
    # Some lanes' r1.x is under way, and those of the others is set.
    words = [word("predt"), LATE, word("predf"), move(R1, 2), word("prede")]
    machine.run(by_a_predicate(*words, NOPS, word("nop", SS=1), mov(R2, R1)))
    machine.run(by_a_predicate(word("predf"), LATE, word("predt"), move(R1, 2), word("prede")))


@pytest.mark.parametrize(
    "words",
    [
        # The lanes meet again, whichever of them was last.
        [word("predt"), LATE, word("predf"), word("prede"), mov(R2, R1)],
        [word("predt"), word("predf"), LATE, word("prede"), mov(R2, R1)],
        [word("predt"), LATE, word("prede"), word("nop"), mov(R2, R1)],
        # One side, and what was before they parted.
        [word("predf"), word("nop"), LATE, word("nop"), mov(R2, R1)],
        [LATE, word("predt"), word("nop", SS=1), word("predf"), mov(R2, R1)],
        # The waiting of one side is none of the other.
        [LATE, word("predt"), word("nop", SS=1), word("prede"), mov(R2, R1)],
        # The flag is another one now.
        [word("predt"), LATE, *is_less(0, 3), word("predf"), mov(R2, R1)],
    ],
)
def test_what_lanes_that_act_by_a_predicate_do_not_wait_for(machine, words):
    message = r"mov.* r2.x, r1.x at word \d+: r1.x, which 'rcp r1.x, r5.x' .* sets: no \(ss\)"
    refused(machine, by_a_predicate(*words), message)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([word("dsx", DST=R1, SRC1=R2)], "dsx has no meaning here"),
        ([word("cmpv.f", DST=R1, FULL=1, SRC1=r(0), SRC2=r(0))], "cmpv.f.lt .* no meaning here"),
        ([0xFFFF_FFFF_FFFF_FFFF], "is no instruction"),
        ([word("nop") | 1 << 32], "nop has bits"),
        ([word("jump", IMMED=9)], "the program has 2 words"),
        ([word("add.u", DST=R1, FULL=1, SRC1=c(7), SRC2=r(0))], "c1.w is read, and 2 are loaded"),
        ([move(4 * 40, 1)], "r40.x, and a work item has 8 full registers"),
        ([word("add.f", DST=R1, FULL=1, SRC1=r(0), SRC2=immed(1))], "whole number .* floats"),
        ([move(R2, 1), NOPS, mov(A0, 500, "s16s16", "mov-immed"), NOPS,
          mov(R1, R2, form="mov-relgpr")], "a0.x leads to register or constant 508"),
        ([word("predt"), word("br", IMMED=1)], "between predt and prede"),
    ],
)  # fmt: skip
def test_what_is_not_emulated_is_a_fault_where_it_stands(machine, words, message):
    refused(machine, words, message, registers=32)


def test_what_no_lane_reaches_is_no_fault(machine):
    machine.run([word("jump", IMMED=2), word("dsx", DST=R1, SRC1=R2), END])


@pytest.mark.parametrize("space", ["stg", "stl", "stp"])
def test_an_address_outside_of_memory_is_a_fault(machine, space):
    fields = {"SRC1": R1, "SRC3": R1} if space == "stg" else {"DST": R1, "SRC": R1}
    words = [move(R1, 4096), move(R1 + 1, 0), NOPS, word(space, TYPE=3, SIZE=1, **fields)]
    refused(machine, words, rf"{space}.u32 .* at word 3", shared_bytes=64, private_bytes=64)


def test_a_program_without_an_end_is_a_fault(machine):
    with pytest.raises(EmulationFault, match="the program has 1 words"):
        machine.run([word("nop")])
