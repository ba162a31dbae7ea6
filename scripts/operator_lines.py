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
    "optimize/attention.py": "attention: weights that stay in registers",
    "optimize/attention_gradients.py": "attention's gradients",
    "optimize/attention_masks.py": "attention: masks of scores",
    "optimize/attention_tiles.py": "attention: rows against tiles of keys",
    "optimize/cached_rows.py": "rows that a product reads twice, or gathers from",
    "optimize/chained_matmul.py": "a product of a product",
    "optimize/choose_tile.py": "a product: its tiles",
    "optimize/column_reduction.py": "reductions and scans, down columns only",
    "optimize/column_strips.py": "reductions and scans, down columns only",
    "optimize/float64_accumulation.py": "a variance's sums",
    "optimize/fragments.py": "a product: what matrix units hold of it",
    "optimize/grouped_matmul.py": "several products over the same rows and columns",
    "optimize/hoist_masks.py": "a product under a mask",
    "optimize/interleave.py": "stacked channels",
    "optimize/k_tiling.py": "a product in a workgroup",
    "optimize/masked_bounds.py": "attention: the bounds of rows under a mask",
    "optimize/matmul.py": "a product on a processor",
    "optimize/matmul_cost.py": "a product: its cost",
    "optimize/matmul_packing.py": "a product: its packed factors",
    "optimize/matmul_problem.py": "a product: its factors",
    "optimize/matmul_tiling.py": "a product: its loops",
    "optimize/matrix_units.py": "a product on matrix units",
    "optimize/one_hot_gather.py": "a sum under a one-hot mask",
    "optimize/packed_operands.py": "a product: a packed factor for warpgroups",
    "optimize/row_blocking.py": "a chain of products",
    "optimize/scans.py": "scans, down columns and along rows",
    "optimize/shared_operands.py": "a product: its factors in swizzled rows",
    "optimize/shared_tiles.py": "a product: its factors in shared memory",
    "optimize/split_concat.py": "a concatenation",
    "optimize/texels.py": "stores to textures",
    "optimize/transposes.py": "a transpose",
    "optimize/unit_loops.py": "a product on matrix units: its results",
    "optimize/warpgroup_units.py": "a product on units of warpgroups",
    "optimize/windows.py": "a convolution's windows",
    "optimize/zero_steps.py": "a product with steps of zeros, a convolution's padding",
    "schedule/chain_layouts.py": "a chain of products: its layout",
    "schedule/compared.py": "what is compared with its own extreme",
    "schedule/fuse_producer.py": "a product that one kernel reads",
    "schedule/local_intermediates.py": "a chain of products, or of attention",
    "schedule/multi_output.py": "a chain of products with several results",
    "schedule/scans.py": "a scan on GPUs",
    "schedule/sorts.py": "a sort",
    "schedule/spread_windows.py": "gradients of windows",
    "schedule/textures.py": "textures",
    "lower/lane_scans.py": "a scan in lanes",
    "lower/padded_rows.py": "a convolution's padding",
    "lower/transposed_stores.py": "a transposed tile",
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
    attention = sum(map(code_lines, (SOURCES / "ir").glob("attention*.py")))
    print(f"{known} of {whole} lines know an operator: {known / whole:.1%}")
    print(f"{attention} lines of ir/attention*")


if __name__ == "__main__":
    main()
