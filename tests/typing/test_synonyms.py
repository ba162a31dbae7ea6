"""A synonym's types are written beside the method that it stands for: they say the same."""

import ast
import inspect
from pathlib import Path

import pytest

from treadle import Tensor
from treadle.tensor import synonyms

TREE = ast.parse(Path(synonyms.__file__).read_text(encoding="utf-8"))
TYPED = {
    node.name: f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
    for node in ast.walk(TREE)
    if isinstance(node, ast.FunctionDef) and node.returns and not node.name.startswith("_")
}


@pytest.mark.parametrize("name", TYPED)
def test_a_synonym_has_the_types_of_its_method(name: str) -> None:
    method = getattr(Tensor, name)
    assert method.__name__ != name
    signature = str(inspect.signature(method)).replace("'", "")
    tree = ast.parse(f"def f{signature}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    assert tree.returns is not None
    assert TYPED[name] == f"({ast.unparse(tree.args)}) -> {ast.unparse(tree.returns)}"
