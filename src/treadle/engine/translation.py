"""A kernel's AST to machine code: what follows from a Target alone, in any process.

    translator.translate(Job(name, text, buffers, work))  ->  (description, code)

No device is open here, nothing is remembered and nothing is read from the disk: kernels.py does
that. So a Translator and its Jobs can be sent to another process (see workers.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import DeviceError
from ..ir.args import TensorBox
from ..ir.choices import choices_of
from ..ir.loops import loop_size
from ..ir.node import Node
from ..ir.remembered import remembered
from ..ir.text import parse
from ..lower.linearize import Phase, param_bytes
from ..lower.overflow_analysis import most_iterations
from ..lower.passes import lower
from ..optimize.heuristic import optimize
from ..optimize.moves import Schedule
from ..target import Target
from .program import BoxesFields, Description, EntryFields, packed
from .report import report_compilation
from .work import Work, work_left

if TYPE_CHECKING:
    from ..compile.base import Compiler
    from ..render.base import Renderer
    from .devices import Opened

__all__ = ["Job", "Translator", "entry_of"]


@dataclass(frozen=True)
class Job:
    """A kernel to translate: `text` is its AST, `work` what a launch of that does."""

    name: str
    text: str
    buffers: int
    work: Work


@dataclass(frozen=True)
class Translator:
    """The stages for one device: `target` decides the moves, `renderer` and `compiler` the code."""

    device: str
    target: Target
    renderer: Renderer
    compiler: Compiler

    @classmethod
    def of(cls, opened: Opened) -> Translator:
        """The stages for a device that is open, under the settings that hold now."""
        return cls(opened.name, opened.code_target, opened.renderer, opened.compiler)

    def translate(self, job: Job) -> tuple[Description, bytes]:
        """What the cache keeps of a kernel under the heuristic's moves: a description, and code."""
        with remembered(), choices_of() as made:
            return self.finished(job, *optimize(parse(job.text), self.target), made)

    def finished(
        self,
        job: Job,
        ast: Node,
        schedule: Schedule,
        made: Iterable[str] = (),
        searched: int = 0,
    ) -> tuple[Description, bytes]:
        """The same for an AST under a schedule, by the choices `made`.

        It is the best of so many as were `searched`, if any were.
        """
        with choices_of() as lowering:
            lowered = lower(ast, job.buffers, self.target)
        self._check_steps(lowered.phases)
        report_compilation(job.name, ast, lowered)
        source = self.renderer.render(job.name, lowered.phases, lowered.variables)
        code = self.compiler.compile(source)
        choices = sorted({*made, *lowering})
        size = job.work.ops + job.work.buffers // 4
        description: Description = {
            "name": job.name,
            "entries": [
                entry_of(f"{job.name}_{number}", phase, lowered.variables, size)
                for number, phase in enumerate(lowered.phases)
            ],
            "scratch": [param_bytes(s) for s in lowered.scratch],
            "work": work_left(job.work, ast, choices),
            "moves": list(map(str, schedule)),
            "searched": searched,
            "choices": choices,
            "source": packed(source),
            "variables": lowered.variables,
        }
        return description, code

    def _check_steps(self, phases: Sequence[Phase]) -> None:
        """Raises DeviceError if a loop is so long that the device's driver would end it early."""
        limit = self.target.max_steps
        steps = 0 if limit is None else max(map(most_iterations, phases), default=0)
        if limit is not None and steps > limit:
            raise DeviceError(
                f"[realize] {self.device}: one work item would take {steps} loop steps, but the "
                f"driver of {self.target.name} ends loops after {limit}: compute on another "
                "device, such as the CPU"
            )


def entry_of(symbol: str, phase: Phase, variables: Sequence[str], work: int) -> EntryFields:
    """The fields of the Entry that describes `phase`, as JSON keeps them."""
    grid = loop_size(*phase.grid)
    slots = [(p.arg.slot, param_bytes(p), written) for p, written in phase.params]
    places = [variables.index(name) for name in phase.variables]
    boxes = [_boxes(param, box) for param, box in phase.boxes]
    aligned = sorted(param.arg.slot for param in phase.aligned)
    return (symbol, grid, phase.launched, slots, places, work, phase.asked, boxes, aligned)


def _boxes(param: Node, box: TensorBox) -> BoxesFields:
    """The fields of a Boxes, as JSON keeps them."""
    size = param.dtype.itemsize
    strides = [size * stride for stride in box.strides]
    return (param.arg.slot, param.dtype.name, size * box.offset, box.shape, strides, box.box)
