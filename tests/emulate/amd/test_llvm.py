"""Random machine code, judged by LLVM's disassembler and assembler where they are installed.

pytest tests/emulate/amd/test_llvm.py             a few hundred words for each chip
pytest --full tests/emulate/amd/test_llvm.py      many more
"""

from __future__ import annotations

import random

import llvmlite.binding as llvm
import pytest
from tests.emulate.amd.llvm import PROGRAM, assemble, disassemble, normal
from tests.emulate.amd.samples import sample
from tests.emulate.amd.test_decode import OTHER_TEXT, same
from tests.render.test_amdgpu import FEW, PROGRAMS, compiled, lowered

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.amd.decode import DecodeError, Instruction, decode
from treadle.emulate.amd.operands import Kind
from treadle.emulate.amd.table import CHIPS, rows, wave_sizes
from treadle.emulate.amd.text import text
from treadle.render.amdgpu import AMDGPURenderer
from treadle.target import AMD_CHIPS, amd_target

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
    """What LLVM's disassembler refuses, though AMD's manuals have it.

    These are most atomics of gfx940 that return to an accumulator, and scalar loads of three words
    to the last TTMP registers, of which LLVM wants eight.
    """
    kinds = {name: one.kind for name, one in found.operands.items()}
    if found.row.name.endswith("_RTN_gfx940"):
        return kinds.get("vdst") is Kind.AGPR
    return found.operation.endswith("_load_b96") and kinds.get("sdst") is Kind.TTMP


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
    clean = [
        one
        for one, shown in zip(found, texts, strict=True)
        if shown and "/*" not in shown and not OTHER_TEXT.match(normal(shown))
    ]
    again = assemble([normal(text(one)) for one in clean], chip)
    moved = [
        (one.code.hex(), text(one), code and code.hex())
        for one, code in zip(clean, again, strict=True)
        if code is not None and normal(text(decode(code + bytes(8), 0, chip))) != normal(text(one))
    ]
    assert not moved
    assert sum(code is not None for code in again) > len(again) * 0.8


def compiled_program(chip: str) -> bytes:
    """The object file of one program's kernels, another one for each chip."""
    target, name = amd_target(chip), random.Random(f"ours {chip}").choice(FEW)
    source = AMDGPURenderer(target).render("k", lowered(PROGRAMS[name](), target), ())
    return LLVMCompiler(target).compile(source)


def instructions(object_file: bytes, chip: str) -> dict[bytes, Instruction]:
    """The different instructions of an object's code."""
    sections = llvm.ObjectFileRef.from_data(object_file).sections()
    code = next(bytes(part.data()) for part in sections if part.name() in (b".text", ".text"))
    found: dict[bytes, Instruction] = {}
    at = 0
    while at < len(code):
        try:
            one = decode(code, at, chip)
        except DecodeError:
            if chip != "gfx950":
                raise
            at += 8  # the table lacks some of its VOP3, which have no literals
            continue
        found.setdefault(one.code, one)
        at += one.size
    return found


@pytest.mark.parametrize("chip", AMD_CHIPS)
def test_the_code_of_our_kernels_is_what_llvm_reads_and_assembles_from_our_text(request, chip):
    full = request.config.getoption("--full")
    found = instructions(compiled(chip) if full else compiled_program(chip), chip)
    chosen = sorted(found)
    ours = [found[code] for code in chosen]
    texts = disassemble(chosen, chip)
    wrong = [
        (one.code.hex(), text(one), shown)
        for one, shown in zip(ours, texts, strict=True)
        if not shown or not same(one, normal(shown))
    ]
    assert not wrong
    for one, code in zip(ours, assemble([normal(text(one)) for one in ours], chip), strict=True):
        if code is not None and not OTHER_TEXT.match(text(one)):
            again = decode(code + bytes(8), 0, chip)
            assert normal(text(again)) == normal(text(one))
