"""How often the code outside of `ir/` reads a node's sources by position: `.src[0]`, `.src[1:]`.

    python scripts/count_positions.py            the number, and the files with the most
    python scripts/count_positions.py --lines    every place

What a source is for is said by `ir/views` and by unpacking, so such places should be few.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent / "src" / "treadle"
MOST_SHOWN = 12


def positions(sources: Path = SOURCES) -> Iterator[tuple[Path, int]]:
    """The file and line of each subscript of an attribute `src`."""
    for path in sorted(sources.rglob("*.py")):
        if path.relative_to(sources).parts[0] == "ir":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
                if node.value.attr == "src":
                    yield path, node.lineno


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lines", action="store_true", help="every place")
    found = list(positions())
    if parser.parse_args().lines:
        for path, line in found:
            print(f"{path.relative_to(SOURCES)}:{line}")
    counts = Counter(path for path, _ in found)
    print(f"{len(found)} places in {len(counts)} files")
    for path, count in counts.most_common(MOST_SHOWN):
        print(f"{count:5} {path.relative_to(SOURCES)}")


if __name__ == "__main__":
    main()
