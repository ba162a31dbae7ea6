"""What goes wrong on a GPU is one clear error, and the process goes on where CUDA lets it.

Each fault has a process of its own, which ends well where the error was as it should be.
"""

from __future__ import annotations

import subprocess
import sys

from .findings import Findings, Skipped

__all__ = ["run"]

_SECONDS = 25.0
_SKIPPED = 77

_START = """
import sys
from treadle import Device, Tensor
from treadle.errors import DeviceError, OutOfMemory
from treadle.runtime.base import Entry, Launch, Slot
runtime = Device["CUDA"].runtime
HEAD = ".version 7.0\\n.target sm_75\\n.address_size 64\\n.visible .entry k(.param .u64 p) "
def launch(body, address):
    library = runtime.load((HEAD + body).encode(), [Entry("k", 1, 32, (Slot(0, 64, True),))])
    runtime.run([Launch(library.phases, [address])])
    runtime.synchronize()
def fails(action, kind, *words):
    try:
        action()
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"no {missing[0]!r} in: {error}"
        return
    raise AssertionError("nothing was raised")
def goes_on():
    assert (Tensor([1.0, 2.0], device="CUDA") * 2).tolist() == [2.0, 4.0]
def is_broken():
    fails(goes_on, DeviceError, "k", "start it anew")
    assert (Tensor([1.0, 2.0], device="CPU") * 2).tolist() == [2.0, 4.0]
"""
_STORE = "{ .reg .b64 %x; ld.param.u64 %x, [p]; st.global.u32 [%x], 7; ret; }"
_FAULTS = {
    "an illegal address": f"""
fails(lambda: launch("{_STORE}", 1 << 20), DeviceError, "CUDA_ERROR_ILLEGAL_ADDRESS", "k")
is_broken()
""",
    "a misaligned address": f"""
x = runtime.allocator.alloc(64)
fails(lambda: launch("{_STORE}", x.argument + 2), DeviceError, "CUDA_ERROR_MISALIGNED_ADDRESS")
is_broken()
""",
    "a trap": """
fails(lambda: launch("{ trap; ret; }", 1 << 20), DeviceError, "CUDA_ERROR_", "k")
is_broken()
""",
    "out of memory": """
kept = Tensor.ones(1000, device="CUDA").contiguous().realize()
fails(lambda: Tensor.empty(1 << 44, device="CUDA").realize(), OutOfMemory, "no memory for")
if not runtime.is_software:  # what fits the memory, but not what is free: the driver says so
    half = int(0.6 * runtime.facts.memory)
    first = []
    fails(lambda: first.extend(runtime.allocator.alloc(half) for _ in range(2)), OutOfMemory)
    del first
assert kept.sum().item() == 1000
goes_on()
""",
    "a kernel that never ends": """
if not runtime.facts.has_watchdog:
    print("this GPU has no display's watchdog, so no launch is ever timed out")
    sys.exit(77)
if runtime.is_software:
    from treadle.emulate.simt import execute
    execute.TURNS = 50
fails(lambda: launch("{ L: bra L; }", 1 << 20), DeviceError, "CUDA_ERROR_LAUNCH_TIMEOUT", "k")
is_broken()
""",
    "code for another architecture": """
from treadle.errors import StaleCodeError
newer = HEAD.replace("sm_75", "sm_199")
fails(lambda: runtime.load((newer + "{ ret; }").encode(), [Entry("k", 1)]), StaleCodeError)
goes_on()
""",
    "a forked child": """
import os
goes_on()
child = os.fork()
if child == 0:
    try:
        fails(goes_on, DeviceError, "forked")
    except BaseException as error:
        print(error)
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
goes_on()
""",
}


def run(findings: Findings) -> None:
    """Every fault in a process of its own."""
    for name, code in _FAULTS.items():
        findings.check(name, lambda c=code: _in_a_process(c, min(_SECONDS, findings.seconds_left)))


def _in_a_process(code: str, seconds: float) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _START + code], capture_output=True, text=True, check=False,
            timeout=max(seconds, 1.0),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end after {seconds:.0f} seconds") from None
    if done.returncode == _SKIPPED:
        raise Skipped(done.stdout.strip())
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise AssertionError((lines or [f"status {done.returncode}"])[-1])
