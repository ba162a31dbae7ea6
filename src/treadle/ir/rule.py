"""Named rewrite rules as data: a pattern, what it becomes, and when.

    x, c = anything("x"), constant("c")
    rule("mul-div", (x * c) // c, x, when=c.ne(0))

A pattern is a Node graph with wildcards. `when` is a Node over the same wildcards that interval
analysis must prove; so a rule can be listed, applied, and proved by a solver from one definition.
`result` may be a function from the matched nodes to a Node (or None: no match), the escape hatch
for what a template cannot say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ..dtype import DType, dtypes
from .interval import always
from .node import Node
from .op import COMMUTATIVE, Op

__all__ = ["Rule", "RuleSet", "anything", "constant", "rule"]

Captures = dict[Node, Node]
Result = Node | Callable[..., Node | None]


def anything(name: str, dtype: DType = dtypes.index) -> Node:
    """A wildcard that matches any node of `dtype`."""
    return Node(Op.WILDCARD, dtype, (), (name, False))


def constant(name: str, dtype: DType = dtypes.index) -> Node:
    """A wildcard that matches a CONST of `dtype`."""
    return Node(Op.WILDCARD, dtype, (), (name, True))


@dataclass(frozen=True, eq=False)
class Rule:
    """Rewrite `pattern` to `result` where `when` is proved."""

    name: str
    pattern: Node
    result: Result
    when: Node | None = None

    def apply(self, node: Node) -> Node | None:
        """The rewritten node, or None where the rule does not match."""
        for captures in _match(self.pattern, node, {}):
            if self.when is not None and not always(self.when.substitute(captures)):
                continue
            if isinstance(self.result, Node):
                return self.result.substitute(captures)
            new = self.result(**{w.arg[0]: n for w, n in captures.items()})
            if new is not None and new is not node:
                return new
        return None


def rule(name: str, pattern: Node, result: Result, when: Node | None = None) -> Rule:
    """A named rule; see the module's example."""
    return Rule(name, pattern, result, when)


def _match(pattern: Node, node: Node, captures: Captures) -> Iterable[Captures]:
    if pattern.op is Op.WILDCARD:
        bound = captures.get(pattern)
        if bound is not None:
            if bound is node:
                yield captures
        elif node.dtype is pattern.dtype and (node.op is Op.CONST or not pattern.arg[1]):
            yield {**captures, pattern: node}
        return
    if pattern.op is not node.op or len(pattern.src) != len(node.src):
        return
    if pattern.arg != node.arg or (pattern.op is Op.CAST and pattern.dtype is not node.dtype):
        return
    yield from _match_sources(pattern.src, node.src, captures)
    if node.op in COMMUTATIVE and pattern.src[0] is not pattern.src[1]:
        yield from _match_sources(pattern.src, node.src[::-1], captures)


def _match_sources(
    patterns: tuple[Node, ...], nodes: tuple[Node, ...], captures: Captures
) -> Iterable[Captures]:
    if not patterns:
        yield captures
        return
    for found in _match(patterns[0], nodes[0], captures):
        yield from _match_sources(patterns[1:], nodes[1:], found)


class RuleSet:
    """Rules that apply together, dispatched by the pattern's op. Sets add: `a + b`."""

    rules: tuple[Rule, ...]

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self._by_op: dict[Op, list[Rule]] = {}
        for item in self.rules:
            self._by_op.setdefault(item.pattern.op, []).append(item)

    def __add__(self, other: RuleSet) -> RuleSet:
        return RuleSet(self.rules + other.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def apply(self, node: Node) -> Node | None:
        """The result of the first rule that matches, or None."""
        for item in self._by_op.get(node.op, ()):
            new = item.apply(node)
            if new is not None:
                return new
        return None
