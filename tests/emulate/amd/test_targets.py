"""Addresses that code computes of its own place, as calls are made of."""

import pytest

from treadle.emulate.amd.decode import decode
from treadle.emulate.amd.names import canonical
from treadle.emulate.amd.operands import Kind, Operand
from treadle.emulate.amd.targets import Constants

START = 0x7_0000_0FF0
TABLE = {START + 4 + 64 + 8: 0x7_1234_5600}


def seen_by(chip, code, read=TABLE.get):
    """What is known after some instructions, given as hexadecimal."""
    constants, at, data = Constants(read), 0, bytes.fromhex(code)
    while at < len(data):
        item = decode(data, at, chip)
        constants.see(canonical(item.operation), START + at, item)
        at += item.size
    return constants


def pair(first):
    return Operand(Kind.SGPR, first, 64)


# s_getpc_b64 s[18:19]; s_add_u32 s18, s18, 64; s_addc_u32 s19, s19, 0
SUM = "001f92be 12c01280 13801382"


def test_a_distance_from_the_program_counter_is_an_address():
    constants = seen_by("gfx1030", SUM)
    assert constants.pair(pair(18)) == {START + 4 + 64}
    assert START + 4 + 64 in constants.seen


def test_a_negative_distance_borrows_from_the_upper_half():
    # s_getpc_b64 s[2:3]; s_sext_i32_i16 s3, s3; s_add_co_u32 s2, s2, -16
    # s_add_co_ci_u32 s3, s3, -1
    constants = seen_by("gfx1201", "004782be 030f83be 02d00280 03c10382")
    assert constants.pair(pair(2)) == {START + 4 - 16}


def test_a_table_of_addresses_is_read():
    # s_load_dwordx2 s[20:21], s[18:19], 0x8
    load = SUM + "090504f4 080000fa"
    assert seen_by("gfx1030", load).pair(pair(20)) == {0x7_1234_5600}
    assert seen_by("gfx1030", load, lambda _: None).pair(pair(20)) == set()


@pytest.mark.parametrize("again", ["040392be", "040393be", "0205247e", "0205267e"])
def test_what_is_set_to_something_else_is_not_known(again):
    # s_mov_b32 of s18 or of s19 from s4, and v_readfirstlane_b32 of them from v2
    assert seen_by("gfx1030", SUM + again).pair(pair(18)) == set()


def test_ways_that_part_do_not_change_each_other():
    constants = seen_by("gfx1030", SUM)
    other = constants.copy()
    item = decode(bytes.fromhex("040392be"), 0, "gfx1030")
    other.see("s_mov_b32", START, item)
    assert other.pair(pair(18)) == set()
    assert constants.pair(pair(18)) == {START + 4 + 64}
