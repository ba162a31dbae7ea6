"""Every public callable with arguments that it takes: what the sweep then spoils one by one.

A parameter gets the argument that its name stands for everywhere (`GUESSES`), or the one that its
callable needs (`given.py`).
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import treadle
from treadle import Tensor, fft, io, nn, windows
from treadle.nn import optim

from .given import GIVEN, GUESSES

__all__ = ["SPACE_OF", "Call", "all_calls"]

api = importlib.import_module("treadle.array_api")
SPACE_OF = {
    "fft": fft, "windows": windows, "func": treadle.func, "io": io, "optim": optim,
    "array_api": api, "array_api.linalg": api.linalg, "array_api.fft": api.fft, "nn": nn,
    "state": nn.state,
}  # fmt: skip
NO_DEFAULT = inspect.Parameter.empty


class Call(NamedTuple):
    """A callable, and functions that make each of its arguments."""

    name: str
    function: Callable[..., Any]
    signature: inspect.Signature
    makers: dict[str, Callable[[], Any]]

    def __call__(self, /, **odd: Any) -> Any:
        given = {key: make() for key, make in self.makers.items()} | odd
        bound = self.signature.bind_partial()
        bound.arguments = {key: given[key] for key in self.signature.parameters if key in given}
        first = bound.args[0] if "self" in self.signature.parameters else None
        if isinstance(first, Tensor):  # as everybody calls it; else by way of the class
            return getattr(first, self.function.__name__)(*bound.args[1:], **bound.kwargs)
        return self.function(*bound.args, **bound.kwargs)


def call_of(name, function):
    """With makers of the arguments that have no default, and of those that `GIVEN` names."""
    signature = inspect.signature(function)
    space, _, short = name.rpartition(".")
    given = GIVEN.get(name) or GIVEN.get(short if space != "nn" else "", {})
    makers = {}
    for key, parameter in signature.parameters.items():
        if key in given:
            makers[key] = given[key]
        elif parameter.default is NO_DEFAULT and parameter.kind.name[:3] != "VAR":
            makers[key] = GUESSES[key]
    return Call(name, function, signature, makers)


def public(space, names, owner):
    """The callables among the names, by the name of their home and their own."""
    for name in names:
        member = getattr(owner, name)
        if callable(member) and not name.startswith("_"):
            yield f"{space}.{name}", member


def all_calls() -> Iterator[Call]:
    """All of them, each by its first name, in the order of their homes."""
    found = [*public("Tensor", dir(Tensor), Tensor)]
    for space, module in SPACE_OF.items():
        found += public(space, module.__all__, module)
    first = {}
    for name, function in found:
        first.setdefault(getattr(function, "__func__", function), (name, function))
    for name, function in first.values():
        yield call_of(name, function)
