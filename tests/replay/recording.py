"""What each program becomes on a renderer, and how two records differ.

    record({"wgsl"}, path)           every kernel's text, in a file
    differences(old, new)            the programs whose kernels are not the same, text for text

A record is lines of JSON, compressed: {"sha", "text"} of each text once, and {"renderer",
"program", "kernels", "failed"} with the digests of the kernels in the order in which they were
made. Nothing is compiled and nothing runs, so AVX-512 and GPUs are recorded on any machine.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import itertools
import json
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle import Context, Device, Tensor
from treadle.engine.devices import Opened
from treadle.runtime.null import NullBuffer, NullDevice

from .renderers import RENDERERS
from .workloads import Workload, workloads

__all__ = ["Difference", "Record", "differences", "read_record", "record", "record_one"]

CHECKOUT = str(Path(__file__).parents[2])  # which errors name, and another checkout is elsewhere


class _NoCompiler:
    """Takes all text, and makes nothing of it."""

    name, travels = "NONE", False

    def __init__(self) -> None:
        self.version = uuid.uuid4().hex  # no cache has its code

    def compile(self, source: str) -> bytes:
        return b""


class _Zeros(NullDevice):
    """A device whose memory is all zeros, whatever is written to it."""

    def read(self, buffer: NullBuffer, into: memoryview) -> None:
        into.cast("B")[:] = bytes(into.nbytes)


class _Kept:
    """A renderer whose texts are kept, without the part of a kernel's name that is a digest."""

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer
        self.texts: list[str] = []

    def render(self, name: str, phases: Sequence[Any], variables: Sequence[str]) -> str:
        text = self._renderer.render(name.rpartition("_")[0], phases, variables)
        self.texts.append(text)
        return text


_numbers = itertools.count(1)


def record_one(renderer: str, program: Workload) -> tuple[list[str], str]:
    """The texts of a program's kernels, and what it failed with, if it did.

    It has a device of its own, so that none of its kernels is remembered from another program.
    """
    target, inner = RENDERERS[renderer]()
    kept, name = _Kept(inner), f"NULL:{next(_numbers)}"
    runtime = _Zeros(name, target)
    Device._opened[name] = Opened(name, target, runtime, _NoCompiler(), (kept, kept))
    Tensor.manual_seed(0)
    failed = ""
    try:
        with Context(CHECK_INDEX=1):
            program(name)
    except Exception as error:  # of reading memory that is not there, or of a target's limits
        failed = f"{type(error).__name__}: {error}".replace(name, "NULL").replace(CHECKOUT, "")
    finally:
        del Device._opened[name]
    return kept.texts, failed


def record(renderers: Iterable[str], path: Path, only: Collection[str] = ()) -> int:
    """Write the record of `renderers`; `only`: words of which a program's name has one.

    Returns how many kernels there are.
    """
    seen: set[str] = set()
    kernels = 0
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=1) as file:
        for renderer in renderers:
            for name, program in workloads():
                if only and not any(word in name for word in only):
                    continue
                texts, failed = record_one(renderer, program)
                digests = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
                for digest, text in zip(digests, texts, strict=True):
                    if digest not in seen:
                        seen.add(digest)
                        print(json.dumps({"sha": digest, "text": text}), file=file)
                row = {"renderer": renderer, "program": name, "kernels": digests, "failed": failed}
                print(json.dumps(row), file=file)
                kernels += len(texts)
    return kernels


Made = tuple[list[str], str]  # digests of kernels, and what the program failed with


@dataclass
class Record:
    """`programs`: by renderer and name, the digests of the kernels and the failure."""

    texts: dict[str, str] = field(default_factory=dict)
    programs: dict[tuple[str, str], Made] = field(default_factory=dict)

    def size(self, programs: Iterable[tuple[str, str]]) -> tuple[int, int]:
        """(the kernels of programs, the lines of their texts).

        A line of PTX or of LLVM is about an instruction, one of C a statement.
        """
        digests = [digest for key in programs for digest in self.programs[key][0]]
        return len(digests), sum(self.texts[digest].count("\n") for digest in digests)


def read_record(paths: Iterable[Path]) -> Record:
    """What is in all of these files."""
    found = Record()
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                if "sha" in row:
                    found.texts[row["sha"]] = row["text"]
                else:
                    made = row["kernels"], row["failed"]
                    found.programs[row["renderer"], row["program"]] = made
    return found


@dataclass(frozen=True)
class Difference:
    """A program whose kernels are others now: `what` is the first thing that differs."""

    renderer: str
    program: str
    what: str


def differences(old: Record, new: Record, lines: int = 12) -> list[Difference]:
    """The programs that both records have, and what differs first in each, in so many lines."""
    found = []
    for key in old.programs.keys() & new.programs.keys():
        before, after = old.programs[key], new.programs[key]
        if before != after:
            found.append(Difference(*key, _first(old, new, before, after, lines)))
    return sorted(found, key=lambda d: (d.renderer, d.program))


def _first(old: Record, new: Record, before: Made, after: Made, lines: int) -> str:
    for number, (a, b) in enumerate(zip(before[0], after[0], strict=False)):
        if a != b:
            texts = old.texts[a].splitlines(), new.texts[b].splitlines()
            shown = list(difflib.unified_diff(*texts, "old", "new", lineterm="", n=1))
            return "\n".join([f"kernel {number + 1}:", *shown[:lines]])
    if len(before[0]) != len(after[0]):
        return f"{len(before[0])} kernels, now {len(after[0])}"
    return f"failed: {before[1] or 'no'}; now: {after[1] or 'no'}"
