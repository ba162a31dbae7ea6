"""Values of variables that a computation is given beside those that its graph binds.

with given({"n": 3}): ...    while a function is captured, whose graphs have the bare variable
with_given({"m": 4})         -> {"n": 3, "m": 4}
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from ..errors import JitError
from .call_scope import ValueOfCall

__all__ = ["given", "with_given"]

_given = ValueOfCall[dict[str, int]]()


def given(values: Mapping[str, int]) -> AbstractContextManager[None]:
    """A block in which these variables have these values, for this thread."""
    return _given.of({**(_given.value or {}), **values})


def with_given(bound: dict[str, int]) -> dict[str, int]:
    """`bound`, of variables that a graph binds, with those that are given.

    Raises JitError for one that is both: its binding would stay as it is in each replay.
    """
    values = _given.value
    if not values:
        return bound
    for name in bound.keys() & values.keys():
        raise JitError(
            f"[jit] the variable {name} is bound inside of the captured function, and an argument "
            "is made of it, too: use the argument, or another Variable"
        )
    return {**values, **bound}
