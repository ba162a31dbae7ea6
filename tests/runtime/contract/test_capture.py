"""Capture and replay over a runtime, by what users call."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from treadle import Tensor, TinyJit
from treadle.engine.devices import Opened
from treadle.errors import JitError

X = np.arange(300, dtype=np.float32)


def test_replays_give_what_plain_calls_give(computing: Opened) -> None:
    weight = Tensor(X.copy(), device=computing.name).realize()
    step = TinyJit(lambda x: ((x * weight).realize() + x.sum()).realize())
    found = []
    for turn in range(5):
        found.append(step(Tensor(X + turn, device=computing.name)))
    for turn, result in enumerate(found):  # and those of earlier calls keep their values
        x = X + turn
        np.testing.assert_allclose(result.numpy(), x * X + x.sum(), rtol=1e-5)


def test_state_goes_on_from_replay_to_replay(computing: Opened) -> None:
    total = Tensor.zeros(4, device=computing.name).contiguous().realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        total.assign(total + x)
        return (total * 2).realize()

    one = Tensor(np.ones(4, np.float32), device=computing.name).realize()
    assert [step(one).tolist()[0] for _ in range(5)] == [2, 4, 6, 8, 10]


def test_an_exception_while_capturing_leaves_everything_usable(computing: Opened) -> None:
    fail = [False]

    @TinyJit
    def step(x: Tensor) -> Tensor:
        y = (x * 2).realize()
        if fail[0]:
            raise ValueError("in the middle")
        return (y + 1).realize()

    x = Tensor([1.0, 2.0], device=computing.name).realize()
    assert step(x).tolist() == [3, 5]
    fail[0] = True
    with pytest.raises(ValueError, match="in the middle"):
        step(x)
    fail[0] = False
    for _ in range(3):
        assert step(x).tolist() == [3, 5]
    if not computing.interprets:  # which captures nothing: every call runs plainly
        with pytest.raises(JitError, match="shape"):
            step(Tensor([1.0], device=computing.name))
    assert step(x).tolist() == [3, 5]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_dies_takes_nothing_with_it(computing: Opened) -> None:
    x = Tensor(np.ones((50, 50), np.float32), device=computing.name).realize()
    results = []

    def work() -> None:
        results.append((x @ x).realize())
        raise RuntimeError("this thread dies")

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert [result.sum().item() for result in results] == [50**3] * 3
    assert (x + 1).sum().item() == 5000
