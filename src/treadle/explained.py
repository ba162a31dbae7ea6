"""Arguments that do not fit: what Python raises deep inside of a method, as an error of the call.

    Tensor([1.0]).histc("a")    ArgumentError: [histc] bins is 'a', not a whole number

Arguments by name may have the other names of their parameters (see spellings). Nothing is checked
beforehand: a method that works costs one call more. Where one raises what is no error of treadle's,
its arguments are compared with its annotations; the first that does not fit is named, or all are
shown if each fits by itself. What a user's own function raises passes through.
"""

from __future__ import annotations

import functools
import inspect
import os
import sysconfig
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar, cast

from .dtype import dtypes
from .errors import ArgumentError, DeviceError, InternalError, TreadleError
from .kinds import fits, is_tensor, kinds_of, named, shown
from .spellings import respelled, spellings_of

__all__ = ["EXPLAINING", "IS_PLAIN", "Unbound", "explain_all", "explained", "of_before"]

T = TypeVar("T", bound=Callable[..., object])

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PYTHON = sysconfig.get_path("stdlib") + os.sep
_NUMPY = f"{os.sep}numpy{os.sep}"
_RAW = (
    TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError,
)  # fmt: skip
_CAUGHT = (TreadleError, *_RAW)
_IS_EXPLAINED, _IS_OF_BEFORE = "is_explained", "is_of_before"
_INNER = ("[getitem]", "[gather]", "[loss]", "[device]")
IS_PLAIN = "is_plain"  # what an error has whose sentence is all that a user can use
_SPECIAL = ("__init__", "__call__", "__setitem__")
_REST = inspect.Parameter.VAR_POSITIONAL


def explained(what: T, often: Collection[str] = ()) -> T:
    """A decorator of a function, or of a class for the public methods that itself defines: they
    explain what they raise. Those in `often` stay as they are.
    """
    if not isinstance(what, type):
        return cast("T", _explaining(what))
    for name, member in list(vars(what).items()):
        if name in often or (name.startswith("_") and name not in _SPECIAL):
            continue
        if isinstance(member, (classmethod, staticmethod)):
            setattr(what, name, type(member)(_explaining(member.__func__)))
        elif inspect.isfunction(member):
            setattr(what, name, _explaining(member))
    return cast("T", what)


class Unbound:
    """A method that is called too often for a call more. It explains only what is asked of its
    class, as in `Tensor.exp(3.0)`, where nothing says that it is called on a tensor.

    It stands in the metaclass, where instances do not look; assigning to the class ends it.
    """

    def __init__(self, name: str, method: Callable[..., object]) -> None:
        self._name, self._method, self._explaining = name, method, _explaining(method)

    def __get__(self, kind: type, metaclass: type) -> Callable[..., object]:
        for owner in kind.__mro__:
            found = vars(owner).get(self._name)
            if found is not None:
                return self._explaining if found is self._method else found.__get__(None, kind)
        raise AttributeError(f"{kind.__name__} has no {self._name}")

    def __set__(self, kind: type, method: Callable[..., object]) -> None:
        delattr(type(kind), self._name)
        setattr(kind, self._name, method)


def explain_all(module: dict[str, Any]) -> None:
    """The public functions that a module itself defines explain what they raise."""
    for name in module["__all__"]:
        if inspect.isfunction(module[name]):
            module[name] = _explaining(module[name])


def _explaining(method: Callable[..., object]) -> Callable[..., object]:
    spellings = spellings_of(method)

    @functools.wraps(method)
    def call(*args: object, **kwargs: object) -> object:
        if kwargs and spellings and not spellings.keys().isdisjoint(kwargs):
            kwargs = respelled(_name_of(method, args), spellings, kwargs)
        try:
            return method(*args, **kwargs)
        except _CAUGHT as error:
            name = _name_of(method, args)
            raw = error.__cause__ if _IS_EXPLAINED in vars(error) else error
            if isinstance(raw, TreadleError):
                if IS_PLAIN in vars(raw):  # where it happened inside of treadle says nothing
                    raise raw.with_traceback(None) from None
                _rename(raw, name)
                raise
            if raw is None or not _is_ours(raw.__traceback__):
                raise
            # from the outermost method, which is the one that the user knows
            found = ArgumentError(f"[{name}] {_explanation(method, args, kwargs)}")
            setattr(found, _IS_EXPLAINED, True)
            raise found from raw

    return call


EXPLAINING = _explaining(lambda: None).__code__  # whose frames only stand around a method's


def _name_of(method: Callable[..., object], args: Sequence[object]) -> str:
    """What the user called: of a layer, its class."""
    name = method.__name__
    if name == "__setitem__":
        return "setitem"
    return type(args[0]).__name__ if name in _SPECIAL else name


def of_before(error: TreadleError) -> TreadleError:
    """`error`, which an earlier call caused and names: the one that raises it is not to blame."""
    setattr(error, _IS_OF_BEFORE, True)
    return error


def _rename(error: TreadleError, name: str) -> None:
    """What a subscript, or what all losses share, raises inside of a method is the method's; so is
    what names no operation, but for what a device says of itself.
    """
    if _IS_OF_BEFORE in vars(error):
        return
    text = str(error)
    if not text.startswith("[") and not isinstance(error, (DeviceError, InternalError)):
        error.args = (f"[{name}] {text}", *error.args[1:])
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
    method: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> str:
    """The first argument that is not of its parameter's kind; else all, and what was expected."""
    signature = inspect.signature(method)
    given = dict(signature.bind(*args, **kwargs).arguments)
    given.pop("cls", None)
    is_method = "self" in given and _is_of_tensors(method)
    owner = given.pop("self", None)
    of = shown(owner) if is_tensor(owner) else ""
    if is_method and not of:
        return f"is called on {shown(owner)}, not on a tensor{_tensors_hint(owner)}"
    kinds = kinds_of(method, signature)
    for key, value in given.items():
        values = value if signature.parameters[key].kind is _REST else (value,)
        for one in values:
            if one is not signature.parameters[key].default and not fits(one, kinds[key]):
                return f"{key} is {shown(one)}, not {named(kinds[key])}"
    symbolic = [t for t in (owner, *given.values()) if is_tensor(t) and _has_variables(t.shape)]
    if symbolic:
        return f"needs sizes that are known, not {symbolic[0].shape}"
    all_of_them = [f"{key} = {shown(value)}" for key, value in given.items()]
    what = " and ".join(part for part in (of, ", ".join(all_of_them)) if part)
    wanted = [f"{key}: {named(kinds[key])}" for key in given if kinds[key] is not object]
    return f"does not take {what or 'no argument'}" + (
        f"; its parameters are {', '.join(wanted)}" if wanted else "; see its docstring"
    )


def _has_variables(shape: Sequence[object]) -> bool:
    return any(getattr(size, "dtype", None) is dtypes.index for size in shape)


def _is_of_tensors(method: Callable[..., object]) -> bool:
    """Whether a method is one of a tensor's, which may be called by way of the class."""
    return method.__module__.startswith("treadle.tensor.") and "." in method.__qualname__


def _tensors_hint(value: object) -> str:
    if isinstance(value, (list, tuple)) and value and all(map(is_tensor, value)):
        return "; give them one by one, with a * before the sequence"
    return "; Tensor(...) makes one"
