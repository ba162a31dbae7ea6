"""Instructions of every encoding with LLVM's text, as a file that tests read where LLVM is not.

    python -m tests.emulate.amd.make_fixture

The instructions are drawn from the table's rows, a few for each encoding of each chip. Left out are
those that LLVM rejects, those that the package's own decoder rejects (it says how long a sample
is), and exports and images, whose operands the package does not print as LLVM does.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.emulate.amd.llvm import disassemble, normal
from tests.emulate.amd.samples import sample

from treadle.emulate.amd.decode import DecodeError, decode
from treadle.emulate.amd.table import CHIPS, Row, rows, wave_sizes

FIXTURE = Path(__file__).parent / "instructions.json"
PER_ENCODING = 12
LEFT_OUT = ("exp", "image_", "v_mfma_ld_scale")


def chosen(chip: str, draw: random.Random) -> list[Row]:
    by_encoding: dict[str, list[Row]] = {}
    for _, row in rows(chip, wave_sizes(chip)[0]):
        by_encoding.setdefault(row.encoding, []).append(row)
    return [
        row
        for _, those in sorted(by_encoding.items())
        for row in draw.sample(those, min(PER_ENCODING, len(those)))
    ]


def length(code: bytes, chip: str) -> int | None:
    try:
        return decode(code, 0, chip).size
    except DecodeError:
        return None


def main() -> None:
    draw = random.Random("instructions")
    found = {}
    for chip in CHIPS:
        drawn = [sample(row, chip, draw) for row in chosen(chip, draw)]
        sized = [(code, length(code, chip)) for code in drawn]
        codes = [code[:size] for code, size in sized if size]
        texts = disassemble(codes, chip)
        found[chip] = [
            [code.hex(), normal(text)]
            for code, text in zip(codes, texts, strict=True)
            if text and "DP ALU" not in text and not text.strip().startswith(LEFT_OUT)
        ]
    FIXTURE.write_text(json.dumps(found, indent=0) + "\n")


if __name__ == "__main__":
    main()
