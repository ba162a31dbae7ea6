"""The command: `python -m treadle.bench.gpu`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from typing import Any

from .parts import PARTS, PartResult, run_part, run_parts
from .summary import as_json, as_lines, as_text

__all__ = ["main"]

RECORDING = ("kernel driver", "record")  # the parts that --record names a file for


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts, prints what they found, and writes it as JSON.

    0 if all of it passed, 1 if not, 2 where there is no GPU or no part of a name.
    """
    options = _parser().parse_args(arguments)
    record = [options.record] if options.record else []
    if options.part:
        more = record if options.part in RECORDING else []
        run_part(options.part, options.findings, options.seconds, options.emulate, *more)
        return 0
    names = (
        options.only.split(",") if options.only else [n for n, p in PARTS.items() if not p.asked]
    )
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no part is called {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if record and "record" not in names:
        names.insert(0, "record")
    missing = "" if options.emulate else _missing()
    if missing:
        print(f"{missing}; --emulate makes a dry run without a GPU", file=sys.stderr)
        return 2
    given = [
        *(["--emulate"] if options.emulate else []),
        *(["--record", *record] if record else []),
    ]
    results: list[PartResult] = []
    signal.signal(signal.SIGTERM, _stop)
    try:
        for result in run_parts([PARTS[name] for name in names], options.emulate, given):
            results.append(result)
            print(as_lines(result), file=sys.stderr, flush=True)
            _write(results, options.json)  # at once: somebody else may end this process
    except KeyboardInterrupt:
        print("stopped: what follows is what was found before", file=sys.stderr)
    print(as_text(results))
    return 0 if len(results) == len(names) and all(result.passed for result in results) else 1


def _stop(*_: object) -> None:
    """A limit that somebody else has set is over: the parts that are done are still shown."""
    raise KeyboardInterrupt


def _missing() -> str:
    """Why there is no GPU to use, or ''."""
    from ...errors import DeviceError
    from ...runtime.cuda import describe, open_driver

    try:
        driver: Any = open_driver()
        print(describe(driver), file=sys.stderr)
    except DeviceError as error:
        return str(error)
    return ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m treadle.bench.gpu", description=__doc__)
    parser.add_argument("--emulate", action="store_true", help="a dry run on an emulated GPU")
    parser.add_argument("--json", default="gpu.json", metavar="FILE", help="default: gpu.json")
    parser.add_argument("--record", metavar="FILE", help="what the hardware returned, for tests")
    parser.add_argument("--only", metavar="PARTS", help=", ".join(PARTS))
    for name, kind in (("part", str), ("findings", str), ("seconds", float)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    return parser


def _write(results: Sequence[PartResult], path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(as_json(results), file, indent=2)
    except OSError as error:
        print(f"{path} cannot be written: {error}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
