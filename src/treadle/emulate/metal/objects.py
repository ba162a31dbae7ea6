"""How a message reaches a method: by its selector, with its types checked.

    class Queue(Object):
        @message("commandBuffer", lends=True)
        def command_buffer(self) -> CommandBuffer: ...

    perform(queue, "commandBuffer", ())

A method is a Python method that says its selector. What it takes is checked against signatures.py:
Metal checks nothing of the kind, and does whatever the bits say. Objects that it only lends until a
pool is emptied are refused where there is no pool: they would stay for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple, TypeVar

from treadle.emulate.metal.faults import Misuse
from treadle.emulate.metal.signatures import SIGNATURES, arguments_of

__all__ = ["Object", "message", "perform", "pool"]

_LARGEST = 1 << 64
_pools = threading.local()
_M = TypeVar("_M", bound=Callable[..., object])


class _Method(NamedTuple):
    name: str
    lends: bool


class Object:
    """One of Metal's objects."""

    messages: ClassVar[dict[str, _Method]] = {}

    def __init_subclass__(cls) -> None:
        own = {
            selector: _Method(name, lends)
            for name, value in vars(cls).items()
            for selector, lends in getattr(value, "selectors", ())
        }
        cls.messages = {**cls.messages, **own}


def message(selector: str, lends: bool = False) -> Callable[[_M], _M]:
    """Says which selector a method answers; what it `lends` lives until a pool is emptied."""
    if selector not in SIGNATURES:
        raise ValueError(f"{selector} has no signature")

    def decorate(method: _M) -> _M:
        method.__dict__["selectors"] = (*method.__dict__.get("selectors", ()), (selector, lends))
        return method

    return decorate


@contextmanager
def pool() -> Iterator[None]:
    """An autorelease pool of this thread."""
    _pools.depth = getattr(_pools, "depth", 0) + 1
    try:
        yield
    finally:
        _pools.depth -= 1


def perform(receiver: object, selector: str, arguments: tuple[object, ...]) -> object:
    """What the receiver's method gives. Raises Misuse."""
    kind = type(receiver).__name__
    if not isinstance(receiver, Object):
        raise Misuse(f"{selector} was sent to {receiver!r}, which is no object of Metal's")
    method = receiver.messages.get(selector)
    if method is None:
        raise Misuse(f"{kind} has no method {selector}")
    wanted = arguments_of(selector)
    if len(arguments) != len(wanted):
        raise Misuse(f"{selector} takes {len(wanted)} arguments, not {len(arguments)}")
    for number, (encoding, argument) in enumerate(zip(wanted, arguments, strict=True), 1):
        if not _CHECKS[encoding](argument):
            raise Misuse(f"argument {number} of {selector} is {argument!r}, not of type {encoding}")
    if method.lends and not getattr(_pools, "depth", 0):
        raise Misuse(f"{selector} lends an object, and this thread has no autorelease pool")
    return getattr(receiver, method.name)(*arguments)


def _is_object(value: object) -> bool:
    return value is None or isinstance(value, Object | str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _is_signed(value: object) -> bool:
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    return -_LARGEST // 2 <= value < _LARGEST // 2


def _are_numbers(value: object, count: int) -> bool:
    return isinstance(value, tuple) and len(value) == count and all(map(_is_number, value))


_CHECKS: dict[str, Callable[[object], bool]] = {
    "@": _is_object,
    "Q": _is_number,
    "q": _is_signed,
    "Z": lambda value: isinstance(value, bool),
    "S": lambda value: _are_numbers(value, 3),
    "R": lambda value: _are_numbers(value, 2),
    "n^v": lambda value: isinstance(value, bytes),
    "n^@": lambda value: isinstance(value, list) and all(isinstance(x, Object) for x in value),
    "^@": lambda value: value is None,
    "o^@": lambda value: value is None,
}
