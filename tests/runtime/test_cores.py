"""Programs that may use one core use one, and threads without cores of their own do not fight."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="affinity and cgroups are Linux's")

# Replays of a product and of small kernels that are shared: the least that the processor worked in
# a round, and the median of what a round took. Then nothing, while workers may sleep.
PROGRAM = """
import os, time
from treadle import Device, Tensor, TinyJit

def chain(x, y):
    for _ in range(20):
        x = (x * 1.01 + 1).contiguous()
    return x.realize(), (y @ y).realize()

step = TinyJit(chain)
x, y = Tensor.ones(1 << 17).contiguous().realize(), Tensor.ones(256, 256).contiguous().realize()
for _ in range(4):
    step(x, y)

def measured():
    wall, used = time.perf_counter(), time.process_time()
    for _ in range(20):
        step(x, y)
    return time.process_time() - used, time.perf_counter() - wall

rounds = [measured() for _ in range(9)]
used, wall = min(rounds)[0], sorted(wall for _, wall in rounds)[len(rounds) // 2]
idle = time.process_time()
time.sleep(0.1)
idle = time.process_time() - idle
runtime, tasks = Device["CPU"].runtime, len(os.listdir("/proc/self/task"))
print(runtime.threads, runtime._pool.threads_started, tasks, used, wall, idle)
"""


KERNELS = 20 * 21  # of a round


class Measured(NamedTuple):
    """Threads of the device, its workers, all threads, and seconds: see PROGRAM."""

    threads: int
    workers: int
    tasks: int
    used: float
    wall: float
    idle: float


def measured(enter: Callable[[], object], **settings: str) -> Measured:
    """What PROGRAM prints in a process that calls `enter` before anything else."""
    kept = {k: v for k, v in os.environ.items() if k not in ("CPU_COUNT", "THREADS")}
    alone = {"DEV": "CPU", "EMULATE": "0", "OPENBLAS_NUM_THREADS": "1", "COMPILE_PROCESSES": "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**kept, **alone, **settings}, preexec_fn=enter, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    threads, workers, tasks, *seconds = done.stdout.split()
    return Measured(int(threads), int(workers), int(tasks), *map(float, seconds))


def on_one_core() -> None:
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])


def limited(folder: Path, cores: float) -> bool:
    """Whether `folder` is a control group that now gives its processes so many cores."""
    quota = int(cores * 100_000)
    for name, text in (("cpu.max", f"{quota} 100000"), ("cpu.cfs_quota_us", str(quota))):
        if (folder / name).exists():
            (folder / name).write_text(text)
            return True
    return False


@pytest.fixture
def control_group(request) -> Iterator[Path]:
    """A control group of this machine that gives its processes so many cores."""
    for mount in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu")):
        folder = mount / f"treadle-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            if limited(folder, request.param):
                yield folder
                return
        finally:
            folder.rmdir()
    pytest.skip("no control group with a quota can be made here; test_target reads fake ones")


def test_affinity_for_one_core_leaves_one_thread_and_costs_what_one_thread_costs():
    runs = [(measured(on_one_core), measured(on_one_core, CPU_COUNT="1")) for _ in range(3)]
    for pinned, alone in runs:
        assert (pinned.threads, pinned.workers) == (1, 0)
        assert pinned.tasks == alone.tasks
        assert pinned.used <= 1.01 * pinned.wall + 1e-3
    assert min(p.used for p, _ in runs) <= 1.1 * min(a.used for _, a in runs)


@pytest.mark.parametrize("control_group", [1.0, 1.5], indirect=True)
def test_a_quota_below_two_cores_leaves_one_thread(control_group):
    def enter() -> None:
        (control_group / "cgroup.procs").write_text(str(os.getpid()))

    found = measured(enter)
    assert (found.threads, found.workers) == (1, 0)
    assert found.used <= 1.01 * found.wall + 1e-3


def test_more_threads_than_cores_wait_asleep():
    # Each worker looks for work for 0.2 ms before it sleeps; and on one core, who spins for longer
    # keeps it from those that it waits for until the system takes it away, milliseconds later.
    many, alone = measured(on_one_core, CPU_COUNT="16"), measured(on_one_core, CPU_COUNT="1")
    assert (many.threads, many.workers) == (16, 15)
    assert many.idle < 0.02
    assert many.wall - alone.wall < KERNELS * 0.2e-3
