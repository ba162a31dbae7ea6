"""Registers that all lanes of a wave share (r48.x to r55.w): what sets them, and who waits."""

import numpy as np
import pytest
from tests.emulate.ir3.conftest import END, NOPS
from tests.emulate.ir3.words import P0, immed, mov, move, r, word

from treadle.emulate.simt.execute import EmulationFault

R1, R5, R6 = 4, 20, 24
S0, S1 = 49 * 4, 49 * 4 + 1  # r48.x to r48.z are the workgroup's numbers
H0, H1 = 4 * 48 + 8, 4 * 48 + 9  # the halves of r49.x: hr50.x and hr50.y
LANES = np.arange(256, dtype=np.uint32)
SYNC = word("nop", SS=1)
EQ = 4


def add(target, a, b, **fields):
    return word("add.u", DST=target, FULL=1, SRC1=a, SRC2=b, **fields)


def lane_is(number):
    return [
        word("cmps.u", DST=P0, FULL=1, SRC1=r(R1), SRC2=immed(number), COND=EQ),
        NOPS,
    ]


def to_lanes(register=S0, kind="u32u32"):
    """What lanes find in a register that they share, in r5.x."""
    return [SYNC, mov(R5, register, kind), NOPS]


@pytest.mark.parametrize("has_scalar_alu", [False, True])
def test_what_is_computed_of_what_lanes_share_reaches_all_of_them(machine, has_scalar_alu):
    words = [move(S0, 40), SYNC, add(S1, r(S0), immed(2)), *to_lanes(S1)]
    (found,) = machine.values([(words, R5)], [LANES], has_scalar_alu=has_scalar_alu)
    assert (found == 42).all()


def test_each_wave_has_its_own(machine):
    words = [mov(S0, R1), *to_lanes()]
    (found,) = machine.values([(words, R5)], [LANES // 64], wave=64)
    assert np.array_equal(found, LANES // 64)


def test_each_workgroup_finds_its_number_and_may_set_it_anew(machine):
    out = np.zeros(3, np.uint32)
    words = [
        mov(8, 0, form="mov-const"), mov(9, 1, form="mov-const"), mov(16, 48 * 4), NOPS,
        add(48 * 4, r(48 * 4), immed(10)), SYNC, mov(20, 48 * 4), NOPS,
        word("stg.a", SRC1=8, SRC2=16, SRC3=20, TYPE=3, SIZE=1), END,
    ]  # fmt: skip
    machine.run(words, [out], workgroup=(1, 1, 1), workgroups=(3, 1, 1), has_scalar_alu=True)
    assert np.array_equal(out, [10, 11, 12])


def test_a_lane_that_acts_alone_sets_it_for_all(machine):
    words = [move(S0, 1), *lane_is(70), SYNC, word("br", IMMED=2), word("jump", IMMED=2),
             mov(S0, R1), *to_lanes()]  # fmt: skip
    (found,) = machine.values([(words, R5)], [LANES], wave=128)
    assert np.array_equal(found, np.where(LANES < 128, 70, 1))


def test_no_lane_that_acts_leaves_it_as_it_was(machine):
    words = [move(S0, 1), *lane_is(70), SYNC, word("predt"), mov(S0, R1), word("prede"),
             *to_lanes()]  # fmt: skip
    (found,) = machine.values([(words, R5)], [LANES], wave=64)
    assert np.array_equal(found, np.where(LANES // 64 == 1, 70, 1))


def test_two_halves_are_one_whole(machine):
    words = [
        move(S0, 0x10002), SYNC, move(H1, 7, "u16u16"), *to_lanes(),
        mov(R6, H0, "u16u32"), NOPS,
    ]  # fmt: skip
    whole, low = machine.values([(words, R5), (words, R6)], [LANES])
    assert (whole == 0x70002).all()
    assert (low == 2).all()


def refused(machine, words, message, **kernel):
    with pytest.raises(EmulationFault, match=message):
        machine.run([*words, END], workgroup=(64, 1, 1), **kernel)


def test_lanes_that_do_not_agree_are_a_fault(machine):
    refused(machine, [mov(S0, 0)], r"share to different numbers \(mov.u32u32 r49.x, r0.x at word 0")


def test_only_arithmetic_sets_it(machine):
    words = [word("rcp", DST=S0, FULL=1, SRC=R5)]
    refused(machine, words, "setting a register that all lanes share but by arithmetic")


# -- waits

SCALAR = add(S1, r(S0), immed(2))
LANE = add(R6, r(S1), r(R1))
TO_S1 = r"r49.y, which 'add.u r49.y, r49.x, 2' at word \d sets: no \(ss\)"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([SCALAR, LANE], TO_S1),
        ([SCALAR, NOPS, LANE], TO_S1),
        ([SCALAR, mov(S1, R1)], TO_S1),
        # The scalar ALU, which reads or sets a half of a whole.
        ([SCALAR, mov(H0 + 2, H1, "u16u16")], "hr50.z, which .* sets: no"),
        ([SCALAR, mov(S0, H0 + 2, "u16u32")], "hr50.z, which .* sets: no"),
        # What it reads late is set by lanes.
        ([SCALAR, mov(S0, R1)], r"r49.x, which 'add.u r49.y, .* reads: no \(ss\) or \(sy\)"),
        # A value of lanes' own, which is none of the scalar ALU's.
        ([mov(S1, R1), add(S0, r(S1), immed(1))], "r49.y, which 'mov.u32u32 r49.y, r1.x' .* sets"),
        # Its instructions are no cycles for those of lanes, which take three.
        ([move(R5, 1), SCALAR, word("nop"), add(R6, r(R5), r(R1))], "1 cycles between"),
        # Lanes of either predicate share it.
        ([word("predt"), SCALAR, word("predf"), LANE, word("prede")], TO_S1),
    ],
)
def test_who_waits(machine, words, message):
    start = [move(S0, 0), SYNC, move(P0, 1), move(R1, 0), NOPS]
    refused(machine, [*start, *words], message, has_scalar_alu=True)


@pytest.mark.parametrize(
    "words",
    [
        [SCALAR, SYNC, LANE],
        [SCALAR, add(S0, r(S1), immed(1)), add(S1, r(S0), immed(1))],
        [move(R5, 1), add(S1, r(S0), immed(2), NOP=3), add(R6, r(R5), r(R1))],
        [SCALAR, SYNC, mov(S0, R1)],
    ],
)
def test_who_does_not_wait(machine, words):
    start = [move(S0, 0), SYNC, move(R1, 0), NOPS]
    machine.run([*start, *words, END], has_scalar_alu=True)


def test_without_a_scalar_alu_all_wait(machine):
    words = [move(S0, 0), SYNC, SCALAR, add(S0, r(S1), immed(1))]
    refused(machine, words, TO_S1)
