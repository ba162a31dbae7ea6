"""Fresh processes: code in, what it prints or how long it takes out."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import UserError
from .timing import timed

__all__ = ["Overhead", "best", "least", "numbers", "printed", "said"]


@dataclass(frozen=True)
class Overhead:
    """One row: `measure` gives a number in `unit`, which may be at most `limit`."""

    name: str
    unit: str
    limit: float
    measure: Callable[[], float]


def best(code: str, runs: int) -> float:
    """The least wall time of a fresh process with an empty cache that runs `code`."""
    return min(timed(lambda: _python(code)) for _ in range(runs))


def least(code: str, runs: int, **variables: str) -> float:
    """The least of the numbers that fresh processes print."""
    return min(printed(code, True, **variables) for _ in range(runs))


def printed(code: str, new_cache: bool = True, **variables: str) -> float:
    """The number that a fresh process with these environment variables prints."""
    (number,) = numbers(code, new_cache, **variables)
    return number


def numbers(code: str, new_cache: bool = True, **variables: str) -> list[float]:
    """The numbers that a fresh process with these environment variables prints."""
    return [float(word) for word in _python(code, new_cache, **variables).split()]


def said(code: str, **variables: str) -> str:
    """What a fresh process with these environment variables prints."""
    return _python(code, False, **variables)


def _python(code: str, new_cache: bool = True, **given: str) -> str:
    """What a fresh interpreter prints for `code`. Raises UserError where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"TREADLE_CACHE_DIR": os.path.join(folder, "cache")} if new_cache else {}
        variables = {**os.environ, **cache, **given}
        done = subprocess.run(
            [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False
        )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"[bench] a fresh process failed: {reason}")
    return done.stdout
