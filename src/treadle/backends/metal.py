"""METAL: Apple's GPUs.

Only its names are here yet, so that it is refused by name.
"""

from __future__ import annotations

from .record import Backend

__all__ = ["METAL"]

METAL = Backend("METAL", "Apple's GPUs")
