"""Which choices programs reached, and which of them met: the matrix, and what is left without.

python -m tests.choices CPU --count 20
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from treadle import Device
from treadle.ir.choices import CHOICES, Observed

__all__ = [
    "REASONS", "contradicted", "contradicted_pairs", "kind_of", "matrix", "merged", "unexplained",
    "unexplained_pairs", "unmet_pairs",
]  # fmt: skip

REASONS = tomllib.loads((Path(__file__).parent / "unreached.toml").read_text(encoding="utf-8"))


def merged(parts: Iterable[Observed]) -> Observed:
    """All that was observed."""
    whole = Observed()
    for part in parts:
        whole.kernels.update(part.kernels)
    return whole


def kind_of(device: str) -> str:
    """Which table of reasons is about a device: of processors, workgroups or matrix units."""
    name, _, rest = device.partition(":")
    if name == "CUDA":
        return "warpgroups" if "90a" in rest else "matrix_units"
    return "workgroups" if name == "WEBGPU" or rest.endswith("gpu") else "processors"


@functools.cache
def _kinds_of(device: str) -> frozenset[str]:
    """What rows name devices by: their kind, and a processor's width of vectors."""
    kinds = {kind_of(device)}
    if kinds == {"processors"}:
        kinds.add(f"vectors of {Device[device].target.vector_bytes} bytes")
    return frozenset(kinds)


def unexplained(reached: Collection[str], device: str) -> list[str]:
    """The choices that were not reached on a device and have no written reason for that."""
    return [n for n in CHOICES if n not in reached and _reason(n, device) is None]


def contradicted(reached: Collection[str], device: str) -> list[str]:
    """The choices that were reached although a reason says that no program reaches them."""
    return [n for n in CHOICES if n in reached and _reason(n, device) is not None]


def _reason(name: str, device: str) -> str | None:
    for row in REASONS["choice"]:
        if name in row["names"] and any(_fits(device, on) for on in row["on"]):
            return row["reason"]
    return None


def _fits(device: str, on: str) -> bool:
    return on in _kinds_of(device) or fnmatchcase(device, on)


def unexplained_pairs(seen: Observed, device: str) -> list[tuple[str, str]]:
    """The pairs of reached choices that never met, have no written reason, and are not listed."""
    listed = _tried(_kinds_of(device))
    return [pair for pair in _not_met(seen) if pair not in listed and _apart(pair, device) is None]


def unmet_pairs(seen: Observed, device: str) -> list[tuple[str, str]]:
    """The pairs that are listed as ones that can meet, and that did not."""
    listed = _tried(_kinds_of(device))
    return [pair for pair in _not_met(seen) if pair in listed]


def contradicted_pairs(seen: Observed, device: str) -> list[tuple[str, str]]:
    """The pairs that met although a reason says that they cannot.

    Reasons about all choices of a stage are none of those: they say why nobody looks for such.
    """
    met = sorted(seen.pairs())
    return [pair for pair in met if _apart(pair, device, with_stages=False) is not None]


def _not_met(seen: Observed) -> list[tuple[str, str]]:
    reached, met = sorted(seen.reached()), seen.pairs()
    return [(a, b) for a in reached for b in reached if a < b and (a, b) not in met]


def _rows(table: str, kinds: Collection[str]) -> list[dict[str, Any]]:
    """The rows of a table of nests, kernels or pairs that are about one of those kinds."""
    return [row for row in REASONS[table] if {*kinds} & {*row.get("on", ["processors"])}]


@functools.cache
def _tried(kinds: frozenset[str]) -> dict[tuple[str, str], str]:
    """The pairs that no program makes meet yet, each with what was tried."""
    unmet = _rows("unmet", kinds)
    rows = ((row["one"], other, row["why"]) for row in unmet for other in row["other"])
    return {(min(one, other), max(one, other)): why for one, other, why in rows}


def _apart(pair: tuple[str, str], device: str, with_stages: bool = True) -> str | None:
    """Why two choices cannot meet in a kernel; None where nobody has said so.

    `with_stages`: rows that are about all choices of a stage count.
    """
    kind, kinds = kind_of(device), _kinds_of(device)
    for row in REASONS["apart"]:
        if kinds.isdisjoint(row.get("on", kinds)):
            continue
        for one, other in (pair, pair[::-1]):
            others = row["other"] if with_stages else CHOICES.keys() & set(row["other"])
            if _among(one, row["one"]) and _among(other, others):
                return row["reason"]
    first, second = (_forms_of(name, kind) for name in pair)
    if not first or not second or any(_go_together(a, b, kind) for a in first for b in second):
        return None
    return f"no kernel has a nest that is {_or(first)}, and one that is {_or(second)}"


def _forms_of(name: str, kind: str) -> list[str]:
    """The forms of nests in which a choice is made; none for those that any nest can have."""
    return [row["name"] for row in _rows("form", [kind]) if name in row["choices"]]


def _go_together(one: str, other: str, kind: str) -> bool:
    """Whether a kernel can have nests of both forms."""
    return one == other or any({one, other} <= {*row["forms"]} for row in _rows("kernel", [kind]))


def _or(names: list[str]) -> str:
    return " or ".join(names)


def _among(name: str, names: Collection[str]) -> bool:
    """Whether `names` lists a choice, or its stage as "stage:lower"."""
    return name in names or f"stage:{CHOICES[name].stage}" in names


def matrix(seen: Observed, device: str) -> str:
    """A row for each choice: in how many kernels it was, and its number of partners; then pairs."""
    reached, met = seen.reached(), seen.pairs()
    counts = {name: sum(n for k, n in seen.kernels.items() if name in k) for name in reached}
    numbers = {name: number for number, name in enumerate(sorted(reached), 1)}
    lines = [f"{device}: {len(reached)} of {len(CHOICES)} choices, {len(met)} pairs of them"]
    for name in sorted(reached):
        partners = [numbers[b if a == name else a] for a, b in met if name in (a, b)]
        with_whom = " ".join(map(str, sorted(partners)))
        lines.append(f"{numbers[name]:3} {name:26} {counts[name]:6} kernels, with {with_whom}")
    missing = [name for name in CHOICES if name not in reached]
    lines += [f"    {name:26} {_reason(name, device) or 'NO REASON'}" for name in missing]
    found = contradicted(reached, device)
    lines.append(f"{len(found)} choices were reached although a reason says that none is")
    lines += [f"    {name:26} {_reason(name, device)}" for name in found]
    apart = unexplained_pairs(seen, device)
    unmet = unmet_pairs(seen, device)
    lines.append(f"{len(unmet)} pairs may meet, and no program makes them meet yet")
    lines += [f"    {a} and {b}: {_tried(_kinds_of(device))[a, b]}" for a, b in unmet]
    lines.append(f"{len(apart)} pairs did not meet for no written reason")
    lines += [f"    {a} and {b}" for a, b in apart]
    wrong = contradicted_pairs(seen, device)
    lines.append(f"{len(wrong)} pairs met although a reason says that they cannot")
    lines += [f"    {a} and {b}: {_apart((a, b), device, with_stages=False)}" for a, b in wrong]
    return "\n".join(lines)
