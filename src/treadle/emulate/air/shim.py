"""Metal's language becomes LLVM IR like Apple's, by clang and a metal_stdlib of our own.

    compile_msl("#include <metal_stdlib> ... kernel void f(device float *a [[buffer(0)]]) ...")

Clang reads the text as C++ for OpenCL, whose address spaces and kernels are Metal's by other words
(see include/metal_stdlib). What it knows nothing of are the attributes of parameters: they are read
here, and become the metadata that Apple's compiler makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from treadle.emulate.air.clang import FLAGS, Clang, clang_at, find_clang, needed_clang, shim_digest
from treadle.emulate.air.syntax import AIRError

__all__ = ["Cached", "MSLError", "compile_msl"]

Cached = Callable[[str, Callable[[], bytes]], bytes]
"""What is kept under a key, or else what a function makes, which is kept from now on."""

_PRAGMA = re.compile(r"^([ \t]*)#pragma METAL fp contract\((\w+)\)", re.MULTILINE)
_KERNEL = re.compile(
    r"(?:\[\[\s*max_total_threads_per_threadgroup\s*\(\s*(\d+)\s*\)\s*\]\]\s*)?"
    r"\bkernel\s+void\s+(\w+)\s*\("
)
_ATTRIBUTE = re.compile(r"\[\[\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*\]\]")
# Clang 21 and newer write each kernel twice, for those who call it, which nobody can in Metal.
_CALLABLE = re.compile(
    r"^(?:; Function Attrs:[^\n]*\n)?define [^\n]*@__clang_ocl_kern_imp_\w+\([^\n]*\{\n.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPACES = {"device": 1, "constant": 2, "threadgroup": 3}


class MSLError(AIRError):
    """The text is not Metal's language, by clang's words."""


def compile_msl(source: str, clang: str | None = None, cached: Cached | None = None) -> bytes:
    """The module of a text, as IR; `cached` keeps it.

    Raises MSLError with clang's messages, whose lines are those of the text, and DeviceError where
    there is no clang.
    """
    tool = clang_at(clang or find_clang() or needed_clang())
    if cached is None:
        return _compiled(source, tool)
    key = "\0".join(("MSL", tool.version, repr(FLAGS), shim_digest(), source))
    return cached(key, lambda: _compiled(source, tool))


def _compiled(source: str, tool: Clang) -> bytes:
    text = _PRAGMA.sub(r"\1#pragma STDC FP_CONTRACT \2", source)
    text = re.sub(r"(#pragma STDC FP_CONTRACT )(\w+)", lambda m: m[1] + m[2].upper(), text)
    done = tool.run(text.encode())
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise MSLError(f"{tool.path} rejects the text: {said}")
    ir = done.stdout.decode()
    if not re.search(r"call [^\n]*@__clang_ocl_kern_imp_", ir):
        ir = _CALLABLE.sub("", ir)
    return _with_metadata(ir, _kernels(source)).encode()


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
    option = node('!"air.compile.denorms_disable"')  # as Apple's compiler says of all its modules
    nodes.append(f"!air.compile_options = !{{{option}}}")
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
