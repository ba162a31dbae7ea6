"""Searches as processes see them: killed, interrupted, side by side, with a folder that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.engine import kernels, remote_measure
from treadle.engine.devices import Device
from treadle.engine.measure import SearchTask
from treadle.engine.remote_measure import RemoteMeasurer
from treadle.engine.run import scheduled
from treadle.errors import SettingError
from treadle.ir.text import parse, render
from treadle.optimize.heuristic import optimize
from treadle.optimize.parameters import Parameters

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits are POSIX's")

# What is searched, and how many kernels were compiled for that.
SCRIPT = """
import numpy as np
from treadle import GlobalCounters, Tensor
from treadle.engine import search
search.SECONDS, search.MAX_CANDIDATES = 2.0, 12
x = Tensor(np.arange(64 * 65, dtype="f").reshape(64, 65) % 7, device="CPU").realize()
GlobalCounters.reset()
found = (x @ x.T).numpy()
np.testing.assert_allclose(found, x.numpy() @ x.numpy().T, rtol=1e-4)
print("compiled", GlobalCounters.compile_count)
"""


def started(folder, code=SCRIPT, **variables):
    environment = {**os.environ, "CACHE_DIR": str(folder), "BEAM": "2", "DEBUG": "3", **variables}
    return subprocess.Popen(
        [sys.executable, "-W", "always", "-c", code],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def ended(process):
    """(what it printed, what it said on standard error) of a process that has done its work."""
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out, err


def first_trial(process):
    """Wait until a schedule was measured; the process in which it was."""
    for line in process.stderr:
        if "beam: " in line:
            break
    (child,) = children(process.pid)
    return child


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def assert_gone(pid):
    """A process ends soon; what has ended may wait for who reads its status."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail(f"process {pid} is still there")


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_ends_in_a_search_leaves_nothing_behind(tmp_path, number):
    process = started(tmp_path)
    child = first_trial(process)
    os.killpg(process.pid, number)  # both: as Ctrl-C does
    _, err = process.communicate(timeout=100)
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT)
    assert_gone(child)
    out, err = ended(started(tmp_path))
    assert out == "compiled 1\n"
    assert "the best of" in err
    assert ended(started(tmp_path))[0] == "compiled 0\n"


@linux
def test_the_process_for_trials_ends_when_its_parent_is_killed_in_an_endless_one(tmp_path):
    code = SCRIPT.replace(
        "GlobalCounters.reset()",
        f"""
import sys
from treadle.engine import remote_measure
sys.path.insert(0, {str(tmp_path)!r})
remote_measure._module = "planted"
search.PATIENCE = 1000
""",
    )
    (tmp_path / "planted.py").write_text(
        "import sys, time\n"
        "from treadle.engine import measure\n"
        "from treadle.engine.remote_measure import serve\n"
        "measure.Measurer.attempt = lambda *a: time.sleep(1000)\n"
    )
    process = started(tmp_path / "cache", code, DEBUG="1")
    while not children(process.pid):
        time.sleep(0.05)
    (child,) = children(process.pid)
    time.sleep(1.0)
    process.kill()
    process.communicate(timeout=100)
    assert_gone(child)


def test_two_processes_search_the_same_kernel_at_once(tmp_path):
    both = [started(tmp_path) for _ in range(2)]
    for out, err in map(ended, both):
        assert out == "compiled 1\n"
        assert "warning" not in err.lower()
    assert ended(started(tmp_path))[0] == "compiled 0\n"


@posix
def test_a_folder_that_cannot_be_written_is_said_once(tmp_path):
    (tmp_path / "file").write_text("")
    out, err = ended(started(tmp_path / "file"))
    assert out == "compiled 1\n"
    assert "the best of" in err
    assert err.count("the compile cache cannot be") == 1


@posix
def test_a_disk_that_is_full_is_said_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # it would keep the first 64 bytes
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
    out, err = ended(started(tmp_path, limit + SCRIPT))
    assert out == "compiled 1\n"
    assert "the best of" in err
    assert err.count("the compile cache cannot be") == 1
    assert ended(started(tmp_path))[0] == "compiled 1\n"
    assert [path for path in tmp_path.rglob("*") if path.suffix == ".part"] == []


@pytest.mark.parametrize("damage", [b"", b"garbage", b"treadle1" + bytes(100)])
def test_what_is_remembered_and_damaged_is_searched_anew(tmp_path, damage):
    ended(started(tmp_path))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(damage)
    out, err = ended(started(tmp_path))
    assert out == "compiled 1\n"
    assert "warning" not in err.lower()
    assert ended(started(tmp_path))[0] == "compiled 0\n"


@pytest.mark.parametrize("value", ["abc", "-1", "1000", "1.5"])
def test_a_width_that_is_none_is_refused(value):
    with pytest.raises(SettingError, match=rf"BEAM={value} .*BEAM is an integer 0 to 64"):
        Context(BEAM=value)


# -- in this process --------------------------------------------------------------------------


@pytest.fixture
def task():
    """A product of two matrices."""
    x = Tensor(np.ones((64, 64), np.float32), device="CPU").realize()
    ((kernel,), opened) = scheduled([((x @ x).node, "CPU")]), Device["CPU"]
    return SearchTask.of(kernel, kernels._job("tried", kernel, render(kernel.ast)), opened)


OWN = Parameters()


def schedule(task, parameters=OWN):
    """What the heuristic makes of a task's kernel."""
    return optimize(parse(task.job.text), Device[task.device].code_target, parameters)[1]


def test_one_process_serves_several_kernels(task, monkeypatch):
    remote_measure._end_idle()
    started = []
    real = remote_measure._started
    monkeypatch.setattr(remote_measure, "_started", lambda: started.append(1) or real())
    for _ in range(3):
        with RemoteMeasurer(task) as measurer:
            own = measurer.own(schedule(task), 60.0)
            assert own.outcome == "right"
            other = schedule(task, Parameters(tile=(1, 2)))
            assert other != schedule(task)
            assert measurer.attempt(other, own.seconds, 60.0).outcome == "right"
            assert measurer.compare(other, 60.0).outcome == "right"
    assert len(started) == 1


def test_a_process_that_has_ended_by_itself_is_started_anew(task):
    for _ in range(2):
        with RemoteMeasurer(task) as measurer:
            assert measurer.own(schedule(task), 60.0).outcome == "right"
        (idle,) = remote_measure._idle
        idle.process.kill()
        idle.process.wait()


def test_a_process_that_nobody_asks_ends(task, monkeypatch, tmp_path):
    (tmp_path / "planted.py").write_text(
        "from treadle.engine import remote_measure\n"
        "from treadle.engine.remote_measure import serve\n"
        "remote_measure.IDLE_SECONDS = 0.1\n"
    )
    remote_measure._end_idle()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(remote_measure, "_module", "planted")
    with RemoteMeasurer(task) as measurer:
        assert measurer.own(schedule(task), 60.0).outcome == "right"
    (idle,) = remote_measure._idle
    assert idle.process.wait(timeout=60) == 0
    remote_measure._end_idle()


def test_a_process_that_was_interrupted_serves_nobody_else(task):
    measurer = RemoteMeasurer(task)
    measurer.own(schedule(task), 60.0)
    child = measurer._child
    measurer.__exit__(KeyboardInterrupt)
    assert child.process.returncode is not None
    assert remote_measure._idle == []


def test_another_device_is_noticed(task):
    with RemoteMeasurer(SearchTask(**{**vars(task), "made_by": "somebody else"})) as measurer:
        verdict = measurer.own(schedule(task), 60.0)
    assert verdict.outcome == "failed"
    assert "another device" in verdict.reason


def test_threads_search_at_once_and_one_after_the_other():
    x = Tensor(np.arange(30 * 31, dtype=np.float32).reshape(30, 31) % 5, device="CPU").realize()
    results = {}

    def search(n):
        with Context(BEAM=1):
            results[n] = ((x * n) @ x.T).numpy()

    threads = [threading.Thread(target=search, args=(n,)) for n in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in (2, 3):
        np.testing.assert_allclose(results[n], n * x.numpy() @ x.numpy().T, rtol=1e-4)


FORKED = """
import os
from treadle.engine import remote_measure
assert len(remote_measure._idle) == 1
pid = os.fork()
found = (x.T @ x).numpy()
np.testing.assert_allclose(found, x.numpy().T @ x.numpy(), rtol=1e-4)
print("searched", flush=True)
if pid:
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_has_a_process_of_its_own(tmp_path):
    out, err = ended(started(tmp_path, SCRIPT + FORKED))
    assert out.count("searched") == 2
    assert "Error" not in err


def test_the_setting_reaches_what_is_tried():
    with Context(REPRODUCIBLE=1):
        x = Tensor(np.ones((8, 8), np.float32), device="CPU").realize()
        *_, kernel = scheduled([((x @ x).node, "CPU")])  # a copy of a factor comes first
        job = kernels._job("tried", kernel, render(kernel.ast))
        assert SearchTask.of(kernel, job, Device["CPU"]).options["REPRODUCIBLE"]
