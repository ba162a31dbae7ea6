"""Small models through `torch.compile`: PyTorch's eager mode, its inductor, and treadle in turns.

    python -m treadle.bench.torch_compile [WORD ...] [--mode training] [--sides eager treadle]

Needs `pip install treadle[oracle,models]`. A training step is the forward and the backward
direction of the mean square of all results; inference is the forward direction alone. Times are
medians, each round of which calls all sides one after the other, quick ones several times.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import torch

__all__ = ["MODES", "SIDES", "Row", "measured", "table"]

SIDES = ("eager", "inductor", "treadle")
MODES = ("inference", "training")
ROUNDS = 15
BURST, MOST = 2e-3, 50  # seconds of calls in a row of one side, and the most of them
SMALL = "three small layers"  # of models.py: what a call costs beside its kernels


@dataclass(frozen=True)
class Row:
    """A model in a mode: for each side the seconds of a call, and of its first two calls."""

    model: str
    mode: str
    seconds: dict[str, float]
    first: dict[str, float]


def measured(model: str, mode: str, sides: Sequence[str]) -> Row:
    """The row of a model; gradients and results of the sides are not compared here."""
    import torch

    from .models import MODELS

    torch.manual_seed(0)
    torch._dynamo.reset()
    original, inputs = MODELS[model]()
    steps: dict[str, Callable[[], object]] = {}
    first: dict[str, float] = {}
    for side in sides:
        own = copy.deepcopy(original).train(mode == "training")
        call = own if side == "eager" else torch.compile(own, backend=side)
        step = _training(own, call, inputs) if mode == "training" else _inference(call, inputs)
        first[side] = _seconds(step) + _seconds(step)
        step()
        steps[side] = step
    calls = min(MOST, max(1, int(BURST / max(map(_seconds, steps.values())))))
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(ROUNDS):
        for side, step in steps.items():
            times[side].append(_seconds(step, calls))
    return Row(model, mode, {s: statistics.median(t) for s, t in times.items()}, first)


def _training(
    model: torch.nn.Module, call: Callable[..., object], inputs: Mapping[str, torch.Tensor]
) -> Callable[[], object]:
    def step() -> object:
        model.zero_grad(set_to_none=True)
        found = call(**inputs)
        logits = cast("torch.Tensor", getattr(found, "logits", found))
        loss = logits.float().square().mean()
        loss.backward()
        return loss

    return step


def _inference(
    call: Callable[..., object], inputs: Mapping[str, torch.Tensor]
) -> Callable[[], object]:
    import torch

    def step() -> object:
        with torch.no_grad():
            return call(**inputs)

    return step


def _seconds(call: Callable[[], object], count: int = 1) -> float:
    """Of one of so many calls in a row."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def table(rows: Sequence[Row]) -> str:
    """Rows as Markdown, with the other sides' times over treadle's, and their geometric means."""
    sides = list(rows[0].seconds) if rows else []
    others = [side for side in sides if side != "treadle" and "treadle" in sides]
    head = ["model", "mode", *(f"{s}, ms" for s in sides), *(f"{s} / treadle" for s in others),
            "first two calls, s"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        milliseconds = [_milliseconds(row.seconds[s]) for s in sides]
        ratios = [f"{row.seconds[s] / row.seconds['treadle']:.2f}" for s in others]
        first = ", ".join(f"{row.first[s]:.1f}" for s in sides)
        lines.append("| " + " | ".join([row.model, row.mode, *milliseconds, *ratios, first]) + " |")
    for mode in dict.fromkeys(row.mode for row in rows):
        mine = [row for row in rows if row.mode == mode and row.model != SMALL]
        for side in others if mine else ():
            ratios_of = [row.seconds[side] / row.seconds["treadle"] for row in mine]
            mean = statistics.geometric_mean(ratios_of)
            lines.append(f"\n{mode}: {side} / treadle, geometric mean of {len(mine)}: {mean:.2f}")
    return "\n".join(lines)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds >= 1e-3 else f"{1e3 * seconds:.3f}"
