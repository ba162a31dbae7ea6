"""Kinds of arguments: what a parameter takes, whether a value is such, and what messages call it.

kinds = kinds_of(Tensor.histc, signature)      {"bins": int, ...}
fits("a", kinds["bins"]) -> False;  named(kinds["bins"]) -> "a whole number"

A parameter's kind is its annotation. What is annotated as Any, since Python's numbers, NumPy's and
tensors may stand there, has the kind that parameters of its name have everywhere.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar

from .dtype import dtypes, to_dtype
from .errors import TreadleError

__all__ = ["fits", "is_tensor", "kinds_of", "named", "shown"]

_LONGEST = 60  # characters of a value that are shown


def kinds_of(method: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    """The kind of each parameter: its annotation, or what its name stands for."""
    names = vars(sys.modules[method.__module__]) | {"Self": _Self}
    return {
        key: _kind(key, method.__annotations__.get(key, "Any"), names)
        for key in signature.parameters
    }


def _kind(key: str, annotation: Any, names: Mapping[str, Any]) -> Any:
    try:
        kind: Any = annotation
        if isinstance(annotation, str):
            kind = eval(annotation, dict(names))  # noqa: S307 (what this package's own source says)
    except NameError:  # a name that only type checkers look up
        return _BY_NAME.get(key, Any)
    if hasattr(kind, "requires_grad") or isinstance(kind, TypeVar):
        return _Self
    return _BY_NAME.get(key, Any) if kind in (Any, object) else kind


class _Self:
    """Stands for the tensor's own class in annotations."""


def is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and not isinstance(value, type)


def _is_one(value: Any) -> bool:
    return not getattr(value, "shape", ())


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and _is_one(value)


def _is_whole(value: Any) -> bool:
    return (hasattr(value, "__index__") and _is_one(value)) or hasattr(value, "bind")


def _is_flag(value: Any) -> bool:
    return isinstance(value, int) or (hasattr(value, "__bool__") and _is_one(value))


def _is_operand(value: Any) -> bool:
    return isinstance(value, complex) or hasattr(value, "__array__") or _is_number(value)


def _is_numbers(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or _is_operand(value)


def _is_source(value: Any) -> bool:
    return isinstance(value, (str, bytes)) or hasattr(value, "__fspath__") or is_tensor(value)


def _is_several(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, (list, tuple)) and all(map(_is_whole, value)))


def _is_dtype(value: Any) -> bool:
    try:
        to_dtype(value)
    except TreadleError:
        return False
    return True


class _Kind(NamedTuple):
    """What a parameter takes that has no annotation to say so."""

    name: str
    holds: Callable[[Any], bool]


_OPERAND = _Kind("a tensor or a number", _is_operand)
_NUMBER = _Kind("a number", _is_number)
_SEVERAL = _Kind("a whole number, or a sequence of such", _is_several)
_AXES = _Kind("an axis, or a sequence of axes", _is_several)
_FLAG = _Kind("True or False", _is_flag)

_BY_NAME: dict[str, Any] = {
    **dict.fromkeys(
        ("x", "x1", "x2", "y", "b", "w", "other", "value", "end", "exponent", "imag", "angle",
         "min_", "max_", "tensor1", "tensor2", "values", "mask", "src", "gradient"), _OPERAND,
    ),
    **dict.fromkeys(
        ("alpha", "beta", "gamma", "start", "stop", "step", "p", "eps", "correction", "steps",
         "label_smoothing", "dropout_p", "lr", "min_val", "max_val", "neg_slope", "fill_value",
         "rtol", "atol"),
        _NUMBER,
    ),
    **dict.fromkeys(("axis", "dim", "dims", "axes", "source", "destination", "order"), _AXES),
    **dict.fromkeys(
        ("shape", "size", "output_size", "kernel_size", "stride", "dilation", "padding", "sizes",
         "output_padding", "normalized_shape", "repeats", "reps", "repetitions", "shifts", "shift",
         "args", "indices_or_sections"),
        _SEVERAL,
    ),
    **dict.fromkeys(("keepdim", "reverse", "right", "ceil_mode", "is_causal", "sorted"), _FLAG),
    **dict.fromkeys(("fn", "t", "tensor"), _Kind("a path or a uint8 tensor", _is_source)),
    "q": _Kind("a number, a sequence of numbers or a tensor", _is_numbers),
    "dtype": _Kind("a dtype such as dtypes.float32", _is_dtype),
    "device": _Kind("a device's name such as 'CPU'", lambda v: isinstance(v, str)),
}  # fmt: skip

_PLAIN: dict[Any, _Kind] = {
    int: _Kind("a whole number", _is_whole),
    float: _NUMBER,
    complex: _OPERAND,
    bool: _FLAG,
    str: _Kind("a text", lambda v: isinstance(v, str)),
    _Self: _Kind("a tensor", is_tensor),
    NoneType: _Kind("None", lambda v: v is None),
    Callable: _Kind("a function", callable),
    Mapping: _Kind("a dictionary", lambda v: isinstance(v, Mapping)),
    Iterable: _Kind("a sequence", lambda v: isinstance(v, Iterable)),
}


def _plain(kind: Any) -> Any:
    """A row of the table where the kind, or what it is made of, has one."""
    if kind is None:
        return _PLAIN[NoneType]
    if hasattr(kind, "requires_grad"):
        return _PLAIN[_Self]
    return _PLAIN.get(kind) or _PLAIN.get(typing.get_origin(kind) or kind, kind)


def fits(value: Any, kind: Any) -> bool:
    kind = _plain(kind)
    if isinstance(kind, _Kind):
        return kind.holds(value)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(value is part or (type(value) is str and value == part) for part in parts)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = parts[0] if parts else Any
        return isinstance(value, (list, tuple)) and all(fits(item, inner) for item in value)
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def named(kind: Any) -> str:
    kind = _plain(kind)
    if isinstance(kind, _Kind):
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


def shown(value: Any) -> str:
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
