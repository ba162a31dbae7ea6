"""C text becomes a relocatable object through a clang on the PATH.

    ClangCompiler(host_target()).compile("void f(void) {}")  ->  the bytes of an ELF object

The source goes in by stdin and the object comes out by stdout: no files. One surprise: an old
clang may not know a new CPU's name. It then compiles for the newest older CPU that it does know,
with the features of the new one.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.compile.report import save_rejected
from treadle.errors import DeviceError, InternalError
from treadle.target import X86_CPUS, cpu_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from treadle.target import Target

__all__ = ["ClangCompiler", "clang_target"]

_NAME = re.compile(r"clang(-\d+)?(\.exe)?")
_INSTALL = (
    "install it (Debian and Ubuntu: `apt install clang`, Fedora: `dnf install clang`, "
    "macOS: `xcode-select --install`) or use the embedded LLVM, DEV=CPU"
)
# What the text's pragma says of contraction holds with "on" alone: behind "fast" some clangs fuse
# whatever it says. Loops stay as they are: lanes are chosen before, and clang 14's own ones load
# what the same step has stored too early (a scatter over rows of four).
_FLAGS = (
    "-O2", "-x", "c", "-std=gnu11", "-w", "-ffreestanding", "-nostdlib", "-fPIC",
    "-fno-math-errno", "-fwrapv", "-ffp-contract=on", "-fno-vectorize",
    "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-ident",
)  # fmt: skip
_TIMEOUT_SECONDS = 120
# How clangs say that they do not know a CPU: for x86-64, and for others, of today and of long ago.
_UNKNOWN_CPU = ("unknown target CPU", "unsupported argument", "does not support '-m")


class ClangCompiler:
    """Compiles C for one target. `path` names the clang to use; else the newest on the PATH."""

    name = "CLANG"
    travels = True

    def __init__(self, target: Target, path: str | None = None) -> None:
        self.target = target
        self._path = path

    @functools.cached_property
    def path(self) -> str:
        """The clang in use. Raises DeviceError if there is none."""
        found = shutil.which(self._path) if self._path else _newest([*_clangs()])
        if found is None:
            wanted = self._path or "clang"
            raise DeviceError(f"no {wanted} on the PATH; {_INSTALL}")
        return found

    @functools.cached_property
    def version(self) -> str:
        """The first line of `clang --version`."""
        lines = _run(self.path, ["--version"], b"").stdout.decode(errors="replace").splitlines()
        return lines[0] if lines else self.path

    @functools.cached_property
    def cpu(self) -> str:
        """The CPU to compile for: the target's, or the newest before it that this clang knows.

        Of a CPU without an older one clang is not asked: it says itself that it knows it not.
        """
        names = cpu_names(self.target)
        return next((name for name in names[:-1] if self._knows(name)), names[-1])

    def _knows(self, cpu: str) -> bool:
        done = _run(
            self.path, [*_FLAGS, *target_flags(self.target, cpu), "-c", "-o", "-", "-"], b""
        )
        said = done.stderr.decode(errors="replace")
        return done.returncode == 0 or not any(words in said for words in _UNKNOWN_CPU)

    def available(self) -> str | None:
        """None, or why no clang can be used."""
        try:
            return None if self.version else "clang tells no version"
        except DeviceError as error:
            return str(error)

    def compile(self, source: str) -> bytes:
        """The object of one C translation unit.

        Raises DeviceError if clang is missing, hangs or does not know the target, InternalError,
        naming the file where the source was saved, if it rejects the source.
        """
        return self._compile(source, "-c")

    def assembly(self, source: str) -> str:
        """The same code as `compile` gives, as assembly text."""
        return self._compile(source, "-S").decode()

    def _compile(self, source: str, kind: str) -> bytes:
        flags = [*_FLAGS, *target_flags(self.target, self.cpu), kind, "-o", "-", "-"]
        done = _run(self.path, flags, source.encode())
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.decode(errors="replace").strip()
        if "unknown target" in said or "unsupported option" in said:
            raise DeviceError(
                f"{self.path} cannot compile for {self.target.cpu}: {said.splitlines()[0]}; "
                "use a newer clang, or name an older CPU, as in DEV=CPU:CLANG:x86_64,x86-64-v3"
            )
        path = save_rejected(source, ".c")
        raise InternalError(f"clang rejected generated C (saved as {path}): {said[:2000]}")


def _run(path: str, flags: list[str], text: bytes) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [path, *flags], input=text, capture_output=True, timeout=_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise DeviceError(
            f"{path} did not finish within {_TIMEOUT_SECONDS} seconds and was stopped"
        ) from error
    except OSError as error:
        raise DeviceError(f"{path} cannot be started: {error}; {_INSTALL}") from error


def _clangs() -> Iterator[str]:
    """The clangs on the PATH, first folders first: `clang` and `clang-19` alike."""
    for folder in os.get_exec_path():
        try:
            names = sorted(filter(_NAME.fullmatch, os.listdir(folder)))
        except OSError:
            continue  # a folder that is not there
        yield from filter(None, (shutil.which(name, path=folder) for name in names))


def _newest(paths: list[str]) -> str | None:
    """The first of those clangs that have the largest version."""
    return max(paths, key=_version, default=None) if len(paths) > 1 else next(iter(paths), None)


def _version(path: str) -> tuple[int, ...]:
    """(19, 1) of a clang 19.1.7; () of one that tells none."""
    try:
        said = _run(path, ["--version"], b"").stdout.decode(errors="replace")
    except DeviceError:
        return ()
    found = re.search(r"version (\d+)\.(\d+)", said)
    return tuple(map(int, found.groups())) if found else ()


def clang_target(target: Target) -> Target:
    """`target` as every clang can compile for it: before 15 it has no _Float16 on x86-64."""
    return replace(target, has_half_convert=False)


def target_flags(target: Target, cpu: str | None = None) -> list[str]:
    """clang's flags for the triple, CPU and features of `target`.

    With `cpu` for that one, an older one, by name: what the target's has beyond it is spelled out.
    """
    cpu = cpu or target.cpu
    select = "-march" if target.arch == "x86_64" else "-mcpu"
    flags = [f"--target={target.triple}", f"{select}={cpu}"]
    if target.arch == "x86_64" and target.vector_bytes == 64:
        flags.append("-mprefer-vector-width=512")
    beyond = () if cpu == target.cpu else sorted(X86_CPUS.get(target.cpu, ()))
    features = (*(f"+{name}" for name in beyond), *filter(None, target.features.split(",")))
    for feature in features:
        flags += ["-Xclang", "-target-feature", "-Xclang", feature]
    return flags
