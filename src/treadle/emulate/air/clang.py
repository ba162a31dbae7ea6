"""The clang that reads Metal's language: which one it is, and how it runs.

    clang_at(needed_clang()).run(b"#include <metal_stdlib> ...").stdout    ->  IR, as text

A process of clang takes most of its time to start and to read the shim, which are the same for each
text. So one process compiles several texts (see compile_server). And the shim is read once: what
clang made of it is kept in a file without a name. Later processes take it by its descriptor, and
nothing has to be removed, whatever becomes of this process or its forks.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from treadle.emulate.air.compile_server import CompileServer
from treadle.errors import DeviceError

__all__ = ["FLAGS", "Clang", "clang_at", "find_clang", "needed_clang", "shim_digest"]

_INCLUDE = Path(__file__).parent / "include"
FLAGS = (
    "-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64-unknown-unknown", "-cl-no-stdinc",
    "-cl-single-precision-constant", "-ffp-contract=on", "-fno-builtin", "-O1",
    "-mllvm", "-inline-threshold=1000000",  # Metal makes all functions part of who calls them
    "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-unknown-pragmas",
    "-Wno-gcc-compat", "-fno-caret-diagnostics",
)  # fmt: skip
_NEWEST, _OLDEST = 40, 14
_TIMEOUT_SECONDS = 300
_SHIM = b"#include <metal_stdlib>\n"
_OUTPUT = ("-S", "-emit-llvm", "-o", "-", "-")
_NAMES = re.compile(rb"^(?:; ModuleID|source_filename) = [^\n]*\n", re.MULTILINE)


class Clang:
    """One clang, by its path. Raises DeviceError where it cannot be run."""

    def __init__(self, path: str) -> None:
        self.path = path

    @functools.cached_property
    def version(self) -> str:
        """All that it says of its version."""
        return self._run(b"", ("--version",)).stdout.decode(errors="replace")

    @functools.cached_property
    def knows_bfloat(self) -> bool:
        """Whether it computes in bfloat for this target."""
        text = b"__bf16 f(__bf16 x) { return x + x; }"
        return self._run(text, (*FLAGS, "-fsyntax-only", "-")).returncode == 0

    def run(self, text: bytes) -> subprocess.CompletedProcess[bytes]:
        """Makes IR of a text that may include the shim."""
        made = self._server.compile(text) if self._server is not None else None
        done = self._alone(text) if made is None else subprocess.CompletedProcess((), 0, made, b"")
        done.stdout = _NAMES.sub(b"", done.stdout, count=2)  # of the file that clang read
        return done

    def _alone(self, text: bytes) -> subprocess.CompletedProcess[bytes]:
        """By a process for this text."""
        flags = (*self._flags, *_OUTPUT)
        shim = self._shim
        if shim is not None:
            done = self._run(text, ("-include-pch", f"/dev/fd/{shim}", *flags), shim)
            if not done.returncode or b"precompiled header" not in done.stderr:
                return done
            # The headers are other ones than they were, as after an update of treadle.
        return self._run(text, flags)

    def preprocess(self, text: bytes) -> subprocess.CompletedProcess[bytes]:
        """The text without macros, behind that of the shim if it includes it."""
        return self._run(text, (*self._flags, "-E", "-o", "-", "-"))

    @functools.cached_property
    def _server(self) -> CompileServer | None:
        """What compiles most texts; None where the shim is in no file."""
        shim = self._shim
        if shim is None:
            return None
        flags = ("-###", "-w", "-include-pch", f"/dev/fd/{shim}", *self._flags, *_OUTPUT)
        command = _frontend(self._run(b"", flags).stderr.decode(errors="replace"))
        return CompileServer(command, (shim,)) if command else None

    @property
    def _flags(self) -> tuple[str, ...]:
        more = ("-D__AIR_BFLOAT",) if self.knows_bfloat else ()
        return (*FLAGS, "-I", os.fspath(_INCLUDE), *more)

    @functools.cached_property
    def _shim(self) -> int | None:
        """A file with the shim as clang has read it; None where there can be no such file."""
        done = self._run(_SHIM, (*self._flags, "-Xclang", "-emit-pch", "-c", "-o", "-", "-"))
        if done.returncode:
            return None  # what is wrong is said of the text
        try:
            number, path = tempfile.mkstemp()
            os.unlink(path)
            with os.fdopen(os.dup(number), "wb") as file:
                file.write(done.stdout)
        except OSError:
            return None
        return number if os.path.exists(f"/dev/fd/{number}") else None

    def _run(
        self, text: bytes, flags: tuple[str, ...], *descriptors: int
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [self.path, *flags], input=text, capture_output=True, pass_fds=descriptors,
                timeout=_TIMEOUT_SECONDS, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DeviceError(f"{self.path} cannot be run: {error}") from error


def _frontend(said: str) -> list[str]:
    """The command without its input that clang starts for a text, as -### says it; [] for none."""
    for line in said.splitlines():
        words = shlex.split(line) if ' "-cc1" ' in line else []
        if words[-1:] == ["-"]:
            # With this word it keeps what it has made of a text until it ends.
            return [word for word in words[:-1] if word != "-disable-free"]
    return []


@functools.cache
def clang_at(path: str) -> Clang:
    """The clang at a path, the same one for each call."""
    return Clang(path)


@functools.cache
def shim_digest() -> str:
    """A digest of the shim's headers."""
    found = hashlib.blake2b(digest_size=16)
    for file in sorted(_INCLUDE.rglob("*")):
        if file.is_file():
            found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def _in_path() -> Iterator[str]:
    """Each clang there is, the newest first."""
    for name in (*(f"clang-{n}" for n in range(_NEWEST, _OLDEST - 1, -1)), "clang"):
        path = shutil.which(name)
        if path is not None:
            yield path


@functools.cache
def find_clang() -> str | None:
    """The newest clang in PATH that has all of Metal's types, or None."""
    for path in _in_path():
        with contextlib.suppress(DeviceError):  # it cannot be run
            if clang_at(path).knows_bfloat:
                return path
    return None


def needed_clang() -> str:
    """The clang that has all of Metal's types. Raises DeviceError where there is none."""
    found = find_clang()
    if found is None:
        newest = next(_in_path(), None)
        there = "there is none in PATH"
        if newest is not None and not clang_at(newest).knows_bfloat:
            there = f"{newest} has no bfloat"
        raise DeviceError(
            f"Metal's language is emulated by clang 15 or newer, and {there}; install one: "
            "Debian and Ubuntu: `apt install clang-19`"
        )
    return found
