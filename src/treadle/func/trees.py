"""Trees of tensors: nested tuples, named tuples, lists and dicts; all else is a leaf.

leaves({"w": a, "b": (c, 2)})               ->  [a, c, 2]
mapped(f, (a, [c]))                         ->  (f(a), [f(c)])
paired("vmap", "in_dims", (0, None), args)  ->  (path, 0 or None, leaf) for each leaf of args
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from ..errors import UserError

__all__ = ["Pair", "leaves", "mapped", "paired", "restored"]


_Inner: TypeAlias = tuple[object, ...] | list[object] | dict[object, object]


class Pair(NamedTuple):
    """A leaf, what stands for it in another tree, and where it is."""

    path: str
    other: Any
    leaf: Any


def leaves(tree: object) -> list[Any]:
    """What is in `tree`, in order."""
    if not _is_inner(tree):
        return [tree]
    return [leaf for _, item in _items(tree) for leaf in leaves(item)]


def mapped(function: Callable[[Any], object], tree: object) -> Any:
    """`tree` with `function` applied to every leaf."""
    if not _is_inner(tree):
        return function(tree)
    items = [mapped(function, item) for _, item in _items(tree)]
    if isinstance(tree, dict):
        return dict(zip(tree, items, strict=True))
    if hasattr(tree, "_fields"):
        return type(tree)(*items)
    return tuple(items) if isinstance(tree, tuple) else items


def restored(tree: object, values: Iterable[object]) -> Any:
    """`tree` with other leaves, in order."""
    following = iter(values)
    return mapped(lambda leaf: next(following), tree)


def paired(
    name: str, what: str, other: object, tree: object, prefix: bool = True, path: str = ""
) -> list[Pair]:
    """Every leaf of `tree` with what stands for it in `other`, which is called `what`.

    With `prefix`, a leaf of `other` may stand for everything below it. Raises UserError where forms
    differ.
    """
    if not _is_inner(other) and (prefix or not _is_inner(tree)):
        return [Pair(path + place, other, leaf) for place, leaf in _placed(tree)]
    if not _is_inner(other) or not _is_inner(tree) or _form(other) != _form(tree):
        raise UserError(
            f"[{name}] {what}{path} is {_shown(other)} for {_shown(tree)}: their forms have to be "
            "the same" + (", or one value be for all below it" if prefix else "")
        )
    others = dict(_items(other))
    return [
        pair
        for key, item in _items(tree)
        for pair in paired(name, what, others[key], item, prefix, f"{path}[{key!r}]")
    ]


def _placed(tree: object) -> list[tuple[str, object]]:
    if not _is_inner(tree):
        return [("", tree)]
    return [(f"[{k!r}]{place}", leaf) for k, item in _items(tree) for place, leaf in _placed(item)]


def _is_inner(tree: object) -> TypeGuard[_Inner]:
    return isinstance(tree, (tuple, list, dict))


def _items(tree: _Inner) -> Iterable[tuple[object, object]]:
    return tree.items() if isinstance(tree, dict) else enumerate(tree)


def _form(tree: _Inner) -> set[object]:
    """Tuples and lists stand for each other."""
    return {key for key, _ in _items(tree)}


def _shown(tree: object) -> str:
    if isinstance(tree, dict):
        return f"a dict of {', '.join(map(repr, tree))}"
    kind = type(tree).__name__
    return f"a {kind} of {len(tree)}" if _is_inner(tree) else f"one {kind}"
