"""The instructions on matrices that a warp holds together."""

from __future__ import annotations

from treadle.emulate.ptx.emit import Handlers

__all__ = ["HANDLERS"]

HANDLERS = Handlers()
