"""Programs on disk: another process finds what it needs there, and nothing that is not its own."""

from dataclasses import replace

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, Variable
from treadle.engine import kernels, pipeline
from treadle.engine.cache import CompileCache
from treadle.engine.programs import Programs


class Processes:
    """This process, again and again as a new one that shares a cache folder with the others."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.scheduled = 0
        schedule = pipeline.schedule

        def counted(*args):
            self.scheduled += 1
            return schedule(*args)

        monkeypatch.setattr(pipeline, "schedule", counted)

    def start(self):
        cache = CompileCache(self.folder)
        self.monkeypatch.setattr(pipeline, "_programs", Programs())
        self.monkeypatch.setattr(kernels, "_kernels", {})
        for module in (kernels, pipeline):
            self.monkeypatch.setattr(module, "compile_cache", lambda: cache)
        self.scheduled = 0
        GlobalCounters.reset()


@pytest.fixture
def processes(tmp_path, monkeypatch):
    return Processes(tmp_path, monkeypatch)


def step(x, w, b):
    """A matmul, a reduction, a shared sub-result, an assignment and two outputs."""
    y = (x @ w + b).relu()
    b.assign(b * 0.5 + y.mean(0))
    total = y.softmax().sum(0)
    total.realize(b, y)
    return [t.numpy() for t in (total, b, y)]


def given():
    random = np.random.default_rng(0)
    return [Tensor(random.random(s, np.float32)).realize() for s in ((40, 32), (32, 24), (24,))]


def test_a_later_process_schedules_and_compiles_nothing(processes):
    processes.start()
    first = step(*given())
    assert processes.scheduled
    processes.start()
    again = step(*given())
    assert processes.scheduled == 0
    assert GlobalCounters.compile_count == 0
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_kernels_that_store_several_results_come_back_with_all_of_them(processes):
    def moments(x, m, v):
        """Statistics of the same rows, two updates and two more results: few kernels in all."""
        mean, spread = x.mean(1), (x - x.mean(1, keepdim=True)).square().mean(1)
        m.assign(m * 0.5 + x * 0.5)
        v.assign(v * 0.5 + m * m)
        larger, smaller = x + 1, x * 0.5
        Tensor.realize(mean, v, spread, smaller, m, larger)
        return [t.numpy() for t in (mean, spread, m, v, larger, smaller)]

    def given():
        random = np.random.default_rng(1)
        return [Tensor(random.random((9, 20), np.float32)).realize() for _ in range(3)]

    processes.start()
    first = moments(*given())
    (program,) = pipeline._programs.values()
    assert len(program.kernels) < 6
    assert processes.scheduled
    x, m, v = (t.numpy() for t in given())
    m = m * 0.5 + x * 0.5
    expected = [x.mean(1), x.var(1), m, v * 0.5 + m * m, x + 1, x * 0.5]
    processes.start()
    again = moments(*given())
    assert processes.scheduled == 0
    for a, b, right in zip(first, again, expected, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(b, right, rtol=1e-5, atol=1e-6)


DIFFERENT = {
    "zero": lambda x: x / 0.0,
    "negative zero": lambda x: x / -0.0,
    "nan": lambda x: x / float("nan"),
    "one more": lambda x: x / 3.0,
    "nearly": lambda x: x / 3.0000002,
    "a part": lambda x: x[1:3] / 3.0,
    "another part": lambda x: x[0:2] / 3.0,
    "another axis": lambda x: x.reshape(2, 2).sum(0),
    "one axis": lambda x: x.reshape(2, 2).sum(1),
    "maximum": lambda x: x.reshape(2, 2).max(1),
    "another type": lambda x: x.cast("int32") / 3,
    "a bool": lambda x: x.cast("int32") + Tensor([True, False, True, False]),
    "twice": lambda x: x + x,
    "two": lambda x: x + Tensor([5.0, 6.0, 7.0, 8.0]),
}


def test_graphs_that_differ_in_anything_have_programs_of_their_own(processes):
    processes.start()
    x = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    expected = {}
    for name, make in DIFFERENT.items():
        expected[name] = make(x).numpy()
        assert len(pipeline._programs) == len(expected)
    processes.start()
    for name, make in reversed(DIFFERENT.items()):
        np.testing.assert_array_equal(make(x).numpy(), expected[name], err_msg=name)
    assert processes.scheduled == 0


def test_settings_that_change_code_change_the_program(processes):
    for reproducible in (0, 1):
        processes.start()
        with Context(REPRODUCIBLE=reproducible):
            step(*given())
        assert processes.scheduled


def test_a_program_whose_kernels_are_gone_is_built_anew(processes, tmp_path):
    processes.start()
    expected = step(*given())
    files = sorted(path for path in tmp_path.rglob("*") if len(path.name) == 64)
    assert files
    for damaged in range(len(files)):
        processes.start()
        kept = [path.read_bytes() for path in files]
        files[damaged].write_bytes(kept[damaged][:-1])
        found = step(*given())
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)
        assert GlobalCounters.compile_count <= 1
        for path, content in zip(files, kept, strict=True):
            assert path.read_bytes() == content


def test_a_kernel_that_has_come_to_need_other_scratch_memory_is_given_it(processes, monkeypatch):
    def total():
        return Tensor(np.arange(1 << 20, dtype=np.float32) % 5).realize().sum().item()

    processes.start()
    expected = total()
    scratch = {k: (*k.scratch, 64) for p in pipeline._programs.values() for k in p.kernels}
    real = kernels.load
    sizes = {kernel.key: found for kernel, found in scratch.items()}
    monkeypatch.setattr(
        kernels, "load", lambda key, *rest: replace(real(key, *rest), scratch=sizes[key])
    )
    processes.start()
    assert total() == expected
    assert processes.scheduled
    for program in pipeline._programs.values():
        for kernel, places in zip(program.kernels, program.arguments, strict=True):
            assert kernel.scratch == sizes[kernel.key]
            assert len(places) >= len(kernel.scratch)


def test_a_program_of_symbolic_sizes_serves_other_sizes_in_another_process(processes):
    n = Variable("n", 1, 8)
    x = Tensor(np.arange(8, dtype=np.float32)).realize()
    for size in (3, 5):
        processes.start()
        part = x.shrink(((0, n.bind(size)),))
        assert (part * 2).sum().item() == size * (size - 1)
        start = x.shrink(((n.bind(size), n.bind(size) + 2),)) if size < 6 else None
        assert start.numpy().tolist() == [size, size + 1]
