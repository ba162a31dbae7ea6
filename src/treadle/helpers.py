"""Small conveniences for scripts: variables, timing, colours and progress bars.

    for epoch in trange(10): ...     -> a bar on a terminal, silence elsewhere
    with Timing("load: "): ...       -> load:  12.34 ms

The bars need `rich`, which is imported only when a bar is really drawn.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from .errors import ArgumentError, SettingError

__all__ = ["Timing", "colored", "getenv", "human_bytes", "tqdm", "trange"]

T = TypeVar("T")
_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def getenv(key: str, default: Any = 0) -> Any:
    """The environment variable `key` as the type of `default`, or `default` where it is unset.

    For the program's own variables; treadle's are in `treadle.config.settings`. Raises
    SettingError if the text is no such value.
    """
    text = os.environ.get(key)
    if text is None:
        return default
    try:
        return type(default)(int(text)) if isinstance(default, bool) else type(default)(text)
    except ValueError:
        kind = type(default).__name__
        raise SettingError(f"{key}={text} is not allowed: {key} is read as {kind}") from None


def colored(text: str, color: str | None, background: bool = False) -> str:
    """`text` in a terminal colour ("red"; "RED" is bright); unchanged for None or NO_COLOR.

    Raises ArgumentError for a colour that terminals do not have.
    """
    if color is None or os.environ.get("NO_COLOR"):
        return text
    if not isinstance(color, str) or color.lower() not in _COLORS:
        raise ArgumentError(f"[colored] a colour is one of {', '.join(_COLORS)}, not {color!r}")
    code = 30 + 10 * background + 60 * color.isupper() + _COLORS.index(color.lower())
    return f"\x1b[{code}m{text}\x1b[0m"


def human_bytes(nbytes: int) -> str:
    """A number of bytes for people: 1536 is "1.5 KiB"."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.1f} {unit}"
    return f"{nbytes} bytes"


class Timing:
    """A `with` block that prints `prefix`, its wall time in ms and `on_exit(ns)`.

    The time in nanoseconds is left in `.elapsed`.
    """

    prefix: str
    on_exit: Callable[[int], str] | None
    enabled: bool
    elapsed: int

    def __init__(
        self, prefix: str = "", on_exit: Callable[[int], str] | None = None, enabled: bool = True
    ) -> None:
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled
        self.elapsed = 0

    def __enter__(self) -> Self:
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.elapsed = time.perf_counter_ns() - self._start
        if self.enabled:
            more = self.on_exit(self.elapsed) if self.on_exit else ""
            print(f"{self.prefix}{self.elapsed * 1e-6:6.2f} ms{more}")


class tqdm(Iterable[T]):
    """A progress bar on stderr around `iterable`; on anything but a terminal it only iterates.

    `set_description(text)` changes the text beside the bar, also where no bar is drawn.
    """

    desc: str
    total: int | None
    disable: bool

    def __init__(
        self,
        iterable: Iterable[T],
        desc: str = "",
        total: int | None = None,
        disable: bool | None = None,
    ) -> None:
        self._iterable, self.desc = iterable, desc
        self.total = len(iterable) if total is None and hasattr(iterable, "__len__") else total  # pyright: ignore[reportArgumentType]
        self.disable = not sys.stderr.isatty() if disable is None else disable
        self._update: Callable[[str], None] | None = None

    def set_description(self, desc: str) -> None:
        """Show `desc` in front of the bar from now on."""
        self.desc = desc
        if self._update:
            self._update(desc)

    def __iter__(self) -> Iterator[T]:
        return iter(self._iterable) if self.disable else self._draw()

    def _draw(self) -> Iterator[T]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Remaining())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(self.desc, total=self.total)
            self._update = lambda desc: bar.update(task, description=desc)
            for item in self._iterable:
                yield item
                bar.advance(task)
        self._update = None


def trange(n: int, **options: Any) -> tqdm[int]:
    """A bar over the numbers below n: `tqdm(range(n), **options)`."""
    return tqdm(range(n), **options)
