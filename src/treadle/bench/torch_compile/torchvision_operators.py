"""torchvision beside a PyTorch whose build its binary does not fit, such as the one for the CPU.

Its models need none of its compiled operators, but importing it asks for two of them by name: they
are declared here, without a meaning, where its own library does not bring them.
"""

from __future__ import annotations

import contextlib
import importlib.util
from pathlib import Path

__all__ = ["declare"]

_ASKED_FOR = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[object] = []  # which lives as long as the operators do


def declare() -> None:
    """Make `import torchvision` possible; nothing where it is, or where one of both is missing."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None or importlib.util.find_spec("torch") is None:
        return
    import torch

    with contextlib.suppress(OSError):
        torch.ops.load_library(Path(found.origin).parent / "_C.so")
    if not hasattr(torch.ops.torchvision, "nms"):
        _declared.append(library := torch.library.Library("torchvision", "DEF"))
        for schema in _ASKED_FOR:
            library.define(schema)
