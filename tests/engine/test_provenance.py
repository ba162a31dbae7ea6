"""Each kernel knows the user's lines that it was made for: plain, captured, and from disk."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit
from treadle.engine.steps import Run, listeners
from treadle.nn import Linear


def here(offset=0):
    """The number of the caller's line."""
    return inspect.currentframe().f_back.f_lineno + offset


@pytest.fixture
def origins():
    """Of each kernel that runs, the origins, under DEBUG=2."""
    found = []

    def listen(step):
        if isinstance(step, Run):
            found.extend(step.origins)

    listeners.append(listen)
    with Context(DEBUG=2):
        yield found
    listeners.remove(listen)


def ones(*shape):
    return Tensor(np.ones(shape, np.float32), device="CPU").realize()


def first(origins):
    """The number of the line with most of the work, and its name, of each kernel."""
    return [(kernel[0].line[1], kernel[0].layer) for kernel in origins]


def test_a_kernel_is_of_the_line_with_most_of_its_work(origins):
    x, w = ones(32, 64), ones(64, 16)
    origins.clear()
    product = here(1)
    y = x @ w
    (y + 1).relu().realize()
    assert first(origins) == [(product, "matmul")]
    assert {origin.line[1] for origin in origins[0]} == {product, product + 1}


class Model:
    def __init__(self):
        self.fc1, self.fc2 = Linear(64, 32), Linear(32, 16)
        for layer in (self.fc1, self.fc2):
            for parameter in (layer.weight, layer.bias):
                parameter.realize()

    def __call__(self, x):
        return self.fc2(self.fc1(x).relu())


def test_layers_of_one_line_are_told_apart_by_their_names(origins):
    model, x = Model(), ones(8, 64)
    origins.clear()
    model(x).realize()
    assert [name for _, name in first(origins)] == ["Model.fc1", "Model.fc2"]


def test_a_gradient_is_of_the_line_of_its_operation(origins):
    x = ones(64, 64)
    x.requires_grad = True
    line = here(1)
    y = (x @ ones(64, 64)).sum()
    y.backward()
    origins.clear()
    x.grad.realize()
    assert first(origins) == [(line, "grad of matmul")]


def test_a_program_that_is_known_names_the_lines_of_the_graph_at_hand(origins):
    x = ones(17, 3)
    origins.clear()
    one = here(1)
    (x * 5).sum(1).realize()
    y = ones(17, 3)
    other = here(1)
    (y * 5).sum(1).realize()
    lines = [{origin.line[1] for origin in kernel} for kernel in origins]
    assert [lines[0], lines[-1]] == [{one}, {other}]


def test_a_kernel_of_a_later_step_is_not_of_the_lines_of_an_earlier_one(origins):
    x, w = ones(32, 32), ones(32, 32)
    origins.clear()
    line = here(1)
    y = x @ w
    z = y @ w
    z.realize()
    assert first(origins) == [(line, "matmul"), (line + 1, "matmul")]
    assert all(len(kernel) == 1 for kernel in origins)


def test_what_scheduling_rewrites_keeps_its_line(origins):
    x = ones(40)
    origins.clear()
    line = here(1)
    x.sort()[0].realize()
    assert origins
    assert {number for number, _ in first(origins)} == {line}


def test_parts_on_several_devices_keep_their_line(origins):
    x = Tensor(np.ones((8, 8), np.float32), device="CPU").shard(("CPU", "CPU:1"), axis=0).realize()
    origins.clear()
    line = here(1)
    (x * 3).realize()
    assert first(origins) == [(line, "mul")] * 2


def test_steps_of_a_loop_are_of_the_line_of_the_loop(origins):
    x = ones(5, 3)
    origins.clear()
    line = here(1)
    x.cumsum(0).realize()
    assert {number for number, _ in first(origins)} == {line}


def test_a_replay_names_the_lines_of_what_was_captured(capfd):
    line = here(4)

    @TinyJit
    def step(x):
        return (x * 7).realize()

    x = ones(50, 2)
    for _ in range(3):
        step(x)
    capfd.readouterr()
    with Context(DEBUG=2):
        result = step(x)
    [shown] = capfd.readouterr().err.splitlines()
    assert f"{os.path.basename(__file__)}:{line} mul" in shown
    assert result.tolist() == [[7.0, 7.0]] * 50
    other = Tensor(np.full((50, 2), 2, np.float32), device="CPU").realize()
    assert step(other).tolist() == [[14.0, 14.0]] * 50  # the quick way again, and with its memory


def test_a_function_that_is_captured_under_debug_is_shown_at_each_call(capfd):
    @TinyJit
    def step(x):
        return (x * 9).realize()

    x = ones(50, 3)
    with Context(DEBUG=2):
        for _ in range(4):
            step(x)
    assert capfd.readouterr().err.count("mul  ") == 4


def test_host_calls_between_captured_kernels_are_shown(capfd):
    @TinyJit
    def step(x):
        return ((x * 2).inv() + 1).realize()

    x = Tensor(np.eye(3, dtype=np.float32), device="CPU").realize()
    with Context(DEBUG=2):
        for _ in range(2):
            step(x)
        capfd.readouterr()
        step(x)
    shown = capfd.readouterr().err.splitlines()
    assert [row.split()[3] for row in shown] == ["mul", "inv", "add"]


def test_nobody_looks_for_lines_unasked():
    found = []
    listeners.append(found.append)
    try:
        (ones(9) + 1).realize()
    finally:
        listeners.remove(found.append)
    assert all(list(step.origins) == [] for step in found if isinstance(step, Run))


PROGRAM = """
from treadle import Tensor
x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU").realize()
y = x @ x
(y.max() * 3).realize()
"""


def test_a_program_from_disk_names_its_lines(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "DEBUG": "2", "CACHE_DIR": str(tmp_path / "cache")}
    shown = [
        subprocess.run(
            [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True
        ).stderr
        for _ in range(2)
    ]
    names = [
        [row.split()[2:4] for row in text.splitlines() if row.endswith("GB/s")] for text in shown
    ]
    assert names[0] == names[1]
    for text in shown:
        assert "program.py:4 matmul" in text


ONE_LINE = """
from treadle import Tensor
x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU").realize()
((x @ x).softmax() @ x).realize()
"""
THREE_LINES = """
from treadle import Tensor
x = Tensor([[1.0, 2.0], [3.0, 4.0]], device="CPU").realize()
y = x @ x
z = y.softmax()
(z @ x).realize()
"""


def test_a_program_from_disk_tells_lines_apart_that_were_one_when_it_was_made(tmp_path):
    environment = {**os.environ, "DEBUG": "2", "CACHE_DIR": str(tmp_path / "cache")}
    shown = []
    for name, text in (("one.py", ONE_LINE), ("three.py", THREE_LINES)):
        file = tmp_path / name
        file.write_text(text)
        command = [sys.executable, str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        shown.append([row for row in done.stderr.splitlines() if row.startswith("*** CPU")])
    one, three = shown
    assert len(one) == len(three)
    assert all("one.py:4" in row for row in one if "total" not in row)
    assert {"three.py:4", "three.py:5", "three.py:6"} <= {word for r in three for word in r.split()}
