"""An arch string becomes a `Target`.

    "x86_64,znver2,avx2,-avx512f"  ->  Target(cpu="znver2", features="+avx2,-avx512f", ...)

The first word is the family (or a level such as "x86-64-v3"), the second a CPU as clang's `-march`
knows it ("native" asks this machine), the rest are features, a leading "-" turning one off.
NVIDIA's architectures, AMD's chips, Apple's GPU families and Adreno's chips are one word each:
"sm_90a", "gfx1100", "apple7", "a630".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.errors import SettingError
from treadle.target.adreno import ADRENO_CHIPS, adreno_target
from treadle.target.amd import AMD_CHIPS, amd_target
from treadle.target.apple import APPLE_FAMILIES, apple_target
from treadle.target.arch import FAMILIES, X86_LEVELS, make_target, x86_target
from treadle.target.host import host_target
from treadle.target.nvidia import NVIDIA_ARCHITECTURES, nvidia_target

if TYPE_CHECKING:
    from treadle.target.data import Target

__all__ = ["TARGET_NAMES", "parse_target"]

_PROCESSORS = ("native", *FAMILIES, *(level for level in X86_LEVELS if level != "x86-64"))
TARGET_NAMES = (*_PROCESSORS, *NVIDIA_ARCHITECTURES, *AMD_CHIPS, *APPLE_FAMILIES, *ADRENO_CHIPS)


def parse_target(text: str) -> Target:
    """The target that an arch string names: "native", "x86_64,znver2,-avx512f", "sm_90a",
    "gfx1100", "apple7", "a630".

    Raises SettingError when the family is unknown or the string is malformed.
    """
    if text.startswith("sm_"):
        return nvidia_target(text)
    if text.startswith("gfx"):
        return amd_target(text)
    if text in APPLE_FAMILIES:
        return apple_target(text)
    if text in ADRENO_CHIPS:
        return adreno_target(text)
    family, *words = (word.strip() for word in text.split(","))
    if family in X86_LEVELS and family not in FAMILIES:
        return x86_target(family, _checked(words, text))
    if family == "native":
        return _native(text, None, words)
    if family not in FAMILIES:
        raise SettingError(
            f"unknown CPU family {family!r} in arch {text!r}; known: {', '.join(_PROCESSORS)}; a "
            f"processor's own name stands behind its family, as in x86_64,znver4"
        )
    other = FAMILIES[family]
    cpu, features = (words[0], words[1:]) if words else (other.cpu if other else "x86-64", [])
    if cpu == "native":
        return _native(text, other.arch if other else "x86_64", features)
    checked = _checked([cpu.removeprefix("-"), *features], text)[1:]
    return make_target(other, cpu, checked) if other else x86_target(cpu, checked)


def _checked(words: list[str], text: str) -> tuple[str, ...]:
    bad = [word for word in words if not word or word.startswith("+")]
    if bad:
        raise SettingError(
            f"bad feature {bad[0]!r} in arch {text!r}: write a feature as a bare name, "
            "or with a leading '-' to turn it off"
        )
    return tuple(words)


def _native(text: str, arch: str | None, words: list[str]) -> Target:
    host = host_target()
    if arch not in (None, host.arch):
        raise SettingError(f"arch {text!r} asks for {arch}, but this machine is {host.arch}")
    extra = _checked(words, text)
    if not extra:
        return host
    told = tuple(word.removeprefix("+") for word in host.features.split(",") if word)
    family = FAMILIES[host.arch]
    if family is None:
        made = x86_target(host.cpu, (*told, *extra))
    else:
        own = len(family.features.split(","))
        made = make_target(family, host.cpu, (*told[own:], *extra))
    return replace(made, l1=host.l1, l2=host.l2, l3=host.l3, cores=host.cores)
