"""MLX's kernels from their headers: the text of one kernel, for clang and our metal_stdlib.

    source = source_of("block_softmax_float32")   # softmax.h, softmax_single_row<float>
    text_of(include, "block_softmax_float32", source, {})

A kernel is a template there, of which Apple's compiler made what is in the library. Clang's C++ for
OpenCL has no kernels that are templates: so the template's parameters are defined before its text.
What else clang has not is rewritten: constructors for memory of one kind (an unqualified one is for
all), threadgroup memory that is declared in an inner scope, vectors made as `short2 a(1, 2)`.

Left out is steel's attention: clang has no vectors of one element, and adds no object that converts
to an integer to a pointer. So are copies between half and bfloat, which clang does not convert.
Layer norms are in no header.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

KERNELS = "mlx/backend/metal/kernels"
_INCLUDE = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)
# It defines functions of bfloat by names of Apple's compiler; the shim has them.
_LEFT_OUT = (f"{KERNELS}/bf16_math.h",)
_OTHER_MEMORY = re.compile(
    r"(?:template\s*<[^{};]*>\s*)?constexpr (?:complex_t\([^(){}]*\)|operator [^(){}]*\(\) const)"
    r" (?:threadgroup|device|constant)\b[^{};]*(?:\{\};?|\{[^{}]*\})"
)
_CONSTRUCTOR = re.compile(
    r"(^\s*(?:METAL_FUNC |constexpr |inline )*(?:[A-Z]\w*|complex_t)\([^(){}]*\))\s+thread"
    r"(?=\s*[:{])",
    re.MULTILINE,
)
# Clang converts no int to a short that is referred to in a thread's memory.
_REFERENCE = re.compile(r"\bthread const short& (\w+)")
_LOG = re.compile(r"constant mlx::os_log logger\([^;]*;|logger\.log_debug\([^;]*;")
_VECTOR = re.compile(r"\b((?:u?(?:char|short|int|long)|half|float)[234]) (\w+)\(([^;{}]*)\);")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TEMPLATE = re.compile(
    r"template\s*<((?:[^<>;{}]|<[^<>;{}]*>)*)>\s*"
    r"\[\[\s*kernel[^\]]*(?:\([^\]]*\))?\s*\]\]\s*void\s+(\w+)\s*\("
)

# Clang converts no half to bfloat, as Metal does.
_HALF = ("static_cast<bfloat16_t>(this->operator float16_t())",
         "static_cast<bfloat16_t>(float(this->operator float16_t()))")  # fmt: skip
TYPES = {
    "float32": "float", "float16": "half", "bfloat16": "bfloat16_t", "bool_": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
_TYPE = "|".join(sorted(TYPES, key=len, reverse=True))

# What Apple's compiler has for itself, and a vector that no kernel of ours needs.
_BEFORE = """#include <metal_stdlib>
#include <metal_uniform>
using namespace metal;
namespace metal {
template <typename... Ts> struct _disjunction : bool_constant<(Ts::value || ...)> {};
}
struct bool4 {
  bool elements[4];
  thread bool& operator[](int i) thread { return elements[i]; }
};
"""


class Source(NamedTuple):
    """Where a kernel of the library stands in the headers."""

    header: str
    kernel: str
    arguments: tuple[str, ...]
    before: tuple[str, ...] = ("utils.h",)


class _Template(NamedTuple):
    """A kernel: its template's parameters, those that a launch gives, and its body."""

    parameters: list[str]
    takes: list[str]
    body: str


def source_of(name: str) -> Source | None:
    """Where a kernel of the library comes from; None for one that clang cannot make."""
    for pattern, make in _SOURCES:
        found = re.fullmatch(pattern.replace("TYPE", _TYPE), name)
        if found is not None:
            words = {key: TYPES.get(word, word) for key, word in found.groupdict().items()}
            return None if {"half", "bfloat16_t"} <= set(words.values()) else make(**words)
    return None


def text_of(include: Path, name: str, source: Source, constants: dict[int, object]) -> str:
    """A text with one kernel called `name`; `constants` are the values of function constants."""
    seen: set[str] = set()
    files = (*source.before, source.header)
    whole = "".join(_flat(include, f"{KERNELS}/{one}", seen) for one in files)
    rest, templates = _apart(_with_constants(_COMMENT.sub("", whole), constants))
    found = templates[source.kernel]
    return (
        f"{_BEFORE}{rest}\n"
        f"namespace launched {{\n{_definitions(found.parameters, source.arguments)}\n"
        f"kernel void {name}({', '.join(_numbered(found.takes))}) "
        f"{{{_outermost(found.body)}}}\n}}\n"
    )


def _with_constants(text: str, values: dict[int, object]) -> str:
    """Function constants have values: those given, or 0. That one is defined is as it is given."""

    def defined(match: re.Match[str]) -> str:
        value = values.get(int(match[3]), 0)
        return f"constant constexpr {match[1]} {match[2]} = {str(value).lower()};"

    names = dict(re.findall(r"(\w+) \[\[function_constant\((\d+)\)\]\]", text))
    text = re.sub(r"constant (\w+) (\w+) \[\[function_constant\((\d+)\)\]\];", defined, text)
    return re.sub(
        r"is_function_constant_defined\((\w+)\)",
        lambda match: str(int(names[match[1]]) in values).lower(), text,
    )  # fmt: skip


def _flat(include: Path, name: str, seen: set[str]) -> str:
    """A header with those that it includes, each once."""
    if name in seen or name in _LEFT_OUT:
        return ""
    seen.add(name)
    text = (include / name).read_text()
    text = _VECTOR.sub(r"\1 \2 = \1(\3);", text.replace(*_HALF))
    text = text.replace("const thread noexcept", "const noexcept")
    text = _REFERENCE.sub(r"const short \1", text)
    text = _CONSTRUCTOR.sub(r"\1", _OTHER_MEMORY.sub("", _LOG.sub(";", text)))
    return _INCLUDE.sub(lambda match: _flat(include, match[1], seen), text) + "\n"


def _apart(text: str) -> tuple[str, dict[str, _Template]]:
    """The text without its kernels, and these."""
    rest, at, found = [], 0, {}
    for match in _TEMPLATE.finditer(text):
        if match.start() < at:
            continue
        takes = _closed(text, match.end() - 1)
        start = text.index("{", takes)
        end = _closed(text, start)
        rest.append(text[at : match.start()])
        at = end
        found.setdefault(match[2], _Template(
            _split(match[1]), _split(text[match.end() : takes - 1]), text[start + 1 : end - 1]
        ))  # fmt: skip
    return "".join((*rest, text[at:])), found


def _closed(text: str, start: int) -> int:
    """Behind the bracket that closes the one at `start`."""
    opening, depth = text[start], 0
    closing = {"(": ")", "{": "}"}[opening]
    for at in range(start, len(text)):
        depth += (text[at] == opening) - (text[at] == closing)
        if not depth:
            return at + 1
    raise ValueError("a bracket is never closed")


def _outermost(body: str) -> str:
    """A body whose threadgroup memory is declared in its outermost scope, as clang wants it."""
    depth = start = at = 0
    moved: dict[str, int] = {}
    for match in re.finditer(r"[{};]|\bthreadgroup [\w:<>, ]+ \w+\[[^;]*\];", body):
        if len(match[0]) > 1:
            if depth:
                moved.setdefault(match[0], start)
            continue
        depth += (match[0] == "{") - (match[0] == "}")
        if not depth and not body[match.end() :].lstrip().startswith("else"):
            start = match.end()
    made = []
    for text, place in moved.items():
        made.append(body[at:place].replace(text, "") + f"\n{text}\n" if place >= at else text)
        at = max(at, place)
    rest = body[at:]
    for text in moved:
        rest = rest.replace(text, "")
    return "".join((*made, rest))


def _split(text: str) -> list[str]:
    """What is between commas."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "(<[") - (letter in ")>]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [" ".join(part.split()) for part in parts if part.strip()]


def _definitions(parameters: list[str], arguments: tuple[str, ...]) -> str:
    """Definitions of a template's parameters, which have the values that it says by default."""
    lines = []
    for number, parameter in enumerate(parameters):
        head, _, default = parameter.partition("=")
        *kind, name = head.split()
        value = arguments[number] if number < len(arguments) else default.strip()
        if not value:
            raise ValueError(f"the template's {name} has no value")
        if kind[-1] in ("typename", "class"):
            lines.append(f"using {name} = {value};")
        else:
            lines.append(f"constant constexpr {' '.join(kind)} {name} = {value};")
    return "\n".join(lines)


def _numbered(takes: list[str]) -> list[str]:
    """Parameters of a kernel, with the number that Metal gives to buffers that have none."""
    free, found = 0, []
    for one in takes:
        one = re.sub(r", function_constant\(\w+\)", "", one)
        given = re.search(r"\[\[\s*buffer\((\d+)\)\s*\]\]", one)
        if given:
            free = max(free, int(given[1]) + 1)
        elif "[[" not in one:
            one, free = f"{one} [[buffer({free})]]", free + 1
        found.append(one)
    return found


# -- which template a name is of


def _unary(op: str, T: str, U: str) -> Source:
    return Source("unary.h", "unary_v", (T, U, op, "1"), ("utils.h", "unary_ops.h"))


_COMPARISONS = ("Equal", "Less", "GreaterEqual")


def _binary(kernel: str, op: str, T: str) -> Source:
    return Source(
        "binary.h", f"binary_{kernel}", (T, "bool" if op in _COMPARISONS else T, op, "1"),
        ("utils.h", "binary_ops.h"),
    )  # fmt: skip


def _strided(op: str, T: str) -> Source:
    return Source("binary.h", "binary_g_nd2", (T, T, op), ("utils.h", "binary_ops.h"))


def _copy(kernel: str, T: str, U: str) -> Source:
    return Source("copy.h", f"copy_{kernel}", (T, U, "1"))


def _reduction(kernel: str, op: str, T: str, more: str = "") -> Source:
    operation = {"and": "And<bool>", "or": "Or<bool>"}.get(op) or f"{op.capitalize()}<{T}>"
    return Source(
        "reduce.h", kernel, (T, T, operation, *more.split()),
        ("utils.h", "atomic.h", "reduction/ops.h"),
    )  # fmt: skip


def _scan(kernel: str, back: str | None, op: str, T: str, U: str) -> Source:
    turned = "true" if back else "false"
    return Source("scan.h", kernel, (T, U, f"Cum{op.capitalize()}<{U}>", "4", "true", turned))


def _sort(arg: str | None, T: str, U: str, threads: str, items: str) -> Source:
    return Source("sort.h", "block_sort", (T, U, "true" if arg else "false", threads, items))


def _gemv(kernel: str, T: str, sizes: str) -> Source:
    numbers = re.findall(r"\d+", sizes)
    words = ("false" if n == "0" else "true" for n in numbers[6:])
    return Source("gemv.h", kernel, (T, *numbers[:6], *words))


def _gemm(turns: str, T: str, sizes: str) -> Source:
    left, right = (("true" if turn == "t" else "false") for turn in turns)
    numbers = re.findall(r"\d+", sizes)
    return Source(
        "steel/gemm/kernels/steel_gemm_fused.h", "gemm", (T, *numbers, left, right),
        ("utils.h", "steel/gemm/gemm.h"),
    )  # fmt: skip


def _quantised(kernel: str, word: str, group: str, bits: str, more: str = "") -> Source:
    T = {"float": "float", "float16_t": "half", "bfloat16_t": "bfloat16_t"}[word]
    return Source(
        "quantized.h", kernel, (T, group, bits, *more.split()),
        ("utils.h", "steel/gemm/gemm.h", "quantized_utils.h"),
    )  # fmt: skip


_REDUCTIONS = "sum|prod|max|min|and|or"
_REDUCED = f"_1_reduce_(?P<op>{_REDUCTIONS})(?P<T>TYPE)"
_QUANTISED = r"(?P<word>float|float16_t|bfloat16_t)_gs_(?P<group>\d+)_b_(?P<bits>\d)"
_SOURCES = (
    ("v_copy(?P<T>TYPE)(?P<U>TYPE)", lambda T, U: _copy("v", T, U)),
    ("s_copy(?P<T>TYPE)(?P<U>TYPE)", lambda T, U: _copy("s", T, U)),
    ("g1_copy(?P<T>TYPE)(?P<U>TYPE)", lambda T, U: Source("copy.h", "copy_g_nd1", (T, U))),
    ("v_(?P<op>[A-Z][A-Za-z0-9]*?)(?P<T>TYPE)(?P<U>TYPE)", _unary),
    ("(?P<kernel>vv|sv|vs|ss)_(?P<op>[A-Z][A-Za-z0-9]*?)(?P<T>TYPE)", _binary),
    ("g2_(?P<op>[A-Z][A-Za-z0-9]*?)(?P<T>TYPE)", _strided),
    ("arange(?P<T>TYPE)", lambda T: Source("arange.h", "arange", (T,))),
    (f"(?P<kernel>row_reduce_simple|all_reduce)_(?P<op>{_REDUCTIONS})(?P<T>TYPE)", _reduction),
    (
        f"(?P<kernel>row_reduce_looped|row_reduce_small|col_reduce_small){_REDUCED}",
        lambda kernel, op, T: _reduction(kernel, op, T, "int 1"),
    ),
    (
        f"(?P<kernel>col_reduce_looped)_1_32_32_reduce_(?P<op>{_REDUCTIONS})(?P<T>TYPE)",
        lambda kernel, op, T: _reduction(kernel, op, T, "int 1 32 32"),
    ),
    ("block_softmax_(?P<T>TYPE)", lambda T: Source("softmax.h", "softmax_single_row", (T,))),
    ("looped_softmax_(?P<T>TYPE)", lambda T: Source("softmax.h", "softmax_looped", (T,))),
    ("block_logsumexp_(?P<T>TYPE)", lambda T: Source("logsumexp.h", "logsumexp", (T,))),
    ("looped_logsumexp_(?P<T>TYPE)", lambda T: Source("logsumexp.h", "logsumexp_looped", (T,))),
    (
        "contig_scan_(?P<back>reverse_)?inclusive_(?P<op>sum|prod|max|min)_(?P<T>TYPE)_(?P<U>TYPE)",
        lambda **words: _scan("contiguous_scan", **words),
    ),
    (
        "strided_scan_(?P<back>reverse_)?inclusive_(?P<op>sum|prod|max|min)_(?P<T>TYPE)_(?P<U>TYPE)",
        lambda **words: _scan("strided_scan", **words),
    ),
    (
        r"c(?P<arg>arg)?_block_sort_(?P<T>TYPE)_(?P<U>TYPE)_bn(?P<threads>\d+)_tn(?P<items>\d+)",
        _sort,
    ),
    (r"(?P<kernel>gemv(?:_t)?)_(?P<T>TYPE)_(?P<sizes>bm\d+_.*)", _gemv),
    (
        r"sdpa_vector_(?P<word>float|float16_t|bfloat16_t)_(?P<d>\d+)_(?P<v>\d+)",
        lambda word, d, v: Source("sdpa_vector.h", "sdpa_vector", (word, d, v)),
    ),
    (
        r"steel_gemm_fused_(?P<turns>[nt]{2})_(?P<T>TYPE)_(?P=T)_(?P<sizes>bm\d+\w+)",
        _gemm,
    ),
    (
        f"(?P<kernel>affine_qmm_t)_{_QUANTISED}_alN_false_batch_0",
        lambda **words: _quantised(**words, more="false false"),
    ),
    (f"(?P<kernel>affine_dequantize)_{_QUANTISED}", _quantised),
    (
        f"(?P<kernel>affine_qmv_fast)_{_QUANTISED}_batch_0_pr_0_hgs_0_r_4",
        lambda **words: _quantised(**words, more="false false false 4"),
    ),
)
