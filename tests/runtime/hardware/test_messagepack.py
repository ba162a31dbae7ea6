"""MessagePack, by the examples and the formats of its specification."""

import pytest

from treadle.errors import InternalError
from treadle.runtime.hardware.messagepack import unpacked


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("00", 0), ("7f", 127), ("ff", -1), ("e0", -32), ("cc80", 128), ("cdffff", 65535),
        ("ce80000000", 1 << 31), ("cfffffffffffffffff", (1 << 64) - 1), ("d080", -128),
        ("d18000", -32768), ("d280000000", -(1 << 31)), ("d38000000000000000", -(1 << 63)),
        ("ca3fc00000", 1.5), ("cb3ff8000000000000", 1.5), ("c0", None), ("c2", False), ("c3", True),
        ("a0", ""), ("a3616263", "abc"), ("d903616263", "abc"), ("da0003616263", "abc"),
        ("db00000003616263", "abc"), ("c4020001", b"\0\1"), ("c500020001", b"\0\1"),
        ("c6000000020001", b"\0\1"), ("90", []), ("93010203", [1, 2, 3]), ("dc00020102", [1, 2]),
        ("dd000000020102", [1, 2]), ("82a16101a16293c0c2c3", {"a": 1, "b": [None, False, True]}),
        ("de0001a16101", {"a": 1}), ("df00000001a16101", {"a": 1}),
    ],
)  # fmt: skip
def test_each_format_gives_its_value(data, value):
    found = unpacked(bytes.fromhex(data))
    assert (found, type(found)) == (value, type(value))


def test_long_texts_and_lists_have_lengths_of_their_own():
    assert unpacked(b"\xda\x01\x00" + b"x" * 256) == "x" * 256
    assert unpacked(b"\xdc\x01\x00" + b"\x05" * 256) == [5] * 256


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "cut short at byte 0"), ("cd00", "cut short at byte 2"), ("93 01 02", "cut short"),
        ("00 00", "1 bytes behind the value"), ("c1", "no value begins with 0xc1"),
        ("d4 01 00", "no value begins with 0xd4"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused(data, why):
    with pytest.raises(InternalError, match=why):
        unpacked(bytes.fromhex(data))
