"""A pytest plugin for processes that share out tests: one bad kernel costs one test.

A fault of a kernel breaks the CUDA context of its process for good, and a kernel that hangs holds
its process for good. Such a process ends here, and pytest-xdist puts another in its place.
"""

from __future__ import annotations

import faulthandler
import os

from .findings import BROKEN, is_broken

__all__: list[str] = []

_PATIENCE = 60.0  # seconds that one test may take
_STDERR = 2
_failed: set[str] = set()


def pytest_runtest_logstart(nodeid: str, location: object) -> None:
    """From here on the test has so long; what it waits for may hold all of Python."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        faulthandler.dump_traceback_later(_PATIENCE, exit=True, file=_STDERR)


def pytest_runtest_logreport(report: object) -> None:
    """Remembers what failed."""
    if getattr(report, "failed", False):
        _failed.add(report.nodeid)  # pyright: ignore[reportAttributeAccessIssue]


def pytest_runtest_logfinish(nodeid: str, location: object) -> None:
    """The test has been reported: what is told from here on is that its process has ended."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    if nodeid in _failed and is_broken():
        os._exit(BROKEN)
    faulthandler.cancel_dump_traceback_later()
