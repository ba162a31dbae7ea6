"""The rows against PyTorch, torch.compile and JAX on the same GPU, and against its ceilings.

PyTorch's matmuls are cuBLAS's, its attention FlashAttention's. Each row is compared with PyTorch's
values first. All rows are measured against eager PyTorch and its graphs, which the bars name; then,
in the time that is left, against the compilers, which take longest to start. On an emulated GPU
nothing is judged but that it runs.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import asdict, replace

from ..libraries.base import Library, NotOffered
from ..machine import Ceilings, describe_machine
from ..measure import measure
from ..report import Report, as_json, as_text
from ..results import WorkResult
from ..work import Work
from .ceilings import gpu_ceilings
from .findings import Findings, Skipped
from .rows import gpu_works

__all__ = ["run"]

_ROUNDS, _BUDGET = 15, 1.5
_ENOUGH = 8.0  # seconds that a row should have
_PATIENCE = 90.0  # for a row's times: a peer's compiler may take as long
_TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-3}

_DRY = "A dry run: these numbers say nothing of any GPU.\n\n"
_COMPARED = 1 << 22  # elements of a result
_COMPILERS, _AGAINST = ("torch.compile", "jax"), "against compilers"
_NO_CEILINGS = {"flops": 0.0, "read": 0.0, "copy": 0.0}

Libraries = dict[str, Callable[[], Library]]


def run(findings: Findings) -> None:
    """Measures row after row; notes the tables and all numbers after each."""
    libraries, works = _libraries(findings), gpu_works(findings.emulated)
    compilers = {name: make for name, make in libraries.items() if name in _COMPILERS}
    others = {name: make for name, make in libraries.items() if name not in compilers}
    beside_compilers = {"treadle": libraries["treadle"], **compilers}
    findings.check("ceilings", lambda: _measure_ceilings(findings))
    for work in works:
        if findings.has(f"{work.name}: times"):
            continue
        if not _has_time(findings):
            findings.add(work.name, "cut", message="no time was left")
            continue
        findings.check(f"{work.name}: values", lambda w=work: _compare(w, libraries))
        findings.check(
            f"{work.name}: times", lambda w=work: _measure(findings, w, others), _PATIENCE
        )
    for work in works if compilers else ():
        name = f"{work.name}: compilers"
        if not findings.has(name) and not _has_time(findings):
            findings.add(name, "skipped", message="no time was left")
            continue
        row = replace(work, group=_AGAINST, bars=())
        findings.check(name, lambda w=row: _measure(findings, w, beside_compilers), _PATIENCE)


def _has_time(findings: Findings) -> bool:
    return findings.seconds_left > (1.0 if findings.emulated else _ENOUGH)


def _measure_ceilings(findings: Findings) -> None:
    findings.note("ceilings", asdict(gpu_ceilings(findings.emulated)))


def _measure(findings: Findings, work: Work, libraries: Libraries) -> None:
    """The times of one row, judged, and all tables up to it."""
    rounds, budget = (3, 0.05) if findings.emulated else (_ROUNDS, _BUDGET)
    result = measure(work, libraries, rounds, budget)
    numbers = {"times": result.times, "failed": result.failed}
    numbers |= {"work": work.name, "group": work.group}
    findings.note(f"{work.name}, {work.group}", numbers)
    limits = Ceilings(**findings.notes.get("ceilings", _NO_CEILINGS))
    _judge(findings, result, limits)
    report = Report(describe_machine() | _gpu(), limits, _results(findings), [])
    findings.note("text", _DRY * findings.emulated + as_text(report))
    findings.note("benchmark", as_json(report))
    if "treadle" in result.failed:
        raise AssertionError(result.failed["treadle"])


def _results(findings: Findings) -> list[WorkResult]:
    """What was measured up to now, by processes before this one, too."""
    works, found = {work.name: work for work in gpu_works(findings.emulated)}, []
    for note in findings.notes.values():
        if isinstance(note, dict) and "times" in note:
            work = works[note["work"]]
            if note["group"] != work.group:
                work = replace(work, group=note["group"], bars=())
            found.append(WorkResult(work, note["times"], note["failed"]))
    return found


def _libraries(findings: Findings) -> Libraries:
    """treadle, and those peers that see the GPU; the others are skipped by name."""
    from ..libraries.tensor import TensorLibrary

    found: Libraries = {"treadle": lambda: TensorLibrary("treadle")}
    for name, peers in (("torch", _pytorch), ("jax", _jax)):
        if importlib.util.find_spec(name) is None:
            findings.add(name, "skipped", message=f"{name} is not installed")
            continue
        try:
            more = peers()
        except Exception as error:  # a peer that is broken costs its own columns only
            findings.add(name, "skipped", message=f"{type(error).__name__}: {error}")
            continue
        if more is None:
            findings.add(name, "skipped", message=f"{name} sees no CUDA device")
        else:
            found |= more
    return found


def _pytorch() -> Libraries | None:
    import torch

    from ..libraries.pytorch import Torch, TorchCompile, TorchGraph

    if not torch.cuda.is_available():
        return None
    return {
        "torch": lambda: Torch("cuda"),
        "torch graph": lambda: TorchGraph("cuda"),
        "torch.compile": lambda: TorchCompile("cuda"),
    }


def _jax() -> Libraries | None:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    if jax.default_backend() != "gpu":
        return None
    jax.config.update("jax_default_matmul_precision", "highest")  # else float32 is tf32

    from ..libraries.xla import Jax

    return {"jax": Jax}


def _gpu() -> dict[str, str]:
    from ... import Device

    runtime = Device["CUDA"].runtime
    served = ".".join(map(str, runtime.driver.version))
    return {"gpu": Device["CUDA"].target.name, "driver": f"for CUDA {served}"}


def _compare(work: Work, libraries: Libraries) -> None:
    """treadle's values after two calls and a replay, with PyTorch's."""
    import numpy as np

    ours = libraries["treadle"]()
    try:
        run = ours.prepare(work)
        found = [run() for _ in range(3)][-1]
    except NotOffered as why:
        raise Skipped(str(why)) from why
    arrays = [a.astype(np.float32) for a in ours.arrays(found)]
    assert all(np.isfinite(a).all() for a in arrays)
    if "torch" not in libraries:
        return
    theirs = libraries["torch"]()
    for a, b in zip(arrays, theirs.arrays(theirs.prepare(work)()), strict=True):
        tolerance = _TOLERANCE[work.inputs[0].dtype]
        tolerance = max(tolerance, 5e-3) if "tf32" in work.name else tolerance
        some = slice(None, None, a.size // _COMPARED + 1)
        a, b = a.ravel()[some], b.ravel()[some].astype(np.float32)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * float(np.abs(b).max()))


def _judge(findings: Findings, result: WorkResult, limits: Ceilings) -> None:
    """A finding for each bar, and one for each peer that could not do the row."""
    name = result.work.name
    for peer, why in result.failed.items():
        if peer != "treadle":
            findings.add(f"{name}, {peer}", "skipped", message=why)
    if "treadle" not in result.times:
        return
    for bar in result.work.bars:
        reached = None if findings.emulated else result.reached(bar, limits)
        if reached is None:
            side = "emulated" if findings.emulated else f"nothing to compare with: {bar}"
            findings.add(name, "passed" if findings.emulated else "skipped", message=side)
        else:
            outcome = "passed" if reached >= bar.factor else "failed"
            findings.add(name, outcome, message=f"{reached:.2f} of {bar}")
