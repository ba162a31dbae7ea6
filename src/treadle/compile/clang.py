"""C text becomes a relocatable object through a clang on the PATH.

    ClangCompiler(host_target()).compile("void f(void) {}")  ->  the bytes of an ELF object

The source goes in by stdin and the object comes out by stdout: no files. One surprise: an old
clang may not know a new CPU's name; the error then says what to select instead.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from typing import TYPE_CHECKING

from treadle.compile.report import save_rejected
from treadle.errors import DeviceError, InternalError

if TYPE_CHECKING:
    from treadle.target import Target

__all__ = ["ClangCompiler"]

_NAMES = ("clang", *(f"clang-{version}" for version in range(22, 13, -1)))
_INSTALL = (
    "install it (Debian and Ubuntu: `apt install clang`; Fedora: `dnf install clang`; "
    "macOS: `xcode-select --install`) or use the embedded LLVM, DEV=CPU"
)
_FLAGS = (
    "-O2", "-x", "c", "-std=gnu11", "-w", "-ffreestanding", "-nostdlib", "-fPIC",
    "-fno-math-errno", "-fwrapv", "-ffp-contract=fast", "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables", "-fno-ident",
)  # fmt: skip
_TIMEOUT_SECONDS = 120


class ClangCompiler:
    """Compiles C for one target. `path` names the clang to use; else the first on the PATH."""

    name = "CLANG"
    travels = True

    def __init__(self, target: Target, path: str | None = None) -> None:
        self.target = target
        self._path = path

    @functools.cached_property
    def path(self) -> str:
        """The clang in use. Raises DeviceError if there is none."""
        names = (self._path,) if self._path else _NAMES
        found = next(filter(None, map(shutil.which, names)), None)
        if found is None:
            wanted = self._path or "clang"
            raise DeviceError(f"no {wanted} on the PATH: {_INSTALL}")
        return found

    @functools.cached_property
    def version(self) -> str:
        """The first line of `clang --version`."""
        lines = self._run(["--version"], b"").stdout.decode(errors="replace").splitlines()
        return lines[0] if lines else self.path

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
        flags = [*_FLAGS, *target_flags(self.target), kind, "-o", "-", "-"]
        done = self._run(flags, source.encode())
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

    def _run(self, flags: list[str], text: bytes) -> subprocess.CompletedProcess[bytes]:
        try:
            return subprocess.run(
                [self.path, *flags], input=text, capture_output=True, timeout=_TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise DeviceError(
                f"{self.path} did not finish within {_TIMEOUT_SECONDS} seconds and was stopped"
            ) from error
        except OSError as error:
            raise DeviceError(f"{self.path} cannot be started: {error}; {_INSTALL}") from error


def target_flags(target: Target) -> list[str]:
    """clang's flags for the triple, CPU and features of `target`."""
    select = "-march" if target.arch == "x86_64" else "-mcpu"
    flags = [f"--target={target.triple}", f"{select}={target.cpu}"]
    if target.arch == "x86_64" and target.vector_bytes == 64:
        flags.append("-mprefer-vector-width=512")
    for feature in filter(None, target.features.split(",")):
        flags += ["-Xclang", "-target-feature", "-Xclang", feature]
    return flags
