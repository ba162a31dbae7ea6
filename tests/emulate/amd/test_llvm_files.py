"""Every instruction of LLVM's own assembler tests, decoded blind."""

import re
from collections import Counter

import pytest
from tests.emulate.judges import judge

from treadle.emulate.amd.decode import DecodeError, decode
from treadle.emulate.amd.names import canonical

from .llvm_files import vectors

_SUFFIX = re.compile(r"(_e64_dpp|_e32|_e64|_sdwa|_dpp)$")

# Instructions of LLVM 19 that LLVM 22 took back; a row for them is nowhere.
_WITHDRAWN = ("buffer_load_lds_", "s_singleuse_vdst", "s_wakeup_barrier")


def name(code: bytes, chip: str, wave: int) -> str:
    """The operation that the package sees; empty where it sees none of that length."""
    try:
        found = decode(code + bytes(8), 0, chip, wave)
    except DecodeError:
        return ""
    return found.operation if found.size == len(code) else ""


def test_instructions_of_llvms_own_tests_have_their_length_and_name(request):
    if not request.config.getoption("--full"):
        pytest.skip("LLVM's 250,000 instructions are for --full")
    folder = judge("llvm")
    files = [*folder.rglob("*.s"), *folder.rglob("*.txt")]
    every = {vector for file in files for vector in vectors(file)}
    found = [one for one in every if not (one.chip >= "gfx11" and one.name.startswith(_WITHDRAWN))]
    assert len(found) > 200_000
    wrong = Counter()
    for chip, wave, code, expected in sorted(found):
        seen = name(code, chip, wave)
        if canonical(seen) != canonical(_SUFFIX.sub("", expected)):
            wrong[chip, expected, seen] += 1
    assert sum(wrong.values()) <= len(found) / 1000, wrong.most_common(20)
