"""Sources of nodes are read by name outside of `ir/`: by views, or by unpacking."""

from __future__ import annotations

import runpy
from pathlib import Path

COUNTER = Path(__file__).parent.parent / "scripts" / "count_positions.py"
MOST = 20  # such as the other shape of what has no name of its own


def test_few_sources_are_read_by_position() -> None:
    found = [f"{path.name}:{line}" for path, line in runpy.run_path(str(COUNTER))["positions"]()]
    assert len(found) <= MOST, f"give these sources names, by ir/views: {found}"


def test_positions_are_found(tmp_path: Path) -> None:
    (tmp_path / "ir").mkdir()
    (tmp_path / "ir" / "node.py").write_text("x = node.src[0]\n")
    (tmp_path / "lower.py").write_text("a, b = node.src\nc = node.src[1:]\nd = f(n.x.src[0])\n")
    found = runpy.run_path(str(COUNTER))["positions"](tmp_path)
    assert [line for _, line in found] == [2, 3]
