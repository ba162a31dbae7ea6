"""Modules import each other in one direction: no circle, imports inside functions counted.

An edge is written where an import stands: at the top, inside a function or under TYPE_CHECKING.

    from .ir import node        -> the module treadle.ir.node
    from .ir.node import Node   -> the module treadle.ir.node
    from .tensor import Tensor  -> treadle/tensor/__init__.py, which has edges to what it re-exports

That Python runs the `__init__` of every folder above an imported module is no edge: what the module
needs of it, it would have to name. `import_module` counts as the import that it stands for; where
the name is put together, as one of each module that a text in the same file completes it to.
"""

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

SOURCE = Path(__file__).parent.parent / "src"
PACKAGE = "treadle"

# Who imports what no text here names: the modules that users' functions are of.
OF_USERS = {"treadle.engine.jit", "treadle.engine.pickled_functions"}

Graph = dict[str, dict[str, int]]  # module -> what it imports -> the line


def modules_of(source: Path) -> dict[str, Path]:
    """Every module under `source` by its dotted name."""
    found = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        *folders, last = path.relative_to(source).with_suffix("").parts
        found[".".join(folders if last == "__init__" else [*folders, last])] = path
    return found


def graph_of(modules: dict[str, Path]) -> Graph:
    """What each module imports of the others."""
    graph: Graph = {}
    for name, path in modules.items():
        edges = graph[name] = {}
        for target, line in imports_of(tree_of(path), package_of(name, path), modules):
            if target != name:
                edges.setdefault(target, line)
    return graph


def package_of(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree: ast.AST, package: str, modules: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Every module of `modules` that the code imports, with the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for dotted in names_in(node, package):
                found = dotted if dotted in modules else dotted.rpartition(".")[0]
                if found in modules:
                    yield found, node.lineno
        elif is_import_by_name(node):
            for found in imports_by_name(node, tree, package, modules):
                yield found, node.lineno


def names_in(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """The dotted names that a statement imports: modules, or what is in them."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = absolute("." * node.level + (node.module or ""), package)
    return [f"{base}.{alias.name}" for alias in node.names]


def imports_by_name(
    call: ast.Call, tree: ast.AST, package: str, modules: Iterable[str]
) -> set[str]:
    """The modules that a call of `import_module` may mean."""
    name = call.args[0]
    if isinstance(name, ast.Constant):
        return {absolute(name.value, package)} & set(modules)
    start = ""
    if isinstance(name, ast.JoinedStr) and isinstance(name.values[0], ast.Constant):
        start = str(name.values[0].value)
    texts = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    ends = {t for t in texts if isinstance(t, str) and t.rpartition(".")[2].isidentifier()}
    return {absolute(start + end, package) for end in ends} & set(modules)


def is_import_by_name(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("import_module", "__import__")


def absolute(name: str, package: str) -> str:
    """`..ir.node`, seen from `package`, as a dotted name from the root."""
    rest = name.lstrip(".")
    dots = len(name) - len(rest)
    if not dots:
        return name
    folders = package.split(".")
    return ".".join([*folders[: len(folders) - dots + 1], *filter(None, [rest])])


def circles_of(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan), each sorted."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    open_: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        open_.append(module)
        for target in graph.get(module, {}):
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in open_:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            start = open_.index(module)
            if len(open_) - start > 1:
                found.append(sorted(open_[start:]))
            del open_[start:]

    for module in graph:
        if module not in order:
            visit(module)
    return found


def shown(circle: list[str], graph: Graph, modules: dict[str, Path]) -> str:
    """The imports that make a circle, each with its place."""
    lines = [f"{len(circle)} modules import each other:"]
    for module in circle:
        for target, line in graph[module].items():
            if target in circle:
                place = modules[module].relative_to(SOURCE) if module in modules else module
                lines.append(f"  {place}:{line} imports {target}")
    return "\n".join(lines)


def test_no_modules_import_each_other():
    modules = modules_of(SOURCE)
    graph = graph_of(modules)
    assert len(graph) > 500
    circles = circles_of(graph)
    if circles:
        pytest.fail("\n\n".join(shown(circle, graph, modules) for circle in circles))


def test_modules_are_imported_by_names_that_can_be_read():
    modules, unread = modules_of(SOURCE), set()
    for name, path in modules.items():
        tree, package = tree_of(path), package_of(name, path)
        for call in filter(is_import_by_name, ast.walk(tree)):
            is_read = isinstance(call.args[0], ast.Constant)
            if not is_read and not imports_by_name(call, tree, package, modules):
                unread.add(name)
    assert unread == OF_USERS


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("from .b import x", {"treadle.b"}),
        ("def f():\n    from . import b", {"treadle.b"}),
        ("if TYPE_CHECKING:\n    import treadle.b", {"treadle.b"}),
        ("from .c import x", {"treadle.c"}),
        ("from .c.d import x", {"treadle.c.d"}),
        ("from treadle.c import d", {"treadle.c.d"}),
        ("importlib.import_module('treadle.c.d')", {"treadle.c.d"}),
        ("import_module(f'.c.{name}', __package__)\nnames = ('d', 'e')", {"treadle.c.d"}),
        ("import_module(HOMES[name], __package__)\nHOMES = {'D': '.c.d'}", {"treadle.c.d"}),
        ("import numpy", set()),
    ],
)
def test_an_import_is_an_edge_wherever_it_stands(text, targets):
    modules = dict.fromkeys(("treadle", "treadle.b", "treadle.c", "treadle.c.d"), Path())
    assert {target for target, _ in imports_of(ast.parse(text), "treadle", modules)} == targets


def test_a_circle_is_found_and_shown_with_its_imports():
    graph: Graph = {"a": {"b": 3, "d": 4}, "b": {"c": 5}, "c": {"a": 6}, "d": {}}
    assert circles_of(graph) == [["a", "b", "c"]]
    assert shown(["a", "b", "c"], graph, {}).splitlines()[1:] == [
        "  a:3 imports b",
        "  b:5 imports c",
        "  c:6 imports a",
    ]
