"""Rows whose shapes nobody chose: drawn by a seed that every commit has anew.

    drawn_rows("00f23a6", per_family=12)  ->  [Work("random", "random: matmul 3x99 @ 99x1210", ...)]

A table of fixed rows can be tuned until it says little of other shapes. These rows are drawn from
what programs do, and no one can prepare for them.

products       matrix products: square, narrow, in batches, with transposed operands
convolutions   strides, dilation, groups, odd sizes, and both gradients
attention      odd lengths, masks, grouped queries, gradients
reductions     sums, extremes, moments and running sums over any axes
norms          softmax, layer, RMS and batch norm, cross-entropy, gradients too
moves          permutations, slices, concatenation, padding, rolls
picks          gathers, scatters, embeddings, sorting

Half of the rows without gradients compute one of their operands (`formulas`).
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
import subprocess
from collections.abc import Callable

from ..work import Bar, Work
from . import attention, convolutions, moves, norms, picks, products, reductions
from .draw import Draw
from .formulas import with_formula

__all__ = ["GROUP", "LEAST", "PEER", "SHORTEST", "WANTED", "drawn_rows", "seed_of_version"]

GROUP, PEER = "random", "torch"  # PyTorch, eager, as it comes
WANTED, LEAST = 0.9, 0.8  # nine rows in ten as fast as the peer, and none much slower
SHORTEST = 50e-6  # seconds of the peer: below, calls are measured rather than kernels
BAR = Bar((PEER,), 1.0)
# What a row may cost: by the slowest of PyTorch's usual rates it takes 50 µs to 50 ms.
FLOPS, BYTES = (3e7, 4e9), (4e6, 1.5e8)
SMALLER = 1e3  # in a smoke test

FAMILIES: dict[str, Callable[[Draw], Work]] = {
    module.__name__.rpartition(".")[2]: module.draw
    for module in (products, convolutions, attention, reductions, norms, moves, picks)
}


def drawn_rows(seed: str, per_family: int, quick: bool = False) -> list[Work]:
    """`per_family` rows of each family; the same seed draws the same. `quick` shrinks them."""
    rows: dict[str, Work] = {}
    for family, draw in FAMILIES.items():
        found: dict[str, Work] = {}
        for number in itertools.count():
            source = Draw(random.Random(f"{seed} {family} {number}"), quick)
            work = with_formula(source, draw(source))
            if _fits(work, SMALLER if quick else 1.0):
                found[work.name] = work
            if len(found) == per_family:
                break
        rows |= found
    return [dataclasses.replace(work, name=f"{GROUP}: {work.name}", group=GROUP, bars=(BAR,),
                                peers=(PEER,), compared=True)
            for work in rows.values()]  # fmt: skip


def _fits(work: Work, smaller: float) -> bool:
    low, high = FLOPS if work.ceiling == "flops" else BYTES
    return low / smaller <= work.amount <= high / smaller


def seed_of_version() -> str:
    """The commit of the checkout that this package lies in; else the installed version."""
    from importlib.metadata import version

    folder = os.path.dirname(os.path.abspath(__file__))
    command = ["git", "-C", folder, "ls-files", "--error-unmatch", __file__]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return version("treadle")
        command = ["git", "-C", folder, "rev-parse", "--short=12", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return version("treadle")
