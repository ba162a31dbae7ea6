"""The reasoned list of what is not covered or known to differ, and what it means for a result.

`known.toml` has a table of patterns of names that treadle does not have, each with its reason, and
a table for each kind of check: how many samples of a name differ at most, and why.
"""

from __future__ import annotations

import tomllib
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .check import Outcome

__all__ = ["known", "patterns", "problems"]


@cache
def known() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("known.toml").read_text(encoding="utf-8"))


def patterns(name: str) -> list[str]:
    """The patterns of names without a row that fit; the first one's reason counts."""
    return [pattern for pattern in known()["uncovered"] if fnmatchcase(name, pattern)]


def problems(name: str, found: dict[str, Outcome], is_whole: bool = True) -> list[str]:
    """Failures that are not on the list, and, if all samples ran (`is_whole`; errors always do),
    lines of the list that nothing fails any more, but for those of rounding.
    """
    may_agree = name in known()["rounding"]
    lines = []
    for kind, outcome in found.items():
        most, why = known().get(kind, {}).get(name, (0, ""))
        failing = outcome.failures
        if len(failing) > most:
            lines += [f"{kind}: {len(failing)} of {outcome.ran} fail, the list has {most}"]
            lines += [f"    {line}" for line in failing]
        if most and not failing and not may_agree and (is_whole or kind == "errors"):
            lines.append(f"{kind}: all {outcome.ran} pass; take the line out of the list ({why})")
    return lines
