"""Programs as text, run by the product and by the reference, compared, and shrunk.

outcome(text)             what treadle shows, or how it fails
expected(text)            what the reference shows
difference(text)          None, or what is wrong
shrunk(text)              the least part of it that is wrong in the same way
stand_alone(text)         the same as a Python program of its own
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import treadle
from treadle.errors import JitError, UserError

from . import reference

__all__ = ["DEVICES", "Wrong", "difference", "expected", "outcome", "shrunk", "stand_alone"]

DEVICES = ("CPU", "CPU:1")

_HELPERS = {
    "np": "import numpy as np",
    "contextmanager": "from contextlib import contextmanager",
    "Tensor": "from treadle import Tensor, TinyJit",
    "JitError": "from treadle.errors import JitError, UserError",
    "D": 'D = ("CPU", "CPU:1")',
    "show": "show = lambda x: print(x.tolist())",
    "backward": "backward = lambda loss, leaf: loss.backward()",
    "show_memory": "show_memory = lambda x, n: (x.realize(), print(n.tolist()))",
    "change_memory": """
def change_memory(x, n, value, *others):  # nothing is pending when the owner of memory writes
    x.realize(*others)
    n[...] = value
""",
    "call": """
def call(f, *args):  # where arguments share memory, a JitError before anything is written will do
    try:
        return f(*args)
    except JitError:
        return getattr(f, "function", f)(*args)
""",
    "refused": """
@contextmanager
def refused(word):
    try:
        yield
    except UserError as error:
        assert any(each in str(error) for each in word.split("|")), error
    else:
        raise AssertionError("not refused")
""",
}


class Wrong(Exception):
    """A program gives something else than the reference."""


def _is_plain(error: UserError) -> bool:
    return not isinstance(error, JitError)


@contextmanager
def _refused(word: str) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        if not _is_plain(error) or not re.search(word, str(error)):
            raise
    else:
        raise AssertionError(f"not refused, where the error should have said {word!r}")


@contextmanager
def _refused_by_reference(word: str) -> Iterator[None]:
    try:
        yield
    except reference.Refused as error:
        if error.args[0] != word:
            raise
    else:
        raise AssertionError("not refused")


def _call(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except JitError:
        return getattr(function, "function", function)(*args)


def _called_by_reference(function: Any, *args: Any) -> Any:
    return function(*args)


def _change_memory(x: Any, n: np.ndarray, value: Any, *others: Any) -> None:
    x.realize(*others)
    n[...] = value


def _change_memory_of_reference(x: Any, n: np.ndarray, value: Any, *others: Any) -> None:
    n[...] = value
    x.change_memory(value)


def names(seen: list[np.ndarray], jit: bool = True) -> dict[str, Any]:
    """What programs find in treadle; they show values by adding them to `seen`."""
    return {
        "Tensor": treadle.Tensor,
        "TinyJit": treadle.TinyJit if jit else lambda function: function,
        "np": np, "D": DEVICES, "call": _call, "refused": _refused,
        "backward": lambda loss, leaf: loss.backward(),
        "show_memory": lambda x, n: (x.realize(), seen.append(n.copy())),
        "change_memory": _change_memory,
        "show": lambda x: seen.append(np.array(x if isinstance(x, np.ndarray) else x.numpy())),
    }  # fmt: skip


def reference_names(seen: list[np.ndarray]) -> dict[str, Any]:
    """The same names, by the reference."""
    return {
        "Tensor": reference.Tensor, "TinyJit": reference.TinyJit,
        "np": np, "D": DEVICES, "call": _called_by_reference, "refused": _refused_by_reference,
        "backward": lambda loss, leaf: loss.backward(leaf),
        "show_memory": lambda x, n: seen.append(n.copy()),
        "change_memory": _change_memory_of_reference,
        "show": lambda x: seen.append(np.array(x if isinstance(x, np.ndarray) else x.numpy())),
    }  # fmt: skip


def _run(text: str, space: dict[str, Any]) -> None:
    code = compile(text, "<program>", "exec")
    try:
        exec(code, space)
    finally:
        space.clear()  # functions hold it, and it holds them


def expected(text: str) -> list[np.ndarray]:
    """What the reference shows, in order."""
    seen: list[np.ndarray] = []
    _run(text, reference_names(seen))
    return seen


def outcome(text: str, jit: bool = True) -> list[np.ndarray]:
    """What treadle shows, in order. Raises what it raises."""
    seen: list[np.ndarray] = []
    _run(text, names(seen, jit))
    return seen


def difference(text: str, wanted: list[np.ndarray] | None = None, jit: bool = True) -> str | None:
    """None where treadle gives what the reference does; else in one line how not."""
    wanted = expected(text) if wanted is None else wanted
    try:
        found = outcome(text, jit)
    except Exception as error:  # of any kind: none is expected
        message = str(error).split("\n")[0]
        return f"{type(error).__name__}: {message}"
    for number, (ours, theirs) in enumerate(zip(wanted, found, strict=True)):
        if ours.dtype != theirs.dtype or not np.array_equal(ours, theirs):
            return (
                f"wrong: value {number} shown is {theirs.dtype} {_printed(theirs)}, expected "
                f"{ours.dtype} {_printed(ours)}"
            )
    return None


def _printed(values: np.ndarray) -> str:
    text = str(values.tolist())
    return text if len(text) < 400 else f"{text[:400]}..."


# -- shrinking ----------------------------------------------------------------------------------


def _kind(found: str) -> str:
    return "wrong" if found.startswith("wrong:") else re.sub(r"\d+", "n", found)[:40]


def _blocks(lines: list[str]) -> list[tuple[int, int]]:
    """Lines that only make sense together, largest first: (begin, end)."""
    found = []
    for begin in range(len(lines)):
        depth = len(lines[begin]) - len(lines[begin].lstrip())
        end = begin + 1
        if lines[begin].startswith("@"):
            end += 1
        while end < len(lines) and len(lines[end]) - len(lines[end].lstrip()) > depth:
            end += 1
        found.append((begin, end))
        if end > begin + 1:
            found.append((begin, begin + 1))
    return found


def _is_still(text: str, kind: str, jit: bool) -> bool:
    try:
        wanted = expected(text)
    except Exception:  # whatever is no program any more
        return False
    found = difference(text, wanted, jit)
    return found is not None and _kind(found) == kind


def _simpler(line: str) -> Iterator[str]:
    """The same statement with less in it."""
    for word in (".realize()", ".contiguous()", ".clone()", ".detach()"):
        if word in line and line.strip() != line.strip().split(".")[0] + word:
            yield line.replace(word, "", 1)
    if "call(" in line:
        yield re.sub(r"call\((\w+), ", r"\1(", line)


def shrunk(text: str, jit: bool = True) -> str:
    """The least program that fails in the same way: no statement of it can be left out."""
    found = difference(text, jit=jit)
    if found is None:
        return text
    kind = _kind(found)
    lines = text.split("\n")
    size = max(1, len(lines) // 2)
    while size > 1:  # halves and quarters first, then single statements
        begin = 0
        while begin < len(lines):
            fewer = lines[:begin] + lines[begin + size :]
            if _is_still("\n".join(fewer), kind, jit):
                lines = fewer
            else:
                begin += size
        size //= 2
    changed = True
    while changed:
        changed = False
        for begin, end in reversed(_blocks(lines)):
            fewer = lines[:begin] + lines[end:]
            if end <= len(lines) and _is_still("\n".join(fewer), kind, jit):
                lines, changed = fewer, True
                break
        for number, line in enumerate(lines):
            for simpler in _simpler(line):
                other = [*lines[:number], simpler, *lines[number + 1 :]]
                if _is_still("\n".join(other), kind, jit):
                    lines, changed = other, True
                    break
    return "\n".join(lines)


def stand_alone(text: str, jit: bool = True) -> str:
    """A Python program that shows what treadle does, with the expected values beside it."""
    wanted = iter(expected(text))
    lines = []
    for line in text.split("\n"):
        stripped = line.strip()
        is_shown = stripped.startswith("show")
        lines.append(f"{line}  # {_printed(next(wanted))}" if is_shown else line)
    text = "\n".join(lines) if jit else "\n".join(lines).replace("@TinyJit\n", "")
    used: list[str] = []
    for name, helper in reversed(_HELPERS.items()):
        if re.search(rf"\b{name}\b", "\n".join([text, *used])):
            used.insert(0, helper)
    return "\n".join([*used, "", text])
