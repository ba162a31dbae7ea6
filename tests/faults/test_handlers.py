"""What a signal's handler or a finalizer computes while the same thread computes.

Both run between any two lines of Python, those under a lock among them: a tracing function stands
in for them, and computes at one line of treadle's after the other.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import treadle
from treadle import Context, Tensor

from ..thinning import chosen

ROOT = os.path.dirname(treadle.__file__)
FOLDERS = ["compile", "engine", "runtime", "tensor"]
A = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    faulthandler.dump_traceback_later(300, exit=True)  # what hangs
    yield
    faulthandler.cancel_dump_traceback_later()


def computed(number: float) -> float:
    """A kernel that no other number has: the first time in a process, it is compiled."""
    x = Tensor(A)
    return (x * number).sum(axis=1).sum().item()


@pytest.mark.parametrize("folder", FOLDERS)
def test_computing_at_any_line_of_computing(folder):
    first = 1000 * FOLDERS.index(folder)  # no case finds another's kernels
    watched, done = os.path.join(ROOT, folder) + os.sep, {}

    def local(frame, event, _):
        place = frame.f_code.co_filename, frame.f_lineno
        name = f"{os.path.basename(place[0])}:{place[1]}"
        if event == "line" and place not in done and chosen(name, 1 if folder == "compile" else 6):
            sys.settrace(None)
            done[place] = computed(first + len(done) + 1.5)
            sys.settrace(trace)
        return local

    def trace(frame, event, _):
        return local if frame.f_code.co_filename.startswith(watched) else None

    computed(first + 0.75)  # imports what it needs: a module that is half imported is of no use
    before = sys.gettrace()
    with Context(CACHE=0):
        sys.settrace(trace)
        try:
            found = [computed(first + number + 0.25) for number in range(3)]
        finally:
            sys.settrace(before)
    assert found == [A.sum() * (first + number + 0.25) for number in range(3)]
    assert list(done.values()) == [A.sum() * (first + n + 1.5) for n in range(len(done))]
    assert len(done) > 5
