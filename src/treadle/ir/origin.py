"""Where a node was made: the line of the user's program, for what goes wrong long after it ran.

    mark(node)                  the line that is running, unless the node has one already
    found = origin_of(node)     found.operation -> "log"
                                found.where -> "train.py:12: y = x.log()"

Recorded as a code object and an instruction of it, which costs a walk over the package's own
frames; the text is made when an error asks. It is no part of what interns a node: a node that two
lines make has the line that made it first.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType

from ..explained import EXPLAINING
from .node import Node
from .op import Op

__all__ = ["Origin", "lines_of", "mark", "origin_of", "pass_on"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_own_files: set[str] = set()  # those seen so far: to look one up is cheaper than its prefix
_set_origin = Node.__dict__["origin"].__set__
_MOST_LINES = 4


def mark(node: Node) -> None:
    """Remember the running line outside of this package as the one that made `node`."""
    if node.origin is not None:
        return
    # the nearest frame is a tensor's own, and above it only its constructor may end
    inner, frame = None, sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        if code is EXPLAINING:
            frame = frame.f_back
            continue
        file = code.co_filename
        if file not in _own_files:
            if not file.startswith(_PACKAGE):
                _set_origin(node, (code, frame.f_lasti, inner, False))
                return
            _own_files.add(file)
        inner, frame = code, frame.f_back


def pass_on(node: Node, made: Iterable[Node | None], *, gradient: bool = True) -> None:
    """What a rule made for `node`, its `gradient` or not, comes from the same line as `node`."""
    if node.origin is not None:
        origin = (*node.origin[:3], gradient or node.origin[3])
        for new in made:
            if new is not None and new.origin is None:
                _set_origin(new, origin)


@dataclass(frozen=True)
class Origin:
    """The operation that a line asked for, and the line as `file:line: text`."""

    operation: str
    where: str


def origin_of(node: Node) -> Origin | None:
    """Who made `node`, or None where that is not known."""
    if node.origin is None:
        return None
    code, instruction, inner, is_gradient = node.origin
    name = _operation(node, inner)
    line = _line(code, instruction)
    text = linecache.getline(code.co_filename, line).strip()
    where = f"{code.co_filename}:{line}" + (f": {text}" if text else "")
    return Origin(f"the gradient of {name}" if is_gradient else name, where)


def lines_of(nodes: Iterable[Node]) -> list[str]:
    """The lines that made `nodes`, each once, the last made first; a few of them."""
    origins = [origin_of(node) for node in reversed(list(nodes))]
    lines = list(dict.fromkeys(origin.where for origin in origins if origin))
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[:_MOST_LINES], f"and {more} more lines"]


def _line(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


def _operation(node: Node, inner: CodeType | None) -> str:
    """The method that was called; for an operator, the node's op."""
    if inner is None:
        return "Tensor"
    owner, _, name = inner.co_qualname.rpartition(".")
    if name == "operator" or name.startswith("<"):
        return "div" if node.op is Op.FDIV else node.op.name.lower()
    if name in ("__init__", "__call__"):  # of a layer
        return owner
    return name.strip("_")
