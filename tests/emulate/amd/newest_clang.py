"""The newest clang of Debian's as a compiler of HIP, for chips that its libamd_comgr does not know.

It has no device libraries: square roots are its own, which it rounds correctly.
"""

from __future__ import annotations

import shutil
import subprocess

from treadle.target import Target

__all__ = ["NAME", "NewestClang"]

NAME = "clang-22"
# As those of compile/comgr.py.
_OPTIONS = (
    "-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "-O3", "-fno-unroll-loops",
    "-ffp-contract=off", "-fno-strict-aliasing", "-Wno-narrowing", "-S", "-emit-llvm",
)  # fmt: skip
_TO_OBJECT = ("-x", "ir", "-target", "amdgcn-amd-amdhsa", "-nogpulib", "-O3", "-c")
_ROOTS = {
    name: f'extern "C" __attribute__((device)) {kind} {name}({kind} x) {{ return {own}(x); }}\n'
    for name, kind, own in (
        ("__ocml_sqrt_f32", "float", "__builtin_sqrtf"),
        ("__ocml_sqrt_f64", "double", "__builtin_sqrt"),
    )
}


class NewestClang:
    """What treadle expects of a compiler, as far as tests need it."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def available(self) -> str | None:
        if shutil.which(NAME) is None:
            return f"there is no {NAME}: `apt-get install {NAME}` brings it"
        return None

    def compile(self, source: str) -> bytes:
        text = "\n".join([source, *(text for name, text in _ROOTS.items() if name in source)])
        return self.object_of(self.ir_of(text))

    def ir_of(self, source: str, *more: str) -> bytes:
        """LLVM IR of HIP; `more` are options."""
        arch = f"--offload-arch={self.target.cpu}"
        return self._run(*_OPTIONS, *more, arch, given=source.encode())

    def object_of(self, ir: bytes) -> bytes:
        return self._run(*_TO_OBJECT, f"-mcpu={self.target.cpu}", given=ir)

    def _run(self, *options: str, given: bytes) -> bytes:
        command = [NAME, *options, "-o", "-", "-"]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout
