"""The names of built-in functions, taken apart.

called("air.fast_exp.f32")             # Called("exp", "", ...)
called("air.simd_sum.s.i32")           # Called("simd_sum", "s")
called("air.atomic.global.add.u.i32")  # Called("atomic.add", "u")
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from treadle.emulate.air.syntax import AIRError

__all__ = ["Called", "called"]

_PRECISIONS = ("fast_", "precise_")


@dataclass(frozen=True, slots=True)
class Called:
    """`sign` is u, s, f, or "" where the name has none; `types` are the words behind it."""

    name: str
    sign: str
    types: tuple[str, ...]


@lru_cache(4096)
def called(function: str) -> Called:
    """What a function of `air.` or `llvm.` is called without its types.

    Raises AIRError for others: compilers for Metal make them part of each kernel that calls them.
    """
    if not function.startswith(("air.", "llvm.")):
        raise AIRError(f"{function} is called, where only Metal's own functions can be")
    family, name, *rest = function.split(".")
    if name == "atomic":
        _, how, *rest = rest
        name = f"atomic.{how}"
    if name in ("wg", "simdgroup"):  # of barriers
        name, *rest = f"{name}.{rest[0]}", *rest[1:]
    for precision in _PRECISIONS:
        name = name.removeprefix(precision)
    if family == "llvm":
        name = f"llvm.{name}"
        while rest and rest[0] in ("with", "overflow", "sat", "reduce", "fpclass"):
            name += f".{rest.pop(0)}"
        if name == "llvm.vector.reduce":
            name += f".{rest.pop(0)}"
    sign = rest.pop(0) if rest and rest[0] in ("u", "s", "f") else ""
    return Called(name, sign, tuple(rest))
