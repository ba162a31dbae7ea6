"""ROCm's code of bitsandbytes: LLVM's disassembler judges its decoding, NumPy its results."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from functools import cache

import numpy as np
import pytest
from tests.emulate.amd.bitsandbytes import LIBRARY, Case, cases
from tests.emulate.amd.foreign import CodeObject, code_objects, launched
from tests.emulate.amd.llvm import normal
from tests.emulate.amd.test_decode import same
from tests.emulate.judges import judge

from treadle.emulate.amd.decode import DecodeError, Instruction, decode

CHIPS = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201")
DECODED = (*CHIPS, "gfx950", "gfx1010", "gfx1200")
OBJDUMP = shutil.which("llvm-objdump-22")
LINE = re.compile(r"^\t(\S.*?)\s+// [0-9A-F]{12}: ([0-9A-F ]+?)(?: <.*)?$")
# Instructions of gfx950 that the table lacks.
LACKING = ("v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32", "v_bitop3_b16", "v_bitop3_b32")
CASES = cases()


@cache
def loaded(chip: str) -> tuple[CodeObject, ...]:
    library = judge("bitsandbytes") / "bitsandbytes" / LIBRARY
    return tuple(code_objects(library.read_bytes(), chip))


def disassembled(code: CodeObject, chip: str, folder) -> dict[bytes, str]:
    """LLVM's text of each instruction, once for all places where it stands."""
    file = folder / "code.o"
    file.write_bytes(code.elf)
    halves = ["--mattr=+real-true16"] if chip.startswith("gfx1") and chip > "gfx1099" else []
    ran = subprocess.run(
        [str(OBJDUMP), "-d", f"--mcpu={chip}", *halves, str(file)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = {}
    for line in ran.stdout.splitlines():
        if shown := LINE.match(line):
            words = (int(word, 16) for word in shown[2].split())
            found[b"".join(word.to_bytes(4, "little") for word in words)] = shown[1]
    return found


def is_same(found: Instruction, text: str) -> bool:
    """LLVM writes literals that look like constants as lit(...), and fillers as v_illegal."""
    return same(found, re.sub(r"lit\((\w+)\)", r"\1", normal(text)))


@pytest.mark.skipif(OBJDUMP is None, reason="llvm-objdump-22 is not installed")
@pytest.mark.parametrize("chip", DECODED)
def test_instructions_are_those_that_llvm_sees(request, tmp_path, chip):
    full = request.config.getoption("--full")
    seen = {}
    for code in loaded(chip) if full else loaded(chip)[1:]:
        seen |= disassembled(code, chip, tmp_path)
    assert len(seen) > (20_000 if full else 2000)
    if not full:
        seen = {code: seen[code] for code in random.Random(chip).sample(sorted(seen), 1000)}
    wrong = []
    for code, text in seen.items():
        if text.startswith(("v_illegal", *LACKING)):
            continue
        try:
            found = decode(code + bytes(8), 0, chip)
        except DecodeError:
            wrong.append((code.hex(), text, "no instruction"))
            continue
        if found.size != len(code) or not is_same(found, text):
            wrong.append((code.hex(), text, found.mnemonic))
    assert not wrong


def after(gpu, chip: str, case: Case) -> list[np.ndarray]:
    """What the memory of a case's arguments holds after its launch."""
    (code, name), = (
        (code, name) for code in loaded(chip) for name in code.kernels if case.symbol in name
    )  # fmt: skip
    groups = case.groups_of_wave.get(code.kernels[name].wave, case.groups)
    return launched(gpu, code, name, (groups, 1, 1), case.workgroup, case.arguments)


def chosen() -> list[tuple[str, str]]:
    """Chips and kernels: without --full, two other ones on each chip."""
    full = "FULL_TESTS" in os.environ
    names = {
        c: [*CASES] if full else random.Random(f"kernels {c}").sample([*CASES], 2) for c in CHIPS
    }
    return [(chip, name) for chip in CHIPS for name in names[chip]]


@pytest.mark.parametrize(("chip", "symbol"), chosen())
def test_kernels_give_what_numpy_gives(machine, chip, symbol):
    case = CASES[symbol]
    case.check(after(machine(chip), chip, case))
