"""What compares random programs with the reference finds a difference, and shrinks it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from treadle.errors import InternalError

from . import running
from .programs import program, varied
from .reference import TinyJit
from .running import difference, expected, shrunk, stand_alone

LONG = """\
x = Tensor([1, 2, 3])
y = (x * 2).realize()
w = y + 1
@TinyJit
def f(a, b):
    global y
    u = a + b
    y += b
    u.realize()
    return u
show(w)
z = f(x, Tensor([1]))
z = f(x + 1, Tensor([1]))
z += 1
z = f(x, Tensor([1]))
show(z)
show(y)"""


class Twice(TinyJit):
    """Writes what it writes a second time from the third call on."""

    calls = 0

    def __call__(self, *args):
        self.calls += 1
        if self.calls > 2:
            super().__call__(*args)
        return super().__call__(*args)


class Broken(Twice):
    """Fails at the third call."""

    def __call__(self, *args):
        if self.calls == 2:
            raise InternalError("[realize] version 1 was read after version 2")
        return super().__call__(*args)


@pytest.fixture
def product(monkeypatch):
    """Puts a faulty TinyJit, and else the reference, in the place of treadle."""

    def put(faulty):
        def names(seen, jit=True):
            return {**running.reference_names(seen), "TinyJit": faulty}

        monkeypatch.setattr(running, "names", names)

    return put


def test_a_write_that_happens_twice_is_found_and_shrunk(product):
    product(Twice)
    assert difference(LONG) == "wrong: value 2 shown is int32 [6, 8, 10], expected int32 [5, 7, 9]"
    least = shrunk(LONG)
    assert len(least.split("\n")) == 10
    assert least.count("f(x, Tensor([1]))") == 2
    assert stand_alone(least).endswith("show(y)  # [5, 7, 9]")


def test_an_error_is_found_and_shrunk_to_one_of_its_kind(product):
    product(Broken)
    assert "InternalError: [realize] version 1" in (difference(LONG) or "")
    assert shrunk(LONG).count("f(x") == 3


def test_what_is_right_is_not_shrunk(product):
    product(TinyJit)
    assert difference(LONG) is None
    assert shrunk(LONG) == LONG


@pytest.mark.parametrize("seed", range(12))
def test_a_program_and_its_variants_are_the_same_for_its_seed(seed: int):
    text = program(seed)
    assert text == program(seed)
    other = varied(random.Random(seed), text)
    assert other == varied(random.Random(seed), text)
    values = expected(text)
    assert values
    assert all(map(np.array_equal, values, expected(other)))
