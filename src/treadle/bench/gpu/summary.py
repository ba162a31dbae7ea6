"""What the parts have found, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ..machine import versions
from ..report import markdown
from .parts import PartResult

__all__ = ["as_json", "as_lines", "as_text"]

_OUTCOMES = ("passed", "failed", "cut", "skipped")
_TROUBLES = ("failed", "cut", "skipped")


def as_json(results: Sequence[PartResult]) -> dict[str, object]:
    """Every finding and note of every part."""
    parts = {
        result.part.name: {
            "passed": result.passed,
            "seconds": result.seconds,
            "findings": [asdict(finding) for finding in result.findings],
            "notes": result.notes,
        }
        for result in results
    }
    return {
        "passed": all(result.passed for result in results),
        "versions": versions(),
        "parts": parts,
    }


def as_text(results: Sequence[PartResult]) -> str:
    """The parts' own tables, one row for each part, and a line for all that did not pass."""
    texts = [text for result in results if (text := result.notes.get("text"))]
    rows = [
        [
            result.part.name,
            *(str(result.count(outcome)) for outcome in _OUTCOMES),
            f"{result.seconds:.0f}",
            "yes" if result.passed else "no",
        ]
        for result in results
    ]
    table = markdown(["part", *_OUTCOMES, "seconds", "all passed"], rows)
    return "\n\n".join([*texts, "\n".join(table), "\n".join(_troubles(results))]).rstrip()


def as_lines(result: PartResult) -> str:
    """One part as soon as it is done: how many of what, and its troubles."""
    counts = ", ".join(
        f"{count} {outcome}" for outcome in _OUTCOMES if (count := result.count(outcome))
    )
    head = f"{result.part.name}: {counts or 'nothing found'}, in {result.seconds:.0f} s"
    return "\n".join([head, *_troubles([result])])


def _troubles(results: Sequence[PartResult]) -> list[str]:
    """One line for each reason, with what it cost."""
    found: dict[tuple[str, str], list[str]] = {}
    for result in results:
        for finding in result.findings:
            if finding.outcome in _TROUBLES:
                names = found.setdefault((finding.outcome, finding.message), [])
                names.append(f"{result.part.name}: {finding.name}")
    order = sorted(found.items(), key=lambda item: _TROUBLES.index(item[0][0]))
    return [f"* {outcome}: {_few(names)}: {why}" for (outcome, why), names in order]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
