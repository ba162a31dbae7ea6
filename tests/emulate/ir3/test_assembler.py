"""Mesa's assembler beside our decoder: a text becomes the word that it was read from.

Words of every form are decoded, Mesa's assembler reads the text, and what it makes of that is
decoded again. Bits that mean nothing may differ. What the assembler cannot do is in `LIMITS`.
"""

import random
import re

import pytest
from tests.emulate.ir3.assembler import ENDED, assemble
from tests.emulate.ir3.mesa_tests import lines
from tests.emulate.ir3.test_decode import FORMS, SHOWN_OTHERWISE
from tests.emulate.ir3.tinymesa import disassemble

from treadle.emulate.ir3.decode import Decoded, DecodeError, decode

FLOAT_TABLE = ("#multisrc-immed-flut-full", "#multisrc-immed-flut-half")
TABLE_NUMBERS = 12
NUMBER = "#mulitsrc-immed"
# Texts of words that no program has: Mesa's disassembler prints numbers for what has no name.
MEANINGLESS = re.compile(
    r"\(\)"  # no component is written
    r"|\bh?(?:a0|p0)\.[xyzw]"  # no register that holds numbers
    r"|cmp[sv]\.[fsu]\.[67] "  # no condition
    r"|\.[0-9]+\.3(?:[. ]|$)|\.k\.3"  # no way to name a descriptor
    r"|WARNING"  # Mesa 25.2 finds other bits wrong
)
BRANCHES = ("br", "brao", "braa", "brac", "bany", "ball", "kill")


def _operands(item):
    return [value for value in item.fields.values() if isinstance(value, Decoded)]


def _has(item, *kinds):
    return any(one.name in kinds for one in _operands(item))


def _sources(text):
    return text.split(", ")[1:]


def _mixes_widths(item, text):
    full = item.number("FULL")
    return _has(item, FLOAT_TABLE[0] if not full else FLOAT_TABLE[1])


def _has_flags_or_constants(item, text):
    first, _, third = _sources(text)
    return any(re.match(r"(\((neg|r|last)\))+h?(\d|[rc]<)|.*\bh?c", s) for s in (first, third))


def _is_no_plain_product(item, text):
    first, _, third = _sources(text)
    return not third.isdigit() or not re.match(r"(\(\w+\))*h?r\d", first)


def _is_float(item):
    return ".f" in item.name and item.name != "bary.f"


def _category(item):
    return item.word >> 61


# Why the assembler gives another word, no word, or ends: of which words, and which reason.
LIMITS = {
    "numbers of the float table are read as whole ones by what is no float operation": (
        lambda item, text: _category(item) == 2 and not _is_float(item) and _has(item, *FLOAT_TABLE)
    ),
    "whole numbers of float operations are read as numbers of the float table": (
        lambda item, text: _category(item) == 2 and _is_float(item) and _has(item, NUMBER)
    ),
    "a number of the float table has the width of the other source": (
        lambda item, text: _category(item) == 2 and _mixes_widths(item, text)
    ),
    "numbers of special functions end the process": (
        lambda item, text: _category(item) == 4 and _has(item, NUMBER, *FLOAT_TABLE)
    ),
    "whole numbers of these are read as numbers of the float table, or end the process": (
        lambda item, text: item.name in ("setrm", "msad", "shb") and _has(item, NUMBER)
    ),
    "Mesa 25.2 shows (r) where 25.0 shows (nop)": (
        lambda item, text: item.name in ("dp2acc", "dp4acc") and "(r)" in text
    ),
    "the first and the third source are no constants, and have flags in registers only": (
        lambda item, text: item.name
        in ("andg", "shlg", "shrg", "shlm", "shrm", "dp2acc", "dp4acc")
        and _has_flags_or_constants(item, text)
    ),
    "the last source of these products is a number, the first one a register": (
        lambda item, text: item.name in ("wmm", "wmm.accu") and _is_no_plain_product(item, text)
    ),
    "what an atomic operation of memory is given is no number": (
        lambda item, text: re.search(r"\batomic\.(?!b\.)", text)
        and re.search(r", \d+(,|$)", text)
    ),
    "the short forms of these have no text": (
        lambda item, text: re.search(r"(dccln|dcinv|dcflu)\.shr$|sleep\.s$", text)
    ),
    "u8_32 is read as u8": lambda item, text: _category(item) == 1 and "u8_32" in text,
    "a register that a0.x names is written without rounding": (
        lambda item, text: re.search(r"(even|infinity)\)h?r<", text)
    ),
    "movmsk writes no register that a0.x names": (
        lambda item, text: item.name == "movmsk" and "a0.x" in text
    ),
    "getlast is of 8 lanes": lambda item, text: item.name == "getlast" and ".w8 " not in text,
    "an offset of isam is read behind .v, and that only ahead of all other flags": (
        lambda item, text: item.name == "isam" and re.search(r"isam\.(?!v).*(\+|\.v)", text)
    ),
    "indices of bytes are shifted otherwise by Mesa 25.2": (
        lambda item, text: re.search(r"(ldg|stg)\.a\.u8", text)
    ),
    "offsets below 0 of ldg.k end the process": (
        lambda item, text: item.name == "ldg.k" and "-" in text
    ),
    "numbers of 16 bits have no more than that": (
        lambda item, text: item.name == "mov-immed"
        and re.search(r"(mov|cov)\.([su]16|u8)\D", text)
        and int(text.rpartition(", ")[2]) > 0xFFFF
    ),
    "a second source of these is dropped": (
        lambda item, text: re.search(r"quad_shuffle\.(horiz|vert|diag)", text)
        and len(_sources(text)) > 1
    ),
    "more than 8 lanes end the process": (
        lambda item, text: item.name == "brcst.active" and not re.search(r"\.w[248] ", text)
    ),
    "derivatives have one source, and give full registers": (
        lambda item, text: item.name in ("dsxpp.1", "dsypp.1")
        and not re.search(r"pp\.1 \(\w+\)r[^,]*, r[^,]*$", text)
    ),
    "resinfo ends the process": lambda item, text: item.name == "resinfo",
    "a texture or a sampler in a register ends the process": (
        lambda item, text: item.name in ("getbuf", "getinfo", "rgetinfo") and "s2en" in text
    ),
}  # fmt: skip
# Forms of which no word is drawn that can be read back: these texts are.
SPELLED = ["dsxpp.1 (xyz)r1.x, r2.x", "dsypp.1 (y)r1.x, r2.x", "getbuf (f32)(x)r1.x, t#0",
           "getinfo (u32)(x)r1.x, t#3", "rgetinfo (u32)(xyzw)r1.x",
           "quad_shuffle.horiz (u32)(x)r1.x, r2.x", "quad_shuffle.vert (u32)(x)r1.x, r2.x",
           "quad_shuffle.diag (u32)(x)r1.x, r2.x", "wmm r1.x, r2.x, (neg)r3.x, 1795",
           "wmm.accu r1.x, r2.x, r3.x, 7"]  # fmt: skip
UNSPELLED = {"resinfo", "brax"}  # one ends the process, one has no text


def _named(form, word):
    """The word with numbers of the float table that have names; None where it is none."""
    try:
        item = decode(word)
        for name, place in ((n, f) for case in form.cases for n, f in case.fields.items()):
            value = item.fields.get(name)
            if isinstance(value, Decoded) and value.name in FLOAT_TABLE and place.derived is None:
                bits = value.word & 0x3FF
                word = word & ~(0x3FF << place.low) | bits % TABLE_NUMBERS << place.low
        return decode(word)
    except DecodeError:
        return None


def _why_not(item, text):
    """Why the assembler cannot read this text as it is meant; None where it can."""
    return next((why for why, applies in LIMITS.items() if applies(item, text)), None)


def drawn(count, seed):
    """Words with their texts, and why each cannot be read back, or None: some of each form."""
    found = []
    for form in FORMS:
        rng, readable, others = random.Random(f"{form.name} {seed}"), 0, 0
        for _ in range(40 * count):
            item = _named(form, rng.getrandbits(64) & ~form.mask | form.ones)
            if item is None:
                continue
            text = disassemble([item.word])[0] if form.name in SHOWN_OTHERWISE else item.text
            if form.name == "brax" or (
                form.name not in BRANCHES and MEANINGLESS.search(text.replace("<a0.x", "<"))
            ):
                continue
            why = _why_not(item, text)
            readable += why is None
            others += why is not None
            if why is None or others <= count:
                found.append((item, text, why))
            if readable == count:
                break
    return found


def agrees(item, made):
    """Whether a word of the assembler's is what the text was decoded from."""
    if made is None or made == ENDED:
        return False
    try:
        return decode(made).text == item.text
    except DecodeError:
        return False


@pytest.fixture(scope="module")
def assembled(pytestconfig):
    """Words of every form, and what the assembler makes of their texts."""
    words = drawn(50 if pytestconfig.getoption("--full") else 12, 1)
    made = assemble(text for _, text, _ in words)
    return [(*one, word) for one, word in zip(words, made, strict=True)]


def test_texts_of_every_form_become_the_words_that_they_are_of(assembled):
    wrong = [
        (item.text, hex(item.word), made)
        for item, _, why, made in assembled
        if why is None and not agrees(item, made)
    ]
    assert wrong == []
    seen = {item.name for item, _, why, _ in assembled if why is None}
    spelled = {text.split()[0] for text in SPELLED}
    unseen = {form.name for form in FORMS} - seen - spelled
    assert unseen == UNSPELLED


def test_forms_with_few_texts_become_words_that_are_read_as_them():
    made = assemble(SPELLED)
    assert None not in made
    assert ENDED not in made
    assert [decode(word).text for word in made] == SPELLED
    (branch,) = assemble(["brax #5"])
    # Mesa's description has no text of brax, so its assembler has no place for the target.
    assert (decode(branch).name, decode(branch).number("IMMED")) == ("brax", 0)


def test_each_limit_of_the_assembler_is_one(assembled):
    """No reason excuses words that are all read back."""
    met = {why for item, _, why, made in assembled if why is not None and not agrees(item, made)}
    rare = "getinfo.a.o.s.s2en.uniform.base3 (u8)(yzw)hr38.x, hr31.x, r45.w"
    if assemble([rare]) == [ENDED]:
        met.add("a texture or a sampler in a register ends the process")
    assert set(LIMITS) - met == set()


def test_texts_of_mesas_list_become_its_words():
    rows = [row for row in lines() if not row.text.startswith("raw ") and row.can_be_assembled]
    assert len(rows) > 200
    wrong = {
        row.text
        for row, made in zip(rows, assemble(row.text for row in rows), strict=True)
        if made != row.word
    }
    # The list is of Mesa 25.0, which spells indices otherwise than the library's 25.2.
    assert {text.split(".a.")[0] for text in wrong} == {"ldg", "stg"}


def test_a_text_that_is_none_is_rejected_and_leaves_nothing_behind():
    good = "(sy)add.f r0.x, r0.y, c1.x"
    first, bad, second, ended, third = assemble(
        [good, "(ss)(rpt2)what r0.x", good, "resinfo.u32.1d r1.x, g[0]", good]
    )
    assert (bad, ended) == (None, ENDED)
    assert first == second == third
    assert decode(first).text == good
