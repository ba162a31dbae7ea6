"""Small conveniences for scripts: variables, timing, colours, downloads and progress bars.

for epoch in trange(10): ...     -> a bar on a terminal or in a notebook, silence elsewhere
with Timing("load: "): ...       -> load:  12.34 ms
fetch("https://...")             -> the path of a copy, downloaded once
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TextIO, TypeVar

from .config import settings
from .errors import ArgumentError, SettingError, UserError

__all__ = [
    "Timing", "colored", "fetch", "getenv", "human_bytes", "read_url", "to_mv", "tqdm", "trange",
]  # fmt: skip

T = TypeVar("T")
_SCHEMES = ("http", "https", "file")
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


def to_mv(ptr: int, sz: int) -> memoryview:
    """`sz` bytes of this process's memory at the address `ptr`, as a memoryview of bytes.

    Nothing keeps the memory alive, and nothing checks the address but for 0. Raises ArgumentError.
    """
    if isinstance(ptr, bool) or not isinstance(ptr, int) or not isinstance(sz, int):
        raise ArgumentError(f"[to_mv] takes an address and a size, not {ptr!r} and {sz!r}")
    if sz < 0 or (ptr <= 0 and sz):
        raise ArgumentError(f"[to_mv] there is no memory of {sz} bytes at address {ptr}")
    return memoryview((ctypes.c_uint8 * sz).from_address(ptr or 1)).cast("B")


def fetch(
    url: str, name: str | None = None, subdir: str | None = None, gunzip: bool = False,
    allow_caching: bool = True,
) -> Path:  # fmt: skip
    """The file behind an http, https or file URL, downloaded once: the path of the copy.

    It is kept in the folder `treadle-downloads` beside the compile cache, in `subdir`, as `name` or
    as a digest of the URL; without `allow_caching` it is downloaded again. `gunzip` unpacks it.
    What begins with "/" or "." is no URL but a path, and is given back as one. Raises UserError if
    nothing is to be had, or for a name that would leave the folder.
    """
    import hashlib
    import tempfile

    if url.startswith(("/", ".")):
        return Path(url)
    folder = _downloads()
    named = name or hashlib.sha256(f"{url}{gunzip}".encode()).hexdigest()[:32]
    path = (folder / (subdir or "") / named).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UserError(f"[fetch] {named!r} in {subdir!r} lies outside of {folder}; leave out '..'")
    if allow_caching and path.is_file():
        return path
    data = read_url("fetch", url, gunzip)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            file.write(data)
        os.replace(file.name, path)  # whole, or not at all
    except OSError as error:
        raise UserError(f"[fetch] {path} cannot be written: {error}") from error
    return path


@functools.cache
def _downloads() -> Path:
    """Where `fetch` keeps files; without a folder for caches, one of this process alone."""
    import tempfile

    if settings.CACHE_DIR:
        return Path(settings.CACHE_DIR).parent / "treadle-downloads"
    return Path(tempfile.mkdtemp(prefix="treadle-downloads-"))


def read_url(name: str, url: str, gunzip: bool = False) -> bytes:
    """The bytes behind an http, https or file URL. Raises UserError, with `name`, if there are none
    to be had, or if they unpack to more than UNPACK_LIMIT MiB.
    """
    import zlib
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.parse import urlsplit
    from urllib.request import urlopen

    try:
        scheme = urlsplit(url).scheme
        if scheme not in _SCHEMES:
            raise UserError(f"[{name}] {url!r} is no URL of {', '.join(_SCHEMES)}")
        with urlopen(url, timeout=60) as response:  # noqa: S310 - the scheme is checked above
            data = response.read()
        return _unpacked(name, data) if gunzip else data
    except (OSError, EOFError, HTTPException, ValueError, zlib.error) as error:
        if isinstance(error, UserError):
            raise
        if isinstance(error, HTTPError):
            error.close()  # it is the server's answer, too
        why = str(error) or type(error).__name__
        raise UserError(f"[{name}] {url} cannot be read: {why}") from error


def _unpacked(name: str, data: bytes) -> bytes:
    import gzip
    import io

    limit = settings.UNPACK_LIMIT << 20
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise UserError(
            f"[{name}] the {len(data)} bytes unpack to more than {settings.UNPACK_LIMIT} MiB: if "
            "they are meant to, set UNPACK_LIMIT to more"
        )
    return found


class tqdm(Iterable[T]):
    """A progress bar on stderr, around `iterable` or moved by `update`.

        for x in tqdm(data, desc="train"): ...
        with tqdm(total=10, unit="B") as bar: bar.update(3)

    Drawn on a terminal and in a notebook; elsewhere it only iterates, unless `disable` is False.
    `unit_scale` shortens large numbers (12.3k), or multiplies by a number first; `rate` is how
    often a second it is drawn at most; `leave` False takes it away at the end.
    """

    desc: str
    total: int | None
    disable: bool
    n: int

    def __init__(
        self, iterable: Iterable[T] | None = None, desc: str = "", total: int | None = None,
        disable: bool | None = None, unit: str = "it", unit_scale: bool | float = False,
        rate: float = 10, leave: bool = True, initial: int = 0,
    ) -> None:  # fmt: skip
        self._iterable, self.desc = iterable, desc
        self.total = len(iterable) if total is None and hasattr(iterable, "__len__") else total  # pyright: ignore[reportArgumentType]
        self.disable = not _is_seen(sys.stderr) if disable is None else disable
        self.unit, self.unit_scale, self.leave, self.n = unit, unit_scale, leave, initial
        self._first, self._gap, self._more = initial, 1 / max(rate, 1e-3), ""
        self._began = time.monotonic()
        self._drawn, self._width, self._is_open = 0.0, 0, True

    def set_description(self, desc: str) -> None:
        """Show `desc` in front of the bar from now on."""
        self.desc = desc
        self._draw()

    def set_postfix(self, **values: object) -> None:
        """Show these values behind the bar from now on."""
        self._more = ", ".join(f"{key}={value}" for key, value in values.items())
        self._draw()

    def update(self, n: int = 1, close: bool = False) -> None:
        """Move on by `n`; `close` draws the bar for the last time."""
        self.n += n
        self._draw()
        if close:
            self.close()

    def close(self) -> None:
        """Draw the bar for the last time."""
        if self._is_open:
            self._draw(is_last=True)
            self._is_open = False

    @staticmethod
    def write(text: str) -> None:
        """Print a line above the bar."""
        sys.stderr.write("\r" + " " * _COLUMNS + "\r" if _is_seen(sys.stderr) else "")
        sys.stderr.flush()
        print(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("a bar without a total has no length")
        return self.total

    def __iter__(self) -> Iterator[T]:
        if self._iterable is None:
            raise ArgumentError("[tqdm] there is nothing to iterate over; give an iterable")
        if self.disable:
            return iter(self._iterable)
        return self._steps(self._iterable)

    def _steps(self, iterable: Iterable[T]) -> Iterator[T]:
        self._draw()
        try:
            for item in iterable:
                yield item
                self.update()
        finally:
            self.close()

    def _draw(self, is_last: bool = False) -> None:
        now = time.monotonic()
        if self.disable or not self._is_open or (now < self._drawn + self._gap and not is_last):
            return
        self._drawn, line = now, self._line(now - self._began)
        gone = is_last and not self.leave
        padded = "" if gone else line.ljust(self._width)
        blank = " " * self._width + "\r" if gone else ""
        sys.stderr.write(f"\r{blank}{padded}" + ("\n" if is_last and not gone else ""))
        sys.stderr.flush()
        self._width = len(line)

    def _line(self, seconds: float) -> str:
        """The bar as one line of text."""
        speed = (self.n - self._first) / seconds if seconds > 0 else 0.0
        head = f"{self.desc}: " if self.desc else ""
        tail = f"{self._shown(speed)}{self.unit}/s" + (f", {self._more}" if self._more else "")
        if not self.total:
            return f"{head}{self._shown(self.n)}{self.unit} [{_clock(seconds)}, {tail}]"
        left = _clock((self.total - self.n) / speed) if speed > 0 else "?"
        part = min(self.n / self.total, 1.0)
        counts = f"{self._shown(self.n)}/{self._shown(self.total)}"
        ends = f"{head}{part:4.0%}|", f"| {counts} [{_clock(seconds)}<{left}, {tail}]"
        room = max(_columns() - sum(map(len, ends)) - 1, 4)
        return f"{ends[0]}{('#' * round(part * room)).ljust(room)}{ends[1]}"

    def _shown(self, number: float) -> str:
        if self.unit_scale:
            number *= 1 if self.unit_scale is True else self.unit_scale
            for suffix in ("", "k", "M", "G", "T"):
                if abs(number) < 1000 or suffix == "T":
                    return f"{number:.3g}{suffix}"
                number /= 1000
        return str(number) if isinstance(number, int) else f"{number:.2f}"


_COLUMNS = 80


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size((_COLUMNS, 24)).columns


def _is_seen(stream: TextIO) -> bool:
    """Whether somebody looks at `stream` while it grows: a terminal, or a notebook."""
    return stream.isatty() or type(stream).__module__.startswith(("ipykernel", "google.colab"))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def trange(n: int, **options: Any) -> tqdm[int]:
    """A bar over the numbers below n: `tqdm(range(n), **options)`."""
    return tqdm(range(n), **options)
