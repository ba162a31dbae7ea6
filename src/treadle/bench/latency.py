"""Rows about the engine's own overheads: seconds against a stated limit, in fresh processes.

import treadle                     at most 0.2 s, the interpreter's start included
first result, empty cache          at most 0.5 s
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable

from ..engine.counters import GlobalCounters
from ..target import available_cores
from .peers import PEERS
from .process import Overhead, best, least, printed
from .rows import programs
from .timing import timed

__all__ = ["compile_seconds", "overheads"]

RUNS = 5

IMPORT = "import treadle"
SIMPLE = """
from treadle import Tensor
for n in range({count}):
    (Tensor([1.0, 2.0, 3.0]) * (n + 2) + n).exp().numpy() if n % 2 else (
        Tensor([[1.0] * (n + 2)]) - n).sum().numpy()
"""
EAGER = """
import statistics, time
from treadle import Tensor
x, y = Tensor([1.0] * 16).realize(), Tensor([2.0] * 16).realize()
times = []
for _ in range(300):
    start = time.perf_counter()
    (x + y).numpy()
    times.append(time.perf_counter() - start)
print(statistics.median(times[100:]))
"""
# `count` kernels over `size` elements, replayed.
REPLAY = """
import statistics, time
from treadle import Device, Tensor, TinyJit
def chain(x):
    for _ in range({count}):
        x = (x + 1).contiguous()
    return x.realize()
step, x = TinyJit(chain), Tensor([0.0] * {size}).realize()
wait = Device[Device.DEFAULT].synchronize
times = []
for _ in range(24):
    start = time.perf_counter()
    step(x)
    wait()
    times.append(time.perf_counter() - start)
print(statistics.median(times[4:]) / {count})
"""
# A replay of one tiny kernel, from the call to its return and the end of its result, after a kernel
# whose operand is larger than the caches: what the host touches then comes from memory.
COLD = """
import statistics, time
from treadle import Device, Tensor, TinyJit
step, x = TinyJit(lambda x: (x + 1).realize()), Tensor([0.0] * 16).realize()
stream = TinyJit(lambda x: x.reshape(16, -1).sum(1).realize())
large = Tensor.ones({size}).contiguous().realize()
wait = Device[Device.DEFAULT].synchronize
times = []
for _ in range(70):
    stream(large)
    wait()
    start = time.perf_counter()
    step(x)
    wait()
    times.append(time.perf_counter() - start)
print(statistics.median(times[10:]))
"""
# After a rest, by how much longer a kernel for all threads takes than one for the calling thread,
# less what it takes among many. Rested calls alternate, so that all else they lose cancels out.
WAKE = """
import statistics, time
from treadle import Device, Tensor, TinyJit
def chain(count):
    def run(x):
        for _ in range(count):
            x = (x + 1).contiguous()
        return x.realize()
    return TinyJit(run)
wait = Device[Device.DEFAULT].synchronize
small, large = (Tensor([0.0] * size).realize() for size in ({tiny}, {shared}))
def seconds(step, x, pause):
    time.sleep(pause)
    start = time.perf_counter()
    step(x)
    wait()
    return time.perf_counter() - start
alone, woken, many = chain(1), chain(1), chain(200)
more = [seconds(woken, large, 0.002) - seconds(alone, small, 0.002) for _ in range(420)]
each = [seconds(many, large, 0) / 200 for _ in range(24)]
print(statistics.median(more[20:]) - statistics.median(each[4:]))
"""
SCHEDULE = """
import time
from treadle import Tensor
def graph(layers):
    x, w = Tensor.empty(8, 8), Tensor.empty(8, 8)
    for _ in range(layers):
        x = (x @ w).relu().contiguous()
    return x
graph(3).schedule()
def seconds(layers):
    x = graph(layers)
    start = time.perf_counter()
    x.schedule()
    return time.perf_counter() - start
print(seconds({count} * 10) / seconds({count}))
"""
COMPILE = """
from treadle.bench.latency import compile_seconds
print(compile_seconds({name!r}, {quick}))
"""

TINY, SHARED = 16, 1 << 16  # elements of a kernel for the calling thread, and of one for all
BEYOND_CACHES = 1 << 26  # elements: 256 MiB


def overheads(quick: bool) -> list[Overhead]:
    """Every row; `quick` takes one run of each instead of the best of several."""
    runs, size = (1, 20) if quick else (RUNS, 1000)
    schedule = SCHEDULE.format(count=size // 10)
    return [
        Overhead("import treadle, whole process", "s", 0.2, lambda: best(IMPORT, runs)),
        Overhead("first result, empty cache", "s", 0.5, lambda: best(_simple(1), runs)),
        Overhead("each further simple kernel", "s", 0.03, lambda: _further(runs)),
        Overhead("eager small op seen before", "s", 60e-6, lambda: least(EAGER, runs)),
        *_replays(size, runs),
        Overhead("scheduling 10x the nodes", "x", 12.0, lambda: least(schedule, runs)),
        *_compilations(quick),
    ]


def _replays(count: int, runs: int) -> list[Overhead]:
    tiny = REPLAY.format(count=count, size=TINY)
    cold = COLD.format(size=BEYOND_CACHES)
    wake = WAKE.format(tiny=TINY, shared=SHARED)
    return [
        Overhead(f"replay, a tiny kernel of {count}", "s", 2e-6, lambda: least(tiny, runs)),
        Overhead("replay after the caches were emptied", "s", 50e-6, lambda: least(cold, runs)),
        Overhead(f"sharing a kernel of {count}, workers spinning", "s", 2e-6,
                 lambda: _sharing(count, runs)),
        Overhead("sharing a kernel, workers asleep", "s", 10e-6, lambda: _waking(wake, runs)),
    ]  # fmt: skip


def _sharing(count: int, runs: int) -> float:
    """What a kernel takes beyond its time on one core divided by the cores."""
    code = REPLAY.format(count=count, size=SHARED)
    return least(code, runs) - least(code, runs, CPU_COUNT="1") / available_cores()


def _waking(code: str, runs: int) -> float:
    """Less what one core loses as well, where nobody is to be woken: its cache has cooled."""
    return least(code, runs) - least(code, runs, CPU_COUNT="1")


def _compilations(quick: bool) -> list[Overhead]:
    resnet, decoder = programs.RESNET_INFERENCE, programs.DECODER_TRAINING
    return [
        Overhead("compile ResNet-18 forward, empty cache", "s", 5.0, _compile(resnet, quick, 1)),
        Overhead("compile ResNet-18 forward, warm cache", "s", 0.5, _compile(resnet, quick, 2)),
        Overhead("compile GPT-2 training, empty cache", "s", 15.0, _compile(decoder, quick, 1)),
        Overhead("compile GPT-2 training, warm cache", "s", 1.5, _compile(decoder, quick, 2)),
    ]


def _compile(name: str, quick: bool, processes: int) -> Callable[[], float]:
    """The last of that many processes one after the other, which share a cache."""

    def measure() -> float:
        code = COMPILE.format(name=name, quick=quick)
        with tempfile.TemporaryDirectory() as folder:
            return [printed(code, TREADLE_CACHE_DIR=folder) for _ in range(processes)][-1]

    return measure


def compile_seconds(name: str, quick: bool) -> float:
    """What the first call takes of the program whose name begins so, but for running kernels.

    These take longer at first, too: the system finds memory for their results.
    """
    work = next(work for work in programs.rows(quick) if work.name.startswith(name))
    run = PEERS["treadle"].library().prepare(work)
    GlobalCounters.reset()
    return timed(run) - GlobalCounters.time_sum_s


def _simple(count: int) -> str:
    return SIMPLE.format(count=count)


def _further(runs: int) -> float:
    extra = 10
    return (best(_simple(1 + extra), runs) - best(_simple(1), runs)) / extra
