"""Structs: blocks of bytes with named fields."""

import pytest

from treadle.runtime.hardware.structs import Struct

INNER = Struct("inner", kind="u8", size="u32")
OUTER = Struct("outer", flag="u16", inner=INNER, row=("u16", 3), address="u64")


def test_fields_lie_at_multiples_of_their_size_as_in_c():
    assert INNER.offsets == {"kind": 0, "size": 4}
    assert OUTER.offsets == {"flag": 0, "inner": 4, "row": 12, "address": 24}
    assert (INNER.nbytes, OUTER.nbytes) == (8, 32)


def test_what_was_packed_is_unpacked():
    values = {"flag": 7, "inner": {"kind": 1, "size": 9}, "row": [1, 2, 3], "address": 1 << 40}
    assert OUTER.unpack(OUTER.pack(**values)) == values


def test_fields_that_are_not_named_are_zero():
    assert OUTER.unpack(OUTER.pack(flag=3))["row"] == [0, 0, 0]


def test_a_block_is_changed_in_place():
    block = OUTER.pack(flag=3)
    OUTER.put(block, address=5)
    assert (OUTER.unpack(block)["flag"], OUTER.unpack(block)["address"]) == (3, 5)


def test_an_unknown_field_is_an_error():
    with pytest.raises(KeyError):
        INNER.pack(colour=1)
