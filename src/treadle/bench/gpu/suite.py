"""The backend suite of the checkout's tests, on one device: every test that takes a `device`.

Where the time is over before the tests are, the rest is cut, and said to be. With pytest-xdist as
many processes as there are cores share the tests out, and one that a fault has broken is replaced.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

from ...target import available_cores
from .findings import Findings

__all__ = ["run"]

# What a dry run takes: a few tests that use each part of the way to the device, and no peer.
_FEW = ["tests/tensor/test_autograd.py", "-k", "leaf or leaves"]
_LONGEST = 300
_XID = "(Xid "  # what the kernel driver calls an error of the GPU
_REPLACED = 200  # processes at most: each is a test that failed


def run(findings: Findings, device: str) -> None:
    """Runs pytest in this process, on as many others as there are cores."""
    folder = _tests()
    if folder is None:
        findings.add("tests", "skipped", message="no folder of tests: run this in a checkout")
        return
    missing = [name for name in ("pytest", "hypothesis") if importlib.util.find_spec(name) is None]
    if missing:
        findings.add("tests", "skipped", message=f"{' and '.join(missing)}: pip install them")
        return
    import pytest

    findings.check(f"{device} computes", lambda: _compute(device))
    os.environ["TEST_DEVICES"] = device
    os.chdir(folder.parent)
    outcomes = _Outcomes(findings, device)
    chosen = _FEW if findings.emulated else ["tests", "-p", f"{__package__}.of_device"]
    workers = []
    if importlib.util.find_spec("xdist") is None:
        findings.add("tests in many processes", "skipped", message="pip install pytest-xdist")
    elif not findings.emulated:
        workers = ["-n", str(min(available_cores(), 16)), "-p", f"{__package__}.workers"]
        workers += ["--max-worker-restart", str(_REPLACED)]
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors", *workers, *chosen],
        plugins=[outcomes],
    )
    outcomes.write()


def _compute(device: str) -> None:
    """Tests are skipped on a device that cannot be used: here that is a failure."""
    from ... import Tensor

    assert (Tensor([1.0, 2.0], device=device) + 1).tolist() == [2.0, 3.0]


def _tests() -> Path | None:
    """The tests beside the package, or in the working directory."""
    places = (Path(__file__).parents[4], Path.cwd())
    return next((p / "tests" for p in places if (p / "tests" / "conftest.py").exists()), None)


class _Outcomes:
    """A pytest plugin that counts, and stops when the time is over."""

    def __init__(self, findings: Findings, device: str) -> None:
        self._findings, self._refused = findings, f"{device}: "
        self._passed = self._skipped = self._failed = self._all = 0
        self._cut = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers; those tell the number themselves."""
        self._all = max(self._all, len(session.items))

    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        self._all = len(ids)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be read is a failure of its own."""
        if report.failed:
            lines = str(report.longrepr).strip().splitlines() or ["no message"]
            self._findings.add(report.nodeid, "failed", 0.0, lines[-1][:_LONGEST])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        import pytest

        if report.failed:
            self._failed += 1
            lines = str(report.longrepr).strip().splitlines() or ["no message"]
            self._findings.add(report.nodeid, "failed", report.duration, lines[-1][:_LONGEST])
            if _XID in str(report.longrepr):
                pytest.exit("the GPU has had an error: nothing more is tried")
        elif report.skipped and self._refused in str(report.longrepr):
            self._findings.add(report.nodeid, "failed", 0.0, str(report.longrepr)[:_LONGEST])
            self._failed += 1
        elif report.when == "call" or report.skipped:
            self._skipped += report.skipped
            self._passed += report.passed
        if self._findings.seconds_left < 0 and not self._cut:
            self._cut = True
            pytest.exit("the time is over")

    def write(self) -> None:
        """One finding for all that passed, and one for what did not run."""
        done = self._passed + self._skipped + self._failed
        text = f"{self._passed} passed, {self._skipped} skipped, {self._failed} failed"
        if self._cut:
            text += f", of {self._all}: the time was over"
        outcome = "cut" if self._cut else "passed" if self._passed else "failed"
        self._findings.add(f"{done} tests", outcome, message=text)
