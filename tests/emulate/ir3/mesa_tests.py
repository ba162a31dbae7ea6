"""The list of words and texts with which Mesa tests its own disassembler and assembler."""

import re
from typing import NamedTuple

from tests.emulate.judges import judge


class Line(NamedTuple):
    gpu: int
    word: int
    text: str
    can_be_assembled: bool


def lines(least=600, most=699):
    """Those of the generations from `least` to `most`."""
    path = judge("mesa") / "src" / "freedreno" / "ir3" / "tests" / "disasm.c"
    unused = re.compile(r"/\*.*?\*/|//[^\n]*|#if 0.*?#(?:else|endif)", re.DOTALL)
    text = unused.sub("", path.read_text(encoding="utf-8"))
    found = []
    for macro, word, shown, more in re.findall(
        r'INSTR_(\dXX(?:_RAW)?)\(([0-9a-fx_]+), "([^"]*)"([^\n]*)\)', text
    ):
        gpu = {"3": 320, "4": 420, "5": 540, "6": 630, "7": 730}[macro[0]]
        if least <= gpu <= most:
            number = int(word.replace("_", ""), 16)
            found.append(Line(gpu, number, shown, "parse_fail" not in more))
    return found
