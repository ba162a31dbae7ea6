"""How much of optimize, schedule and lower is about one operator, and which modules those are.

    python scripts/operator_lines.py

A module counts if it looks for one operator, or one composition of operators, and would have
nothing to do in programs without it: a product of matrices, attention, argmax, a scan, a sort, a
convolution's windows. It counts whole. What serves any loop, any reduction or any movement of data
does not count, nor do the formulas of elementwise functions, which are a table of `lower/math`.
Lines are those of code: no docstrings, comments, imports or blank lines.
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src" / "treadle"
ROOMS = ("optimize", "schedule", "lower")

# What each module knows.
KNOWN = {
    "optimize/carried_rows.py": "a chain of products on matrix units",
    "optimize/chained_matmul.py": "a product of a product",
    "optimize/column_reduction.py": "reductions and scans, down columns only",
    "optimize/hoist_masks.py": "a product under a mask",
    "optimize/matrix_units.py": "a product on matrix units",
    "optimize/row_blocking.py": "a chain of products",
    "optimize/row_tiles.py": "a chain of products on matrix units: rows against tiles of keys",
    "optimize/rows_of_totals.py": "reductions and scans, down columns only",
    "optimize/texels.py": "stores to textures",
    "optimize/two_level_argmax.py": "argmax",
    "optimize/variance.py": "a variance's sums",
    "optimize/warpgroup_units.py": "a product on units of warpgroups",
    "schedule/chain_results.py": "a chain of products: how its results are stored",
    "schedule/compared.py": "what is compared with its own extreme",
    "schedule/fuse_producer.py": "a product that one kernel reads",
    "schedule/local_intermediates.py": "a chain of products",
    "schedule/multi_output.py": "a chain of products with several results",
    "schedule/sorts.py": "a sort",
    "schedule/spread_windows.py": "gradients of windows",
    "schedule/textures.py": "textures",
    "lower/lane_scans.py": "a scan in lanes",
}


def code_lines(path: Path) -> int:
    """The lines of a module that some statement covers; docstrings and imports are not counted."""
    text = path.read_text(encoding="utf-8")
    kept = {n for n, line in enumerate(text.splitlines(), 1) if line.strip()[:1] not in ("", "#")}
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            assert node.end_lineno is not None  # of a module that was parsed
            kept.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(kept)


def counted(sources: Path = SOURCES) -> dict[str, int]:
    """The lines of each module of the three rooms."""
    paths = sorted(path for room in ROOMS for path in (sources / room).rglob("*.py"))
    return {path.relative_to(sources).as_posix(): code_lines(path) for path in paths}


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    lines = counted()
    for name, reason in KNOWN.items():
        print(f"{lines[name]:5} {name:36} {reason}")
    known, whole = sum(map(lines.__getitem__, KNOWN)), sum(lines.values())
    print(f"{known} of {whole} lines know an operator: {known / whole:.1%}")
    print(f"{code_lines(SOURCES / 'ir' / 'carried.py')} lines of ir/carried")


if __name__ == "__main__":
    main()
