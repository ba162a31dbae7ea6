"""Every public name says what it does and which errors of treadle's it raises itself, and examples
run. Whether it names what odd arguments raise is looked after by tests/errors/test_sweep.py.
"""

import ast
import doctest
import importlib
import inspect
import pkgutil
import textwrap
from pathlib import Path

import treadle
from treadle import errors

from .public import NAMES

LEAST_WORDS = 3
ERRORS = {name for name in errors.__all__ if name.endswith(("Error", "Range", "Memory"))}


def raised(function):
    """Names of the errors of treadle that the function's own body raises."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    called = (node.exc.func for node in inner if isinstance(node.exc, ast.Call))
    return {node.id for node in called if isinstance(node, ast.Name)} & ERRORS


def test_the_walk_reaches_what_users_meet():
    known = {"Tensor.matmul", "TinyJit.reset", "nn.Conv2d", "nn.state.safe_load", "Context"}
    assert {f"treadle.{name}" for name in known} <= NAMES.keys()
    assert len(NAMES) > 500


def test_every_public_name_has_a_docstring():
    short = [
        name
        for name, value in NAMES.items()
        if len((inspect.getdoc(value) or "").split()) < LEAST_WORDS
    ]
    assert short == []


def test_a_docstring_names_the_errors_that_its_function_raises():
    silent = {
        name: sorted(missing)
        for name, value in NAMES.items()
        if inspect.isfunction(value)
        and (missing := {e for e in raised(value) if e not in (inspect.getdoc(value) or "")})
    }
    assert silent == {}


def test_every_module_says_what_it_is_for():
    found = pkgutil.walk_packages(treadle.__path__, "treadle.")
    names = [m.name for m in found if not m.name.endswith(("__main__", "dynamo", "aten"))]
    silent = []
    for name in names:
        spec = importlib.util.find_spec(name)
        with open(spec.origin, encoding="utf-8") as file:
            if not ast.get_docstring(ast.parse(file.read())):
                silent.append(name)
    assert silent == []


def test_the_examples_in_docstrings_print_what_they_show():
    root = Path(treadle.__file__).parent
    files = [path for path in root.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8")]
    runner, said = doctest.DocTestRunner(), []
    for path in files:
        name = ".".join(("treadle", *path.relative_to(root).with_suffix("").parts))
        for test in doctest.DocTestFinder().find(importlib.import_module(name)):
            runner.run(test, out=said.append)
    assert len(files) >= 3
    assert runner.tries >= 7
    assert not runner.failures, "".join(said)
