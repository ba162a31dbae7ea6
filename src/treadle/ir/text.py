"""Nodes as text and back: one line a node, sources by number.

    0 = const.index 8
    1 = range.index %0 RangeArg(number=0)

`parse(render(node)) is node` for every graph without buffers; buffer tokens print as numbers and
parse to fresh memory identities. Fields of an arg that have their usual value are left out.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass

from ..dtype import DType, dtypes, to_dtype
from ..errors import UserError
from . import args as _args
from .graph import short
from .node import Node
from .op import Op

__all__ = ["parse", "render"]

_LINE = re.compile(r"^\s*(\d+) = (\w+)\.(\w+)(?:x(\d+))?((?: %\d+)*)(?: (.*))?$")
_ENV: dict[str, object] = {
    name: getattr(_args, name)
    for name in _args.__all__
    if name not in ("BufferRef", "Placeholder", "Token")
}
_ENV["__builtins__"] = {}
_ENV["inf"], _ENV["nan"] = float("inf"), float("nan")


def _dtype_name(dtype: DType) -> str:
    return dtype.name if dtype.count == 1 else f"{dtype.name}x{dtype.count}"


def _arg_text(arg: object, tokens: dict[_args.Token, int], numbers: dict[Node, int]) -> str:
    if isinstance(arg, _args.BufferRef):
        token = tokens.setdefault(arg.token, len(tokens))
        return f"BufferRef({token}, {arg.size}, {arg.device!r}, {arg.version})"
    if isinstance(arg, _args.Token):
        return f"Token({tokens.setdefault(arg, len(tokens))})"
    if isinstance(arg, Node):
        return f"%{numbers[arg]}" if arg in numbers else f"<{short(arg)}>"
    if isinstance(arg, Op):
        return f"Op.{arg.name}"
    if isinstance(arg, tuple):
        inner = ", ".join(_arg_text(item, tokens, numbers) for item in arg)
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    if is_dataclass(arg):
        shown = ", ".join(
            f"{field.name}={_arg_text(getattr(arg, field.name), tokens, numbers)}"
            for field in fields(arg)
            if getattr(arg, field.name) != field.default
        )
        return f"{type(arg).__name__}({shown})"
    return repr(arg)


def render(root: Node) -> str:
    """The graph under `root`, one line a node, sources before what uses them."""
    numbers: dict[Node, int] = {}
    tokens: dict[_args.Token, int] = {}
    lines = []
    for node in root.toposort():
        for symbolic in _nodes_in(node.arg):
            for item in symbolic.toposort():
                if item not in numbers:
                    lines.append(_line(item, numbers, tokens))
        if node not in numbers:
            lines.append(_line(node, numbers, tokens))
    return "\n".join(lines)


def _line(node: Node, numbers: dict[Node, int], tokens: dict[_args.Token, int]) -> str:
    sources = "".join(f" %{numbers[s]}" for s in node.src)
    arg = "" if node.arg is None else " " + _arg_text(node.arg, tokens, numbers)
    numbers[node] = len(numbers)
    return f"{numbers[node]} = {node.op.name.lower()}.{_dtype_name(node.dtype)}{sources}{arg}"


def _nodes_in(arg: object) -> list[Node]:
    if isinstance(arg, Node):
        return [arg]
    if isinstance(arg, tuple):
        return [node for item in arg for node in _nodes_in(item)]
    if is_dataclass(arg):
        return [n for field in fields(arg) for n in _nodes_in(getattr(arg, field.name))]
    return []


def parse(text: str) -> Node:
    """The last node of `text`, in the form that `render` writes; UserError if it is not that."""
    nodes: dict[int, Node] = {}
    tokens: dict[int, _args.Token] = {}
    last: Node | None = None
    for count, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _LINE.match(line)
        if found is None:
            raise UserError(f"line {count} is no IR: {line.strip()!r}")
        number, op, dtype, lanes, sources, arg = found.groups()
        try:
            src = tuple(nodes[int(s)] for s in re.findall(r"\d+", sources))
            value = None if arg is None else _parse_arg(arg, nodes, tokens)
            kind = getattr(dtypes, dtype) if dtype in ("void", "index") else to_dtype(dtype)
            last = Node(Op[op.upper()], kind.vec(int(lanes or 1)), src, value)
        except (KeyError, SyntaxError, NameError, TypeError) as error:
            raise UserError(f"line {count} is no IR: {line.strip()!r} ({error})") from error
        nodes[int(number)] = last
    if last is None:
        raise UserError("there is no IR in an empty text")
    return last


class _Ops:
    def __getattr__(self, name: str) -> Op:
        return Op[name]


def _parse_arg(text: str, nodes: dict[int, Node], tokens: dict[int, _args.Token]) -> object:
    def named(number: int) -> _args.Token:
        return tokens.setdefault(number, _args.Token())

    def buffer(token: int, size: int, device: str, version: int) -> _args.BufferRef:
        return _args.BufferRef(named(token), size, device, version)

    code = re.sub(r"%(\d+)", r"_node(\1)", text)
    places = {"BufferRef": buffer, "Token": named, "_node": nodes.__getitem__}
    scope = {**_ENV, "Op": _Ops(), **places}
    return eval(code, scope)  # noqa: S307 (the scope holds the arg records alone, no builtins)
