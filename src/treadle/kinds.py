"""Kinds of arguments: what a parameter takes, whether a value is such, and what messages call it.

kinds = kinds_of(Tensor.histc, signature)      {"bins": int, ...}
fits("a", kinds["bins"]) -> False;  named(kinds["bins"]) -> "a whole number"

A parameter's kind is its annotation. Where more may stand there than a type can say (Python's
numbers, NumPy's, tensors), the annotation is `Annotated` with a `Kind`.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Unpack

from .dtype import dtypes, to_dtype
from .errors import TreadleError

__all__ = [
    "AXES", "DEVICE", "DTYPE", "NUMBER", "NUMBERS", "OPERAND", "SIZES", "SOURCE", "Kind", "fits",
    "is_tensor", "kinds_of", "named", "shown",
]  # fmt: skip

_LONGEST = 60  # characters of a value that are shown


def kinds_of(method: Callable[..., object], signature: inspect.Signature) -> dict[str, object]:
    """The kind of each parameter: its annotation; `object` where that says nothing."""
    names = vars(sys.modules[method.__module__]) | {"Self": _Self}
    return {
        key: _kind(method.__annotations__.get(key, object), names) for key in signature.parameters
    }


def _kind(annotation: object, names: Mapping[str, object]) -> object:
    try:
        kind: object = annotation
        if isinstance(annotation, str):
            kind = eval(annotation, dict(names))  # noqa: S307 (what this package's own source says)
    except NameError:  # a name that only type checkers look up
        return object
    if hasattr(kind, "requires_grad") or isinstance(kind, TypeVar):
        return _Self
    says_nothing = kind is Any or typing.get_origin(kind) is Unpack  # keywords of several kinds
    return object if says_nothing or isinstance(kind, str) else kind  # a str: an alias of names


class _Self:
    """Stands for the tensor's own class in annotations."""


def is_tensor(value: object) -> bool:
    return hasattr(value, "requires_grad") and not isinstance(value, type)


def _is_one(value: object) -> bool:
    return not getattr(value, "shape", ())


def _is_number(value: object) -> bool:
    return hasattr(value, "__float__") and _is_one(value)


def _is_whole(value: object) -> bool:
    return (hasattr(value, "__index__") and _is_one(value)) or hasattr(value, "bind")


def _is_flag(value: object) -> bool:
    return isinstance(value, int) or (hasattr(value, "__bool__") and _is_one(value))


def _is_operand(value: object) -> bool:
    return isinstance(value, complex) or hasattr(value, "__array__") or _is_number(value)


def _is_numbers(value: object) -> bool:
    return isinstance(value, (list, tuple)) or _is_operand(value)


def _is_source(value: object) -> bool:
    return isinstance(value, (str, bytes)) or hasattr(value, "__fspath__") or is_tensor(value)


def _is_several(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, (list, tuple)) and all(map(_is_whole, value)))


def _is_dtype(value: object) -> bool:
    try:
        to_dtype(value)
    except TreadleError:
        return False
    return True


class Kind(NamedTuple):
    """What a parameter takes, where its type alone does not say so: stands in `Annotated`."""

    name: str
    holds: Callable[[object], bool]


OPERAND = Kind("a tensor or a number", _is_operand)
NUMBER = Kind("a number", _is_number)
NUMBERS = Kind("a number, a sequence of numbers or a tensor", _is_numbers)
SIZES = Kind("a whole number, or a sequence of such", _is_several)
AXES = Kind("an axis, or a sequence of axes", _is_several)
DTYPE = Kind("a dtype such as dtypes.float32", _is_dtype)
DEVICE = Kind("a device's name such as 'CPU'", lambda value: isinstance(value, str))
SOURCE = Kind("a path or a uint8 tensor", _is_source)
_FLAG = Kind("True or False", _is_flag)

_PLAIN: dict[object, Kind] = {
    int: Kind("a whole number", _is_whole),
    float: NUMBER,
    complex: OPERAND,
    bool: _FLAG,
    str: Kind("a text", lambda v: isinstance(v, str)),
    _Self: Kind("a tensor", is_tensor),
    NoneType: Kind("None", lambda v: v is None),
    Callable: Kind("a function", callable),
    Mapping: Kind("a dictionary", lambda v: isinstance(v, Mapping)),
    Iterable: Kind("a sequence", lambda v: isinstance(v, Iterable)),
}


def _stated(kind: object) -> Kind | None:
    """What stands in `Annotated`; None beside that is what is not given."""
    is_union = typing.get_origin(kind) in (typing.Union, UnionType)
    for part in typing.get_args(kind) if is_union else (kind,):
        for data in getattr(part, "__metadata__", ()):
            if isinstance(data, Kind):
                return data
    return None


def _plain(kind: object) -> object:
    """A row of the table where the kind, or what it is made of, has one."""
    if (stated := _stated(kind)) is not None:
        return stated
    if kind is None:
        return _PLAIN[NoneType]
    if hasattr(kind, "requires_grad"):
        return _PLAIN[_Self]
    return _PLAIN.get(kind) or _PLAIN.get(typing.get_origin(kind) or kind, kind)


def fits(value: object, kind: object) -> bool:
    kind = _plain(kind)
    if isinstance(kind, Kind):
        return kind.holds(value)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(value is part or (type(value) is str and value == part) for part in parts)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = parts[0] if parts else object
        return isinstance(value, (list, tuple)) and all(fits(item, inner) for item in value)
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def named(kind: object) -> str:
    kind = _plain(kind)
    if isinstance(kind, Kind):
        return kind.name
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return " or ".join(dict.fromkeys(map(named, parts)))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Sequence) and parts:
        return f"a sequence of {named(parts[0]).split(' ', 1)[-1]}s"
    name = getattr(kind, "__name__", str(kind))
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def shown(value: object) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is dtypes.index:
        return f"{value!r}, whose value depends on variables"
    if dtype is not None and isinstance(shape, tuple):
        kind = "a tensor" if is_tensor(value) else "an array"
        return f"{kind} of {getattr(dtype, 'name', dtype)} and shape {shape}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(shown, value[:4])) + (", ..." if len(value) > 4 else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
