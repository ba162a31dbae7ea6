"""What the hardware returns for the corpus, in a file that tests replay on the emulator.

    record(context, corpus("sm_90a"), "tests/golden/cuda/h100.npz", "NVIDIA H100 80GB HBM3")
    differences(context, "sm_90a", path)    ->  ["ex2.approx: 7 of 1024 ..."] on an emulated context

A kernel whose text has changed since is named and not compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ...runtime.cuda.driver import Context

from .corpus import Recorded, corpus, execute
from .findings import Findings

__all__ = ["differences", "record", "run"]

_ABOUT = "about"


def run(findings: Findings, path: str) -> None:
    """Records each kernel of the corpus on the default CUDA device."""
    from ... import Device

    runtime = Device["CUDA"].runtime
    arch, device = runtime.target.cpu, runtime.facts.name
    for probe in corpus(arch):
        findings.check(
            f"record of {probe.name}",
            lambda p=probe: record(runtime.context, [p], path, device),
        )


def record(context: Context, probes: Sequence[Recorded], path: str, device: str) -> None:
    """Adds the results of some kernels to a file of those of one chip, which `device` names.

    What there is of another chip goes.
    """
    import numpy as np

    results, digests = _recorded(path, device)
    for probe in probes:
        results[probe.name], digests[probe.name] = execute(context, probe), probe.digest
    about = json.dumps({"device": device, "digests": digests}).encode()
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "wb") as file:  # a name alone would get an ending
        np.savez_compressed(file, **{_ABOUT: np.frombuffer(about, np.uint8)}, **results)


def _recorded(path: str, device: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The results in a file and the digests of their kernels, if they are of this chip."""
    import numpy as np

    if not os.path.exists(path):
        return {}, {}
    with np.load(path) as file:
        about = json.loads(bytes(file[_ABOUT]))
        if about["device"] != device:
            return {}, {}
        return {name: file[name] for name in file if name != _ABOUT}, about["digests"]


def differences(context: Context, arch: str, path: str) -> tuple[list[str], list[str]]:
    """Where a context's results are not those of a file, and kernels whose text is another now."""
    import numpy as np

    with np.load(path) as file:
        digests = json.loads(bytes(file[_ABOUT]))["digests"]
        found, stale = [], []
        for probe in corpus(arch):
            if digests.get(probe.name) != probe.digest:
                stale.append(probe.name)
            elif text := _difference(probe, execute(context, probe), file[probe.name]):
                found.append(f"{probe.name}: {text}")
    return found, stale


def _difference(probe: Recorded, ours: np.ndarray, theirs: np.ndarray) -> str:
    """Which words differ by more than the probe allows; NaNs are all alike."""
    import numpy as np

    apart = ours.astype(np.int64) - theirs.astype(np.int64)
    if probe.kind == "f4":
        ordered = [_ordered(words.view(np.int32).astype(np.int64)) for words in (ours, theirs)]
        apart = ordered[0] - ordered[1]
        values = [words.view(np.float32) for words in (ours, theirs)]
        nan = [np.isnan(words) for words in values]
        apart[nan[0] & nan[1]] = 0
        apart[nan[0] != nan[1]] = 1 << 32
        with np.errstate(all="ignore"):
            apart[np.abs(values[0] - values[1]) <= probe.absolute] = 0
    wrong = np.flatnonzero(np.abs(apart) > probe.ulps)
    if not wrong.size:
        return ""
    first = int(wrong[0])
    shown = [f"0x{int(words[first]):08x}" for words in (ours, theirs)]
    inputs = [f"0x{int(a.view(np.uint32)[first]):08x}" for a in probe.arrays()]
    return f"{wrong.size} of {ours.size} differ; {', '.join(inputs)} gives {' and '.join(shown)}"


def _ordered(words: np.ndarray) -> np.ndarray:
    """Integers in the order of the floats whose bits they are; both zeros are one."""
    import numpy as np

    return np.where(words < 0, -(words & 0x7FFFFFFF), words)
