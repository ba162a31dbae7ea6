"""An interrupt at any line of computing, capturing or replaying leaves the thread as it was.

A tracing function raises KeyboardInterrupt at one line of treadle's tensors and engine after the
other, at the first time that a program comes to it; without --full, at every twelfth. Afterwards
plain programs and new captured functions give right numbers, the interrupted function itself can be
called again, and no lock is held, so that other threads can compute.
"""

from __future__ import annotations

import ast
import contextlib
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import treadle
from treadle import Tensor, TinyJit, forks
from treadle.engine.bindings import with_bindings
from treadle.engine.prepacked import expects_replays

from ..thinning import chosen

ROOT = os.path.dirname(treadle.__file__)
WATCHED = tuple(os.path.join(ROOT, folder) + os.sep for folder in ("engine", "tensor"))
A = np.arange(12, dtype=np.float32).reshape(3, 4)


def traced(action, at_line):
    """Calls `action()`; `at_line(place)` is told each line of treadle's that it comes to."""

    def local(frame, event, _):
        if event == "line":
            at_line((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame, event, _):
        return local if frame.f_code.co_filename.startswith(WATCHED) else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return action()
    finally:
        sys.settrace(before)


def interrupted(action, place):
    """Whether `action()` came to `place`, and was interrupted there."""
    reached = []

    def at_line(found):
        if found == place and not reached:
            reached.append(found)
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        traced(action, at_line)
    return bool(reached)


def lines_of(action):
    """Every line that `action()` comes to, in order."""
    found = {}
    traced(action, lambda place: found.setdefault(place))
    return list(found)


def held_locks():
    """The locks that a thread beside this one cannot take."""
    held = []

    def look():
        for lock in forks.all_locks():
            if lock.acquire(blocking=False):
                lock.release()
            else:
                held.append(lock)

    beside = threading.Thread(target=look)
    beside.start()
    beside.join()
    return held


def check_the_thread():
    """Nothing of the interrupted call is left; plain programs and new captures are right."""
    assert not held_locks()
    assert not expects_replays()
    assert with_bindings({}) == {}
    x = Tensor(A[0])
    assert (x * 2 + 1).sum().item() == 16
    total = Tensor([0.0]).contiguous().realize()

    @TinyJit
    def step(t):
        total.assign(total + t.sum()).realize()
        return (t * 3).realize()

    for n in range(1, 4):
        assert step(Tensor([float(n)]).realize()).tolist() == [3.0 * n]
    assert total.tolist() == [6.0]


def interrupt_everywhere(prepare, check):
    """Interrupts what `prepare()` gives, at each of its lines, and looks after it by `check`."""
    prepare()()  # what only the first call does is imported and compiled
    lines = lines_of(prepare())
    assert len(lines) > 20
    lines = [place for place in lines if chosen(f"{os.path.basename(place[0])}:{place[1]}", 12)]
    count = 0
    for place in lines:
        action = prepare()
        if interrupted(action, place):
            count += 1
            try:
                check_the_thread()
                check(action)
            except BaseException as error:
                error.add_note(f"after an interrupt at {place[0]}:{place[1]}")
                raise
    assert count > len(lines) * 0.8  # some lines are for what is new alone


def computing():
    x = Tensor(A).realize()
    return lambda: ((x * 2).sum(axis=1) + x.max()).numpy()


def test_2_07_an_interrupt_of_computing_leaves_all_as_it_was():
    want = A.sum(axis=1) * 2 + A.max()
    interrupt_everywhere(computing, lambda action: np.testing.assert_array_equal(action(), want))


class Stateless:
    """A captured function of its argument alone, called so often before."""

    def __init__(self, calls):
        self.weight = Tensor(A[1]).realize()
        self.step = TinyJit(lambda x: (x * 2 + self.weight).realize())
        for n in range(calls):
            self.step(Tensor(A[0] + n).realize())

    def __call__(self):
        return self.step(Tensor(A[2]).realize())

    def check(self):
        """It goes on from where it was, whatever that is."""
        for n in range(4):
            x = A[0] * n
            assert self.step(Tensor(x).realize()).tolist() == (x * 2 + A[1]).tolist()


class WithState:
    """A captured function that adds to a state and makes a gradient."""

    def __init__(self, calls):
        self.state = Tensor([0.0]).contiguous().realize()
        self.weight = Tensor([2.0], requires_grad=True).realize()
        self.step = TinyJit(self._step)
        for n in range(calls):
            self.step(Tensor([float(n)]).realize())

    def _step(self, x):
        self.weight.grad = None
        (x * self.weight).sum().backward()
        self.state.assign(self.state + self.weight.grad).realize()
        return (x * 2 + self.state).realize()

    def __call__(self):
        return self.step(Tensor([5.0]).realize())


CALLS = pytest.mark.parametrize(
    "calls", [0, 1, 2, 3], ids=["first", "capture", "replay", "settled"]
)


@CALLS
def test_2_07_an_interrupt_of_a_captured_function_leaves_it_and_the_thread_usable(calls):
    interrupt_everywhere(lambda: Stateless(calls), Stateless.check)


@CALLS
def test_2_07_an_interrupt_of_a_function_with_state_leaves_the_thread_usable(calls):
    interrupt_everywhere(lambda: WithState(calls), lambda _: None)


def is_lock(item):
    return ast.unparse(item.context_expr).rpartition(".")[2] in ("lock", "_lock", "_tracking")


def test_2_07_what_holds_a_lock_has_no_line_with_try():
    """Python does not count such a line to the `with` around it: what is raised there, by a
    debugger, would leave the lock held.
    """
    found, count = [], 0
    for folder in WATCHED:
        for path in Path(folder).rglob("*.py"):
            for block in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(block, ast.With) and any(map(is_lock, block.items)):
                    count += 1
                    inside = [node for line in block.body for node in ast.walk(line)]
                    found += [(path, n.lineno) for n in inside if isinstance(n, ast.Try)]
    assert count > 15
    assert not found
