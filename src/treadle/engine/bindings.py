"""Bindings: values of variables that a computation has beside those that its graph binds.

with binding({"n": 3}): ...    while a function is captured, whose graphs have the bare variable
with_bindings({"m": 4})         -> {"n": 3, "m": 4}
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from ..errors import JitError
from .call_scope import ValueOfCall

__all__ = ["binding", "with_bindings"]

_bindings = ValueOfCall[dict[str, int]]()


def binding(values: Mapping[str, int]) -> AbstractContextManager[None]:
    """A block in which these variables have these values, for this thread."""
    return _bindings.of({**(_bindings.value or {}), **values})


def with_bindings(bound: dict[str, int]) -> dict[str, int]:
    """`bound`, of variables that a graph binds, with those that are given.

    Raises JitError for one that is both: its binding would stay as it is in each replay.
    """
    values = _bindings.value
    if not values:
        return bound
    for name in bound.keys() & values.keys():
        raise JitError(
            f"[jit] the variable {name} is bound inside of the captured function, and an argument "
            "is made of it, too: use the argument, or another Variable"
        )
    return {**values, **bound}
