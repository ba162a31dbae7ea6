"""Tests can fail: each asserts something, and none compares two durations that it has measured.

What counts is written in a test, in a fixture that it takes, or in a function of the tests that it
names: an `assert`, `pytest.raises`, `warns` or `fail`, and what is named `assert...`. A limit on a
duration is allowed, since it only says that something ends; how two durations compare depends on
what else the machine does, so counts say that better.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(TESTS.rglob("*.py"))
EXPECT = frozenset(("raises", "warns", "fail"))
CLOCKS = frozenset((
    "perf_counter", "perf_counter_ns", "monotonic", "monotonic_ns", "time_ns", "process_time",
    "process_time_ns", "thread_time", "thread_time_ns",
))  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Place = tuple[Path, str]  # a file, and a name in it


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def functions_of(path: Path) -> dict[str, Function]:
    """The functions and classes of a file, those inside of others included."""
    return {node.name: node for node in ast.walk(tree_of(path)) if isinstance(node, Function)}


@functools.cache
def values_of(path: Path) -> dict[str, ast.expr]:
    """What a file's top level assigns to names: tables of functions, lambdas."""
    return {
        target.id: node.value
        for node in tree_of(path).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


@functools.cache
def imports_of(path: Path) -> dict[str, Place]:
    """What the names that a file imports from other tests stand for; "" for a whole file."""
    found = {}
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ImportFrom):
            continue
        folder = folder_of(node, path)
        if folder is None:
            continue
        for alias in node.names:
            whole = folder / f"{alias.name}.py"
            file = folder.with_suffix(".py")
            file = file if file.exists() else folder / "__init__.py"
            place = (whole, "") if whole.exists() else (file, alias.name)
            found[alias.asname or alias.name] = place
    return found


def folder_of(node: ast.ImportFrom, path: Path) -> Path | None:
    """The module of tests that is imported from, as a path without suffix."""
    names = node.module.split(".") if node.module else []
    if node.level:
        return path.parents[node.level - 1].joinpath(*names)
    return TESTS.joinpath(*names[1:]) if names[:1] == ["tests"] else None


def resolved(path: Path, name: str, depth: int = 0) -> Place | None:
    """Where a name that a file uses is defined, if that is in the tests."""
    if name in functions_of(path) or name in values_of(path):
        return path, name
    place = imports_of(path).get(name)
    if place is None or not place[0].exists() or depth > 8:
        return None
    return place if not place[1] else resolved(*place, depth + 1)


@functools.cache
def named_in(node: ast.AST, path: Path) -> list[Place]:
    """The functions and values of the tests that code names."""
    return [*_named_in(node, path)]


def _named_in(node: ast.AST, path: Path) -> Iterator[Place]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and (place := resolved(path, part.id)):
            yield place
        elif isinstance(part, ast.Attribute):
            if isinstance(part.value, ast.Name) and (place := resolved(path, part.value.id)):
                yield place[0], part.attr
            elif part.attr in functions_of(path):  # a method
                yield path, part.attr


def fixture(path: Path, name: str) -> Place | None:
    """Where the fixture that a test takes is defined."""
    folders = (folder for folder in path.parents if TESTS in (folder, *folder.parents))
    files = [path, *(folder / "conftest.py" for folder in folders)]
    return next((place for f in files if f.exists() and (place := resolved(f, name))), None)


@functools.cache
def claims(node: ast.AST) -> bool:
    """Whether code itself says what has to be."""
    for part in ast.walk(node):
        if isinstance(part, ast.Assert):
            return True
        if isinstance(part, ast.Raise) and part.exc and "AssertionError" in ast.dump(part.exc):
            return True
        if isinstance(part, ast.Call):
            name = name_of(part.func)
            if name.startswith("assert") or name in EXPECT:
                return True
    return False


def name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def asserts(path: Path, test: Function) -> bool:
    """Whether a test can fail but for an error on its way."""
    seen: set[Place] = set()
    pending: list[tuple[Path, ast.AST]] = [(path, test)]
    while pending:
        path, node = pending.pop()
        if claims(node):
            return True
        places = [*named_in(node, path)]
        if isinstance(node, ast.FunctionDef):
            places += filter(None, (fixture(path, a.arg) for a in node.args.args))
        for place in places:
            if place not in seen:
                seen.add(place)
                file, name = place
                found = functions_of(file).get(name) or values_of(file).get(name)
                pending += [(file, found)] if found else []
    return False


def cases_of(path: Path) -> list[ast.FunctionDef]:
    return [
        node
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def measured(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression reads a clock, or uses what was made of its readings."""
    return any(
        name_of(part) in CLOCKS | names
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    )


def durations_in(tree: ast.Module) -> set[str]:
    """The names of a file that stand for measured times: variables, and functions that do."""
    names: set[str] = set()
    before = -1
    while len(names) > before:
        before = len(names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and measured(node.value, names):
                names |= names_in(node.targets)
            if isinstance(node, ast.FunctionDef):
                returns = (n for n in ast.walk(node) if isinstance(n, ast.Return))
                names |= {node.name for n in returns if n.value and measured(n.value, names)}
    return names


def names_in(targets: list[ast.expr]) -> set[str]:
    return {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}


def races(tree: ast.Module) -> list[int]:
    """The lines of assertions that compare one measured duration with another."""
    if not measured(tree, set()):
        return []
    names = durations_in(tree)
    return [
        node.lineno
        for claim in ast.walk(tree)
        if isinstance(claim, ast.Assert)
        for node in ast.walk(claim.test)
        if isinstance(node, ast.Compare)
        and sum(measured(side, names) for side in (node.left, *node.comparators)) > 1
    ]


def shown(path: Path) -> str:
    return str(path.relative_to(TESTS))


def test_every_test_asserts_something():
    silent = [
        f"{shown(path)}:{test.lineno} {test.name}"
        for path in FILES
        for test in cases_of(path)
        if not asserts(path, test)
    ]
    assert not silent


def test_no_test_compares_two_durations():
    assert not [f"{shown(path)}:{line}" for path in FILES for line in races(tree_of(path))]


# -- the checks themselves ------------------------------------------------------------------------

FEW = """
import numpy as np
import pytest
from .helpers import holds, other as renamed
from . import helpers
def nothing(x): return x
def indirect(x): renamed(x)
TABLE = {"a": lambda x: holds(x)}
class Machine:
    def check(self): assert self
@pytest.fixture
def checked():
    yield 1
    assert True
def test_asserts(): assert 1
def test_raises():
    with pytest.raises(ValueError): nothing(1)
def test_numpy(): np.testing.assert_array_equal(1, 1)
def test_through_another_file(): indirect(1)
def test_of_another_file(): helpers.holds(1)
def test_by_a_table(): TABLE["a"](1)
def test_by_a_fixture(checked): nothing(1)
def test_by_a_method(): Machine().check()
def test_runs_alone(): nothing(1)
def test_says_assert_in_a_text(): print("assert False")
def test_names_what_it_does_not_have(): holder.silent(1)
def test_of_a_silent_function(): helpers.silent(1)
"""
HELPERS = """
def holds(x): assert x
def other(x): return holds(x)
def silent(x): return x
"""


def test_a_test_that_asserts_nothing_is_found(tmp_path):
    path = tmp_path / "test_few.py"
    path.write_text(FEW)
    (tmp_path / "helpers.py").write_text(HELPERS)
    assert {test.name for test in cases_of(path) if not asserts(path, test)} == {
        "test_runs_alone",
        "test_says_assert_in_a_text",
        "test_names_what_it_does_not_have",
        "test_of_a_silent_function",
    }


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("a = time.time_ns() - s\nb = perf_counter() - s\nassert a < 40 * b", [3]),
        ("def f(n):\n  return time.perf_counter() - n\nassert f(1) < min(f(2), f(3))", [3]),
        ("s = monotonic()\nx = [s, 1]\nassert 0 < x[0] < process_time()", [3]),
        ("s = monotonic()\nassert monotonic() - s < 30", []),
        ("end = monotonic() + 3\nwhile monotonic() < end:\n  pass", []),
        ("a, b = work(1), work(2)\nassert a < 40 * b", []),
    ],
)
def test_a_comparison_of_two_durations_is_found(code, lines):
    assert races(ast.parse(code)) == lines
