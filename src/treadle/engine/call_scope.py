"""Values with the scope of a call: they hold in its thread until it ends, whatever ends it.

    sizes = ValueOfCall[Sizes]()
    with sizes.of(found): ...     for the call that has this block
    sizes.value                   the innermost of them, or None

An interrupt may come before any line of what tidies up, the last one as well. A value is therefore
kept with the frame of its call, and does not count once that has returned.
"""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Generic, TypeVar

__all__ = ["ValueOfCall", "is_running"]

T = TypeVar("T")


def is_running(call: FrameType | None) -> bool:
    """Whether a call has not returned, in this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame is not call:
        frame = frame.f_back
    return frame is not None


class ValueOfCall(threading.local, Generic[T]):
    """A value of this thread for the calls that set one, the innermost first."""

    def __init__(self) -> None:
        self._set: list[tuple[FrameType, T]] = []

    @property
    def value(self) -> T | None:
        """What the innermost call that still runs has set."""
        while self._set and not is_running(self._set[-1][0]):
            self._set.pop()
        return self._set[-1][1] if self._set else None

    def of(self, value: T) -> _Block[T]:
        """A block of the calling function in which the value is this one."""
        return _Block(self._set, value)


class _Block(Generic[T]):
    def __init__(self, values: list[tuple[FrameType, T]], value: T) -> None:
        self._values = values
        self._value = value

    def __enter__(self) -> None:
        self._count = len(self._values)
        self._values.append((sys._getframe(1), self._value))

    def __exit__(self, *error: object) -> None:
        del self._values[self._count :]
