"""What every renderer is: a linear program in, the text of one language out.

renderer.render("softmax", phases, ("n",))  ->  the source of a function for each phase
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..lower.linearize import Phase

__all__ = ["Renderer"]


class Renderer(Protocol):
    """Prints kernels for one target."""

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """The source of a kernel, whose phases are `name_0`, `name_1` and so on.

        `variables` names the integers that a launch gives it, in order.
        """
        ...
