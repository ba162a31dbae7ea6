"""The `treadle` command: arguments in, a report on stdout and an exit code out.

    treadle doctor       what runs here, and what would mend the rest
    treadle demo         train a small network on handwritten digits
    treadle run -n 4 train.py    a program of several processes; -m package.train: a module
    treadle video        what an HEVC stream holds, and its frames

Exit codes: 0 done; 1 the command ran and found a failure; 2 the arguments, a setting or the
machine cannot do what was asked, said in one sentence on stderr; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from . import __version__
from .errors import UserError
from .video.command import Commands, add_commands

__all__ = ["main"]

DEVICE_HELP = "where to run, such as CPU or CPU:CLANG (default: what DEV or the machine says)"

LEAST_COLUMN = 20  # characters of a table's last column, however narrow the terminal is


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` default to the process's own. Returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    try:
        return options.run(options)
    except UserError as error:
        print(f"treadle {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="treadle", description="Tensors on every machine.")
    parser.add_argument("--version", action="version", version=f"treadle {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")

    doctor = _command(commands, _doctor, "what runs here, and what would mend the rest")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    devices = _command(commands, _devices, "the devices that work here")
    devices.add_argument("--json", action="store_true", help="print JSON")
    demo = _command(commands, _demo, "train a small network on handwritten digits")
    demo.add_argument("--device", metavar="NAME", help=DEVICE_HELP)
    demo.add_argument("--epochs", type=_count, default=20, metavar="N", help="default 20")
    demo.add_argument("--seed", type=_seed, default=0, metavar="N", help="default 0")
    env = _command(commands, _env, "versions and settings, to paste into a report")
    form = env.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print the settings' page")
    bench = _command(commands, _bench, "measure treadle and its peers side by side")
    bench.add_argument(
        "--instructions", choices=("avx2", "sse"), help="hold all libraries to older instructions"
    )
    bench.add_argument("--json", action="store_true", help="print JSON")
    bench.add_argument("--only", metavar="WORDS", help="groups, rows whose name has one of WORDS")
    bench.add_argument("--peers", metavar="NAMES", help="peers to run beside (default: installed)")
    bench.add_argument("--quick", action="store_true", help="small sizes, few runs: a smoke test")
    bench.add_argument("--seed", metavar="TEXT", help="of random shapes (default: the commit)")
    cache = _command(commands, _cache, "the compiled kernels kept on disk")
    cache.add_argument("--clear", action="store_true", help="remove them")
    job = _command(commands, _run, "run a program as several processes, on one machine or many")
    job.add_argument("-n", type=_count, required=True, metavar="N", help="how many processes")
    job.add_argument("--hosts", metavar="FILE", help="a file with a host in each line")
    job.add_argument("--ssh", metavar="PROGRAM", default="", help="runs a command line on a host")
    job.add_argument("--shrink", action="store_true", help="who dies ends no others (Open MPI)")
    job.add_argument(
        "-m", nargs=argparse.REMAINDER, metavar="MODULE", help="a module and its arguments"
    )
    job.add_argument("program", nargs=argparse.REMAINDER, help="a script and its arguments")
    job.allow_abbrev = False  # a program's --h would be looked up among these
    add_commands(commands)
    return parser


def _command(
    commands: Commands, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(run.__name__.strip("_"), help=summary, description=summary)
    parser.set_defaults(run=run)
    return parser


def _count(text: str) -> int:
    return _whole(text, 1)


def _seed(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, low: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < low:
        raise argparse.ArgumentTypeError(f"must be a whole number of {low} or more, not {text!r}")
    return int(text)


def _doctor(options: argparse.Namespace) -> int:
    """Exit code 1 if no runtime can be used at all."""
    from .engine.inventory import inventory

    rows = [asdict(row) for row in inventory()]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        columns = ("runtime", "compiler", "interface")
        cells = [[*(row[c] for c in columns), *_verdict(row)] for row in rows]
        header = [*columns, "state", "why", "mend with"]
        if sys.stdout.isatty():  # a column less: it fits the width
            header = header[:-1]
            cells = [[*row[:-2], row[-2] + (f"; mend with: {row[-1]}" if row[-1] else "")]
                     for row in cells]  # fmt: skip
        _print_table(header, cells)
    return 0 if any(row["usable"] for row in rows) else 1


def _verdict(row: dict[str, Any]) -> tuple[str, str, str]:
    return ("ok", row["reason"], "") if row["usable"] else ("no", row["reason"], row["fix"])


def _devices(options: argparse.Namespace) -> int:
    from .engine.devices import Device
    from .engine.inventory import inventory

    compilers: dict[str, list[str]] = {}
    for row in inventory():
        if row.usable:
            compilers.setdefault(row.runtime, []).append(row.compiler)
    default = Device.DEFAULT.partition(":")[0]
    listed = {name: list(dict.fromkeys(found)) for name, found in compilers.items()}
    if options.json:
        devices = [
            {"device": name, "compilers": found, "default": name == default}
            for name, found in listed.items()
        ]
        print(json.dumps(devices, indent=2))
        return 0
    cells = [
        [name, ", ".join(found), "default" if name == default else ""]
        for name, found in listed.items()
    ]
    _print_table(["device", "compilers", ""], cells)
    return 0


def _demo(options: argparse.Namespace) -> int:
    from .demo import run

    return run(options.device, options.epochs, options.seed)


def _run(options: argparse.Namespace) -> int:
    """The exit code is the launcher's."""
    from pathlib import Path

    from .distributed.launch import Job, run

    is_module = options.m is not None
    program = [*(options.m or ()), *options.program]
    if program[:1] == ["--"]:  # the end of options, where a shell script writes it
        del program[0]
    if not program:
        what = "a module, such as package.train" if is_module else "a script, such as train.py"
        print(f"treadle run: give {what}", file=sys.stderr)
        return 2
    program = ["-m", *program] if is_module else program
    hosts = Path(options.hosts) if options.hosts else None
    return run(Job(options.n, program, hosts, ssh=options.ssh, can_shrink=options.shrink))


def _env(options: argparse.Namespace) -> int:
    from .bench.machine import versions
    from .config import describe

    if options.markdown:
        print(settings_page(), end="")
        return 0
    rows, found = describe(), {"treadle": __version__, **versions()}
    if options.json:
        print(json.dumps({"versions": found, "settings": [asdict(r) for r in rows]}, indent=2))
        return 0
    _print_table(["what", "version"], [[name, text] for name, text in found.items()])
    print()
    cells = [[r.name, r.value, r.origin, r.type] for r in rows]
    _print_table(["setting", "value", "from", "allowed"], cells)
    return 0


SETTINGS_PAGE = """\
# Settings

Each setting is read once from the environment: `TREADLE_NAME`, else `NAME`. A program scopes one
with `with Context(NAME=value):`, a decorator too, or sets it for the whole process with
`treadle.config.settings.NAME = value`. A value that is not allowed is an error; an unknown
`TREADLE_` variable is a warning. `treadle env` shows the current values and where they come from.

| setting | allowed | default | meaning |
|---|---|---|---|
"""


def settings_page() -> str:
    """The text of docs/settings.md."""
    from .config import describe

    lines = [f"| `{r.name}` | {r.type} | {r.default} | {r.doc} |\n" for r in describe()]
    return SETTINGS_PAGE + "".join(lines)


def _bench(options: argparse.Namespace) -> int:
    from .bench import run

    only, peers = _words(options.only), _words(options.peers)
    if options.instructions is not None:
        return _bench_held(options, peers)
    return run(only, peers, options.quick, options.json, options.seed)


def _bench_held(options: argparse.Namespace, peers: list[str] | None) -> int:
    from .bench.instructions import run_held

    flags = [f"--{name}" for name in ("json", "quick") if getattr(options, name)]
    given = {name: getattr(options, name) for name in ("only", "seed")}
    texts = [f"--{name}={text}" for name, text in given.items() if text is not None]
    return run_held(options.instructions, peers, [*flags, *texts])


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _cache(options: argparse.Namespace) -> int:
    from .config import settings
    from .engine.cache import CompileCache
    from .runtime.cl.driver_cache import clear_folders

    folder = settings.CACHE_DIR
    cache = CompileCache(folder or None)
    try:
        sizes = cache.sizes()
        removed = cache.clear() if options.clear else 0
    except OSError as error:
        print(f"nothing was touched in {folder}: {error.strerror or error}", file=sys.stderr)
        return 1
    if options.clear:
        clear_folders(folder)
        print(f"removed {removed} kernels from {folder}")
    else:
        print(f"{len(sizes)} kernels, {sum(sizes) / 1e6:.1f} MB in {folder or 'memory only'}")
    return 0


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns under their names; the last is as long as it needs to be, or fits the terminal."""
    widths = [max(len(str(line[i])) for line in (header, *rows)) for i in range(len(header))]
    begin = sum(widths[:-1]) + 2 * (len(widths) - 1)
    room = None
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - begin, LEAST_COLUMN)
    for line in (header, *rows):
        cells = [str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)][:-1]
        last = str(line[-1])
        parts = [last] if room is None else textwrap.wrap(last, room) or [""]
        print("  ".join([*cells, parts[0]]).rstrip())
        for part in parts[1:]:
            print(" " * begin + part)
