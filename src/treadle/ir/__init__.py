"""The intermediate representation: one immutable, interned `Node` for everything."""

from .rules.index import simplify as _simplify
from .shape import simplify_sizes_by as _simplify_sizes_by

_simplify_sizes_by(_simplify)  # each module of the package is imported behind this one
