"""Functions of one number (cat4): computed better than hardware does, and rounded to nearest.

Sines and cosines are of radians. Hardware takes those of -pi to pi alone; here all are right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.emulate.ir3.meanings import MEANINGS
from treadle.emulate.simt.lanewise import lanewise

if TYPE_CHECKING:
    from treadle.emulate.ir3.wave import Wave

__all__: list[str] = []


def _library(w: Wave, name: str, value: str) -> str:
    """A function of the C library in float64, lane after lane."""
    w.e.need(name, f"declare double @{name}(double)")
    scalar = f"  %r = call double @{name}(double %x0)"
    return lanewise(w.e, f"ir3_{name}", ("double",), "double", scalar, (value,))


def _reciprocal(w: Wave, value: str) -> str:
    return w.x.op("f64", "fdiv", w.x.const("f64", 1.0), value)


def _root(w: Wave, value: str) -> str:
    return w.x.call("f64", "sqrt", value)


_FUNCTIONS = {
    "rcp": _reciprocal,
    "sqrt": _root,
    "rsq": lambda w, v: _reciprocal(w, _root(w, v)),
    **{f: lambda w, v, name=f: _library(w, name, v) for f in ("log2", "exp2", "sin", "cos")},
}
_SAME = {"hrsq": "rsq", "hlog2": "log2", "hexp2": "exp2"}


@MEANINGS.of(*_FUNCTIONS, *_SAME)
def _special(w: Wave) -> None:
    kind = "f32" if w.item.number("FULL") else "f16"
    name = _SAME.get(w.item.name, w.item.name)
    wide = w.x.convert("fpext", kind, "f64", w.source(0, kind))
    value = _FUNCTIONS[name](w, wide)
    w.result(kind, _to_nearest(w, kind, value))


def _to_nearest(w: Wave, kind: str, value: str) -> str:
    """float64 to `kind`. By way of float32 a half is not always the nearest: by less than 2^-40."""
    single = w.x.convert("fptrunc", "f64", "f32", value)
    return single if kind == "f32" else w.x.convert("fptrunc", "f32", "f16", single)
