"""Kernels to loaded code: remembered in this process and on disk, by the text of their ASTs.

    finish = compiling(steps, opened, workers)      what is missing is given to the workers
    finish()  ->  a CompiledKernel for each Kernel

Where much is missing, processes beside this one translate it, too.
"""

from __future__ import annotations

import contextlib
import json
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..child import available
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
from .counters import GlobalCounters
from .devices import Opened
from .error_context import blamed, passes_for
from .flat_kernels import Flat, flat_form, resized
from .loading import digest, load
from .program import CompiledKernel, Description
from .report import report_search
from .search import best_schedule
from .translation import Job, Translator
from .work import work_of
from .workers import LEAST_JOBS, Batch, Workers, how_many

__all__ = ["compiling", "known_kernel", "workers_for"]

# A training step has about so many nodes for each kernel that is not like another one.
NODES_OF_KERNEL = 100

# By device too: code belongs to the one that loaded it. It lives as long as a program has it.
_kernels: weakref.WeakValueDictionary[tuple[str, str], CompiledKernel] = (
    weakref.WeakValueDictionary()
)


# The workers of programs that are being made, by a thread that holds the lock of pipeline.py.
_started: list[Workers] = []


@contextlib.contextmanager
def workers_for(nodes: int, opened: Opened) -> Iterator[Workers | None]:
    """A block that makes a program of so many nodes: processes start at once that will compile.

    None where it is hardly worth that. Those of a program that is being made serve this one, too.
    """
    count = _processes(nodes // NODES_OF_KERNEL, opened)
    translator = Translator.of(opened)
    for workers in _started:
        if workers.translator == translator:
            workers.at_least(count)
            yield workers
            return
    if not count:
        yield None
        return
    with Workers(translator, count) as workers:
        _started.append(workers)
        try:
            yield workers
        finally:
            _started.remove(workers)


def compiling(
    steps: Sequence[Kernel], opened: Opened, workers: Workers | None = None
) -> Callable[[], list[CompiledKernel]]:
    """Begin to compile `steps`. What it returns gives loaded code for each, once it is there.

    Errors name the user's lines that the kernel comes from.
    """
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
    finish = _compiling(missing, opened, workers)

    def finished() -> list[CompiledKernel]:
        made = found | finish()
        return [made[key] for key in keys]

    return finished


def _compiling(
    missing: Mapping[str, tuple[Kernel, Job]], opened: Opened, workers: Workers | None
) -> Callable[[], dict[str, CompiledKernel]]:
    """Begin to compile kernels that there is no code of yet."""
    alike = {} if settings.BEAM or settings.DEBUG >= 4 else _alike(missing, opened)
    jobs = {key: job for key, (_, job) in missing.items() if key not in alike}
    processes = _processes(len(jobs), opened)
    batch = workers.give(jobs) if workers is not None and jobs else None

    def finish() -> dict[str, CompiledKernel]:
        if batch is not None or not processes:
            return _compiled(missing, alike, jobs, opened, batch)
        with Workers(Translator.of(opened), processes) as started:
            return _compiled(missing, alike, jobs, opened, started.give(jobs))

    return finish


def _compiled(
    missing: Mapping[str, tuple[Kernel, Job]],
    alike: Mapping[str, _Alike],
    jobs: Mapping[str, Job],
    opened: Opened,
    batch: Batch | None,
) -> dict[str, CompiledKernel]:
    """Loaded code of kernels. What is done is kept if another fails."""
    made: dict[str, Made] = {}
    found: dict[str, CompiledKernel] = {}

    def keep(key: str, new: Made) -> None:
        made[key] = new
        with _blaming(missing[key][0]):
            found[key] = _keep(key, new, missing[key][0].reason, opened)

    def compile_here(key: str) -> None:
        step, job = missing[key]
        if settings.BEAM:
            report_search(list(jobs).index(key) + 1, len(jobs))
        with _blaming(step):
            new = _compile(step, job, opened)
        GlobalCounters.compile_count += 1
        keep(key, new)

    shared = {} if batch is None else batch.finish(compile_here)
    GlobalCounters.compile_count += len(shared)
    for key, result in shared.items():
        keep(key, Made(*result))
    for key in jobs:
        if key not in made:
            compile_here(key)
    for key, one in alike.items():
        other = _as_other(made[one.key], jobs[one.key], one, missing[key][1])
        if other is None:
            compile_here(key)
        else:
            keep(key, other)
    return found


class Made(NamedTuple):
    """What a kernel was compiled to; `lasts`: it is worth a place on disk."""

    description: Description
    code: bytes
    lasts: bool = True


class _Alike(NamedTuple):
    """A kernel that another one, of `key`, has the code for: `of` is the other, `wanted` this."""

    key: str
    of: Flat
    wanted: Flat


def _alike(missing: Mapping[str, tuple[Kernel, Job]], opened: Opened) -> dict[str, _Alike]:
    """Those of `missing` that are like a longer one of them, but for the number of elements."""
    flat = {key: flat_form(step.ast, opened.code_target) for key, (step, _) in missing.items()}
    forms = {key: form for key, form in flat.items() if form is not None}
    longest: dict[str, str] = {}
    for key, form in forms.items():
        known = longest.setdefault(form.text, key)
        if form.size > forms[known].size:
            longest[form.text] = key
    found: dict[str, _Alike] = {}
    for key, form in forms.items():
        if (one := longest[form.text]) != key:
            found[key] = _Alike(one, forms[one], form)
    return found


def _as_other(made: Made, job: Job, alike: _Alike, wanted: Job) -> Made | None:
    """The code of one kernel for another one; None where it does not serve."""
    if made.description["work"] != job.work:
        return None  # its work was found to be less, by how much for the other is not known
    new = resized(made.description, alike.of, alike.wanted, wanted.name, wanted.work)
    return None if new is None else made._replace(description=new)


@contextlib.contextmanager
def _blaming(step: Kernel) -> Iterator[None]:
    """A block in which errors get the user's lines that `step` comes from."""
    with passes_for(step.roots, step.buffers):
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


def _compile(kernel: Kernel, job: Job, opened: Opened) -> Made:
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
    return Made(*made, lasts)


def _keep(key: str, made: Made, reason: str, opened: Opened) -> CompiledKernel:
    """Load what was just compiled and, if it lasts, put it on disk."""
    line = json.dumps(made.description).encode()
    if made.lasts:
        compile_cache().put("kernel:" + key, line + b"\n" + made.code)
    kernel = _kernels[opened.name, key] = load(key, json.loads(line), made.code, reason, opened)
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
