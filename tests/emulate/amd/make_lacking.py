"""Rows of the package's table that a chip lacks by LLVM's disassembler, written into the table.

    python -m tests.emulate.amd.make_lacking

Some rows of the table have no predicate for the chips that have them: those of newer chips of
the same generation. Each row's samples are shown to LLVM, and a row none of whose samples LLVM
accepts is lacking on the chip; so is a row without samples whose operation is lacking.
"""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

from tests.emulate.amd.llvm import disassemble
from tests.emulate.amd.make_table import TABLE
from tests.emulate.amd.samples import sample

from treadle.emulate.amd.decode import DecodeError, decode
from treadle.emulate.amd.table import CHIPS, Row, rows, wave_sizes

SAMPLES = 12


def lacking(chip: str) -> list[str]:
    """The names of the rows that LLVM accepts none of."""
    draw = random.Random(chip)
    codes: list[bytes] = []
    shown: list[Row] = []
    for _, row in rows(chip, wave_sizes(chip)[0]):
        for code in (sample(row, chip, draw) for _ in range(SAMPLES)):
            try:
                found = decode(code, 0, chip)
            except DecodeError:
                continue
            if found.row is row:
                codes.append(found.code)
                shown.append(row)
    texts = zip(shown, disassemble(codes, chip), strict=True)
    accepted = {row.name: 0 for row in shown} | {row.operation: 0 for row in shown}
    for row, text in texts:
        accepted[row.name] += text is not None
        accepted[row.operation] += text is not None
    names = {row.name: row.operation for _, row in rows(chip, wave_sizes(chip)[0])}
    return sorted(
        name
        for name, operation in names.items()
        if not accepted.get(name, accepted.get(operation, 1))
    )


def write(table: dict[str, Any], names: dict[str, list[str]]) -> None:
    table["meta"]["lacking"] = names
    text = json.dumps(table, separators=(",", ":"))
    TABLE.write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> None:
    table = json.loads(gzip.decompress(TABLE.read_bytes()))
    chips = [chip for chip in CHIPS if chip in table["meta"]["chips"]]
    write(table, {chip: [] for chip in chips})
    write(table, {chip: lacking(chip) for chip in chips})


if __name__ == "__main__":
    main()
