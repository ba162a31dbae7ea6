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
    missing = {} if options.emulate else _missing()
    names = options.only.split(",") if options.only else []
    names = names or [n for n, p in PARTS.items() if not (p.asked or p.device in missing)]
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no part is called {unknown[0]!r}; there are: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if record and "record" not in names:
        names.insert(0, "record")
    absent = [missing[d] for d in dict.fromkeys(PARTS[n].device for n in names) if d in missing]
    absent = absent if names else [*missing.values()]
    if absent:
        print(*absent, "--emulate makes a dry run without a GPU", sep="\n", file=sys.stderr)
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


def _missing() -> dict[str, str]:
    """By device, why there is no GPU to use; without those that are there, which it prints."""
    from ...errors import DeviceError

    found = {}
    for device, show in (("CUDA", _describe_cuda), ("AMD", _describe_amd)):
        try:
            print(show(), file=sys.stderr)
        except DeviceError as error:
            found[device] = str(error)
    return found


def _describe_cuda() -> str:
    from ...runtime.cuda import describe, open_driver

    driver: Any = open_driver()
    return describe(driver)


def _describe_amd() -> str:
    from ...runtime.hardware.amd import KFD, describe
    from ...runtime.hardware.platform import LinuxPlatform

    return describe(KFD(LinuxPlatform()))


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
