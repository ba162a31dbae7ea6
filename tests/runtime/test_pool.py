"""The worker pool does every slice once, in phases, on any number of threads and after forks."""

import ctypes
import dataclasses
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from treadle.compile import LLVMCompiler
from treadle.runtime.cpu import CpuDevice, Entry, Launch, Phase
from treadle.runtime.pool import WorkerPool
from treadle.runtime.pool_ir import pool_ir
from treadle.target import host_target, parse_target


@pytest.mark.parametrize("grain", [1, 3, 64, 999, 1000, 5000])
def test_every_index_of_a_grid_is_run_once(cpu, kernels, numbers, grain):
    buffer, counts = numbers(1000)
    launch = Launch([Phase(kernels.address("mark"), 1000, grain)], [buffer.pointer])
    calls = cpu.call_list([launch] * 20)
    calls.run()
    assert set(counts) == {20}


@pytest.mark.parametrize("spin_ns", [0, 1_000_000])
def test_sleeping_and_spinning_workers_leave_nothing_undone(cpu, kernels, numbers, spin_ns):
    pool = WorkerPool(cpu.target, cpu._load_ir, workers=3, spin_ns=spin_ns)
    buffer, counts = numbers(64)
    launch = Launch([Phase(kernels.address("mark"), 64, 4)], [buffer.pointer])
    calls = type(cpu.call_list([]))(pool, [launch] * 300)
    calls.run()
    assert pool.threads_started == 3
    assert set(counts) == {300}


def test_a_phase_sees_all_of_the_phase_before_it(cpu, kernels, numbers):
    (a, counts), (b, mirrored) = numbers(256), numbers(256)
    phases = [
        Phase(kernels.address("mark"), 256, 4),
        Phase(kernels.address("mirror"), 256, 4),
    ]
    calls = cpu.call_list([Launch(phases, [a.pointer, b.pointer], [256, 7])])
    for round_ in range(1, 200):
        calls.run()
        assert set(counts) == {round_}
        assert set(mirrored) == {7 * round_}


def test_the_caller_and_the_workers_go_through_their_shares_of_a_grid_upwards(cpu):
    claimed: dict[bool, list[int]] = {True: [], False: []}
    caller = threading.get_ident()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def claim(args, variables, begin, end):
        claimed[threading.get_ident() == caller].append(begin)
        time.sleep(0.001)

    address = ctypes.cast(claim, ctypes.c_void_p).value
    cpu.run([Launch([Phase(address, 60, 1)], [])])
    assert sorted(claimed[True] + claimed[False]) == list(range(60))
    own, mine = 15, claimed[True]
    assert mine[:own] == list(range(min(own, len(mine))))
    behind = [begin for begin in claimed[False] if begin >= own]
    assert behind
    assert sorted(behind) == list(range(own, own + len(behind)))


def test_the_caller_does_what_is_left_of_the_workers_share_from_its_end(cpu):
    claimed: list[int] = []
    caller, stuck = threading.get_ident(), threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def claim(args, variables, begin, end):
        if threading.get_ident() != caller:
            stuck.wait(60)
            return
        claimed.append(begin)
        if len(claimed) == 60 - 3:  # all that three workers do not hold
            stuck.set()

    address = ctypes.cast(claim, ctypes.c_void_p).value
    cpu.run([Launch([Phase(address, 60, 1)], [])])
    assert claimed[:15] == list(range(15))
    assert claimed[15:] == sorted(claimed[15:], reverse=True)
    assert claimed[15] == 59


def test_a_grid_no_larger_than_its_grain_makes_no_thread(cpu, kernels, numbers):
    buffer, counts = numbers(10)
    cpu.run([Launch([Phase(kernels.address("mark"), 10, 10)], [buffer.pointer])])
    assert list(counts) == [1] * 10
    assert cpu._pool.threads_started == 0


def test_an_empty_grid_runs_nothing(cpu, kernels, numbers):
    buffer, counts = numbers(4)
    cpu.run(
        [Launch([Phase(kernels.address("mark"), grid, 1)], [buffer.pointer]) for grid in (0, -5)]
    )
    assert list(counts) == [0] * 4


def test_one_thread_means_no_workers(compiler, kernel_object):
    cpu = CpuDevice("CPU", host_target(), compiler.compile, threads=1)
    library = cpu.load(kernel_object, [Entry("mark", 1)])
    buffer = cpu.allocator.alloc(800)
    buffer.view()[:] = bytes(800)
    cpu.run([Launch([Phase(library.address("mark"), 100, 1)], [buffer.pointer])])
    assert set(buffer.view().cast("q")) == {1}
    assert cpu._pool.threads_started == 0


def test_threads_that_run_at_once_do_not_mix(cpu, kernels, numbers):
    arrays = [numbers(512) for _ in range(6)]
    mark = kernels.address("mark")
    lists = [
        cpu.call_list([Launch([Phase(mark, 512, 8)], [buffer.pointer])] * 50)
        for buffer, _ in arrays
    ]

    def work(calls):
        for _ in range(20):
            calls.run()

    threads = [threading.Thread(target=work, args=(calls,)) for calls in lists]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(counts) == {1000} for _, counts in arrays)


def test_a_stopped_pool_starts_again_when_needed(cpu, kernels, numbers):
    buffer, counts = numbers(64)
    calls = cpu.call_list([Launch([Phase(kernels.address("mark"), 64, 1)], [buffer.pointer])])
    for _ in range(5):
        calls.run()
        assert cpu._pool.threads_started == 3
        assert cpu._pool.stop()
        assert cpu._pool.threads_started == 0
    assert set(counts) == {5}


def test_times_are_ordered_and_lie_within_the_run(cpu, kernels, numbers):
    buffer, _ = numbers(64)
    calls = cpu.call_list([Launch([Phase(kernels.address("mark"), 64, 8)], [buffer.pointer])] * 5)
    times = calls.run_timed()
    assert len(times) == 5
    flat = [instant for pair in times for instant in pair]
    assert flat == sorted(flat)
    assert calls.run_timed()[0][0] >= flat[-1]


LINUX, MACOS, WINDOWS = "unknown-linux-gnu", "apple-macosx11.0.0", "pc-windows-msvc"


@pytest.mark.parametrize(
    ("arch", "system"),
    [
        *((arch, LINUX) for arch in ("x86-64", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64")),
        *((arch, MACOS) for arch in ("x86-64-v2", "aarch64")),
        *((arch, WINDOWS) for arch in ("x86-64-v2", "aarch64")),
    ],
)
def test_the_pool_compiles_for_every_target(arch, system):
    target = parse_target(arch)
    foreign = dataclasses.replace(target, triple=f"{target.triple.split('-')[0]}-{system}")
    assembly = LLVMCompiler(foreign).assembly(pool_ir(foreign))
    assert "treadle_replay" in assembly
    assert ("CreateThread" in assembly) == (system == WINDOWS)


PROGRAM = """
import os, sys, threading, time
sys.path.insert(0, {folder!r})
from conftest import KERNELS
from treadle.compile import LLVMCompiler
from treadle.runtime.cpu import CpuDevice, Entry, Launch, Phase
from treadle.target import host_target

compiler = LLVMCompiler(host_target())
cpu = CpuDevice("CPU", host_target(), compiler.compile, threads=4)
library = cpu.load(compiler.compile(KERNELS), [Entry("mark", 1)])
buffer = cpu.allocator.alloc(8 * 4096)
counts = buffer.view().cast("q")
buffer.view()[:] = bytes(8 * 4096)
calls = cpu.call_list([Launch([Phase(library.address("mark"), 4096, 16)], [buffer.pointer])])

def fork_and_check(expected):
    pid = os.fork()
    if pid == 0:
        calls.run()
        more = cpu.allocator.alloc(1 << 16)
        ok = set(counts) == expected and cpu._pool.threads_started == 3 and more.nbytes == 1 << 16
        if ok:
            # a child of the child, and new code in it
            inner = os.fork()
            if inner == 0:
                fresh = cpu.load(compiler.compile(KERNELS), [Entry("mark", 1)])
                cpu.run([Launch([Phase(fresh.address("mark"), 4096, 16)], [buffer.pointer])])
                os._exit(0 if set(counts) == {{n + 1 for n in expected}} else 1)
            ok = os.waitpid(inner, 0)[1] == 0
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
"""


def run_program(body):
    text = PROGRAM.format(folder=os.path.dirname(__file__)) + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, timeout=60
    )


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@needs_fork
def test_a_forked_child_has_a_working_pool():
    done = run_program("""
        fork_and_check({1})          # before any thread was started
        calls.run()
        for _ in range(5):
            fork_and_check({2})      # with workers asleep or spinning in the parent
        calls.run()
        assert set(counts) == {2}
    """)
    assert done.returncode == 0, done.stderr


@needs_fork
def test_a_child_forked_in_the_middle_of_a_run_has_a_working_pool():
    done = run_program("""
        other = cpu.allocator.alloc(8 * 4096)
        launch = Launch([Phase(library.address("mark"), 4096, 16)], [other.pointer])
        endless = cpu.call_list([launch] * 1000)
        stop = threading.Event()
        def work():
            while not stop.is_set():
                endless.run()
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(10):
            fork_and_check({1})
        stop.set()
        thread.join()
    """)
    assert done.returncode == 0, done.stderr


def test_a_process_ends_cleanly_with_workers_asleep():
    done = run_program("calls.run()")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_process_ends_cleanly_while_a_daemon_thread_runs_kernels():
    done = run_program("""
        endless = cpu.call_list([Launch([Phase(library.address("mark"), 4096, 16)],
                                        [buffer.pointer])] * 100_000)
        def work():
            while True:
                endless.run()
        threading.Thread(target=work, daemon=True).start()
        while cpu._pool.threads_started == 0:
            pass
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_collected_devices_leave_no_threads():
    done = run_program("""
        import gc
        def threads():
            return len(os.listdir("/proc/self/task"))
        if not os.path.exists("/proc/self/task"):
            sys.exit(0)
        before = threads()
        for _ in range(5):
            own = CpuDevice("CPU", host_target(), compiler.compile, threads=4)
            own.run([Launch([Phase(library.address("mark"), 4096, 16)], [buffer.pointer])])
            assert threads() == before + 3
            del own
            gc.collect()
            assert threads() == before
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("work", "slices"),
    [(1 << 10, 1), (1 << 16, 4), (1 << 20, 4), (1 << 21, 8), (1 << 23, 32), (1 << 40, 32)],
)
def test_more_work_is_cut_into_more_slices_and_each_thread_gets_as_many(
    cpu, kernel_object, work, slices
):
    for grid in (32, 96, 4096):
        (phase,) = cpu.load(kernel_object, [Entry("mark", grid, work=work)]).phases
        assert -(-grid // phase.grain) == slices


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_process_that_may_use_one_core_starts_no_thread():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from treadle import Device, Tensor\n"
        "x = Tensor.ones(512, 512).contiguous().realize()\n"
        "assert (x @ x).sum().item() == 512**3\n"
        "runtime = Device['CPU'].runtime\n"
        "print(runtime.threads, runtime._pool.threads_started)"
    )
    kept = {k: v for k, v in os.environ.items() if k not in ("CPU_COUNT", "THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, "DEV": "CPU", "EMULATE": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "1 0\n", done.stderr
