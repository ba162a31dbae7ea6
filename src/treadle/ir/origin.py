"""Where a node was made: the line of the user's program, for what goes wrong long after it ran.

    mark(node)                  the line that is running, unless the node has one already
    found = origin_of(node)     found.operation -> "log"
                                found.where -> "/home/me/train.py:12: y = x.log()"
                                found.line -> ("/home/me/train.py", 12)
                                found.layer -> "Model.fc1", where the line calls self.fc1(x)

Recorded as a code object and an instruction of it, which costs a walk over the package's own
frames; the text is made when an error asks. It is no part of what interns a node: a node that two
lines make has the line that made it first.
"""

from __future__ import annotations

import ast
import functools
import itertools
import linecache
import os
import sys
from collections.abc import Iterable
from types import CodeType
from typing import NamedTuple

from ..explained import EXPLAINING
from .node import Node, carry
from .op import Op

__all__ = ["Origin", "lines_of", "mark", "origin_of", "pass_on", "running_line"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_own_files: set[str] = set()  # those seen so far: to look one up is cheaper than its prefix
_set_origin = Node.__dict__["origin"].__set__
_MOST_LINES = 4
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "idiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip


def mark(node: Node) -> None:
    """Remember the running line outside of this package as the one that made `node`."""
    if node.origin is None and (line := running_line(2)) is not None:
        _set_origin(node, (*line, False))


def running_line(above: int = 1) -> tuple[CodeType, int, CodeType | None] | None:
    """The instruction of the user's code that runs, and what of this package it has called.

    `above`: how many frames there are from this one to the first that may be the package's last.
    """
    # the nearest frame is a tensor's own, and above it only its constructor may end
    inner, frame = None, sys._getframe(above + 1)
    while frame is not None:
        code = frame.f_code
        if code is EXPLAINING:
            frame = frame.f_back
            continue
        file = code.co_filename
        if file not in _own_files:
            if not file.startswith(_PACKAGE):
                return code, frame.f_lasti, inner
            _own_files.add(file)
        inner, frame = code, frame.f_back
    return None


def pass_on(node: Node, made: Iterable[Node | None], *, gradient: bool = True) -> None:
    """What a rule made for `node`, its `gradient` or not, comes from the same line as `node`."""
    if node.origin is not None:
        origin = (*node.origin[:3], gradient or node.origin[3])
        for new in made:
            if new is not None:
                carry(node, new, origin)


class Origin(NamedTuple):
    """Who asked for a node of `op`: an instruction of the user's `code`, which called `inner`."""

    op: Op
    code: CodeType
    instruction: int
    inner: CodeType | None
    is_gradient: bool

    @property
    def operation(self) -> str:
        """What was asked for: a method, an operator or a layer, or the gradient of one."""
        return f"the gradient of {self._name}" if self.is_gradient else self._name

    @property
    def layer(self) -> str:
        """In few words: the attribute that a method called, by its class's name.

        Else the operation; an operator by what the line says, for the node may be its last step.
        """
        found = _attribute(self.code, self.instruction)
        if found is None and _is_operator(self.inner):
            found = _operator(self.code, self.instruction)
        name = found or self._name
        return f"grad of {name}" if self.is_gradient else name

    @property
    def line(self) -> tuple[str, int]:
        """The file, and the number of the line in it."""
        return self.code.co_filename, _line(self.code, self.instruction)

    @property
    def where(self) -> str:
        """The line as `file:line: text`."""
        return _where(self.code, self.instruction)

    @property
    def _name(self) -> str:
        return _operation(self.op, self.inner)


def origin_of(node: Node) -> Origin | None:
    """Who made `node`, or None where that is not known."""
    return None if node.origin is None else Origin(node.op, *node.origin)


def lines_of(nodes: Iterable[Node]) -> list[str]:
    """The lines that made `nodes`, each once, the last made first; a few of them."""
    origins = [origin_of(node) for node in reversed(list(nodes))]
    lines = list(dict.fromkeys(origin.where for origin in origins if origin))
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"and {more} more lines"]


@functools.lru_cache(1024)  # each call of a group asks
def _where(code: CodeType, instruction: int) -> str:
    file, line = code.co_filename, _line(code, instruction)
    text = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f": {text}" if text else "")


def _line(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


@functools.lru_cache(1024)
def _attribute(code: CodeType, instruction: int) -> str | None:
    """`Model.fc1`, where an instruction of a method of Model is the call `self.fc1(...)`."""
    owner, _, _ = code.co_qualname.rpartition(".")
    call = _expression(code, instruction)
    if not owner or owner.endswith("<locals>") or not isinstance(call, ast.Call):
        return None
    found, inner = ast.unparse(call.func), call.func
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    if (
        inner is call.func
        or not isinstance(inner, ast.Name)
        or inner.id not in code.co_varnames[:1]
    ):
        return None
    return f"{owner.rpartition('.')[2]}{found.removeprefix(inner.id)}"


@functools.lru_cache(1024)
def _operator(code: CodeType, instruction: int) -> str | None:
    """`matmul`, where an instruction computes `x @ w`."""
    found = _expression(code, instruction)
    if isinstance(found, (ast.BinOp, ast.AugAssign)):
        return _OPERATORS.get(type(found.op))
    return None


def _is_operator(inner: CodeType | None) -> bool:
    """Whether a method of this package that was called stands for an operator."""
    return inner is not None and (inner.co_name == "operator" or inner.co_name.startswith("<"))


def _expression(code: CodeType, instruction: int) -> ast.expr | None:
    """What an instruction computes, if Python keeps that and the source is there."""
    positions = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    line, last, begin, end = positions
    if line is None or last is None or begin is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, n).encode() for n in range(line, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:  # the file has changed since
        return None


def _operation(op: Op, inner: CodeType | None) -> str:
    """The method that was called; for an operator, the node's op."""
    if inner is None:
        return "Tensor"
    owner, _, name = inner.co_qualname.rpartition(".")
    if _is_operator(inner):
        return "div" if op is Op.FDIV else op.name.lower()
    if name in ("__init__", "__call__"):  # of a layer
        return owner
    return name.strip("_")
