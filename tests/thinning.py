"""What a run without `--full` leaves out of tests that are alike: the same of them every time.

    chosen("Tensor.sum axis 'a'", 2)   ->  True for about half of all names, of which each stays so

A test that takes several devices runs on the processor (CPU and REF) and on one of the others,
which one its name decides: each device runs a share of all tests. Where devices themselves are what
is tested (`ALL`), all run. A test whose cases take long together runs a share of them, which
shares.toml says, but with `--all-cases`. Nothing is left out with `--full`, with TEST_DEVICES, and
where tests are named one by one.
"""

from __future__ import annotations

import functools
import os
import tomllib
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

from treadle.backends import BACKENDS

ALL = ("tests/bench/", "tests/emulate/", "tests/runtime/")
OTHERS = [backend.name for backend in BACKENDS if backend.is_chosen_unasked]
SHARES = Path(__file__).with_name("shares.toml")
LONGEST = 1  # seconds of one core for all cases of a test that run
LONGER = {  # where each case is a subject of its own
    "tests/oracle/": 150, "tests/models/": 120, "tests/memory/": 20, "tests/test_docs.py": 60,
}  # fmt: skip


def chosen(name: str, of: int) -> bool:
    """Whether `name` is among the share 1 / `of` of all names that runs; with `--full` all are."""
    return "FULL_TESTS" in os.environ or zlib.crc32(name.encode()) % of == 0


def processor_and_one_other(devices: list[str], number: int) -> list[str]:
    """The first of `devices`, and of the others one, which `number` decides; with `--full` all."""
    if "FULL_TESTS" in os.environ or len(devices) < 3:
        return devices
    return [devices[0], devices[1 + number % (len(devices) - 1)]]


def thinned(items: list[Any], all_cases: bool = False) -> list[Any]:
    """The tests without most of those that are like another one, or, with `all_cases`, without
    those on other devices alone.
    """
    items = _one_other_device_each(items)
    return items if all_cases else _shares_of_cases(items, shares())


def _one_other_device_each(items: list[Any]) -> list[Any]:
    """The tests without most runs of those that take several devices beside the processor."""
    alike = defaultdict(list)
    for item in items:
        if name := _name_on_any_device(item):
            alike[name].append(item.nodeid)
    dropped = set()
    for name, runs in alike.items():
        runs.pop(zlib.crc32(name.encode()) % len(runs))
        dropped.update(runs)
    return [item for item in items if item.nodeid not in dropped]


def _name_on_any_device(item: Any) -> str:
    """The name of a test on such a device, without that of the device; else none."""
    given = getattr(item, "callspec", None)
    if given is None or item.nodeid.startswith(ALL):
        return ""
    for value in given.params.values():
        if isinstance(value, str) and value.partition(":")[0] in OTHERS:
            return item.nodeid.replace(value, "*")
    return ""


@functools.cache
def shares() -> dict[str, int]:
    """By test: of so many of its cases one runs."""
    files = tomllib.loads(SHARES.read_text(encoding="utf-8"))
    return {f"{file}::{name}": of for file, tests in files.items() for name, of in tests.items()}


def _shares_of_cases(items: list[Any], of: dict[str, int]) -> list[Any]:
    """The tests without most cases of those that `of` names; one of each stays in any case."""
    cases = defaultdict(list)
    for item in items:
        if (test := item.nodeid.partition("[")[0]) in of:
            cases[test].append(item.nodeid)
    dropped = set()
    for test, found in cases.items():
        found.sort(key=lambda name: (zlib.crc32(name.encode()), name))
        dropped.update(found[-(-len(found) // of[test]) :])
    return [item for item in items if item.nodeid not in dropped]


def shares_for(seconds: dict[str, list[float]]) -> str:
    """The text of shares.toml, by what each case of each test took, in seconds of one core."""
    files = defaultdict(list)
    for test, spent in sorted(seconds.items()):
        longest = next((most for folder, most in LONGER.items() if folder in test), LONGEST)
        of = min(len(spent), -(-int(sum(spent)) // longest))
        if of > 1:
            file, _, name = test.partition("::")
            files[file].append(f'"{name}" = {of}' if "::" in name else f"{name} = {of}")
    lines = [
        "# One case in so many runs of these tests, all of which take long: see thinning.py.",
        "# Written by `python -m tests.budgets FILE --shares`; FILE is of `pytest --all-cases`.",
    ]
    for file, tests in files.items():
        lines += ["", f'["{file}"]', *tests]
    return "\n".join([*lines, ""])
