"""Rewriting: apply a RuleSet to a graph, sources first, each node once a pass.

    simplify(node, INDEX_RULES) -> node

Every node is rewritten after its sources, and what a rule returns is rewritten again until no rule
matches, so one pass reaches the fixed point of local rules. Work is linear in the nodes visited;
there is no recursion.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import InternalError
from .node import Node, carry, rebuild
from .rule import RuleSet

__all__ = ["rewrite", "rewrite_with"]

_LIMIT = 200_000


def rewrite(root: Node, rules: RuleSet, cache: dict[Node, Node] | None = None) -> Node:
    """`root` with `rules` applied everywhere; `cache` carries results between calls."""
    return rewrite_with(root, rules.apply, cache)


def rewrite_with(
    root: Node, step: Callable[[Node], Node | None], cache: dict[Node, Node] | None = None
) -> Node:
    """`root` with `step` applied everywhere; `step` returns a new node, or None to keep one."""
    new: dict[Node, Node] = {} if cache is None else cache
    stack = [root]
    waiting: dict[Node, Node] = {}  # node -> what it became, whose own rewriting is pending
    steps = 0
    while stack:
        if len(stack) > _LIMIT:
            raise InternalError(f"rewriting goes in circles; last node: {stack[-1]!r}")
        node = stack[-1]
        if node in new:
            stack.pop()
            continue
        target = waiting.get(node)
        if target is not None:
            if target in new:
                new[node] = new[target]
                stack.pop()
            else:
                stack.append(target)
            continue
        pending = [s for s in node.src if s not in new]
        if pending:
            stack.extend(pending)
            continue
        steps += 1
        if steps > _LIMIT:
            raise InternalError(f"rewriting does not end; last node: {node!r}")
        src = tuple(new[s] for s in node.src)
        candidate = node if src == node.src else rebuild(node, src)
        if candidate is not node:
            if node.origin is not None:
                carry(node, candidate, node.origin)
            waiting[node] = candidate
            continue
        result = step(node)
        if result is None or result is node:
            new[node] = node
            stack.pop()
        else:
            if node.origin is not None and result.src:  # a leaf is none of the rule's making
                carry(node, result, node.origin)
            waiting[node] = result
    return new[root]
