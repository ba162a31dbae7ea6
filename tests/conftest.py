"""Fixtures for all tests: the devices that each backend test runs on."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable
from glob import glob
from pathlib import Path

import pytest

from treadle.backends import BACKENDS

from .records import Records, add_options
from .thinning import thinned, turn_of_commit

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="record the golden texts anew")
    parser.addoption("--full", action="store_true", help="run everything, which takes hours")
    parser.addoption("--all-cases", action="store_true", help="of long tests, too")
    parser.addoption("--other-cases", action="store_true", help="of long tests, those of the turn")
    parser.addoption("--turn", type=int, help="which long tests run; by default the commit decides")
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    # A process of the tests has a core of its own already; test_workers.py asks for more.
    os.environ.setdefault("COMPILE_PROCESSES", "0")
    if _may_emulate():
        os.environ.setdefault("EMULATE", "2")
    if config.getoption("--full"):
        os.environ["FULL_TESTS"] = "1"
    if config.option.turn is None:  # the processes of pytest-xdist are told
        config.option.turn = turn_of_commit()
    config.pluginmanager.register(Records(config), "records")


def pytest_unconfigure() -> None:
    from treadle.engine.line_totals import line_totals

    atexit.unregister(line_totals.show)  # of tests of DEBUG, which nobody has asked for


def pytest_report_header(config: pytest.Config) -> str:
    return f"long tests: --turn {config.option.turn}"


def _may_emulate() -> bool:
    """Whether emulated devices hide no hardware, and contradict no choice of the environment."""
    from treadle.engine.selection import environment_choice

    choice = environment_choice()
    if choice is not None and choice.backend.emulated_chip is None:
        return False
    emulated = [backend for backend in BACKENDS if backend.emulated_chip is not None]
    return not any(glob(node) for backend in emulated for node in backend.nodes)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    named = any("::" in name for name in config.args)
    if named or "FULL_TESTS" in os.environ or "TEST_DEVICES" in os.environ:
        return
    options = config.option
    chosen = thinned(items, options.turn, options.all_cases, options.other_cases)
    if len(chosen) < len(items):
        kept = {*chosen}
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def pytest_collection_finish(session: pytest.Session) -> None:
    # Many tests collect garbage. What all modules have imported stays: half a second for each.
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with the recorded one; `--update-golden` records it."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


ALL_DEVICES = [
    name for backend in BACKENDS for names in backend.tested_devices.values() for name in names
]
DEVICES = os.environ.get("TEST_DEVICES", ",".join(ALL_DEVICES)).split(",")


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    """Each device under test, by name; TEST_DEVICES=CPU,CL:OPENCL:-fp64 chooses others."""
    from treadle import Tensor
    from treadle.errors import DeviceError

    try:
        Tensor([1.0], device=request.param).add(1.0).realize()
    except DeviceError as error:
        pytest.skip(f"{request.param}: {error}")
    return request.param
