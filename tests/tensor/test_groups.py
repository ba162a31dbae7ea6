"""`Tensor` is groups of methods side by side: each is written with the basis, and knows no other.

The groups' modules import only the basis and what stands beside it: a contract in `pyproject.toml`.
Here it is what the classes hold, and what their methods call.
"""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator

import pytest

from treadle import Tensor
from treadle.tensor.basis import Basis

GROUPS = [kind for kind in Tensor.__bases__ if kind is not Basis]
OF_PYTHON = {"__doc__", "__module__", "__slots__", "__annotations__", "__static_attributes__",
             "__firstlineno__", "__parameters__"}  # fmt: skip


def parts_of(group: type) -> list[type]:
    """The classes that make up a group, itself left out."""
    return [kind for kind in group.__mro__ if kind is not group and not issubclass(Basis, kind)]


def defined(kind: type) -> set[str]:
    return set(vars(kind)) - OF_PYTHON


OF_BASIS = {name for kind in Basis.__mro__ for name in dir(kind)}


def test_there_are_about_ten_groups_and_each_says_what_it_is():
    assert len(GROUPS) <= 12
    assert Tensor.__bases__[-1] is Basis
    for group in GROUPS:
        assert inspect.getdoc(group)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_the_parts_of_a_group_are_made_of_the_basis_alone(group):
    parts = parts_of(group)
    assert group.__bases__ == tuple(parts)
    assert {part.__bases__ for part in parts} == {(Basis,)}
    assert not defined(group)


def test_no_method_is_defined_twice():
    classes = [kind for kind in Tensor.__mro__ if kind is not object]
    counts = Counter(name for kind in classes for name in defined(kind))
    assert [name for name, count in counts.items() if count > 1] == []


def calls_of(part: type) -> Iterator[tuple[str, str]]:
    """What a module asks `self`, `cls`, `type(..)` and the results of methods for: what, and where.

    Names of modules are left out: `np.arange` is none of ours.
    """
    module = inspect.getmodule(part)
    tree = ast.parse(inspect.getsource(module))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_module(node.value, module):
            yield node.attr, f"{module.__name__}:{node.lineno} {ast.unparse(node)}"


def is_module(node: ast.expr, module: object) -> bool:
    name = ast.unparse(node).partition(".")[0]
    return name == "np" or inspect.ismodule(getattr(module, name, None))


# Arrays of other libraries, and what DLPack says of their memory.
FOREIGN = {"found.take", "found.__array_interface__", "source.__dlpack__",
           "source.__dlpack_device__"}  # fmt: skip


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_no_method_calls_one_of_another_part(group):
    """A type checker sees that of tensors, but not of their class, which answers to any name."""
    every = {name for other in GROUPS for part in parts_of(other) for name in defined(part)}
    for part in parts_of(group):
        mine = defined(part) | OF_BASIS
        wrong = [
            where
            for name, where in calls_of(part)
            if name in every - mine and where.split(" ", 1)[1] not in FOREIGN
        ]
        assert wrong == []


def test_the_basis_calls_nothing_of_a_group():
    every = {name for group in GROUPS for part in parts_of(group) for name in defined(part)}
    wrong = [
        where
        for kind in Basis.__mro__[:-1]
        for name, where in calls_of(kind)
        if name in every - OF_BASIS
    ]
    assert wrong == []
