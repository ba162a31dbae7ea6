"""`python -m tests.oracle.opinfo [name ...]`: treadle's score in PyTorch's OpInfo database.

Prints every failure with its reason, then for each kind of check how many names pass it. DEV=...
chooses the device.
"""

from __future__ import annotations

import sys

from treadle import Device

from .check import KINDS, check, names
from .known import known, patterns, problems
from .table import ROWS


def main(wanted: list[str]) -> int:
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        raise SystemExit(f"no row for {', '.join(unknown)}; layers are nn.functional.NAME")
    everything = names()
    found = {}
    unexpected = 0
    for name in wanted or sorted(ROWS):
        outcomes = check(name, Device.DEFAULT)
        if outcomes is None:
            print(f"{name}: not yet there")
            continue
        found[name] = outcomes
        unexpected += bool(problems(name, outcomes))
        for kind, outcome in outcomes.items():
            if outcome.failures:
                _, why = known().get(kind, {}).get(name, (0, "NOT ON THE LIST"))
                print(f"{name}: {kind}: {len(outcome.failures)} of {outcome.ran} differ: {why}")
        for line in problems(name, outcomes):
            print(f"{name}: {line}")
    if not wanted:
        for name in everything:
            for pattern in patterns(name)[: name not in ROWS]:
                print(f"{name}: not covered: {known()['uncovered'][pattern]}")
    print(f"\nnames in OpInfo: {len(everything)}, covered: {len(found)}")
    for kind in KINDS:
        ran = [found[name][kind] for name in found if found[name][kind].ran]
        passed = sum(not outcome.failures for outcome in ran)
        samples = sum(outcome.ran for outcome in ran)
        failing = sum(len(outcome.failures) for outcome in ran)
        print(f"{kind}: {passed} of {len(ran)} names, {samples - failing} of {samples} samples")
    whole = sum(not any(o.failures for o in outcomes.values()) for outcomes in found.values())
    correct = sum(
        not any(o.failures for kind, o in outcomes.items() if kind != "errors")
        for outcomes in found.values()
    )
    print(f"names passed: {correct} in values and gradients, {whole} in errors too")
    return 1 if unexpected else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
