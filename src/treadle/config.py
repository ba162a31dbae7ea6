"""Every behaviour setting: environment text becomes a typed, checked, documented value.

    DEBUG=2 python prog.py     -> settings.DEBUG == 2
    with Context(DEBUG=4): ... -> settings.DEBUG == 4 inside, on this thread or task only

A setting NAME is read from the variable TREADLE_NAME, else from NAME, once, when it is first
asked for. One surprise: which *device* runs is not a setting; DEV, CPU=1, CUDA=1 and the like
belong to the backends' records in `treadle.backends`.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Generic, Self, TypeVar, cast, overload

from .errors import SettingError

__all__ = ["Context", "Setting", "SettingRow", "Settings", "describe", "settings"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
PREFIX = "TREADLE_"


@dataclass(frozen=True)
class Kind(Generic[T]):
    """How one type of value is read: `parse` raises ValueError for what `allowed` rules out."""

    allowed: str
    parse: Callable[[str], T]


def _flag(text: str) -> bool:
    words = {"0": False, "false": False, "no": False, "off": False}
    words |= {"1": True, "true": True, "yes": True, "on": True}
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _integer(low: int, high: int | None = None) -> Kind[int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < low or (high is not None and value > high):
            raise ValueError(text)
        return value

    allowed = f"an integer of {low} or more" if high is None else f"an integer {low} to {high}"
    return Kind(allowed, parse)


def _emulated(text: str) -> int | str:
    is_chip = text.isidentifier() and any(map(str.isdigit, text))
    return text.lower() if is_chip else _integer(0, 16).parse(text)


def _choice(**spellings: str) -> Kind[str]:
    """One of some words; `spellings` maps each accepted word to the value that it means."""

    def parse(text: str) -> str:
        if text.lower() not in spellings:
            raise ValueError(text)
        return spellings[text.lower()]

    return Kind("one of " + ", ".join(spellings), parse)


def _path(text: str) -> str:
    if not text:
        raise ValueError(text)
    return os.path.abspath(os.path.expanduser(text))


FLAG = Kind("0 or 1", _flag)
EMULATION = Kind("an integer 0 to 16, or a chip such as sm_90a", _emulated)
PATH = Kind("a folder", _path)
FLOAT_NAME = _choice(
    half="float16", float16="float16", bfloat16="bfloat16", float="float32", float32="float32",
    double="float64", float64="float64",
)  # fmt: skip

# Overrides of the running thread or task, innermost `Context` wins.
_overrides: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "treadle_settings", default=MappingProxyType({})
)
scope = _overrides.get  # for the engine: settings are the same where these are, until `on_change`

# For the engine, too: called when the value of a setting has changed for the whole process.
on_change: list[Callable[[], None]] = []


class Setting(Generic[T]):
    """One row of the table in `Settings`; reading it from `settings` gives the current value."""

    doc: str
    alias: str | None

    def __init__(
        self,
        kind: Kind[T],
        default: T | Callable[[], T],
        doc: str,
        *,
        alias: str | None = None,
        default_text: str | None = None,
    ) -> None:
        self.kind: Kind[T] = kind
        self.doc, self.alias = doc, alias
        self._default, self._default_text = default, default_text
        self._cached: tuple[T, str] | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, obj: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, obj: Settings, owner: type) -> T: ...
    def __get__(self, obj: Settings | None, owner: type) -> Setting[T] | T:
        if obj is None:
            return self
        scoped, cached = _overrides.get(), self._cached
        if self.name in scoped:
            return scoped[self.name]
        return self.resolve()[0] if cached is None else cached[0]

    def __set__(self, obj: Settings, value: T) -> None:
        """Set the value for the whole process, below any `Context`."""
        self._cached = (self.check(value, self.name), "set by the program")
        for listen in on_change:
            listen()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that users may write: its own, then the alias."""
        return (self.name, self.alias) if self.alias else (self.name,)

    @property
    def default(self) -> T:
        """What holds where neither the environment nor the program says anything."""
        return cast("T", self._default() if callable(self._default) else self._default)

    @property
    def default_text(self) -> str:
        """The default as the documentation shows it, the same on every machine."""
        return self._default_text or _show(self.default)

    def check(self, value: object, source: str) -> T:
        """`value` as this setting's type. Raises SettingError naming `source` and the value."""
        text = _show(value) if isinstance(value, bool) else str(value)
        try:
            return self.kind.parse(text.strip())
        except ValueError:
            message = f"{source}={value} is not allowed: {source} is {self.kind.allowed}"
            raise SettingError(message) from None

    def resolve(self) -> tuple[T, str]:
        """The value outside any `Context`, and where it comes from."""
        if self._cached is None:
            _warn_about_unknown_variables()
            self._cached = self._from_environment() or (self.default, "default")
        return self._cached

    def _from_environment(self) -> tuple[T, str] | None:
        variables = [p + name for p in (PREFIX, "") for name in self.names]
        found = {v: self.check(os.environ[v], v) for v in variables if os.environ.get(v)}
        if not found:
            return None
        first = next(iter(found))
        for other, value in found.items():
            # A prefixed variable may overrule a plain one; two equal-ranking names may not differ.
            if other.startswith(PREFIX) == first.startswith(PREFIX) and value != found[first]:
                raise SettingError(
                    f"{first}={found[first]} contradicts {other}={value}: they are two names "
                    f"of one setting, so unset one of them"
                )
        return found[first], first

    def forget(self) -> None:
        """Read the environment again, the next time that somebody asks."""
        self._cached = None
        for listen in on_change:
            listen()


def _show(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _user_cache_dir() -> str:
    """This system's folder for caches plus "treadle"; "" where the user has no home folder."""
    homes = {"win32": ("LOCALAPPDATA", "~/AppData/Local"), "darwin": ("", "~/Library/Caches")}
    variable, fallback = homes.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    base = os.environ.get(variable) or os.path.expanduser(fallback)
    return os.path.join(base, "treadle") if os.path.isabs(base) else ""


class Settings:
    """The table. Read `settings.NAME`; assign to it to change the value for the whole process."""

    DEBUG = Setting(
        _integer(0, 7), 0,
        "What is reported while running: 1 devices opened and searches, 2 each kernel with "
        "the line or layer it is for, its time and its share of what the machine can do, and at "
        "the end of the process a table by line, 3 why it is a kernel and the moves made, 4 "
        "generated source, 5 the IR, 6 the linear IR, 7 assembly.",
    )  # fmt: skip
    CPU_COUNT = Setting(
        _integer(0), 0, "Threads that CPU kernels use; 0 means as many as the process may use.",
        alias="THREADS",
    )  # fmt: skip
    COMPILE_PROCESSES = Setting(
        _integer(-1), -1,
        "Processes that compile beside this one while a program with many new kernels is built; "
        "-1 means one for each further core, 0 none.",
    )  # fmt: skip
    CACHE = Setting(FLAG, True, "Keep compiled kernels on disk for the next process.")
    CACHE_DIR = Setting(
        PATH, _user_cache_dir,
        "Where compiled kernels are kept, in a folder treadle-kernels that is treadle's own.",
        default_text="treadle in the user's cache folder, such as ~/.cache/treadle",
    )  # fmt: skip
    UNPACK_LIMIT = Setting(
        _integer(1, 1 << 30), 4096,
        "MiB to which one compressed file, of `from_url(gunzip=True)` or `npz_load`, may unpack.",
    )  # fmt: skip
    EMULATE = Setting(
        EMULATION, 0,
        "So many devices, or one with the chip of that name, are emulated on this machine's "
        "processor instead of the real ones being used: for tests and for looking around, slowly. "
        "An error where DEV or the like names a device that has no emulator.",
    )  # fmt: skip
    EMULATE_RACES = Setting(
        FLAG, False,
        "Emulated devices report data races in global memory, too: kernels take up to 1.6 times as "
        "long, and of those that add to places one after another (scatter), reads are reported "
        "whose value nobody uses.",
    )  # fmt: skip
    JIT = Setting(
        _integer(0, 2), 1,
        "0 calls a TinyJit function plainly, 1 captures and replays it; 2 is taken as 1.",
    )  # fmt: skip
    KEEP_PACKED = Setting(
        _integer(0), 48,
        "MiB of weights that a captured TinyJit keeps in the order in which its kernels read them; "
        "what is beyond, it packs in each call.",
    )  # fmt: skip
    BEAM = Setting(
        _integer(0, 64), 0,
        "Choose the schedule of each kernel by measuring up to 64 candidates, about 5 seconds for "
        "each different kernel of a program, and looking further around the so many best; 0 takes "
        "the heuristic's choice. On every device that computes. Candidates run in a process of "
        "their own, which may crash or be ended without harm. What was chosen is kept on disk at "
        "once, see CACHE: a program that was interrupted goes on where it was. DEBUG=1 shows how "
        "far it is. Kernels of more than 256 MiB are not searched; sums may round otherwise than "
        "without it.",
    )  # fmt: skip
    REPRODUCIBLE = Setting(
        FLAG, False,
        "No contraction of a multiplication and an addition into one operation, so that each "
        "is rounded as written, and sums in kernels of their own, whose order follows from their "
        "shape alone. Slower, and more memory: scores of attention are stored.",
    )  # fmt: skip
    ALLOW_TF32 = Setting(
        FLAG, False,
        "Matrix units of NVIDIA GPUs multiply float32 as well, rounded to 11 bits (TF32); sums "
        "stay float32. Not with REPRODUCIBLE=1.",
    )  # fmt: skip
    IMAGE = Setting(
        _integer(0, 2), 0,
        "1 keeps intermediate results in textures on devices that have them; 2 is taken as 1.",
    )  # fmt: skip
    FLOAT16 = Setting(FLAG, False, "The textures of IMAGE=1 hold half precision.")
    DEFAULT_FLOAT = Setting(
        FLOAT_NAME, "float32", "The type of Python floats and of tensors made without a dtype."
    )
    CHECK_NAN = Setting(
        _integer(0, 2), 0,
        "1 computes each operation on its own and names the line whose result first holds a NaN "
        "that reaches what is computed; 2 names infinities too. Slow.",
    )  # fmt: skip
    DISTRIBUTED_CHECK = Setting(
        FLAG, False,
        "Before each call of a group of processes, all of them compare what they are about to do. "
        "Without, calls of a captured function are compared once for each replay.",
    )  # fmt: skip
    DISTRIBUTED_TIMEOUT = Setting(
        _integer(1), 600,
        "Seconds that a process waits in a call of its group for others that are at work.",
    )  # fmt: skip
    NCCL = Setting(
        FLAG, True,
        "Groups of processes exchange the memory of CUDA devices by NCCL where nccl4py is "
        "installed. 0: through the host's memory. All processes need the same.",
    )  # fmt: skip
    CHECK_KERNELS = Setting(
        FLAG, False,
        "Each kernel runs alone, and some elements of what it stores are compared with the kernel "
        "before any optimisation and with the graph that it was fused from, both in float64; "
        "replays of captured functions run kernel by kernel as well. What differs by more than "
        "rounding raises KernelMismatch with the choices that were made for the kernel. Very slow.",
    )  # fmt: skip
    CHECK_INDEX = Setting(
        _integer(0, 2), 1,
        "1 raises IndexOutOfRange for an index tensor or a label out of range when values are next "
        "read on the host; until then it reads 0 and is not written. 2 computes indices at once "
        "and raises at the line that uses them: slow. 0 looks at nothing.",
    )  # fmt: skip
    TRAINING = Setting(
        FLAG, False, "Layers behave as in training: dropout drops, batch norm uses the batch."
    )

    def reload(self) -> None:
        """Forget what was read or assigned, so that the environment is read again."""
        _warn_about_unknown_variables.cache_clear()
        for setting in _table().values():
            setting.forget()


settings: Settings = Settings()


@functools.cache
def _table() -> dict[str, Setting[Any]]:
    """Settings by each name that users may write, aliases included."""
    values: list[object] = list(vars(Settings).values())
    rows = [cast("Setting[Any]", value) for value in values if isinstance(value, Setting)]
    return {name: row for row in rows for name in row.names}


def _lookup(name: str) -> Setting[Any]:
    if name in _table():
        return _table()[name]
    raise SettingError(f"there is no setting {name}{_hint(name)}")


def _hint(name: str, prefix: str = "") -> str:
    import difflib  # only when something is misspelled: importing treadle stays fast

    close = difflib.get_close_matches(name.upper(), list(_table()), n=1, cutoff=0.6)
    known = [prefix + item for item in close or _table()]
    return f"; did you mean {known[0]}?" if close else f"; there are {', '.join(known)}"


@functools.cache
def _warn_about_unknown_variables() -> None:
    """Warn once about TREADLE_ variables that mean nothing, and about what is nearly a setting's
    name: they are most often typing slips.
    """
    for variable in sorted(os.environ):
        name = variable.removeprefix(PREFIX)
        if name != variable and name not in _table():
            message = (
                f"the environment variable {variable} means nothing to treadle{_hint(name, PREFIX)}"
            )
            warnings.warn(message, stacklevel=5)
        elif name == variable and (meant := _near_miss(variable)) is not None:
            warnings.warn(
                f"the environment variable {variable} means nothing to treadle; did you mean "
                f"{meant}={os.environ[variable]}?",
                stacklevel=5,
            )


def _near_miss(variable: str) -> str | None:
    """The setting of which `variable` is one slip away (a letter missing, too many or, in longer
    names, another; two exchanged), with a value that it could have. None for all others, as
    programs have their own variables.
    """
    if len(variable) < _SHORTEST_SLIP or variable in _table():
        return None
    for name, setting in _table().items():
        if len(name) <= _SHORTEST_SLIP - 1 or not _is_slip(variable, name):
            continue
        try:
            setting.kind.parse(os.environ[variable].strip())
        except ValueError:
            continue
        return name
    return None


_SHORTEST_SLIP = 4  # letters of a variable that is taken for a slip


def _is_slip(text: str, name: str) -> bool:
    if abs(len(text) - len(name)) > 1:
        return False
    same = 0
    while same < min(len(text), len(name)) and text[same] == name[same]:
        same += 1
    rest, other = text[same:], name[same:]
    exchanged = rest[:2] == other[:2][::-1] and rest[2:] == other[2:]
    another = rest[1:] == other[1:] and len(name) > _SHORTEST_SLIP  # no TEAM for BEAM
    return rest[1:] == other or rest == other[1:] or another or exchanged


class Context:
    """Settings that hold inside a `with` block, or inside a decorated function.

        with Context(DEBUG=2, TRAINING=1): ...
        @Context(CPU_COUNT=4)
        def step(x): ...

    Scoped to the running thread and asyncio task; nests, and may be entered again.
    Raises SettingError, when made, for an unknown name or a value that is not allowed.
    """

    def __init__(self, **values: object) -> None:
        rows = {name: _lookup(name) for name in values}
        self._values = {row.name: row.check(values[name], name) for name, row in rows.items()}
        self._tokens: list[contextvars.Token[Mapping[str, Any]]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_overrides.set({**_overrides.get(), **self._values}))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _overrides.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        """`function` with these settings in force during each call, `async def` included."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise SettingError("Context cannot decorate a generator; use `with Context(...)` in it")

        # Each call makes a Context of its own: tokens of two threads must not mix.
        @functools.wraps(function)
        async def run_async(*args: object, **kwargs: object) -> Any:
            with Context(**self._values):
                return await function(*args, **kwargs)

        @functools.wraps(function)
        def run(*args: object, **kwargs: object) -> Any:
            with Context(**self._values):
                return function(*args, **kwargs)

        return cast("F", run_async if inspect.iscoroutinefunction(function) else run)


@dataclass(frozen=True)
class SettingRow:
    """One setting as `treadle env` shows it; `type` says what is allowed, `origin` who set it."""

    name: str
    type: str
    default: str
    value: str
    origin: str
    doc: str


def describe() -> list[SettingRow]:
    """Every setting with its current value and where that comes from, in table order."""
    return [_row(setting) for setting in dict.fromkeys(_table().values())]


def _row(setting: Setting[Any]) -> SettingRow:
    value, origin = setting.resolve()
    if setting.name in _overrides.get():
        value, origin = _overrides.get()[setting.name], "Context"
    doc = setting.doc + (f" Also spelled {setting.alias}." if setting.alias else "")
    shown = (setting.default_text, _show(value))
    return SettingRow(setting.name, setting.kind.allowed, *shown, origin, doc)
