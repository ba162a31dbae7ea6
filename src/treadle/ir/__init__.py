"""The intermediate representation: one immutable, interned `Node` for everything."""

from typing import Any as _Any

from .shape import simplify_sizes_by as _simplify_sizes_by


def _simplify(size: _Any) -> _Any:
    from .rules.sizes import simplify_size  # sizes that are numbers need no rules

    return simplify_size(size)


_simplify_sizes_by(_simplify)  # each module of the package is imported behind this one
