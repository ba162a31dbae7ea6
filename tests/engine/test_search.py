"""BEAM: what is found is right, remembered and bounded in time; what is wrong is never used."""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit
from treadle.engine import agreement, kernels, pipeline, remote_measure, search, trial
from treadle.engine.cache import CompileCache
from treadle.engine.devices import Device
from treadle.engine.loading import load
from treadle.engine.programs import Programs
from treadle.engine.run import scheduled
from treadle.engine.translation import Translator
from treadle.errors import OutOfMemory
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.ir.text import render
from treadle.optimize import heuristic
from treadle.optimize.parameters import Parameters, neighbours
from treadle.optimize.sample import sampled
from treadle.target import nvidia_target, parse_target

from ..choices.running import usual_caches

OWN = Parameters()
RANDOM = np.random.default_rng(4)


def numbers(*shape):
    return Tensor(RANDOM.standard_normal(shape).astype(np.float32), device="CPU").realize()


def kernel_of(tensor):
    (kernel,) = scheduled([(tensor.node, tensor.device)])
    return kernel


def job_of(kernel):
    return kernels._job("tried", kernel, render(kernel.ast))


def trial_of(kernel):
    """A Trial of `kernel` in this process."""
    opened = Device["CPU"]
    translator, job = Translator.of(opened), job_of(kernel)
    build = lambda *schedule: load("tried", *translator.finished(job, *schedule), "", opened)
    return trial.Trial(kernel.ast, kernel.writes, opened, build)


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """Nothing compiled yet, a cache folder of its own, and small searches; the folder."""
    cache = CompileCache(tmp_path)
    for module in (kernels, pipeline):
        monkeypatch.setattr(module, "compile_cache", lambda: cache)
    monkeypatch.setattr(search, "SECONDS", 20.0)  # the number of schedules ends them
    monkeypatch.setattr(search, "MAX_CANDIDATES", 8)
    _forget(monkeypatch)
    return tmp_path


def _forget(monkeypatch):
    """What a new process knows: nothing but what is on disk."""
    monkeypatch.setattr(pipeline, "_programs", Programs())
    monkeypatch.setattr(kernels, "_kernels", {})


def test_a_kernel_that_adds_to_what_it_has_stored_has_a_trial():
    index = Tensor(RANDOM.integers(0, 50, (64, 8)), device="CPU").realize()
    tensor = Tensor.zeros(50, 8, device="CPU").scatter_reduce(0, index, numbers(64, 8), "sum")
    kernel = kernel_of(tensor)
    assert any(node.op is Op.AFTER for node in kernel.ast.toposort())
    assert trial_of(kernel)._in_place


def searched():
    """How many schedules were tried of each kernel for which there was a search."""
    return [kernel.searched for kernel in kernels._kernels.values() if kernel.searched]


PROGRAMS = {
    "matmul": lambda x: x @ x.T,
    "matmul with an epilogue": lambda x: (x @ x.T + x[:, :1]).relu(),
    "softmax": lambda x: x.softmax(1),
    "sum": lambda x: x.sum(),
    "sums of columns": lambda x: x.sum(0),
    "layer norm": lambda x: x.layernorm(),
    "attention": lambda x: (x @ x.T * 0.1).softmax(1) @ x,
    "elementwise": lambda x: (x * 2 + 1).exp(),
    "convolution": lambda x: x.reshape(1, 4, 30, 77).conv2d(
        x[:2, :36].reshape(2, 4, 3, 3), padding=1
    ),
    "integers": lambda x: (x * 100).int().sum(1),
    "half precision": lambda x: x.half().sum(1),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("device", ["CPU", "CPU:CLANG"])
def test_results_are_those_of_the_heuristic(name, device, monkeypatch):
    try:
        x = numbers(120, 77).to(device).realize()
    except Exception as error:
        pytest.skip(f"{device}: {error}")
    if device == "CPU:CLANG":
        monkeypatch.setattr(search, "MAX_CANDIDATES", 3)
    with Context(BEAM=0):
        plain = PROGRAMS[name](x).numpy()
    with Context(BEAM=2):
        found = PROGRAMS[name](x).numpy()
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-5 * np.abs(plain).max())
    assert searched()


def test_a_search_measures_several_schedules_and_says_so(monkeypatch):
    monkeypatch.setattr(search, "SECONDS", 120.0)  # the number of schedules ends it
    x = numbers(128, 128)
    with Context(BEAM=1):
        (x @ x).realize()
    assert searched() == [8]


def test_another_process_does_not_search_again(monkeypatch):
    x = numbers(64, 64)
    with Context(BEAM=2):
        first = (x @ x).numpy()
        _forget(monkeypatch)
        monkeypatch.setattr(kernels, "best_schedule", lambda *a: pytest.fail("it searched"))
        np.testing.assert_array_equal((x @ x).numpy(), first)
    assert 8 in searched()


def test_another_width_is_another_search(monkeypatch):
    widths, real = [], kernels.best_schedule
    monkeypatch.setattr(kernels, "best_schedule", lambda *a: widths.append(a[-1]) or real(*a))
    x = numbers(64, 64)
    for width in (0, 1, 2, 1, 0):
        with Context(BEAM=width):
            (x @ x).realize()
    assert widths == [1, 2]


def test_a_damaged_memory_is_searched_anew(monkeypatch, fresh):
    x = numbers(64, 64)
    with Context(BEAM=1):
        first = (x @ x).numpy()
        files = [path for path in fresh.rglob("*") if path.is_file()]
        assert files
        for path in files:
            path.write_bytes(path.read_bytes()[:-7] + b"garbage")
        _forget(monkeypatch)
        np.testing.assert_allclose((x @ x).numpy(), first, rtol=1e-5, atol=1e-5)
    assert 8 in searched()


# -- what goes wrong ----------------------------------------------------------------------------


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Trials by a process in which `code` has been run first, to its end."""

    def plant(code):
        remote_measure._end_idle()
        (tmp_path / "planted.py").write_text(PLANTED + code)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(remote_measure, "_module", "planted")

    yield plant
    remote_measure._end_idle()


# Every schedule but the heuristic's own goes through `spoil`.
PLANTED = """
import os, signal
from treadle.engine import measure, trial
from treadle.engine.remote_measure import serve
from treadle.ir.loops import Split, loop_size, replace_ranges
from treadle.ir.op import Op
from treadle.optimize.heuristic import optimize
real, OWN = measure.replay, True
def replay(ast, target, schedule):
    found = real(ast, target, schedule)
    is_own = OWN and schedule == optimize(ast, target)[1]
    return found if is_own else spoil(found)
measure.replay = replay
def longest(ast):  # the longest loop of a reduction
    loops = [r for n in ast.toposort() if n.op is Op.REDUCE for r in n.src[1:]]
    return max((r for r in loops if r.arg.kind == "loop"), key=loop_size)
def with_steps(ast, count):
    old, steps = longest(ast), longest(ast).src[0]
    new = old.replace(src=(steps.const(steps.dtype, count),))
    return replace_ranges(ast, {old: Split(new % steps.arg, (new,))})
"""
WITHOUT_LAST_STEP = "def spoil(ast): return with_steps(ast, loop_size(longest(ast)) - 1)"
ENDLESS = "def spoil(ast): return with_steps(ast, 1 << 60)"
FAR_AWAY = """
def spoil(ast):
    stores = [n for n in ast.toposort() if n.op is Op.STORE]
    return ast.substitute({
        n: n.replace(src=(n.src[0], n.src[1] + (1 << 44), *n.src[2:])) for n in stores
    })
"""
IMPOSSIBLE = "def spoil(ast): raise AssertionError('no such loop')"


def assert_searched_in_vain(x):
    """BEAM=2 computes `x @ x.T` by the heuristic's schedule."""
    with Context(BEAM=2):
        found = (x @ x.T).numpy()
    np.testing.assert_allclose(found, x.numpy() @ x.numpy().T, rtol=1e-4, atol=1e-4)
    kernel, opened = kernel_of(x @ x.T), Device["CPU"]
    own = heuristic.optimize(kernel.ast, opened.code_target)[1]
    assert own in [kernel.schedule for kernel in kernels._kernels.values()]


def test_a_wrong_schedule_is_never_used_and_named(planted):
    planted(WITHOUT_LAST_STEP)
    with pytest.warns(RuntimeWarning, match="something else.*with these moves: [a-z]") as warned:
        assert_searched_in_vain(numbers(96, 97))
    assert len(warned) == 1


def test_a_wrong_choice_of_the_heuristic_is_noticed_in_a_sample(planted):
    planted(WITHOUT_LAST_STEP + "\nOWN, trial.SAMPLE_STEPS = False, 1 << 14")
    x = numbers(96, 97)
    with Context(BEAM=2), pytest.warns(RuntimeWarning, match="something else"):
        (x @ x.T).realize()


def test_schedules_that_cannot_be_made_are_dropped(planted):
    planted(IMPOSSIBLE)
    assert_searched_in_vain(numbers(64, 64))
    assert 8 in searched()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (FAR_AWAY, "SIGSEGV|exit status 0xc0000005"),
        ("def spoil(ast): os.kill(os.getpid(), signal.SIGFPE)", "SIGFPE|exit status"),
        ("def spoil(ast): os._exit(3)", "exit status 0x3"),
    ],
)
def test_a_schedule_that_crashes_costs_its_process_alone(planted, monkeypatch, code, name):
    monkeypatch.setattr(search, "SECONDS", 120.0)  # the number of processes ends it
    planted(code)
    crash = f"it crashed: ({name}).*with these moves: [a-z]"
    with pytest.warns(RuntimeWarning, match=crash) as warned:
        assert_searched_in_vain(numbers(64, 64))
    assert len(warned) == 1
    assert 1 + search.MAX_ENDED in searched()


def test_a_schedule_that_never_ends_is_ended(planted, monkeypatch, capfd):
    planted(ENDLESS)
    monkeypatch.setattr(search, "SECONDS", 6.0)
    monkeypatch.setattr(search, "PATIENCE", 0.5)
    monkeypatch.setattr(search, "OWN_TIMES", 1)
    start = time.perf_counter()
    with Context(DEBUG=3):
        assert_searched_in_vain(numbers(64, 64))
    assert "dropped, it took more than" in capfd.readouterr().err
    assert time.perf_counter() - start < 6 + search.GRACE + 20  # a machine may be busy
    assert searched()


def test_a_heuristics_choice_that_crashes_in_a_trial_is_said_so(planted):
    planted("def spoil(ast): os._exit(3)\nOWN = False")
    with pytest.warns(RuntimeWarning, match="heuristic's schedule.*exit status 0x3"):
        assert_searched_in_vain(numbers(64, 64))
    assert not searched()


def test_a_search_that_fails_as_a_whole_leaves_the_heuristics_choice(monkeypatch):
    monkeypatch.setattr(search, "_Search", lambda *a: 1 / 0)
    assert_searched_in_vain(numbers(64, 64))
    assert not searched()


def test_a_program_that_cannot_start_processes_is_told_once_and_searches_later(monkeypatch):
    monkeypatch.setattr(search, "_refused", [])
    remote_measure._end_idle()
    x = numbers(64, 64)
    with Context(BEAM=2):
        with monkeypatch.context() as embedded:
            embedded.setattr(sys, "executable", "/usr/bin/blender")
            with pytest.warns(RuntimeWarning, match=r"cannot be started.*set BEAM=0"):
                (x @ x).realize()
            x.softmax(1).realize()  # a second warning would be an error
        assert not searched()
        _forget(monkeypatch)
        monkeypatch.setattr(search, "_refused", [])
        (x @ x).realize()
    assert 8 in searched()


def test_no_candidate_is_begun_after_the_time_is_up(monkeypatch):
    monkeypatch.setattr(search, "SECONDS", 12.0)
    monkeypatch.setattr(search, "MAX_CANDIDATES", 100)
    asked, real, x = [], search.RemoteMeasurer.attempt, numbers(64, 64)
    monkeypatch.setattr(search.RemoteMeasurer, "attempt", lambda *a: asked.append(a) or real(*a))
    ticks = itertools.count()
    kernel = kernel_of(x @ x)
    search.best_schedule(kernel, job_of(kernel), Device["CPU"], 4, lambda: next(ticks))
    assert 1 <= len(asked) <= 12  # each looks at the clock


def test_the_users_memory_is_left_alone():
    x = numbers(64, 64)
    y = Tensor(np.ones((64, 64), np.float32), device="CPU").realize()
    before = x.numpy().copy()
    with Context(BEAM=4):
        y.assign(y + x @ x).realize()
    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_allclose(y.numpy(), 1 + before @ before, rtol=1e-4, atol=1e-4)


# -- what is not searched -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("positions that are loaded", lambda x: x[Tensor([3, 1, 2], device="CPU")]),
        ("steps in order", lambda x: x.cumsum(1)),
        ("a comparison of sums", lambda x: x.sum(1) > 0.5),
        ("a rounded sum", lambda x: x.sum(1).floor()),
        ("sums beyond precision", lambda x: x.reshape(4096, 1).expand(4096, 4096).exp().sum()),
    ],
)  # fmt: skip
def test_kernels_whose_results_tell_nothing_are_not_searched(name, make):
    x = numbers(64, 64)
    assert not all(agreement.can_be_judged(k) for k in scheduled([(make(x).node, "CPU")]))


def test_devices_that_run_nothing_are_not_searched():
    with Context(BEAM=2):
        (Tensor.empty(64, 64, device="NULL") @ Tensor.empty(64, 64, device="NULL")).realize()
    assert not searched()


def test_a_kernel_of_much_memory_is_not_tried_and_takes_none(monkeypatch):
    monkeypatch.setattr(trial, "MAX_BYTES", 3 * 64 * 64 * 4 - 1)
    x, y = numbers(64, 64), numbers(64, 64)
    tried = trial_of(kernel_of(x @ y))
    assert tried.reference is None
    assert not tried._memory


def test_a_schedule_of_much_scratch_memory_is_not_tried(monkeypatch):
    x = numbers(512, 512)
    kernel = kernel_of(x @ x)
    tried = trial_of(kernel)
    monkeypatch.setattr(trial, "MAX_BYTES", 1)
    with usual_caches("CPU"), pytest.raises(OutOfMemory, match="scratch"):
        tried.candidate(*heuristic.optimize(kernel.ast, Device["CPU"].target))


# -- captured functions ---------------------------------------------------------------------------


def test_captured_functions_are_searched_as_they_are_replayed():
    weights = numbers(256, 256)
    kernels_of = []
    real = kernels.best_schedule
    step = TinyJit(lambda x: (x @ weights).relu().realize())
    with Context(BEAM=2), pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "best_schedule", lambda *a: kernels_of.append(a[0]) or real(*a))
        for _ in range(4):
            x = numbers(96, 256)
            expected = np.maximum(x.numpy() @ weights.numpy(), 0)
            np.testing.assert_allclose(step(x).numpy(), expected, rtol=1e-3, atol=1e-4)
    lasting = [k for k in kernels_of if any(n.arg.lasts for n in params(k))]
    assert lasting
    tried = trial_of(lasting[0])
    candidate = tried.candidate(*heuristic.optimize(lasting[0].ast, Device["CPU"].target))
    assert candidate.packing is not None
    _, found = tried.result(candidate)
    assert tried.matches_reference(found)


def params(kernel):
    return [n for n in kernel.ast.toposort() if n.op is Op.PARAM]


# -- the parts ------------------------------------------------------------------------------------


def test_results_agree_only_up_to_their_rounding():
    kernel = kernel_of(numbers(64, 64) @ numbers(64, 64))
    allowed = agreement.tolerance(kernel.ast.toposort())
    assert allowed == pytest.approx((32 + 4 * 8) * 2**-23)
    one = np.array([1, 100], np.float32)
    assert agreement.agree(one + np.float32(5e-4), one, allowed)
    assert not agreement.agree(one + np.float32(5e-3), one, allowed)
    assert not agreement.agree(np.array([np.nan, 100], np.float32), one, allowed)
    assert not agreement.agree(np.array([1, 2]), np.array([1, 3]), allowed)


def test_what_is_stored_behind_the_end_is_wrong():
    kernel = kernel_of(numbers(64, 64) + 1)
    tried = trial_of(kernel)
    candidate = tried.candidate(*heuristic.optimize(kernel.ast, Device["CPU"].target))
    _, found = tried.result(candidate)
    assert tried.matches_reference(found)
    beyond = {slot: data.copy() for slot, data in found.items()}
    for data in beyond.values():
        data[-1] ^= 1
    assert not tried.matches_reference(beyond)
    assert not tried.agrees(beyond, found)


def test_a_sample_holds_the_first_and_the_last_results():
    kernel = kernel_of(numbers(256, 256) @ numbers(256, 256))
    small = sampled(kernel.ast, 1 << 17)
    sizes = [loop_size(n) for n in small.toposort() if n.op is Op.RANGE]
    assert sorted(sizes) == [16, 16, 256]
    assert sampled(kernel.ast, 1 << 30) is kernel.ast
    assert sampled(kernel.ast, 1 << 10) is None


def test_neighbours_differ_in_one_parameter_and_every_parameter_has_some():
    named: set[str] = set()
    for target in (parse_target("x86-64-v3"), nvidia_target("sm_80")):
        found = list(neighbours(Parameters(), target))
        changed = [
            [name for name in vars(Parameters()) if getattr(k, name) != getattr(Parameters(), name)]
            for k in found
        ]
        assert all(len(names) == 1 for names in changed)
        assert len(set(found)) == len(found)
        named |= {names[0] for names in changed}
    assert named == set(vars(Parameters()))


@pytest.mark.parametrize("name", ["matmul", "softmax", "sums of columns", "attention", "sum"])
def test_every_neighbour_computes_the_same(name):
    """Not a search: each schedule near the heuristic's is compared with its kernel as it stands."""
    opened, y = Device["CPU"], PROGRAMS[name](numbers(61, 130))
    for kernel in scheduled([(y.node, y.device)]):
        one, seen = trial_of(kernel), set()
        for parameters in neighbours(Parameters(), opened.target):
            ast, moves = heuristic.optimize(kernel.ast, opened.target, parameters)
            if ast not in seen:
                seen.add(ast)
                _, found = one.result(one.candidate(ast, moves))
                assert one.matches_reference(found), (parameters, moves)
