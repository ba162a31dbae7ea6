"""Kernels to loaded code: remembered in this process and on disk, by the text of their ASTs.

    compiled(steps, opened)  ->  a CompiledKernel for each Kernel

What is missing is translated, by processes beside this one too where it is much.
"""

from __future__ import annotations

import contextlib
import json
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager

from ..config import settings
from ..dtype import dtypes
from ..errors import DTypeError, StaleCodeError, TreadleError
from ..ir.choices import choices_of
from ..ir.loops import closed_ranges, has_fixed_size, loop_size
from ..ir.node import Node
from ..ir.op import Op
from ..ir.remembered import remembered
from ..ir.text import render
from ..optimize.heuristic import optimize
from ..schedule.kernel import Kernel
from ..target import host_target
from .cache import compile_cache
from .child import available
from .counters import GlobalCounters
from .devices import Opened
from .error_context import blamed
from .loading import digest, load
from .program import CompiledKernel, Description
from .report import report_search
from .search import best_schedule
from .translation import Job, Translator
from .work import work_of
from .workers import LEAST_JOBS, Workers, how_many

__all__ = ["compiled", "known_kernel", "workers_for"]

# A training step has about so many nodes for each kernel that is not like another one.
NODES_OF_KERNEL = 100

# By device too: code belongs to the one that loaded it. It lives as long as a program has it.
_kernels: weakref.WeakValueDictionary[tuple[str, str], CompiledKernel] = (
    weakref.WeakValueDictionary()
)


def workers_for(nodes: int, opened: Opened) -> AbstractContextManager[Workers | None]:
    """A block that makes a program of so many nodes: processes start at once that will compile.

    None where it is hardly worth that, which `compiled` knows when it has counted.
    """
    count = _processes(nodes // NODES_OF_KERNEL, opened)
    return Workers(Translator.of(opened), count) if count else contextlib.nullcontext()


def compiled(
    steps: Sequence[Kernel], opened: Opened, workers: Workers | None = None
) -> list[CompiledKernel]:
    """Loaded code for each of `steps`. Errors name the user's lines that the kernel comes from."""
    texts = [render(step.ast) for step in steps]
    keys = [_key(text, opened) for text in texts]
    found: dict[str, CompiledKernel] = {}
    missing: dict[str, tuple[Kernel, Job]] = {}
    for key, step, text in zip(keys, steps, texts, strict=True):
        if key in found or key in missing:
            continue
        with _blaming(step):
            known = known_kernel(key, step.reason, opened)
        if known is None:
            missing[key] = step, _job(key, step, text)
        else:
            found[key] = known

    def compile_here(key: str) -> None:
        step, job = missing[key]
        if settings.BEAM:
            report_search(list(missing).index(key) + 1, len(missing))
        with _blaming(step):
            found[key] = _compile(key, step, job, opened)

    processes = _processes(len(missing), opened)
    if processes:
        jobs = {key: job for key, (_, job) in missing.items()}
        with contextlib.ExitStack() as block:
            if workers is None:
                workers = block.enter_context(Workers(Translator.of(opened), processes))
            shared = workers.share(jobs, compile_here)
        for key, made in shared.items():
            with _blaming(missing[key][0]):
                found[key] = _keep(key, *made, missing[key][0].reason, opened)
    for key in missing:
        if key not in found:
            compile_here(key)
    return [found[key] for key in keys]


@contextlib.contextmanager
def _blaming(step: Kernel) -> Iterator[None]:
    """A block in which errors get the user's lines that `step` comes from."""
    try:
        yield
    except TreadleError as error:
        raise blamed(error, step.roots, step.buffers) from error.__cause__


def _processes(jobs: int, opened: Opened) -> int:
    """How many processes may compile so many kernels beside this one."""
    if jobs < LEAST_JOBS or not opened.compiler.travels or settings.BEAM or settings.DEBUG >= 4:
        return 0
    wished = settings.COMPILE_PROCESSES
    if wished < 0:
        wished = (settings.CPU_COUNT or host_target().cores) - 1
    return how_many(jobs, wished) if available() else 0


def _key(text: str, opened: Opened) -> str:
    made_for = (settings.REPRODUCIBLE, settings.ALLOW_TF32, settings.BEAM)
    return digest(opened, *map(str, made_for), text)


def _job(key: str, kernel: Kernel, text: str) -> Job:
    name = f"{_describe(kernel.ast)}_{key[:6]}"
    return Job(name, text, len(kernel.buffers), work_of(kernel.ast, kernel.buffers))


def known_kernel(key: str, reason: str, opened: Opened) -> CompiledKernel | None:
    """A kernel that this process has loaded already, or that is on disk."""
    found = _kernels.get((opened.name, key)) or _from_disk(key, reason, opened)
    if found is not None:
        _kernels[opened.name, key] = found
    return found


def _compile(key: str, kernel: Kernel, job: Job, opened: Opened) -> CompiledKernel:
    start = time.perf_counter()
    _check_dtypes(kernel, opened)
    lasts, searched = True, 0
    with remembered():
        with choices_of() as choices:
            if settings.BEAM:
                ast, schedule, searched, lasts = best_schedule(kernel, job, opened, settings.BEAM)
            else:
                ast, schedule = optimize(kernel.ast, opened.code_target)
        made = Translator.of(opened).finished(job, ast, schedule, choices, searched)
    GlobalCounters.compile_time_s += time.perf_counter() - start
    return _keep(key, *made, kernel.reason, opened, lasts)


def _keep(
    key: str,
    description: Description,
    code: bytes,
    reason: str,
    opened: Opened,
    lasts: bool = True,
) -> CompiledKernel:
    """Load what was just compiled and, if it `lasts`, put it on disk."""
    GlobalCounters.compile_count += 1
    line = json.dumps(description).encode()
    if lasts:
        compile_cache().put("kernel:" + key, line + b"\n" + code)
    kernel = _kernels[opened.name, key] = load(key, json.loads(line), code, reason, opened)
    return kernel


def _check_dtypes(kernel: Kernel, opened: Opened) -> None:
    """Raises DTypeError if the device has no float64 and the kernel needs it."""
    if opened.target.supports(dtypes.float64):
        return
    if any(node.dtype.scalar is dtypes.float64 for node in kernel.ast.toposort()):
        raise DTypeError(
            f"[realize] {opened.name} has no float64: cast to float32, or compute on a device that "
            "has it, such as the CPU"
        )


def _from_disk(key: str, reason: str, opened: Opened) -> CompiledKernel | None:
    entry = compile_cache().get("kernel:" + key)
    if entry is None:
        return None
    line, _, code = entry.partition(b"\n")
    try:
        found = load(key, json.loads(line), code, reason, opened)
    except StaleCodeError:  # a driver refuses what it built before: build it anew
        return None
    GlobalCounters.cache_hits += 1
    return found


def _describe(ast: Node) -> str:
    """A readable name: what the kernel reduces, and the sizes of its loops."""
    kinds = {n.arg.op.name.lower() for n in ast.toposort() if n.op is Op.REDUCE}
    *_, nest = ast.src
    loops = closed_ranges(nest)
    sizes = "_".join(str(loop_size(r)) for r in loops if has_fixed_size(r))
    return "_".join(["reduce" if kinds else "map", *sorted(kinds), sizes or "1"])
