"""A pool whose workers are an OpenMP runtime's threads: a stand-in for one, and GNU's own."""

import ctypes
import ctypes.util
import os
import subprocess
import sys
import textwrap
import threading

import pytest

from treadle.runtime.cpu import Launch, Phase

MEMBER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
REGION = ctypes.CFUNCTYPE(None, MEMBER, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
RANK = ctypes.CFUNCTYPE(ctypes.c_int)


class StandIn:
    """GOMP_parallel and omp_get_thread_num, with Python's threads for members."""

    def __init__(self, most=16):
        self.most = most  # members that a region has, however many were asked for
        self.regions = []  # for each one how many members were asked for
        self.entered = 0  # members besides the caller that were in a region
        self.local = threading.local()
        self.region, self.rank = REGION(self.parallel), RANK(self.thread_number)

    def parallel(self, member, data, asked, flags):
        self.regions.append(asked)
        others = [
            threading.Thread(target=self.enter, args=(member, data, number))
            for number in range(1, min(asked, self.most))
        ]
        for thread in others:
            thread.start()
        self.local.number = 0
        member(data)
        for thread in others:
            thread.join()

    def enter(self, member, data, number):
        self.entered += 1
        self.local.number = number
        member(data)

    def thread_number(self):
        return getattr(self.local, "number", 0)

    def lend_to(self, cpu):
        return cpu.borrow_threads(address(self.region), address(self.rank))


def address(function):
    return ctypes.cast(function, ctypes.c_void_p).value


@pytest.fixture
def team(cpu):
    made = StandIn()
    assert made.lend_to(cpu)
    yield made
    made.cpu = cpu  # whose memory holds the addresses of these functions


def marks(cpu, kernels, buffer, grain=8, size=512, count=1):
    launch = Launch([Phase(kernels.address("mark"), size, grain)], [buffer.pointer])
    return cpu.call_list([launch] * count)


@pytest.mark.parametrize("most", [1, 2, 4, 16])
def test_every_index_is_run_once_by_however_many_members_there_are(cpu, kernels, numbers, most):
    team = StandIn(most)
    assert team.lend_to(cpu)
    buffer, counts = numbers(512)
    calls = marks(cpu, kernels, buffer, count=50)
    for _ in range(4):
        calls.run()
    assert set(counts) == {200}
    assert team.regions == [4] * 4  # one for each run
    assert team.entered == 4 * (min(most, 4) - 1)
    assert cpu._pool.threads_started == 0


def test_a_phase_sees_all_of_the_phase_before_it(cpu, kernels, numbers, team):
    (a, counts), (b, mirrored) = numbers(256), numbers(256)
    phases = [Phase(kernels.address(name), 256, 4) for name in ("mark", "mirror")]
    calls = cpu.call_list([Launch(phases, [a.pointer, b.pointer], [256, 7])] * 20)
    for round_ in range(1, 10):
        calls.run()
        assert set(counts) == {20 * round_}
        assert set(mirrored) == {7 * 20 * round_}


def test_members_that_fell_asleep_leave_with_the_run(cpu, kernels, numbers, team):
    """Between two phases that are shared, one takes longer than members look for work."""
    buffer, counts = numbers(64)
    pause = threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def wait(args, variables, begin, end):
        pause.wait(0.05)

    shared = Phase(kernels.address("mark"), 64, 1)
    alone = Phase(address(wait), 1, 1)
    for _ in range(3):
        cpu.run([Launch([shared, alone, shared, alone], [buffer.pointer])])
    assert set(counts) == {6}


def test_what_is_not_shared_enters_no_region(cpu, kernels, numbers, team):
    buffer, counts = numbers(16)
    marks(cpu, kernels, buffer, grain=16, size=16, count=3).run()
    marks(cpu, kernels, buffer, grain=1, size=0).run()
    cpu.run([])
    assert set(counts) == {3}
    assert team.regions == []


def test_threads_of_the_pools_own_end_when_it_borrows_others(cpu, kernels, numbers):
    buffer, counts = numbers(512)
    calls = marks(cpu, kernels, buffer)
    calls.run()
    assert cpu._pool.threads_started == 3
    assert not cpu._pool.is_borrowing
    team = StandIn()
    assert team.lend_to(cpu)
    assert cpu._pool.is_borrowing
    assert cpu._pool.threads_started == 0
    calls.run()
    assert cpu._pool.threads_started == 0
    assert set(counts) == {2}


def test_nothing_is_borrowed_in_the_middle_of_a_run(cpu, kernels, numbers):
    team, answers = StandIn(), []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def ask(args, variables, begin, end):
        answers.append(team.lend_to(cpu))

    cpu.run([Launch([Phase(address(ask), 1, 1)], [])])
    assert answers == [False]
    assert not cpu._pool.is_borrowing
    assert team.lend_to(cpu)


def test_threads_that_run_at_once_do_not_mix(cpu, kernels, numbers, team):
    arrays = [numbers(512) for _ in range(4)]
    lists = [marks(cpu, kernels, buffer, count=20) for buffer, _ in arrays]

    def work(calls):
        for _ in range(10):
            calls.run()

    threads = [threading.Thread(target=work, args=(calls,)) for calls in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(counts) == {200} for _, counts in arrays)


def test_launches_are_timed_as_ever(cpu, kernels, numbers, team):
    buffer, _ = numbers(512)
    times = marks(cpu, kernels, buffer, count=5).run_timed()
    flat = [instant for pair in times for instant in pair]
    assert len(times) == 5
    assert flat == sorted(flat)


GNU = """
import ctypes, os, sys
sys.path.insert(0, {folder!r})
from conftest import KERNELS
from treadle.compile import LLVMCompiler
from treadle.runtime.cpu import CpuDevice, Entry, Launch, Phase
from treadle.target import host_target

library = ctypes.CDLL({name!r})
compiler = LLVMCompiler(host_target())
cpu = CpuDevice("CPU", host_target(), compiler.compile, threads=4)
addresses = [
    ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    for name in ("GOMP_parallel", "omp_get_thread_num")
]
assert cpu.borrow_threads(*addresses)
code = cpu.load(compiler.compile(KERNELS), [Entry("mark", 1)])
buffer = cpu.allocator.alloc(8 * 4096)
counts = buffer.view().cast("q")
buffer.view()[:] = bytes(8 * 4096)
launch = Launch([Phase(code.address("mark"), 4096, 16)], [buffer.pointer])
calls = cpu.call_list([launch] * 100)
for _ in range(20):
    calls.run()
assert set(counts) == {{2000}}
assert cpu._pool.threads_started == 0
"""


def run_beside_gnu(body):
    name = ctypes.util.find_library("gomp")
    if name is None:
        pytest.skip("no GNU OpenMP runtime (libgomp1)")
    text = GNU.format(folder=os.path.dirname(__file__), name=name) + textwrap.dedent(body)
    command = [sys.executable, "-W", "ignore", "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_gnus_threads_do_the_work():
    done = run_beside_gnu("")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_has_threads_of_its_own_again():
    """GNU's runtime has none in a child, and would wait for them for ever."""
    done = run_beside_gnu("""
        child = os.fork()
        if child == 0:
            calls.run()
            is_right = set(counts) == {2100} and cpu._pool.threads_started == 3
            os._exit(0 if is_right and not cpu._pool.is_borrowing else 1)
        assert os.waitpid(child, 0)[1] == 0
        calls.run()
        assert set(counts) == {2100}
    """)
    assert done.returncode == 0, done.stderr
