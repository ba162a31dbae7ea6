"""AMD's GPUs by their kernel driver: each way to one, whether it is right, and what it takes.

Which chip it is, copies, launches by PM4 and by AQL, replays, results beside those of the emulated
GPU of the same chip, and the time of a launch, of a replay and of a copy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ..report import markdown
from . import hardware
from .findings import Findings, Skipped

if TYPE_CHECKING:
    import numpy as np

    from ...runtime.hardware.amd import AMDDevice
    from ...tensor import Tensor
    from .hardware import Way

__all__ = ["run", "write_results"]

_KERNEL = """
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
define amdgpu_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %x, i32 %n) #0 {
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %first = shl i32 %g, 6
  %at = add i32 %first, %i
  %from = getelementptr i32, ptr addrspace(1) %x, i32 %at
  %to = getelementptr i32, ptr addrspace(1) %out, i32 %at
  %v = load i32, ptr addrspace(1) %from
  %w = mul i32 %v, 3
  %r = add i32 %w, %n
  store i32 %r, ptr addrspace(1) %to
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-implicitarg-ptr"
  "amdgpu-no-dispatch-ptr" "amdgpu-no-dispatch-id" "amdgpu-no-queue-ptr" }
"""


def run(findings: Findings) -> None:
    """All of it, the first GPU of the driver."""
    findings.check("the driver and its GPUs", lambda: _discovery(findings))
    findings.check("copies", lambda: hardware.copies(_way()))
    for queue in ("PM4", "AQL"):
        for what, check in (("launches", hardware.launches), ("replays", hardware.replays)):
            findings.check(f"{what} by {queue}", lambda q=queue, c=check: _with_kernel(q, c))
    findings.check("a kernel's times", lambda: _timed(_way()))
    findings.check("results are the emulated GPU's", _beside_emulated, patience=90)
    findings.check("times", lambda: _times(findings), patience=60)


def _device(queue: str = "") -> AMDDevice:
    """The opened GPU; with `queue` a device of its own, whose kernels go to such a queue."""
    from ... import Device
    from ...runtime.hardware.amd import AMDDevice

    opened = Device["AMD"].runtime
    if not queue:
        return opened
    if queue == "PM4" and opened.node.partitions > 1:
        raise Skipped("a GPU of several partitions takes AQL alone")
    return AMDDevice(
        "AMD", opened.kfd, opened.index, lambda node: opened.target, uses_aql=queue == "AQL"
    )


def _way(queue: str = "") -> Way:
    return cast("Way", _device(queue))


def _discovery(findings: Findings) -> None:
    from ...runtime.hardware.amd import describe

    kfd = _device().kfd
    findings.note("driver", {
        "interface": ".".join(map(str, kfd.version)),
        "GPUs": [{"name": n.name, "arch": n.arch, "units": n.units, "memory": n.memory,
                  "partitions": n.partitions} for n in kfd.nodes],
    })  # fmt: skip
    print(describe(kfd), file=sys.stderr)


def _with_kernel(queue: str, check: Callable[[Way, hardware.Kernel], None]) -> None:
    device = _way(queue)
    check(device, _kernel(device))


# -- right ------------------------------------------------------------------------------------


def _kernel(device: Way) -> hardware.Kernel:
    """out = x * 3 + n"""
    from ...compile.llvm import LLVMCompiler

    return hardware.Kernel(device, LLVMCompiler(device.target).compile(_KERNEL), "k")


def _timed(device: Way) -> None:
    """By the GPU's clock kernels end after they start, and one after the other."""
    kernel, data = _kernel(device), hardware.numbers()
    x, out = hardware.put(device, data), hardware.put(device, data)
    times = device.call_list([kernel.launch(out, x, n) for n in range(4)]).run_timed()
    ends = [moment for both in times for moment in both]
    assert ends == sorted(ends), times


# -- beside the emulated GPU ------------------------------------------------------------------


def _exact() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Programs whose machine code gives the same bits wherever it runs."""
    from ... import dtypes

    return {
        "sum": lambda x, y: x * 3 + y,
        "quotient": lambda x, y: x / y,
        "integers": lambda x, y: (x * 1000).int() // ((y * 7).int().abs() + 1),
        "halves": lambda x, y: (x.half() * y.half()).float(),
        "bfloat16": lambda x, y: (x + y).cast(dtypes.bfloat16).float(),
        "rows": lambda x, y: (x * y).sum(1),
        "extremes": lambda x, y: x.maximum(y).argmax(1),
        "sorted": lambda x, y: x.sort(1)[0],
        "gathered": lambda x, y: x[(y[:, 0] * 100).int().abs() % 16],
    }


def _near() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """Programs with instructions that hardware approximates, or whose order of sums is its own."""
    from ... import dtypes

    return {
        "functions": lambda x, y: x.sin() + y.exp() + (x.abs() + 1).log().sqrt(),
        "softmax": lambda x, y: (x + y).softmax(),
        "product": lambda x, y: x @ y.T,
        "product of halves": lambda x, y: x.half().matmul(y.half().T, dtype=dtypes.float32),
    }


def _results() -> dict[str, np.ndarray]:
    import numpy as np

    from ... import Tensor

    draw = np.random.default_rng(7)
    x, y = (Tensor(draw.standard_normal((64, 64)).astype(np.float32), device="AMD") for _ in "xy")
    return {name: program(x, y).numpy() for name, program in (_exact() | _near()).items()}


def write_results(path: str) -> None:
    """In the process of the emulated GPU."""
    import numpy as np

    np.savez(path, allow_pickle=False, **_results())


def _beside_emulated() -> None:
    import numpy as np

    chip, mine = _device().node.arch, _results()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results.npz")
        code = f"from {__package__}.amd import write_results; write_results({path!r})"
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "DEV": "AMD", "EMULATE": chip},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if done.returncode and "is emulated" in last:
            raise Skipped(last)
        assert done.returncode == 0, f"the emulated GPU's process: {last}"
        with np.load(path) as file:
            theirs = dict(file)
    for name in _exact():
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    for name in _near():
        np.testing.assert_allclose(mine[name], theirs[name], rtol=2e-5, atol=1e-5, err_msg=name)


# -- times ------------------------------------------------------------------------------------


def _times(findings: Findings) -> None:
    many, nbytes = (4, 1 << 16) if findings.emulated else (64, 1 << 28)
    queues = ("PM4", "AQL") if _device().node.partitions == 1 else ("AQL",)
    rows: dict[str, str] = {}
    for queue in queues:
        device = _way(queue)
        times = hardware.latencies(device, _kernel(device), many)
        rows |= {f"{name}, {queue}": hardware.shown(name, value) for name, value in times.items()}
    rates = hardware.rates(_way(), nbytes)
    rows |= {name: hardware.shown(name, value) for name, value in rates.items()}
    findings.note("times", rows)
    table = markdown(["AMD", "found"], [[name, text] for name, text in rows.items()])
    if findings.emulated:
        table.append("A dry run: these numbers say nothing of any GPU.")
    findings.note("text", "\n".join(table))
