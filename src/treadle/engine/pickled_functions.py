"""Functions by value, for pickles: lambdas and inner functions, which have no name to be found by.

    made_of(parts_of(lambda x: x * w))      the same function, of its code and what it closes over

Code is that of one version of Python. As with all pickles, who loads one runs what it holds.
"""

from __future__ import annotations

import marshal
import sys
import types
from dataclasses import dataclass

__all__ = ["Parts", "made_of", "parts_of"]


@dataclass
class Parts:
    """What a function is made of; modules by their names."""

    code: bytes
    version: str
    names: dict[str, str | None]  # __module__, __name__, __qualname__, __doc__
    defaults: tuple[object, ...] | None
    keywords: dict[str, object] | None
    cells: list[object]
    values: dict[str, object]  # of the globals that it names


@dataclass
class _Module:
    name: str


@dataclass
class _Itself:
    """The function where it names or closes over itself."""


def parts_of(function: object) -> object:
    """The parts of a Python function, to be pickled; anything else as it is."""
    if not isinstance(function, types.FunctionType):
        return function

    def kept(value: object) -> object:
        if value is function:
            return _Itself()
        if isinstance(value, types.ModuleType):
            return _Module(value.__name__)
        is_inner = isinstance(value, types.FunctionType) and "<" in value.__qualname__
        return parts_of(value) if is_inner else value

    codes = [function.__code__]
    for code in codes:
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    named = {name for code in codes for name in code.co_names if name in function.__globals__}
    own = ("__module__", "__name__", "__qualname__", "__doc__")
    return Parts(
        marshal.dumps(function.__code__), sys.version,
        {name: getattr(function, name) for name in own},
        function.__defaults__, function.__kwdefaults__,
        [kept(cell.cell_contents) for cell in function.__closure__ or ()],
        {name: kept(function.__globals__[name]) for name in sorted(named)},
    )  # fmt: skip


def made_of(parts: Parts) -> types.FunctionType:
    """The function of these parts. Raises TypeError where another Python has made them."""
    if parts.version != sys.version:
        raise TypeError(
            f"[pickle] a function was pickled by Python {parts.version}, this is {sys.version}: "
            "define it in a module, so that it is found by its name"
        )
    cells = [types.CellType() for _ in parts.cells]
    values: dict[str, object] = {"__builtins__": __builtins__}
    code = marshal.loads(parts.code)  # noqa: S302 (it came with a pickle, which runs code anyway)
    function = types.FunctionType(
        code, values, parts.names["__name__"], parts.defaults, tuple(cells)
    )

    def again(value: object) -> object:
        if isinstance(value, _Itself):
            return function
        if isinstance(value, _Module):
            return __import__(value.name, fromlist=["_"])
        return made_of(value) if isinstance(value, Parts) else value

    for name, value in parts.names.items():
        setattr(function, name, value)
    function.__kwdefaults__ = parts.keywords
    for cell, value in zip(cells, parts.cells, strict=True):
        cell.cell_contents = again(value)
    values.update({name: again(value) for name, value in parts.values.items()})
    return function
