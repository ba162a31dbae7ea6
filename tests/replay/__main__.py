"""The kernels of two checkouts beside each other, text for text.

    python -m tests.replay record FILE [--renderers "wgsl,ptx sm_80"] [--only WORDS]
    python -m tests.replay compare OLD NEW [--renderers ...] [--only WORDS]

`compare` records two checkouts, each by its own sources, or takes records that were written before.
A refactoring leaves all kernels as they were; a change on purpose is seen by program and renderer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .recording import Record, differences, read_record, record
from .renderers import RENDERERS


def main() -> int:
    """1 if kernels differ, else 0."""
    options = _parser().parse_args()
    renderers = _listed(options.renderers) or list(RENDERERS)
    if options.do == "record":
        print(f"{record(renderers, options.file, _listed(options.only))} kernels")
        return 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        jobs = [
            (which, renderer, Path(folder, f"{which}-{renderer}.gz"))
            for which in ("old", "new") if getattr(options, which).is_dir()
            for renderer in renderers
        ]  # fmt: skip
        done = [
            pool.submit(_record_apart, getattr(options, which), renderer, options.only, path)
            for which, renderer, path in jobs
        ]
        for job in done:
            job.result()
        records = [
            read_record([path for name, _, path in jobs if name == which] or [given])
            for which, given in (("old", options.old), ("new", options.new))
        ]
    return _report(*records)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.replay", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--renderers", default="", help=f"of {', '.join(RENDERERS)}")
    shared.add_argument("--only", default="", help="words of which a program's name has one")
    commands = parser.add_subparsers(dest="do", required=True)
    write = commands.add_parser("record", parents=[shared], help="write every kernel's text")
    write.add_argument("file", type=Path)
    compare = commands.add_parser("compare", parents=[shared], help="say what differs")
    compare.add_argument("old", type=Path, help="a checkout, or a record")
    compare.add_argument("new", type=Path, help="a checkout, or a record")
    compare.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _record_apart(checkout: Path, renderer: str, only: str, path: Path) -> None:
    """A record by the sources of a checkout, in a process of its own."""
    environment = {
        **os.environ, "PYTHONPATH": str((checkout / "src").resolve()), "PYTHONHASHSEED": "0",
        "CACHE": "0",
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.replay", "record", str(path.resolve())]
    command += ["--renderers", renderer, "--only", only]
    subprocess.run(command, cwd=checkout, env=environment, check=True, stdout=subprocess.PIPE)


def _report(old: Record, new: Record) -> int:
    found = differences(old, new)
    both = old.programs.keys() & new.programs.keys()
    differing = Counter(one.renderer for one in found)
    print("| renderer | programs | kernels, before | lines, before | programs that differ |")
    print("|---|--:|--:|--:|--:|")
    for renderer in sorted({key[0] for key in both}):
        mine = [key for key in both if key[0] == renderer]
        (kernels, lines), (kernels_before, lines_before) = (r.size(mine) for r in (new, old))
        print(
            f"| {renderer} | {len(mine)} | {kernels}, {kernels_before} | {lines}, {lines_before} "
            f"| {differing[renderer]} |"
        )
    for one in found:
        print(f"\n{one.renderer}, {one.program}: {one.what}")
    for which, rest in (("old", old), ("new", new)):
        for renderer, program in sorted(rest.programs.keys() - both):
            print(f"only in {which}: {renderer}, {program}")
    print(f"{len(found)} of {len(both)} programs differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
