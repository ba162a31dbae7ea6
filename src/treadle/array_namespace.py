"""Where tensors find the functions of the Array API standard.

Those are made of tensors and stand above them, so no tensor can import them: the package's root,
which knows where all of its modules are, says how they are loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in the root, which imports this

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["array_namespace", "load_by"]

_load: Callable[[], ModuleType]


def load_by(load: Callable[[], ModuleType]) -> None:
    """`load` gives the module, at the first time that somebody asks."""
    global _load
    _load = load


def array_namespace() -> ModuleType:
    """The module `treadle.array_api`."""
    return _load()
