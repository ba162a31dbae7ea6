"""Compiling in further processes: the same code, whatever happens to the workers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, child
from treadle.engine import kernels, pipeline, workers
from treadle.engine.devices import Device
from treadle.engine.run import scheduled
from treadle.engine.translation import Translator
from treadle.errors import InternalError
from treadle.ir.text import render

COUNT = 3 * workers.LEAST_JOBS


def program(count):
    """As many kernels that have nothing in common, and what they compute."""
    values = [np.arange(1 + n, dtype=np.float32) for n in range(count)]
    return [Tensor(x, device="CPU") * 2 + n for n, x in enumerate(values)], [
        x * 2 + n for n, x in enumerate(values)
    ]


@pytest.fixture
def jobs():
    """A Translator for the CPU, and its Jobs by key."""
    tensors, _ = program(COUNT)
    steps = [scheduled([(tensor.node, "CPU")])[0] for tensor in tensors]
    found = {f"key{n}": kernels._job(f"key{n}", s, render(s.ast)) for n, s in enumerate(steps)}
    return Translator.of(Device["CPU"]), found


def share(jobs, here, count):
    """What as many workers make of the jobs beside this process."""
    translator, all_jobs = jobs
    with workers.Workers(translator, count) as started:
        return started.give(all_jobs).finish(here)


class Patient:
    """Waits for the first worker before it compiles anything here, and `seconds` more."""

    def __init__(self, monkeypatch):
        self.keys, self.processes, self.seconds = [], [], 0.0
        started = workers.Child

        def noted(module):
            child = started(module)
            self.processes.append(child.process)
            return child

        monkeypatch.setattr(workers, "Child", noted)

    def here(self, key):
        while not self.processes:
            time.sleep(0.01)
        if not self.keys:
            time.sleep(self.seconds)
        self.keys.append(key)


@pytest.fixture
def patient(monkeypatch):
    return Patient(monkeypatch)


def test_a_worker_makes_what_this_process_would_make(jobs, patient):
    translator, all_jobs = jobs
    patient.seconds = 3.0  # as long as it needs for all but one
    results = share(jobs, patient.here, 1)
    assert len(results) + len(patient.keys) == COUNT
    assert len(results) > COUNT // 2
    assert not results.keys() & set(patient.keys)
    for key, (description, code) in results.items():
        expected = translator.translate(all_jobs[key])
        assert (description, code) == expected


def test_long_kernels_are_begun_first_on_both_sides(jobs):
    translator, all_jobs = jobs
    lengths = {key: 10 * (1 + number * 7 % COUNT) for number, key in enumerate(all_jobs)}
    made = {key: replace(all_jobs[key], text="x" * length) for key, length in lengths.items()}
    started = workers.Workers(translator, 0)
    begun = []
    started.give(made).finish(lambda key: begun.append(lengths[key]))
    assert sorted(begun) == sorted(lengths.values())
    half = -(-COUNT // 2)
    assert begun[:half] == sorted(begun[:half], reverse=True)
    assert begun[half:] == sorted(begun[half:])
    assert {begun[0], begun[-1]} == set(sorted(begun)[-2:])


def test_no_worker_is_left_behind(jobs, patient):
    share(jobs, patient.here, 1)
    assert all(process.poll() is not None for process in patient.processes)


def test_nobody_waits_for_a_worker_that_only_starts(jobs, monkeypatch):
    monkeypatch.setattr(child, "_CODE", "import time; time.sleep(60)")
    start = time.perf_counter()
    assert share(jobs, lambda key: None, 2) == {}
    assert time.perf_counter() - start < 30


def test_workers_that_get_nothing_end_with_their_block(jobs, patient):
    with workers.Workers(jobs[0], 2):
        patient.here("none")
    assert len(patient.processes) <= 2
    assert all(process.poll() is not None for process in patient.processes)


def test_workers_start_while_a_large_graph_is_scheduled(monkeypatch, nothing_compiled, patient):
    tensors, expected = program(COUNT)
    schedule, running = pipeline.schedule, []

    def slow(*arguments):
        while not patient.processes:  # for ever, if none starts
            time.sleep(0.01)
        running.extend(process.poll() for process in patient.processes)
        return schedule(*arguments)

    monkeypatch.setattr(pipeline, "schedule", slow)
    monkeypatch.setattr(kernels, "NODES_OF_KERNEL", 1)
    with Context(COMPILE_PROCESSES=1):
        tensors[0].realize(*tensors[1:])
    assert running == [None]
    np.testing.assert_array_equal(tensors[5].numpy(), expected[5])
    assert all(process.poll() is not None for process in patient.processes)


def test_a_graph_that_cannot_be_scheduled_leaves_no_worker(monkeypatch, nothing_compiled, patient):
    def refused(*arguments):
        patient.here("none")
        raise InternalError("no schedule")

    tensors, _ = program(COUNT)
    monkeypatch.setattr(pipeline, "schedule", refused)
    monkeypatch.setattr(kernels, "NODES_OF_KERNEL", 1)
    with Context(COMPILE_PROCESSES=1), pytest.raises(InternalError, match="no schedule"):
        tensors[0].realize(*tensors[1:])
    assert all(process.poll() is not None for process in patient.processes)


@pytest.mark.parametrize(
    ("jobs", "processes", "count"), [(5, 9, 0), (6, 9, 1), (9, 9, 2), (300, 9, 9), (300, 0, 0)]
)
def test_few_kernels_are_worth_few_workers(jobs, processes, count):
    assert workers.how_many(jobs, processes) == count


def test_without_further_threads_everything_is_compiled_here(jobs, monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(workers._Worker, "start", refused)
    keys = []
    assert share(jobs, keys.append, 2) == {}
    assert sorted(keys) == sorted(jobs[1])


def test_an_error_here_ends_the_workers(jobs, patient):
    def fails(key):
        patient.here(key)
        raise InternalError("no code")

    with pytest.raises(InternalError, match="no code"):
        share(jobs, fails, 1)
    assert all(process.poll() is not None for process in patient.processes)


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.exit(3)",
        "raise SystemExit",
        "print('nonsense', flush=True)",
        "import sys; sys.stdin.buffer.read(10); sys.stdout.buffer.write(b'\\x80'); sys.exit()",
    ],
)
def test_what_a_broken_worker_does_not_compile_is_compiled_here(
    code, monkeypatch, nothing_compiled
):
    monkeypatch.setattr(child, "_CODE", code)
    tensors, expected = program(COUNT)
    with Context(COMPILE_PROCESSES=2):
        tensors[0].realize(*tensors[1:])
    for tensor, value in zip(tensors, expected, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), value)
    assert GlobalCounters.compile_count == COUNT


def test_a_program_that_cannot_be_run_is_no_worker(monkeypatch, nothing_compiled, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python-that-is-not-there"))
    tensors, expected = program(COUNT)
    with Context(COMPILE_PROCESSES=1):
        tensors[0].realize(*tensors[1:])
    np.testing.assert_array_equal(tensors[5].numpy(), expected[5])


@pytest.mark.parametrize("executable", ["", None, "/usr/bin/uwsgi", "/opt/app/blender"])
def test_a_program_that_embeds_python_starts_no_workers(monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    assert not child.available()


CODE = """
import numpy as np
from treadle import GlobalCounters, Tensor
x = Tensor(np.ones((64, 64), np.float32), device="CPU").realize()
results = [(x[: 20 + n, :].softmax(1) @ x).sum(0) for n in range(12)]
results[0].realize(*results[1:])
assert all(abs(r.numpy() - 20 - n).max() < 1e-3 for n, r in enumerate(results))
print(GlobalCounters.compile_count)
"""


def test_what_workers_compile_is_on_disk_for_the_next_process(tmp_path):
    environment = {**os.environ, "CACHE_DIR": str(tmp_path), "COMPILE_PROCESSES": "1"}
    command = [sys.executable, "-c", CODE]
    compiled, again = (
        int(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
        for _ in range(2)
    )
    assert compiled >= 12
    assert again == 0
