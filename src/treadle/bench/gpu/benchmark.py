"""The rows against PyTorch, torch.compile and JAX on the same GPU, and against its ceilings.

PyTorch's matmuls are cuBLAS's, its attention FlashAttention's. A row is measured only if treadle's
values are PyTorch's. On an emulated GPU nothing is judged but that it runs.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

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
_ENOUGH = 12.0  # seconds that a row should have, compilers included
_TOLERANCE = {"bfloat16": 2e-2, "float32": 1e-3}

_DRY = "A dry run: these numbers say nothing of any GPU.\n\n"
_COMPARED = 1 << 22  # elements of a result

Libraries = dict[str, Callable[[], Library]]


def run(findings: Findings) -> None:
    """Measures row after row; notes the table and all numbers after each."""
    libraries = _libraries(findings)
    small = findings.emulated
    limits = Ceilings(0.0, 0.0, 0.0)

    def measure_ceilings() -> None:
        nonlocal limits
        limits = gpu_ceilings(small)

    findings.check("ceilings", measure_ceilings)
    results: list[WorkResult] = []
    for work in gpu_works(small):
        if findings.seconds_left < (1.0 if small else _ENOUGH):
            findings.add(work.name, "cut", message="no time was left")
            continue
        rounds, budget = (3, 0.05) if small else (_ROUNDS, _BUDGET)
        findings.check(f"{work.name}: values", lambda w=work: _compare(w, libraries))
        result = measure(work, libraries, rounds, budget)
        results.append(result)
        _judge(findings, result, limits)
        report = Report(describe_machine() | _gpu(), limits, results, [])
        findings.note("text", _DRY * small + as_text(report))
        findings.note("benchmark", as_json(report))


def _libraries(findings: Findings) -> Libraries:
    """treadle, and those peers that see the GPU; the others are skipped by name."""
    from ..libraries.tensor import TensorLibrary

    found: Libraries = {"treadle": lambda: TensorLibrary("treadle")}
    for name, peers in (("torch", _pytorch), ("jax", _jax)):
        if importlib.util.find_spec(name) is None:
            findings.add(name, "skipped", message=f"{name} is not installed")
        elif (more := peers()) is None:
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

    return {"gpu": Device["CUDA"].target.name}


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
    name, failed = result.work.name, result.failed.get("treadle")
    if failed or "treadle" not in result.times:
        findings.add(name, "failed" if failed else "skipped", message=failed or "not offered")
        return
    for peer, why in result.failed.items():
        findings.add(f"{name}, {peer}", "skipped", message=why)
    for bar in result.work.bars:
        reached: Any = None if findings.emulated else result.reached(bar, limits)
        if reached is None:
            side = "emulated" if findings.emulated else f"nothing to compare with: {bar}"
            findings.add(name, "passed" if findings.emulated else "skipped", message=side)
        else:
            outcome = "passed" if reached >= bar.factor else "failed"
            findings.add(name, outcome, message=f"{reached:.2f} of {bar}")
