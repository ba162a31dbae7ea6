"""Arguments that do not fit: what Python raises deep inside of a method, as an error of the call.

    Tensor([1.0]).histc("a")    ArgumentError: [histc] bins is 'a', not a whole number

Nothing is checked beforehand: a method that works costs one call more. Where one raises what is no
error of treadle's, its arguments are compared with its annotations; the first that does not fit is
named, or all are shown if each fits by itself. What a user's own function raises passes through.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import sysconfig
import typing
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, TracebackType, UnionType
from typing import Any, Literal, TypeVar, cast

from .errors import ArgumentError, TreadleError

__all__ = ["EXPLAINING", "explained"]

T = TypeVar("T", bound=Callable[..., Any])

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_NUMPY = f"{os.sep}numpy{os.sep}"
_RAW = (
    TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError,
)  # fmt: skip
_IS_EXPLAINED, _INNER = "is_explained", ("[getitem]", "[loss]")
_LONGEST = 60  # characters of a value that are shown


def explained(what: T) -> T:
    """A decorator of a method, or of a class for the public methods that itself defines: they
    explain what they raise.
    """
    if not isinstance(what, type):
        return cast("T", _explaining(what))
    for name, member in list(vars(what).items()):
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        if isinstance(member, (classmethod, staticmethod)):
            setattr(what, name, type(member)(_explaining(member.__func__)))
        elif inspect.isfunction(member):
            setattr(what, name, _explaining(member))
    return cast("T", what)


def _explaining(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except _RAW as error:
            name = _name_of(method, args)
            raw = error.__cause__ if _IS_EXPLAINED in vars(error) else error
            if isinstance(raw, TreadleError):
                _rename(raw, name)
                raise
            if raw is None or not _is_ours(raw.__traceback__):
                raise
            # from the outermost method, which is the one that the user knows
            found = ArgumentError(f"[{name}] {_explanation(method, args, kwargs, raw)}")
            setattr(found, _IS_EXPLAINED, True)
            raise found from raw

    return call


EXPLAINING = _explaining(lambda: None).__code__  # whose frames only stand around a method's


def _name_of(method: Callable[..., Any], args: Sequence[Any]) -> str:
    """What the user called: of a layer, its class."""
    name = method.__name__
    return type(args[0]).__name__ if name in ("__init__", "__call__") else name


def _rename(error: TreadleError, name: str) -> None:
    """What a subscript, or what all losses share, raises inside of a method is the method's."""
    text = str(error)
    for inner in _INNER:
        if text.startswith(inner):
            error.args = (f"[{name}]{text.removeprefix(inner)}", *error.args[1:])


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether an error comes from inside of a method: neither from its call nor a user's code."""
    if trace is None or trace.tb_next is None:
        return False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        is_library = file.startswith(_PYTHON) and "site-packages" not in file
        if not (file.startswith((_PACKAGE, "<")) or is_library or _NUMPY in file):
            return False
        trace = trace.tb_next
    return True


# -- what does not fit -----------------------------------------------------------------------------


def _explanation(
    method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], raw: BaseException
) -> str:
    given = inspect.signature(method).bind(*args, **kwargs).arguments
    kinds = _annotations(method)
    rest = {key: value for key, value in given.items() if key not in ("self", "cls")}
    for key, value in rest.items():
        kind = kinds.get(key, Any)
        if not _fits(value, kind):
            return f"{key} is {_shown(value)}, not {_named(kind)}"
    shown = ", ".join(f"{key} = {_shown(value)}" for key, value in rest.items())
    of = _shown(args[0]) if args and _is_tensor(args[0]) else ""
    what = " and ".join(part for part in (of, shown) if part)
    return f"does not take {what}: {type(raw).__name__}: {raw}"


def _annotations(method: Callable[..., Any]) -> dict[str, Any]:
    """The annotation of each parameter, Any where only type checkers could look it up."""
    found = {}
    names = vars(sys.modules[method.__module__]) | {"Self": _Self}
    for key, text in method.__annotations__.items():
        try:
            kind = eval(text, names)  # noqa: S307 (what this package's own source says)
            found[key] = _Self if hasattr(kind, "requires_grad") else kind
        except NameError:
            found[key] = Any
    return found


class _Self:
    """Stands for the tensor's own class in annotations."""


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and not isinstance(value, type)


_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    int: ("a whole number", lambda v: hasattr(v, "__index__") or hasattr(v, "bind")),
    float: ("a number", lambda v: hasattr(v, "__float__") and not hasattr(v, "shape")),
    bool: ("True or False", lambda v: isinstance(v, (bool, int)) or hasattr(v, "__bool__")),
    str: ("a text", lambda v: isinstance(v, str)),
    _Self: ("a tensor", _is_tensor),
    NoneType: ("None", lambda v: v is None),
    None: ("None", lambda v: v is None),
}


def _fits(value: Any, kind: Any) -> bool:
    if kind in _PLAIN:
        return _PLAIN[kind][1](value)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = parts[0] if parts else Any
        return isinstance(value, (list, tuple)) and all(_fits(item, inner) for item in value)
    return True


def _named(kind: Any) -> str:
    if kind in _PLAIN:
        return _PLAIN[kind][0]
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return " or ".join(map(_named, parts))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if isinstance(origin, type) and issubclass(origin, Sequence) and parts:
        return f"a sequence of {_named(parts[0]).split(' ', 1)[-1]}s"
    return getattr(kind, "__name__", str(kind))


def _shown(value: Any) -> str:
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is not None and isinstance(shape, tuple):
        kind = "a tensor" if _is_tensor(value) else "an array"
        return f"{kind} of {getattr(dtype, 'name', dtype)} and shape {shape}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(_shown, value[:4])) + (", ..." if len(value) > 4 else "")
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
