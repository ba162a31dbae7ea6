"""Random machine code, judged by LLVM's disassembler and assembler where they are installed.

pytest tests/emulate/amd/test_llvm.py             a few hundred words for each chip
pytest --full tests/emulate/amd/test_llvm.py      many more
"""

from __future__ import annotations

import random

import pytest
from tests.emulate.amd.llvm import PROGRAM, assemble, disassemble, normal
from tests.emulate.amd.samples import sample
from tests.emulate.amd.test_decode import same

from treadle.emulate.amd.decode import DecodeError, Instruction, decode
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.table import CHIPS, rows, wave_sizes
from treadle.emulate.amd.text import text

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="llvm-mc-22 is not installed")

_LONGEST = 24
# Images, whose addresses LLVM counts by the dimension, and exports: names and lengths are compared.
_ONLY_NAMES = ("image_", "exp")


def decoded(codes: list[bytes], chip: str) -> list[Instruction]:
    """What the package's decoder accepts of these bytes."""
    found = []
    for code in codes:
        try:
            found.append(decode(code, 0, chip))
        except DecodeError:
            continue
    return found


def words(chip: str, count: int, draw: random.Random) -> list[bytes]:
    """Random bytes: half of them have the fixed bits of some row, so that rare rows come up."""
    known = [row for _, row in rows(chip, wave_sizes(chip)[0])]
    found = []
    for number in range(count):
        word = draw.getrandbits(8 * _LONGEST)
        if number % 2:
            row = draw.choice(known)
            word = word & ~row.mask | row.value
        found.append(word.to_bytes(_LONGEST, "little"))
    return found


def name(shown: str) -> str:
    return normal(shown).split()[0]


def is_llvms_exception(found: Instruction) -> bool:
    """Atomics of gfx940 that return to an accumulator: LLVM's disassembler refuses most of them."""
    result = found.operands.get("vdst")
    return (
        found.row.name.endswith("_RTN_gfx940") and result is not None and result.kind is Kind.AGPR
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_random_words_that_are_accepted_are_accepted_by_llvm_under_the_same_name(request, chip):
    count = 20_000 if request.config.getoption("--full") else 600
    found = decoded(words(chip, count, random.Random(f"words {chip}")), chip)
    assert len(found) > count / 3
    texts = disassemble([one.code for one in found], chip)
    wrong = [
        (one.code.hex(), text(one), shown)
        for one, shown in zip(found, texts, strict=True)
        if not is_llvms_exception(one) and (not shown or name(text(one)) != name(shown))
    ]
    assert not wrong


@pytest.mark.parametrize("chip", CHIPS)
def test_instructions_of_every_row_have_llvms_text_and_are_assembled_to_themselves(request, chip):
    draw = random.Random(f"rows {chip}")
    known = [row for _, row in rows(chip, wave_sizes(chip)[0])]
    full = request.config.getoption("--full")
    chosen = known * 4 if full else draw.sample(known, 300)
    found = decoded([sample(row, chip, draw) for row in chosen], chip)
    found = [
        one
        for one in found
        if not one.operation.startswith(_ONLY_NAMES) and not is_llvms_exception(one)
    ]
    texts = disassemble([one.code for one in found], chip)
    wrong = [
        (one.code.hex(), text(one), shown)
        for one, shown in zip(found, texts, strict=True)
        if shown is None or ("DP ALU" not in shown and not same(one, normal(shown)))
    ]
    assert not wrong
    clean = [one for one, shown in zip(found, texts, strict=True) if shown and "/*" not in shown]
    again = assemble([normal(text(one)) for one in clean], chip)
    moved = [
        (one.code.hex(), text(one), code and code.hex())
        for one, code in zip(clean, again, strict=True)
        if code is not None and normal(text(decode(code + bytes(8), 0, chip))) != normal(text(one))
    ]
    assert not moved
    assert sum(code is not None for code in again) > len(again) * 0.8
