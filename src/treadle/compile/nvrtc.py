"""CUDA C becomes PTX or machine code through NVRTC, NVIDIA's runtime compiler.

    NVRTCCompiler(parse_target("sm_90")).compile(source)           ->  PTX text
    NVRTCCompiler(parse_target("sm_90"), "cubin").compile(source)  ->  an ELF of SASS

It needs neither a GPU nor a driver. One surprise: PTX is of NVRTC's own version, and a driver
refuses any that is newer than itself. Machine code of the same major version it takes, so that is
what a real device gets.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any, Literal

from treadle.compile.report import save_rejected
from treadle.errors import DeviceError, InternalError

if TYPE_CHECKING:
    from types import ModuleType

    from treadle.target import Target

__all__ = ["NVRTCCompiler"]

MEND = '`pip install "treadle[cuda]"` brings it, and CUDA_PTX=1 does without'
# Floats as IEEE 754 has them; what is fused is written so. The runtime's own declarations, which
# no kernel uses, would take a fifth of the time.
_OPTIONS = (
    "--minimal", "--std=c++17", "--ftz=false", "--prec-div=true", "--prec-sqrt=true",
    "--fmad=false", "--device-as-default-execution-space",
)  # fmt: skip


class NVRTCCompiler:
    """Compiles CUDA C for one target, to `image`. Any number of threads may call it."""

    name = "NVRTC"
    travels = True

    def __init__(self, target: Target, image: Literal["ptx", "cubin"] = "ptx") -> None:
        self.target, self.image = target, image

    @functools.cached_property
    def version(self) -> str:
        """NVRTC's version, and what it makes."""
        major, minor = _call("nvrtcVersion")
        return f"NVRTC {major}.{minor} {self.image}"

    def available(self) -> str | None:
        """None, or why NVRTC cannot be used."""
        try:
            known = _architectures()
        except DeviceError as error:
            return str(error)
        number = int("".join(filter(str.isdigit, self.target.cpu)))
        if number in known:
            return None
        return (
            f"{self.version} has no code for {self.target.cpu}, only for sm_{known[0]} to "
            f"sm_{known[-1]}: another release of nvidia-cuda-nvrtc may have it"
        )

    def compile(self, source: str) -> bytes:
        """The image of one program.

        Raises DeviceError if NVRTC or the architecture is missing, InternalError, naming the file
        where the source was saved, if NVRTC rejects it.
        """
        return self._compiled(source, ["CUBIN" if self.image == "cubin" else "PTX"])[0]

    def compile_both(self, source: str) -> tuple[bytes, bytes]:
        """The machine code of one program, and the PTX that it was made of; for "cubin" alone."""
        cubin, ptx = self._compiled(source, ["CUBIN", "PTX"])
        return cubin, ptx

    def _compiled(self, source: str, images: list[str]) -> list[bytes]:
        missing = self.available()
        if missing is not None:
            raise DeviceError(missing)
        kind = "sm" if self.image == "cubin" else "compute"
        options = (*_OPTIONS, f"--gpu-architecture={self.target.cpu.replace('sm', kind)}")
        (program,) = _call("nvrtcCreateProgram", source.encode(), b"kernel.cu", 0, [], [])
        try:
            _call("nvrtcCompileProgram", program, len(options), [o.encode() for o in options])
            return [_text(program, image) for image in images]
        except _RejectedError as error:
            log = _text(program, "ProgramLog").rstrip(b"\0").decode(errors="replace").strip()
            path = save_rejected(source, ".cu")
            raise InternalError(
                f"{self.version} rejected generated CUDA C ({error}; saved as {path}): {log[:2000]}"
            ) from None
        finally:
            _call("nvrtcDestroyProgram", program)


class _RejectedError(Exception):
    """A function of NVRTC's failed; the message is its result's name."""


@functools.cache
def _binding() -> ModuleType:
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError) as error:  # no cuda-bindings, or no libnvrtc
        reason = str(error).partition("\n")[0]
        raise DeviceError(
            f"NVRTC, the compiler of CUDA C, is missing ({reason}); {MEND}"
        ) from error
    return nvrtc


def _call(name: str, *args: object) -> tuple[Any, ...]:
    result, *values = getattr(_binding(), name)(*args)
    if int(result):
        raise _RejectedError(result.name)
    return tuple(values)


def _text(program: object, what: str) -> bytes:
    """One of the results of a program: its PTX, CUBIN or ProgramLog."""
    (size,) = _call(f"nvrtcGet{what}Size", program)
    room = b" " * max(size, 2)  # that NVRTC writes into; one byte alone would be Python's own
    _call(f"nvrtcGet{what}", program, room)
    return room[:size]


@functools.cache
def _architectures() -> tuple[int, ...]:
    return tuple(_call("nvrtcGetSupportedArchs")[0])
