"""What the same tests take on several devices, in seconds of one core.

    python -m tests.suite_time CUDA AMD:LLVM:gfx1030 AMD:HIP:gfx90a --of 20 --rounds 3

    device                passed  failed  skipped  seconds  beside CUDA
    CUDA                      61       0        2     40.1         1.00
    AMD:LLVM:gfx1030          61       0        2     71.9         1.79

Of all tests that take one device, one in `--of` runs, which `--seed` chooses by the tests' names:
the same on each device. The devices take turns, each time with an empty cache of compiled kernels.
The seconds are those of the processor that the tests spent, without imports: others on the same
machine change them little. Beside the first device stands the median of the rounds' quotients.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from treadle.backends import BACKENDS

from .records import Record, read_records

ROOT = Path(__file__).parent.parent
DEVICES = [backend.name for backend in BACKENDS]
TESTS = ("tests/tensor", "tests/runtime/contract", "tests/engine", "tests/nn", "tests/func")
_DEVICE, _OF, _SEED = "SUITE_DEVICE", "SUITE_OF", "SUITE_SEED"  # for the process that runs them


def is_of(name: str, device: str, of: int, seed: int) -> bool:
    """Whether a test is in the share, by its name without that of the device."""
    return zlib.crc32(name.replace(device, "*").encode()) % of == seed % of


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """As a plugin of the process that runs them: keeps the share of tests that take the device."""
    device, of, seed = os.environ[_DEVICE], int(os.environ[_OF]), int(os.environ[_SEED])
    stays = [_takes(i, device) and is_of(i.nodeid, device, of, seed) for i in items]
    left_out = [item for item, stay in zip(items, stays, strict=True) if not stay]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item, stay in zip(items, stays, strict=True) if stay]


def _takes(item: Any, device: str) -> bool:
    given = getattr(item, "callspec", None)
    return given is not None and device in _texts(given.params.values())


def _texts(values: Iterable[object]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def measured(device: str, of: int, seed: int, tests: list[str]) -> list[Record]:
    """One run of the tests on one device, with nothing in its cache."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records"
        environment = {
            **os.environ, "TEST_DEVICES": device, "CACHE_DIR": folder,
            _DEVICE: device, _OF: str(of), _SEED: str(seed),
        }  # fmt: skip
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.suite_time"]
        ran = subprocess.run(
            [sys.executable, *command, f"--resume={file}", *tests],
            cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode not in (0, 1, 5):
            sys.exit(ran.stdout + ran.stderr)
        if ran.returncode == 1:
            print(ran.stdout[-6000:], file=sys.stderr)
        return read_records(file)


def report(found: dict[str, list[list[Record]]]) -> str:
    """The table. Beside each other stand tests that passed on both devices."""
    lines = [f"{'device':20} passed  failed  skipped  seconds  beside {next(iter(found))}"]
    baseline = next(iter(found.values()))
    for device, rounds in found.items():
        count = Counter(record.outcome for record in rounds[-1])
        quotients, seconds = [], []
        for one, base in zip(rounds, baseline, strict=True):
            mine, theirs = _seconds(one), _seconds(base)
            both = mine.keys() & theirs.keys()
            seconds.append(sum(mine.values()))
            quotients.append(
                sum(mine[test] for test in both) / max(sum(theirs[test] for test in both), 1e-9)
            )
        lines.append(
            f"{device:20} {count['passed']:6} {count['failed']:7} {count['skipped']:8} "
            f"{median(seconds):8.1f} {median(quotients):12.2f}"
        )
    return "\n".join(lines)


def _seconds(records: list[Record]) -> dict[str, float]:
    """What each test that passed took, by its name without what stands in brackets for a device."""
    return {_plain(record.test): record.cpu for record in records if record.outcome == "passed"}


def _plain(test: str) -> str:
    name, bracket, params = test.partition("[")
    parts = params.rstrip("]").split("-")
    others = [part for part in parts if part.partition(":")[0] not in DEVICES]
    return name + bracket + "-".join(others)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suite_time", description=__doc__)
    parser.add_argument("devices", nargs="+")
    parser.add_argument("--of", type=int, default=20, help="one test in so many (20)")
    parser.add_argument("--seed", type=int, default=0, help="which share (0)")
    parser.add_argument("--rounds", type=int, default=1, help="times that each device runs (1)")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), help=" ".join(TESTS))
    options = parser.parse_args(arguments)
    found: dict[str, list[list[Record]]] = defaultdict(list)
    for _ in range(options.rounds):
        for device in options.devices:
            found[device].append(measured(device, options.of, options.seed, options.tests))
        print(report(found), flush=True)
    records = [record for rounds in found.values() for one in rounds for record in one]
    return 1 if any(record.outcome == "failed" for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
