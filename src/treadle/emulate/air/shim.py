"""Metal's language becomes LLVM IR like Apple's, by clang and a metal_stdlib of our own.

    compile_msl("#include <metal_stdlib> ... kernel void f(device float *a [[buffer(0)]]) ...")

Clang reads the text as C++ for OpenCL, whose address spaces and kernels are Metal's by other words
(see include/metal_stdlib). What it knows nothing of are the attributes of parameters: they are read
here, behind the preprocessor, and become the metadata that Apple's compiler makes of them. How many
there are, and in which memory, is what clang says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from subprocess import CompletedProcess

from treadle.emulate.air.clang import FLAGS, Clang, clang_at, needed_clang, shim_digest
from treadle.emulate.air.syntax import AIRError

__all__ = ["Cached", "MSLError", "compile_msl"]

Cached = Callable[[str, Callable[[], bytes]], bytes]
"""What is kept under a key, or else what a function makes, which is kept from now on."""

_PRAGMA = re.compile(r"^([ \t]*)#pragma METAL fp contract\((\w+)\)", re.MULTILINE)
_AS_ATTRIBUTE = re.compile(r"\[\[\s*kernel\s*(?:,\s*([^\]]*))?\]\]")
# What the preprocessor may change the parameters of a kernel by: not the pragmas, nor the shim.
_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?!pragma\b|include[ \t]*<metal_\w+>)|\\$|\b_Pragma\b", re.MULTILINE
)
_KERNEL = re.compile(
    r"((?:\[\[[^\[\]]*\]\]\s*)*)\b(?:__)?kernel\s+((?:\[\[[^\[\]]*\]\]\s*)*)void\s+(\w+)\s*"
    r"((?:\[\[[^\[\]]*\]\]\s*)*)\("
)
_MOST_THREADS = re.compile(r"\bmax_total_threads_per_threadgroup\s*\(\s*(\d+)\s*\)")
_DEFINED = re.compile(r"^define [^\n]*?\bspir_kernel void @(\w+)\(", re.MULTILINE)
_SPACE = re.compile(r"\s*ptr addrspace\((\d)\)")
_ATTRIBUTE = re.compile(r"\[\[\s*(\w+)\s*(?:\(\s*(\d+)\s*\))?\s*\]\]")
# Clang 21 and newer write each kernel twice, for those who call it, which nobody can in Metal.
_CALLABLE = re.compile(
    r"^(?:; Function Attrs:[^\n]*\n)?define [^\n]*@__clang_ocl_kern_imp_\w+\([^\n]*\{\n.*?^\}\n",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONSTANT = 2  # the number of an address space


class MSLError(AIRError):
    """The text is not Metal's language, by clang's words."""


def compile_msl(source: str, clang: str | None = None, cached: Cached | None = None) -> bytes:
    """The module of a text, as IR; `cached` keeps it.

    Raises MSLError with clang's messages, whose lines are those of the text, and DeviceError where
    there is no clang.
    """
    tool = clang_at(clang or needed_clang())
    if cached is None:
        return _compiled(source, tool)
    key = "\0".join(("MSL", tool.version, repr(FLAGS), shim_digest(), source))
    return cached(key, lambda: _compiled(source, tool))


def _compiled(source: str, tool: Clang) -> bytes:
    text = _PRAGMA.sub(lambda m: f"{m[1]}#pragma STDC FP_CONTRACT {m[2].upper()}", source)
    text = _AS_ATTRIBUTE.sub(lambda m: f"[[{m[1]}]] kernel" if m[1] else "kernel", text)
    done = tool.run(text.encode())
    if done.returncode:
        raise _rejection(tool, done)
    ir = done.stdout.decode()
    if "@llvm.global_ctors" in ir:
        raise MSLError("a variable of the program has a value that is no constant expression")
    if not re.search(r"call [^\n]*@__clang_ocl_kern_imp_", ir):
        ir = _CALLABLE.sub("", ir)
    return _with_metadata(ir, _kernels(_preprocessed(text, tool), ir)).encode()


def _rejection(tool: Clang, done: CompletedProcess[bytes]) -> MSLError:
    said = done.stderr.decode(errors="replace").strip()
    return MSLError(f"{tool.path} rejects the text: {said}")


def _preprocessed(text: str, tool: Clang) -> str:
    """The text whose kernels can be read: as it is, where no macro can be in them."""
    if _DIRECTIVE.search(_COMMENT.sub(" ", text)) is None:
        return text
    done = tool.preprocess(text.encode())
    if done.returncode:
        raise _rejection(tool, done)
    return done.stdout.decode()


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


def _kernels(source: str, ir: str) -> dict[str, _Signature]:
    """The kernels of a module by their names; only the text tells where parameters are bound."""
    text = _COMMENT.sub(" ", source)
    found = {}
    written = {match[3]: match for match in _KERNEL.finditer(text)}
    for kernel in _DEFINED.finditer(ir):
        name = kernel[1]
        if name not in written:
            raise MSLError(
                f"{name}: its parameters cannot be read: write `kernel void {name}(...)`"
            )
        match = written[name]
        declared, made = _split(text[match.end() :]), _split(ir[kernel.end() :])
        if len(declared) != len(made):
            raise MSLError(
                f"{name}: it has {len(made)} parameters, of which {len(declared)} can be read"
            )
        rows = zip(declared, made, strict=True)
        most = _MOST_THREADS.search(match[1] + match[2] + match[4])
        found[name] = _Signature(
            tuple(_parameter(name, *row) for row in rows), int(most[1]) if most else 1024
        )
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


def _parameter(kernel: str, text: str, made: str) -> _Parameter:
    """A parameter, as it is written and as IR has it."""
    attribute = _ATTRIBUTE.search(text)
    if attribute is None:
        raise MSLError(f"{kernel}: the parameter {text.strip()} has no attribute")
    words = re.findall(r"\w+", text[: attribute.start()])
    pointer = _SPACE.match(made)
    space = int(pointer[1]) if pointer else 0
    return _Parameter(
        words[-1], attribute[1], int(attribute[2] or 0), space,
        "const" not in words and space != _CONSTANT,
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
