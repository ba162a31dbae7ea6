"""The tests that take a device, on each chip that a backend emulates.

    python -m tests.chips NV --part 1/16           what has not passed yet at these sources
    python -m tests.chips AMD --only gfx942        on the chips whose names have that
    python -m tests.chips QCOM --set IMAGE=1       with a setting of treadle's
    python -m tests.chips NV --part 1/16 --record  and adds that to tests/results/chips.jsonl
    python -m tests.chips --show                   what is written there, as a table

A run can be stopped and taken up again, as that of `tests.full`, and the two leave out what passed
in the other. Settings are kept apart: what passed with one has not passed without it. Only files
with such tests are read, which takes a fifth of the time that reading all takes. What else follows
goes to pytest.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from treadle import Context
from treadle.backends import BACKENDS, Backend
from treadle.errors import SettingError

from .full import ENDED, KEPT, settings_of_environment, table, today
from .records import RESULTS, ROOT, belongs, parse_part, read_records, sources

FILE = ROOT / RESULTS / "chips.jsonl"
COLUMNS = (
    "date", "commit", "device", "settings", "part", "passed", "failed", "skipped", "minutes",
)  # fmt: skip
EMULATED = {backend.name: backend for backend in BACKENDS if backend.emulated_chip is not None}
# Its tests take `opened`, which is each runtime in turn.
CONTRACT = Path("tests/runtime/contract")


def devices_of(backend: Backend, only: str = "") -> dict[str, str]:
    """The names that tests have for devices, and names that say compiler and chip."""
    found = {}
    for plain, names in backend.tested_devices.items():
        for name in names:
            compiler = plain.partition(":")[2] or backend.toolchains[0].name
            whole = (
                name
                if name.count(":") > 1
                else f"{backend.name}:{compiler}:{backend.emulated_chip}"
            )
            if only in whole:
                found[name] = whole
    return found


@functools.cache
def files() -> tuple[str, ...]:
    """Files with tests or fixtures that take `device`, and the contract of runtimes."""
    found = [
        path.relative_to(ROOT)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if _takes_device(ast.parse(path.read_text(encoding="utf-8")))
    ]
    return (
        *map(str, found),
        *map(str, sorted(p.relative_to(ROOT) for p in (ROOT / CONTRACT).glob("test_*.py"))),
    )


def _takes_device(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.FunctionDef)
        and any(argument.arg == "device" for argument in node.args.args)
        and (node.name.startswith("test_") or node.decorator_list)
        for node in ast.walk(tree)
    )


def device_of(test: str, devices: dict[str, str]) -> str | None:
    """The device among `devices` that a test ran on, by its name."""
    for name in devices:
        if re.search(rf"[\[-]{re.escape(name)}[\]-]", test):
            return name
    return None


def expression(devices: dict[str, str]) -> str:
    """What pytest's -k selects their tests by."""
    ways = (f"{before}{name}{behind}" for name in devices for before in "[-" for behind in "-]")
    return " or ".join(ways)


def parse_settings(texts: list[str]) -> dict[str, str]:
    """{"IMAGE": "1"} of ["IMAGE=1"], by names. Raises SettingError for what treadle has not."""
    split = sorted(text.partition("=") for text in texts)
    named = {name: value for name, _, value in split}
    Context(**named)
    return named


def outcomes(
    kept: Path, state: str, part: str, devices: dict[str, str], settings: str = ""
) -> list[dict[str, Any]]:
    """What a part came to on each device: the last outcome of each test, the time of all runs."""
    number = parse_part(part)
    last: dict[str, dict[str, str]] = {name: {} for name in devices}
    seconds = dict.fromkeys(devices, 0.0)
    for r in read_records(kept):
        name = device_of(r.test, devices)
        if name is not None and r.sources == state and belongs(r.test, number):
            last[name][r.test] = r.outcome
            seconds[name] += r.cpu
    rows = []
    for name, whole in devices.items():
        counts = Counter(last[name].values())
        rows.append({
            "date": today(), "commit": state, "device": whole, "settings": settings, "part": part,
            **{how: counts[how] for how in ("passed", "failed", "skipped")},
            "minutes": round(seconds[name] / 60, 1),
        })  # fmt: skip
    return rows


def run(
    backend: Backend, part: str, only: str, given: list[str], more: list[str], *, record: bool
) -> int:
    """pytest's status; 2 where nothing was run: no such chip or setting, a setting that the
    environment has, or a change that is not committed.
    """
    parse_part(part)
    devices, state = devices_of(backend, only), sources()
    try:
        named = parse_settings(given)
    except SettingError as error:
        print(error, file=sys.stderr)
        return 2
    if stray := settings_of_environment():
        told = " ".join(f"--set {one}" for one in stray)
        print(
            f"the environment has {', '.join(stray)}, which would be taken for plain runs: "
            f"unset it, and say {told}", file=sys.stderr,
        )  # fmt: skip
        return 2
    if not devices:
        told = ", ".join(devices_of(backend).values()) or "nothing here"
        print(f"{backend.name} is tested on {told}: {only!r} is in none", file=sys.stderr)
        return 2
    if record and "+" in state:
        print("only a commit is recorded: commit what is changed first", file=sys.stderr)
        return 2
    settings = " ".join(f"{name}={value}" for name, value in named.items())
    kept = KEPT / f"{' '.join([state, settings]).strip()}.jsonl"
    command = [
        sys.executable, "-m", "pytest", "--full", *files(), "-k", expression(devices),
        "--part", part, f"--resume={kept}", *more,
    ]  # fmt: skip
    variables = {f"TREADLE_{name}": value for name, value in named.items()}
    environment = {**os.environ, **variables, "TEST_DEVICES": ",".join(devices)}
    status = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    rows = outcomes(kept, state, part, devices, settings)
    print(table(rows, COLUMNS))
    if record and status in ENDED:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        with FILE.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return 0 if status == 5 else status


def recorded() -> list[dict[str, Any]]:
    lines = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    return [json.loads(line) for line in lines]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chips", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("backend", nargs="?", choices=sorted(EMULATED))
    parser.add_argument("--part", default="1/1", metavar="I/N")
    parser.add_argument("--only", default="", metavar="NAME", help="a part of a device's name")
    parser.add_argument(
        "--set", default=[], action="append", metavar="NAME=VALUE", help="a setting of treadle's"
    )
    parser.add_argument("--record", action="store_true", help="write the outcomes down")
    parser.add_argument("--show", action="store_true", help="print what is written down")
    options, more = parser.parse_known_args(arguments)
    if options.show:
        print(table(recorded(), COLUMNS))
        return 0
    if options.backend is None:
        parser.error("say which backend, or --show")
    backend = EMULATED[options.backend]
    chosen = (options.part, options.only, options.set)
    return run(backend, *chosen, more, record=options.record)


if __name__ == "__main__":
    sys.exit(main())
