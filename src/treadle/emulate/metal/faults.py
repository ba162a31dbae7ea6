"""What ends a program on Metal, or is undefined: calls in the wrong order or of wrong types."""

from __future__ import annotations

__all__ = ["Misuse"]


class Misuse(Exception):
    """A message that Metal does not allow. It says which, and why."""
