"""Words and texts: Mesa's own list, and Mesa's disassembler on words of every form."""

import random

import pytest
from tests.emulate.ir3.mesa_tests import lines
from tests.emulate.ir3.tinymesa import disassemble

from treadle.emulate.ir3.decode import GPU, DecodeError, decode
from treadle.emulate.ir3.table import INSTRUCTION, table

FORMS = [f for f in table().forms[INSTRUCTION] if f.least_gpu <= GPU <= f.most_gpu]
# Mesa 25.2, of which the library is, shows these otherwise than 25.0, of which the table is.
SHOWN_OTHERWISE = {"ldg.a", "stg.a", "dp2acc", "dp4acc", "bary.f", "flat.b", "brax"}
ERRORS = ("no match", "dontcare", "WARNING", "no field", "conflict")


def test_words_of_mesas_list_have_its_texts():
    rows = lines(300, 799)
    assert len(rows) > 270
    for row in rows:
        if row.text.startswith("raw "):
            with pytest.raises(DecodeError, match="is no instruction"):
                decode(row.word, row.gpu)
        else:
            assert decode(row.word, row.gpu).text == row.text, hex(row.word)


def _words(form, count, seed):
    rng = random.Random(f"{form.name} {seed}")
    return [rng.getrandbits(64) & ~form.mask | form.ones for _ in range(count)]


def _text(word):
    """A word's text; None where it is no instruction."""
    try:
        return decode(word).text
    except DecodeError:
        return None


def test_words_of_every_form_have_the_texts_of_mesas_disassembler(pytestconfig):
    count = 200 if pytestconfig.getoption("--full") else 12
    words = [(form.name, word) for form in FORMS for word in _words(form, count, 1)]
    seen = set()
    for (name, word), text in zip(words, disassemble(w for _, w in words), strict=True):
        is_wrong = "\n" in text or any(error in text for error in ERRORS)
        ours = _text(word)
        if name not in SHOWN_OTHERWISE:
            assert is_wrong == (ours is None), (hex(word), text, ours)
            assert ours in (text, None), hex(word)
        if ours is not None:
            seen.add(name)
    unseen = {form.name for form in FORMS} - seen - SHOWN_OTHERWISE
    assert len(unseen) < 25, f"no word of these was right: {sorted(unseen)}"


def test_no_word_is_of_two_forms():
    rng = random.Random(5)
    for form in FORMS:
        for word in _words(form, 8, rng.random()):
            assert table().find(INSTRUCTION, word, GPU) is form


def test_a_bit_that_is_to_be_0_is_an_error():
    with pytest.raises(DecodeError, match="stg has bits 0x400000"):
        decode(0xC0C6_0100_01C0_0000 | 1 << 23)
    with pytest.raises(DecodeError, match="to be 0"):
        decode(0x0000_0001_0000_0000)  # of nop


def test_a_word_of_another_generation_is_no_instruction():
    ray = 0xC380941E_0703C079
    assert decode(ray, 730).name == "ray_intersection"
    with pytest.raises(DecodeError, match="no instruction"):
        decode(ray, 630)
