"""Rejected source is saved, so that a report of the bug can carry it."""

from __future__ import annotations

import os
import tempfile

__all__ = ["save_rejected"]


def save_rejected(source: str, suffix: str) -> str:
    """Writes `source` to a new file in a private folder; the path, or why there is none."""
    try:
        folder = tempfile.mkdtemp(prefix="treadle-")  # made with mode 0700
        path = os.path.join(folder, f"rejected{suffix}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
    except OSError as error:
        return f"(not saved: {error})"
    return path
