"""A CPU's name and feature words become a `Target`, from tables of what each processor has.

    x86_target("znver2", ("avx2", "-avx512f"))  ->  Target(features="+avx2,-avx512f", ...)

One surprise: an x86 CPU name that is missing from the table is taken as plain SSE2, so its
features have to be named.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from treadle.dtype import DType, dtypes
from treadle.target.data import Target

__all__ = [
    "AARCH64",
    "FAMILIES",
    "RISCV64",
    "X86_CPUS",
    "X86_LEVELS",
    "Family",
    "cpu_names",
    "make_target",
    "x86_level",
    "x86_target",
]

_INTS = (
    dtypes.bool, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16,
    dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64,
)  # fmt: skip
_COMMON = (*_INTS, dtypes.float32, dtypes.float64)

# x86-64 microarchitecture levels of the System V ABI supplement, as far as arithmetic goes.
_V1 = frozenset({"sse", "sse2"})
_V2 = _V1 | {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"}
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_VNNI = _V4 | {"avx512vnni"}
_VBMI = _VNNI | {"avx512vbmi"}
_BF16 = _VNNI | {"avx512bf16"}
X86_LEVELS = {"x86-64": _V1, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}

X86_CPUS: dict[str, frozenset[str]] = {
    **X86_LEVELS,
    **dict.fromkeys(("core2",), _V1 | {"sse3", "ssse3"}),
    **dict.fromkeys(("nehalem", "westmere", "silvermont", "goldmont", "tremont"), _V2),
    "sandybridge": _V2 | {"avx"},
    "ivybridge": _V2 | {"avx", "f16c"},
    **dict.fromkeys(("haswell", "broadwell", "skylake", "alderlake", "raptorlake"), _V3),
    **dict.fromkeys(("znver1", "znver2", "znver3", "meteorlake"), _V3),
    "skylake-avx512": _V4,
    "cascadelake": _VNNI,
    **dict.fromkeys(("icelake-client", "icelake-server", "tigerlake"), _VBMI),
    "cooperlake": _BF16,
    **dict.fromkeys(("znver4", "znver5"), _BF16 | _VBMI),
    **dict.fromkeys(("sapphirerapids", "graniterapids"), _BF16 | _VBMI | {"avx512fp16"}),
}
_HALVE_VECTORS = frozenset({"znver4"})  # their units are 32 bytes wide, their registers 64
# The newest older CPU of which each has all instructions, for compilers that do not know it yet.
_OLDER = {
    "znver5": "znver4", "znver4": "znver3", "znver3": "znver2", "znver2": "znver1",
    "graniterapids": "sapphirerapids", "sapphirerapids": "icelake-server",
    "icelake-server": "cascadelake", "cooperlake": "cascadelake", "cascadelake": "skylake-avx512",
    "skylake-avx512": "skylake", "tigerlake": "icelake-client", "icelake-client": "skylake",
    "meteorlake": "alderlake", "raptorlake": "alderlake", "alderlake": "skylake",
    "skylake": "broadwell", "broadwell": "haswell",
    "tremont": "goldmont", "goldmont": "silvermont",
    "neoverse-v2": "neoverse-n2", "neoverse-n2": "neoverse-n1", "neoverse-v1": "neoverse-n1",
    "neoverse-n1": "cortex-a76", "ampere1": "neoverse-n1", "cortex-a76": "cortex-a72",
    "apple-m1": "apple-a14", "apple-a14": "apple-a13",
}  # fmt: skip
# What falls away with a feature, by the start of its name; else only the feature itself.
_REMOVED_WITH = {
    "avx": ("avx", "fma", "f16c"),
    "avx2": ("avx2", "avx512"),
    "fma": ("fma", "avx512"),
    "f16c": ("f16c", "avx512"),
    "avx512f": ("avx512",),
}


@dataclass(frozen=True)
class Family:
    """A CPU family other than x86-64: what all of its members have."""

    arch: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    has_half_convert: bool


AARCH64 = Family("aarch64", "generic", "+neon", 16, 32, True)
RISCV64 = Family("riscv64", "generic-rv64", "+m,+a,+f,+d,+c", 16, 32, False)
FAMILIES: dict[str, Family | None] = {
    "aarch64": AARCH64, "arm64": AARCH64, "riscv64": RISCV64,
    "x86_64": None, "x86-64": None, "amd64": None,
}  # fmt: skip

_TRIPLES = {
    "linux": "{arch}-unknown-linux-gnu",
    "darwin": "{arch}-apple-macosx11.0.0",
    "win32": "{arch}-pc-windows-msvc",
}


def triple_for(arch: str, system: str = sys.platform) -> str:
    """The LLVM triple of `arch` on an operating system named as in `sys.platform`."""
    spelled = "arm64" if (arch, system) == ("aarch64", "darwin") else arch
    return _TRIPLES.get(system, _TRIPLES["linux"]).format(arch=spelled)


def _apply(present: frozenset[str], word: str) -> frozenset[str]:
    """`present` after one feature word, with what the feature implies or takes along."""
    if word.startswith("-"):
        prefixes = _REMOVED_WITH.get(word[1:], (word[1:],))
        return frozenset(name for name in present if not name.startswith(prefixes))
    if word.startswith("avx512"):
        return present | _V3 | {"avx512f", word}
    return present | {word} | (_V2 | {"avx"} if word in ("avx2", "fma", "f16c") else frozenset())


def x86_target(cpu: str, words: tuple[str, ...] = ()) -> Target:
    """An x86-64 target: a CPU name, then feature words, a leading "-" turning one off."""
    present = X86_CPUS.get(cpu, _V1)
    for word in words:
        present = _apply(present, word)
    wide = "avx512f" in present
    extra = (dtypes.float16,) if "avx512fp16" in present else ()
    return Target(
        name="CPU",
        arch="x86_64",
        triple=triple_for("x86_64"),
        cpu=cpu,
        features=_spelled(words),
        dtypes=(*_COMMON, *extra),
        vector_bytes=64 if wide else 32 if "avx2" in present else 16,
        vector_registers=32 if wide else 16,
        has_half_convert="f16c" in present,
        has_masked_memory="avx2" in present,
        chooses_addresses=True,
        least_shuffled=1 if "avx512vbmi" in present else 2 if "avx512bw" in present else 4,
        has_scale=wide,
        has_fma="fma" in present,
        halves_vectors=wide and cpu in _HALVE_VECTORS,
    )


def make_target(family: Family, cpu: str, words: tuple[str, ...] = ()) -> Target:
    """A target of another family, with feature words as in `x86_target`."""
    extra: tuple[DType, ...] = (dtypes.float16,) if "fullfp16" in words else ()
    return Target(
        name="CPU",
        arch=family.arch,
        triple=triple_for(family.arch),
        cpu=cpu,
        features=",".join(filter(None, (family.features, _spelled(words)))),
        dtypes=(*_COMMON, *extra),
        vector_bytes=family.vector_bytes,
        vector_registers=family.vector_registers,
        has_half_convert=family.has_half_convert,
        has_masked_memory=False,
        chooses_addresses=True,
    )


def cpu_names(target: Target) -> tuple[str, ...]:
    """The target's CPU, then older ones whose code it runs, the newest first.

    Of a CPU that is in no table there is nothing to say: its own name alone.
    """
    names = [target.cpu]
    while names[-1] in _OLDER:
        names.append(_OLDER[names[-1]])
    if target.arch == "x86_64" and target.cpu in X86_CPUS:
        names += [x86_level(X86_CPUS[target.cpu]), "x86-64"]
    elif target.arch == "aarch64" and target.cpu in _OLDER:
        names.append(AARCH64.cpu)
    return tuple(dict.fromkeys(names))


def _spelled(words: tuple[str, ...]) -> str:
    return ",".join(word if word.startswith("-") else f"+{word}" for word in words)


def x86_level(flags: frozenset[str]) -> str:
    """The highest x86-64 level whose features are all among `flags`."""
    return max((name for name, needs in X86_LEVELS.items() if needs <= flags), default="x86-64")
