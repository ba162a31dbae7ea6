"""Writes matrix_layouts.toml: which element each lane holds, as AMD's calculator prints it.

    python -m tests.emulate.amd.make_layouts matrix_calculator.py

The program is AMD's Matrix Instruction Calculator (MIT), which needs the package tabulate.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

FILE = Path(__file__).with_name("matrix_layouts.toml")
HEAD = """\
# Where AMD's Matrix Instruction Calculator (version of 20 May 2025) says that elements lie, made by
# make_layouts.py. Row, column and block of what lane 0 holds first are 0. Before the bar is what
# each bit of a lane's number adds to these, behind it what each bit of an element's number adds. Of
# a sparse A an element stands for two numbers of four; K has the four bits that pick them.
"""
WAVES = {"cdna2": (64,), "cdna3": (64,), "rdna3": (32, 64), "rdna4": (32, 64)}
Steps = list[tuple[int, ...]]


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def table(text: str) -> list[list[tuple[int, ...]]]:
    """The first element of each cell by lane: row, column, block."""
    rows = []
    for line in text.splitlines():
        if re.match(r"\d+,", line):
            found = (re.search(r"\[(\d+)\]\[(\d+)\](?:\.B(\d+))?", c) for c in line.split(",")[1:])
            rows.append([tuple(int(n or 0) for n in cell.groups()) for cell in found if cell])
    return rows


def steps(rows: list[list[tuple[int, ...]]]) -> tuple[Steps, Steps]:
    """What bits of the lane and of the element add. An error where there is more to it."""
    lanes, elements = len(rows).bit_length() - 1, len(rows[0]).bit_length() - 1
    by_lane = [rows[1 << bit][0] for bit in range(lanes)]
    by_element = [rows[0][1 << bit] for bit in range(elements)]
    for lane, row in enumerate(rows):
        for element, place in enumerate(row):
            parts = [s for bit, s in enumerate(by_lane) if lane >> bit & 1]
            parts += [s for bit, s in enumerate(by_element) if element >> bit & 1]
            assert place == tuple(map(sum, zip((0, 0, 0), *parts, strict=True)))
    return by_lane, by_element


def written(found: tuple[Steps, Steps]) -> str:
    return " | ".join(" ".join(",".join(map(str, step)) for step in part) for part in found)


def main() -> None:
    program, layouts = sys.argv[1], defaultdict(list)
    for architecture, waves in WAVES.items():
        names = run(program, "-a", architecture, "--list-instructions").split()
        for wave in waves:
            for name in (word for word in names if word.startswith("v_")):
                matrices = {"A": "-A", "B": "-B", "D": "-D"}
                if "smfmac" in name or "swmmac" in name:
                    matrices["K"] = "-k"
                options = (
                    "-a",
                    architecture,
                    "-i",
                    name,
                    "-w",
                    str(wave),
                    "--matrix-layout",
                    "--csv",
                )
                texts = tuple(
                    (matrix, written(steps(table(run(program, *options, option)))))
                    for matrix, option in matrices.items()
                )
                layouts[architecture, wave, texts].append(name)
    FILE.write_text(HEAD + "".join(_entry(*key, names) for key, names in layouts.items()))


def _entry(
    architecture: str, wave: int, texts: tuple[tuple[str, str], ...], names: list[str]
) -> str:
    lines = ["", "[[layouts]]", f'architecture = "{architecture}"', f"wave = {wave}"]
    lines.append("instructions = [" + "".join(f'\n  "{name}",' for name in names) + "\n]")
    return "\n".join([*lines, *(f'{matrix} = "{text}"' for matrix, text in texts)]) + "\n"


if __name__ == "__main__":
    main()
