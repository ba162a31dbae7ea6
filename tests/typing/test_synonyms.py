"""A synonym's types are written beside the method that it stands for: they say the same."""

import ast
import inspect
from pathlib import Path

import pytest

import treadle.tensor
from treadle import Tensor

SOURCES = sorted(Path(treadle.tensor.__file__).parent.rglob("*.py"))


def synonyms() -> dict[str, str]:
    """Every method that `same_as` decorates, with the types that stand there."""
    return {
        node.name: f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and node.returns
        and any("same_as(" in ast.unparse(one) for one in node.decorator_list)
    }


TYPED = synonyms()


@pytest.mark.parametrize("name", TYPED)
def test_a_synonym_has_the_types_of_its_method(name: str) -> None:
    method = getattr(Tensor, name)
    assert method.__name__ != name
    signature = str(inspect.signature(method)).replace("'", "")
    tree = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    assert tree.returns is not None
    assert TYPED[name] == f"({ast.unparse(tree.args)}) -> {ast.unparse(tree.returns)}"
