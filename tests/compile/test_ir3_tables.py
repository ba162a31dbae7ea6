"""The tables of Adreno's instructions against Mesa's description of them, bit by bit."""

import math
import struct
from xml.etree import ElementTree as ET

import pytest
from tests.compile.mesa import described
from tests.emulate.judges import judge

from treadle.compile.ir3.tables import CONDITIONS, FLOATS, FORMS, TYPES, category, split_name

UNUSED = {"EQ", "LAST", "FULL"}  # fields that no instruction of ours has set
FLUT = (
    0.0, 0.5, 1.0, 2.0, math.e, math.pi, 1 / math.pi, math.log(2), 1 / math.log(2), math.log10(2),
    math.log2(10), 4.0,
)  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_what_mesa_says(name):
    form = FORMS[name]
    fields, known, ones = described(name)
    assert form.fixed & known == ones, "bits that tell it from others"
    for field, place in form.fields.items():
        assert fields[field] == place, field
    assert set(fields) - set(form.fields) <= UNUSED


@pytest.mark.parametrize("name", FORMS)
def test_the_bits_of_a_form_lie_in_no_field_of_it(name):
    form, taken = FORMS[name], 0
    for low, width in form.fields.values():
        bits = ((1 << width) - 1) << low
        assert not taken & bits
        taken |= bits
    assert not taken & form.fixed
    assert form.fixed >> 61 == form.category


def enum(name):
    """The numbers of an enum of Mesa's description by what it displays."""
    for path in (judge("mesa") / "src" / "freedreno" / "isa").glob("ir3*.xml"):
        for found in ET.parse(path).getroot().iter("enum"):
            if found.get("name") == name:
                return {v.get("display"): int(v.get("val")) for v in found.iter("value")}
    raise AssertionError(f"no enum {name}")


def test_types_conditions_and_floats_are_mesas():
    types = enum("#type")
    assert {name: types[name] for name in TYPES} == TYPES
    assert enum("#cond") == CONDITIONS

    bits = {struct.unpack("<I", struct.pack("<f", value))[0]: n for n, value in enumerate(FLUT)}
    assert bits == FLOATS
    assert len(enum("#flut")) == len(FLOATS)


@pytest.mark.parametrize(
    ("op", "parts", "kind"),
    [
        ("add.f", ("add.f", ""), 2), ("cmps.f.lt", ("cmps.f", "lt"), 2),
        ("mov.u32u32", ("mov", "u32u32"), 1), ("cov.f32f16.even", ("cov", "f32f16.even"), 1),
        ("ldg.a.u32", ("ldg.a", "u32"), 6), ("ldg.u16", ("ldg", "u16"), 6), ("rcp", ("rcp", ""), 4),
        ("bar.g", ("bar", "g"), 7), ("sel.b32", ("sel.b32", ""), 3), ("end", ("end", ""), 0),
    ],
)  # fmt: skip
def test_names_have_types_and_conditions_behind_them(op, parts, kind):
    assert split_name(op) == parts
    assert category(op) == kind
