"""What the verifier says of a graph, as a value that tests compare."""

from __future__ import annotations

from collections.abc import Callable

from treadle.errors import InternalError
from treadle.ir.node import Node


def complaint(verify: Callable[[Node], None], node: Node) -> str:
    """The rule that `node` breaks, with the node that breaks it; "" if it breaks none."""
    try:
        verify(node)
    except InternalError as error:
        return str(error)
    return ""
