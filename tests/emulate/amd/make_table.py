"""AMD's instruction encodings, as LLVM's TableGen dump has them, to the package's table.

    python -m tests.emulate.amd.make_table ENCODINGS.json.gz
    python -m tests.emulate.amd.make_lacking

ENCODINGS holds, for each instruction, a list of its bits by name: 15 MB of text, which takes 0.3 s
to read. The package's form says the same in a fifth: the fixed bits as two numbers (`mask`,
`value`), and what many rows share (fields, operands, predicates) once. Nothing is added and nothing
is looked up anywhere else, except for `NAMED`: classes that LLVM leaves without a name.
"""

import gzip
import itertools
import json
import sys
from pathlib import Path
from typing import Any

import treadle.emulate.amd

TABLE = Path(treadle.emulate.amd.__file__).parent / "encodings.json.gz"

# Classes that TableGen numbers instead of naming them, by what the rows that use them are. Of the
# modifiers, those of integers need a name: negation and absolute value mean nothing there.
NAMED = {
    **{f"anonymous_{n}": "IntT16InputMods" for n in (15717, 15722, 21077, 21081)},
    **{f"anonymous_{n}": "IntT16InputMods" for n in (21084, 21087, 21118, 21122)},
    "anonymous_15610": "VDst_32",
    "anonymous_15868": "VDst_32",
    "anonymous_15618": "VDst_32",
    "anonymous_15617": "VDst_64",
    "anonymous_15871": "VDst_64",
    "anonymous_15615": "VDst_128",
    "anonymous_15870": "VDst_128",
    "anonymous_15623": "VGPROp_64",
    "anonymous_15875": "VGPROp_64",
    "anonymous_15624": "VGPROp_32",
    "anonymous_15876": "VGPROp_32",
    "anonymous_21878": "SReg_32",
    "anonymous_24992": "SReg_32",
    "anonymous_29850": "SReg_32",
    "anonymous_22824": "ADst_32",
    "anonymous_26775": "VGPROp_16",
}
# Rows of a chip that has no decoder here; LLVM's namespace for it is GFX12's.
ELSEWHERE = "_gfx1250"


class Shared:
    """Values that many rows have in common: each is kept once, and named by its index."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[str, int] = {}

    def index(self, value: Any) -> int:
        key = json.dumps(value)
        if key not in self._index:
            self._index[key] = len(self.values)
            self.values.append(value)
        return self._index[key]


def fields(bits: list[str]) -> list[list[Any]]:
    """The named runs of bits as [name, position, width, lowest bit of the field].

    ["src:0", "src:1", "1"] gives [["src", 0, 2, 0]].
    """
    named = [(at, *bit.split(":")) for at, bit in enumerate(bits) if ":" in bit]
    places = [(name, at, int(number or 0)) for at, name, number in named]
    runs = itertools.groupby(places, lambda place: (place[0], place[1] - place[2]))
    found = []
    for (name, _), run in runs:
        members = list(run)
        found.append([name, members[0][1], len(members), members[0][2]])
    return found


def fixed(bits: list[str], symbols: str) -> int:
    """The number that has a one at each bit that is one of `symbols`."""
    return sum(1 << at for at, bit in enumerate(bits) if bit in tuple(symbols))


def compact(source: dict[str, Any]) -> dict[str, Any]:
    layouts, operands, predicates = Shared(), Shared(), Shared()
    rows: dict[str, list[Any]] = {}
    for name, row in source["insts"].items():
        if name.endswith(ELSEWHERE):
            continue
        sides = [[[n, NAMED.get(c, c)] for n, c in row[side]] for side in ("outs", "ins")]
        rows.setdefault(row["ns"], []).append(
            [
                name,
                row["asm"],
                row["size"],
                fixed(row["bits"], "01"),
                fixed(row["bits"], "1"),
                layouts.index(fields(row["bits"])),
                operands.index(sides),
                predicates.index(row.get("pred", [])),
            ]
        )
    return {
        "meta": {**source["meta"], "lacking": {chip: [] for chip in source["meta"]["chips"]}},
        "fields": layouts.values,
        "operands": operands.values,
        "predicates": predicates.values,
        "rows": rows,
    }


def main(path: str) -> None:
    with gzip.open(path) as file:
        source = json.load(file)
    text = json.dumps(compact(source), separators=(",", ":"))
    TABLE.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
