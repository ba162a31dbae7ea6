"""Metal's language becomes LLVM IR like Apple's, by clang and a metal_stdlib of our own.

    compile_msl("#include <metal_stdlib> ... kernel void f(device float *a [[buffer(0)]]) ...")

Clang reads the text as C++ for OpenCL, whose address spaces and kernels are Metal's by other words
(see include/metal_stdlib). What it knows nothing of are the attributes of parameters: they are read
here, and become the metadata that Apple's compiler makes of them.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from treadle.emulate.air.syntax import AIRError
from treadle.errors import DeviceError

__all__ = ["MSLError", "compile_msl", "find_clang", "needed_clang"]

_INCLUDE = Path(__file__).parent / "include"
_FLAGS = (
    "-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64-unknown-unknown", "-cl-no-stdinc",
    "-cl-single-precision-constant", "-ffp-contract=on", "-fno-builtin", "-O1", "-S", "-emit-llvm",
    "-Wno-unknown-attributes", "-Wno-ignored-attributes", "-Wno-unknown-pragmas",
    "-Wno-gcc-compat", "-fno-caret-diagnostics",
)  # fmt: skip
_NEWEST, _OLDEST = 40, 14
_TIMEOUT_SECONDS = 300
_PRAGMA = re.compile(r"^([ \t]*)#pragma METAL fp contract\((\w+)\)", re.MULTILINE)
_KERNEL = re.compile(
    r"(?:\[\[\s*max_total_threads_per_threadgroup\s*\(\s*(\d+)\s*\)\s*\]\]\s*)?"
    r"\bkernel\s+void\s+(\w+)\s*\("
)
_ATTRIBUTE = re.compile(r"\[\[\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*\]\]")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACES = {"device": 1, "constant": 2, "threadgroup": 3}


class MSLError(AIRError):
    """The text is not Metal's language, by clang's words."""


@functools.cache
def find_clang() -> str | None:
    """The newest clang in PATH that can do it, or None."""
    for name in (*(f"clang-{n}" for n in range(_NEWEST, _OLDEST - 1, -1)), "clang"):
        path = shutil.which(name)
        if path is not None:
            return path
    return None


@functools.cache
def _knows_bfloat(clang: str) -> bool:
    """Whether a clang computes in bfloat for this target."""
    text = b"__bf16 f(__bf16 x) { return x + x; }"
    return _run(clang, text, "-fsyntax-only").returncode == 0


def needed_clang() -> str:
    """The clang that has all of Metal's types. Raises DeviceError where there is none."""
    found = find_clang()
    if found is None or not _knows_bfloat(found):
        there = "there is none in PATH" if found is None else f"{found} has no bfloat"
        raise DeviceError(
            f"Metal's language is emulated by clang 15 or newer, and {there}; install one: "
            "Debian and Ubuntu: `apt install clang-19`"
        )
    return found


def compile_msl(source: str, clang: str | None = None) -> bytes:
    """The module of a text, as IR. Raises MSLError with clang's messages.

    Their lines are those of the text. Raises DeviceError where there is no clang.
    """
    clang = clang or find_clang() or needed_clang()
    text = _PRAGMA.sub(r"\1#pragma STDC FP_CONTRACT \2", source)
    text = re.sub(r"(#pragma STDC FP_CONTRACT )(\w+)", lambda m: m[1] + m[2].upper(), text)
    more = ("-D__AIR_BFLOAT",) if _knows_bfloat(clang) else ()
    done = _run(clang, text.encode(), "-I", os.fspath(_INCLUDE), *more)
    if done.returncode:
        raise MSLError(f"{clang} rejects the text: {done.stderr.decode(errors='replace').strip()}")
    return _with_metadata(done.stdout.decode(), _kernels(source)).encode()


def _run(clang: str, text: bytes, *flags: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [clang, *_FLAGS, *flags, "-o", "-", "-"],
            input=text, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{clang} cannot be run: {error}") from error


# -- parameters


@dataclass(frozen=True)
class _Parameter:
    name: str
    kind: str  # of its attribute
    index: int
    space: int
    writes: bool


@dataclass(frozen=True)
class _Signature:
    parameters: tuple[_Parameter, ...]
    most_threads: int


def _kernels(source: str) -> dict[str, _Signature]:
    """The kernels of a text, by their names."""
    text = _COMMENT.sub(" ", source)
    found = {}
    for match in _KERNEL.finditer(text):
        parts = _split(text[match.end() :])
        parameters = tuple(_parameter(match[2], part) for part in parts)
        found[match[2]] = _Signature(parameters, int(match[1] or 1024))
    return found


def _split(text: str) -> list[str]:
    """What is between commas up to the parenthesis that closes."""
    depth, start, found = 0, 0, []
    for at, letter in enumerate(text):
        if letter in "([<":
            depth += 1
        elif letter in ")]>" and depth:
            depth -= 1
        elif (letter == "," and not depth) or letter == ")":
            if text[start:at].strip():
                found.append(text[start:at])
            start = at + 1
            if letter == ")":
                return found
    raise MSLError("the parameters of a kernel have no end")


def _parameter(kernel: str, text: str) -> _Parameter:
    attribute = _ATTRIBUTE.search(text)
    if attribute is None:
        raise MSLError(f"{kernel}: the parameter {text.strip()} has no attribute")
    words = re.findall(r"\w+", text[: attribute.start()])
    spaces = [_SPACES[word] for word in words if word in _SPACES]
    return _Parameter(
        words[-1], attribute[1], int(attribute[2] or 0), spaces[0] if spaces else 0,
        "const" not in words and spaces != [2],
    )  # fmt: skip


# -- metadata


def _with_metadata(text: str, kernels: dict[str, _Signature]) -> str:
    """IR with the nodes that Apple's compiler writes about kernels."""
    numbers = [int(n) for n in re.findall(r"^!(\d+) = ", text, re.MULTILINE)]
    nodes: list[str] = []
    first = max(numbers, default=-1) + 1

    def node(content: str) -> str:
        nodes.append(f"!{first + len(nodes)} = !{{{content}}}")
        return f"!{first + len(nodes) - 1}"

    heads = []
    for name, signature in kernels.items():
        if f"@{name}(" not in text:
            continue
        arguments = [
            node(_about(number, parameter)) for number, parameter in enumerate(signature.parameters)
        ]
        most = node(f'!"air.max_work_group_size", i32 {signature.most_threads}')
        heads.append(node(f"ptr @{name}, {node('')}, {node(', '.join(arguments))}, {most}"))
    nodes.append(f"!air.kernel = !{{{', '.join(heads)}}}")
    return "\n".join((text, *nodes, ""))


def _about(number: int, parameter: _Parameter) -> str:
    name = f'!"air.arg_name", !"{parameter.name}"'
    if parameter.kind not in ("buffer", "threadgroup"):
        return f'i32 {number}, !"air.{parameter.kind}", {name}'
    access = "air.read_write" if parameter.writes else "air.read"
    return (
        f'i32 {number}, !"air.buffer", !"air.location_index", i32 {parameter.index}, i32 1, '
        f'!"{access}", !"air.address_space", i32 {parameter.space}, {name}'
    )
