"""A runtime and its process: two at once, forks, Ctrl-C, and ends while work is running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.backends import backend_of
from treadle.engine.devices import Opened

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

USE = """
import gc, os, signal, sys, threading, time
import numpy as np
from treadle import Device, GlobalCounters, Tensor
from treadle.errors import DeviceError
name = {name!r}
x = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8), device=name)
"""


def start(opened: Opened, code: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", USE.format(name=opened.name) + code],
        env={**os.environ, **variables}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed; it ended well, and said nothing beside."""
    try:
        out, err = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"it does not end; it has said {out!r} and {err!r}")
    assert (process.returncode, err) == (0, "")
    return out


PROGRAM = "print((x @ x + 1).softmax().sum().item(), GlobalCounters.compile_count)"


def test_processes_that_start_at_once_share_one_cache(launching: Opened, tmp_path: Path) -> None:
    running = [start(launching, PROGRAM, CACHE_DIR=str(tmp_path)) for _ in range(2)]
    values = [float(finish(process).split()[0]) for process in running]
    assert values == pytest.approx([8, 8])
    value, compiled = finish(start(launching, PROGRAM, CACHE_DIR=str(tmp_path))).split()
    assert float(value) == pytest.approx(8)
    assert compiled == "0"
    ours = (p for p in tmp_path.rglob("*") if p.is_file() and "pocl-0" not in str(p))
    for entry in ours:  # the driver has a cache of its own there, which it believes blindly
        entry.write_bytes(entry.read_bytes()[:-20] + os.urandom(20))
    value, compiled = finish(start(launching, PROGRAM, CACHE_DIR=str(tmp_path))).split()
    assert float(value) == pytest.approx(8)
    assert int(compiled) > 0


def test_a_process_ends_while_work_is_running(computing: Opened) -> None:
    code = """
y = z = Tensor(np.ones((300, 300), np.float32), device=name)
for _ in range(8): y = (y @ z / 300).realize()
print("end")
"""
    assert finish(start(computing, code)) == "end\n"


def test_an_exit_by_an_exception_shows_that_and_nothing_more(computing: Opened) -> None:
    code = """
y = (Tensor.ones(300, 300, device=name) * 2).contiguous().realize()
raise KeyError("mine")
"""
    process = start(computing, code)
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1
    assert err.startswith("Traceback")
    assert err.endswith("KeyError: 'mine'\n")
    assert err.count("\n") == 3


@needs_fork
def test_a_forked_child_computes_or_is_told(computing: Opened) -> None:
    """What is of this process goes on; a driver's device is refused by name, quickly."""
    code = f"""
x.realize(); y = (x + 1).realize()
driven = {bool(backend_of(computing.name).nodes)}
child = os.fork()
if child == 0:
    for use in (x.numpy, (x * 3).numpy, lambda: x.to("CPU").numpy()):
        try: use()
        except DeviceError as error: assert driven and "forked" in str(error), error
        else: assert not driven
    del x, y, use; gc.collect()
    os._exit(0 if (Tensor([1.0], device="CPU") + 1).item() == 2 else 4)
assert os.waitpid(child, 0)[1] == 0
print(y.sum().item(), (x * 3).sum().item())
"""
    assert finish(start(computing, code)) == "2080.0 6048.0\n"


@needs_fork
def test_a_fork_while_another_thread_launches_holds_nobody_up(computing: Opened) -> None:
    code = """
z = Tensor(np.ones((100, 100), np.float32), device=name).realize()
stop = []
def work():
    while not stop: assert ((z @ z).numpy() == 100).all()
thread = threading.Thread(target=work)
thread.start()
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0 if (Tensor([1.0], device="CPU") + 1).item() == 2 else 4)
    assert os.waitpid(child, 0)[1] == 0
stop.append(1)
thread.join(60)
print("end")
"""
    assert finish(start(computing, code)) == "end\n"


def test_an_interrupt_in_a_launch_is_raised_and_the_device_goes_on(computing: Opened) -> None:
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's & has set to ignore
z = Tensor(np.ones((200, 200), np.float32), device=name).realize()
(z @ z).numpy()
for turn in range(6):
    timer = threading.Timer(0.01 + 0.007 * turn, signal.raise_signal, (signal.SIGINT,))
    try:
        timer.start()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline: (z @ z).numpy()
        print("lost")
    except KeyboardInterrupt:
        print("raised")
    assert ((z + 1).numpy() == 2).all()
    assert ((z @ z).numpy() == 200).all()
"""
    assert finish(start(computing, code)) == "raised\n" * 6
