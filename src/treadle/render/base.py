"""What every renderer is: a linear program in, the text of one language out.

renderer.render("softmax", phases, ("n",))  ->  the source of a function for each phase
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ..lower.linearize import Phase

if TYPE_CHECKING:
    from ..target import Target

__all__ = ["PhaseRenderer", "Renderer"]


class Renderer(Protocol):
    """Prints kernels for one target."""

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """The source of a kernel, whose phases are `name_0`, `name_1` and so on.

        `variables` names the integers that a launch gives it, in order.
        """
        ...


class _Printed(Protocol):
    """A phase, as the text of a function."""

    def text(self) -> str: ...


F = TypeVar("F", bound=_Printed)


class PhaseRenderer(ABC, Generic[F]):
    """Prints each phase by itself, as a kernel function of a GPU's language.

    `contract` lets multiply and add fuse.
    """

    def __init__(self, target: Target, contract: bool = True) -> None:
        self.target, self.contract = target, contract

    def render(self, name: str, phases: Sequence[Phase], variables: Sequence[str]) -> str:
        """A module with one kernel function a phase, called `name_0`, `name_1`, ..."""
        functions = [
            self.function(f"{name}_{number}", phase, number) for number, phase in enumerate(phases)
        ]
        bodies = [function.text() for function in functions]
        return self.module(functions, bodies)

    @abstractmethod
    def function(self, name: str, phase: Phase, number: int) -> F:
        """What prints phase `number` of a kernel."""

    @abstractmethod
    def module(self, functions: Sequence[F], bodies: Sequence[str]) -> str:
        """The whole source: the functions' texts, and what they have asked for when printed."""
