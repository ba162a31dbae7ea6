"""What a run without `--full` leaves out of tests that are alike or take long.

    chosen("Tensor.sum axis 'a'", 2)   ->  True for about half of all names, of which each stays so

A test that takes several devices runs on the processor (CPU and REF) and on one of the others,
which one its name decides: each device runs a share of all tests. Where devices themselves are what
is tested (`ALL`), all run. A test that takes long runs a share of its cases, which shares.toml
says. One that takes long even so comes in turn: at every second, third or fourth commit, which the
commit decides, or `--turn`. With `--other-cases` each turn has other cases, and all cases run with
`--all-cases`. Nothing is left out with `--full`, with TEST_DEVICES, and where tests are named one
by one.
"""

from __future__ import annotations

import functools
import math
import os
import subprocess
import tomllib
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from treadle.backends import BACKENDS

ROOT = Path(__file__).parent.parent
ALL = ("tests/bench/", "tests/emulate/", "tests/runtime/")
PLAIN = {  # devices under test by their names with architectures
    name: plain
    for backend in BACKENDS
    for plain, names in backend.tested_devices.items()
    for name in names
}
OTHERS = [backend.name for backend in BACKENDS if backend.is_here and backend.nodes]
SHARES = Path(__file__).with_name("shares.toml")
LONGEST = 1.0  # seconds of one core for all cases of a test that run
LONGER = {  # where each case is a subject of its own
    "tests/oracle/": 75, "tests/models/": 60, "tests/memory/": 10, "tests/choices/": 12,
    "tests/distributed/": 10, "tests/replay/": 10,
    "tests/test_docs.py": 30,
    # What a change most often breaks without knowing: rules of the sources, at every commit.
    "tests/test_": 30,
}  # fmt: skip
MOST_TURNS = 4  # each test runs at one of so many commits, or more often
ALL_TURNS = 10 * math.lcm(*range(1, MOST_TURNS + 1))  # after so many all begins anew


def chosen(name: str, of: int) -> bool:
    """Whether `name` is among the share 1 / `of` of all names that runs; with `--full` all are."""
    return "FULL_TESTS" in os.environ or zlib.crc32(name.encode()) % of == 0


def processor_and_one_other(devices: list[str], number: int) -> list[str]:
    """The first of `devices`, and of the others one, which `number` decides; with `--full` all."""
    if "FULL_TESTS" in os.environ or len(devices) < 3:
        return devices
    return [devices[0], devices[1 + number % (len(devices) - 1)]]


def thinned(
    items: list[Any], turn: int = 0, all_cases: bool = False, other_cases: bool = False
) -> list[Any]:
    """The tests without most of those that are like another one or wait for their turn, or, with
    `all_cases`, without those on other devices alone. With `other_cases` each turn has others.
    """
    items = _one_other_device_each(_one_architecture_each(items))
    return items if all_cases else _shares_of_cases(items, shares(), turn, other_cases)


def _one_architecture_each(items: list[Any]) -> list[Any]:
    """The tests without most runs of those that take one device with several architectures."""
    alike = defaultdict(list)
    for item in items:
        name = item.nodeid
        for value in _names_of_devices(item):
            name = name.replace(value, PLAIN.get(value, value))
        alike[name].append(item.nodeid)
    return _one_each(items, alike)


def _one_each(items: list[Any], alike: dict[str, list[str]]) -> list[Any]:
    """The tests without most of each group, whose name decides which one stays."""
    dropped = set()
    for name, runs in alike.items():
        runs.pop(zlib.crc32(name.encode()) % len(runs))
        dropped.update(runs)
    return [item for item in items if item.nodeid not in dropped]


def _names_of_devices(item: Any) -> list[str]:
    """The devices beside the processor that a test takes, by the names of its parameters."""
    given = getattr(item, "callspec", None)
    values = given.params.values() if given is not None else ()
    return [v for v in values if isinstance(v, str) and v.partition(":")[0] in OTHERS]


def _one_other_device_each(items: list[Any]) -> list[Any]:
    """The tests without most runs of those that take several devices beside the processor."""
    alike = defaultdict(list)
    for item in items:
        if name := _name_on_any_device(item):
            alike[name].append(item.nodeid)
    return _one_each(items, alike)


def _name_on_any_device(item: Any) -> str:
    """The name of a test on such a device, without that of the device; else none."""
    for value in _names_of_devices(item) if not item.nodeid.startswith(ALL) else ():
        return item.nodeid.replace(value, "*")
    return ""


@functools.cache
def shares() -> dict[str, int]:
    """By test: of so many of its cases one runs; where it has fewer, one does in turn."""
    files = tomllib.loads(SHARES.read_text(encoding="utf-8"))
    return {f"{file}::{name}": of for file, tests in files.items() for name, of in tests.items()}


def _shares_of_cases(
    items: list[Any], of: dict[str, int], turn: int, other_cases: bool
) -> list[Any]:
    """The tests without most cases of those that `of` names: one of each stays where it is its
    turn.
    """
    cases = defaultdict(list)
    for item in items:
        if (test := item.nodeid.partition("[")[0]) in of:
            cases[test].append(item)
    dropped = set()
    for test, found in cases.items():
        found.sort(key=lambda item: (zlib.crc32(item.nodeid.encode()), item.nodeid))
        turns = min(MOST_TURNS, math.ceil(of[test] / len(found)))
        stay = math.ceil(len(found) / of[test]) if _has_turn(test, turn, turns) else 0
        first = turn // turns * stay % len(found) if other_cases else 0
        found = [*found[first:], *found[:first]]
        dropped.update(item.nodeid for item in found[stay:])
        for item in found[:stay]:
            item.stands_for = len(found) / stay
    return [item for item in items if item.nodeid not in dropped]


def turn_of_commit() -> int:
    """The number that the commit of this checkout has; 0 where there is no git."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False)
    return int(done.stdout[:8] or b"0", 16) % ALL_TURNS


def _has_turn(test: str, turn: int, of: int) -> bool:
    return (zlib.crc32(test.encode()) + turn) % of == 0


def shares_for(seconds: dict[str, list[float]], now: dict[str, int]) -> str:
    """The text of shares.toml, by what each test took in seconds of one core: each case that ran,
    times the cases that it stands for. What did not run keeps its share of `now`.
    """
    files = defaultdict(list)
    for test in sorted({*seconds, *now}):
        of = now.get(test, 1)
        if test in seconds:
            longest = next((most for folder, most in LONGER.items() if folder in test), LONGEST)
            of = math.ceil(sum(seconds[test]) / longest)
        if of > 1:
            file, _, name = test.partition("::")
            files[file].append(f'"{name}" = {of}' if "::" in name else f"{name} = {of}")
    lines = [
        "# One case in so many runs of these tests, all of which take long; where there are fewer",
        "# cases, one at so many commits: see thinning.py.",
        "# Written by `python -m tests.budgets FILE --shares`; FILE is of `pytest --resume=FILE`.",
    ]
    for file, tests in files.items():
        lines += ["", f'["{file}"]', *tests]
    return "\n".join([*lines, ""])
