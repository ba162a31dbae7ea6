"""Fits the prices of `target/costs.py` to measured schedules, and says how well they rank.

    CPU_COUNT=1 python -m treadle.bench.beam.trials --keep measured.jsonl
    python scripts/fit_costs.py measured.jsonl [HELD_OUT.jsonl ...]

scripts/schedules.jsonl is the file that the prices of `target/costs.py` are fitted to.

A kernel's seconds are the sum of price times effort, all prices at least 0, times a factor of its
own: prices are to tell schedules of one kernel apart. `regret` is how much longer the schedule
takes that is ranked first than the best one, `own` the same of the heuristic's, `trials` how many
schedules have to be measured, in the order of the ranking and in that of the space, until one is
within 2 % of the best. In `left out` each family is ranked by prices fitted to all others.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from treadle.target import Costs

FEWEST = 4  # schedules of a kernel, else there is nothing to rank
OWN_SCALE = 0.8  # how much of a kernel's factor is its own
ROUNDS = 12
# About what processors' manuals say. A price that the schedules tell little of stays near that.
USUAL = Costs(phases=3000, arithmetic=0.15, accesses=0.1, apart=0.3, waits=0.1, steps=0.3,
              into_l1=0.1, into_l2=0.3, into_l3=1.2, pages=2.0)  # fmt: skip
PULL = 0.3  # as much as a tenth of a kernel
NEAR = 1.02


class Kernel:
    """Schedules of one kernel: `seconds` of each, and `efforts`, a row each; the first is own."""

    def __init__(self, device: str, row: str, tried: list[tuple[float, list[float], str]]) -> None:
        self.device, self.row = device, row
        self.seconds = np.array([seconds for seconds, *_ in tried])
        self.efforts = np.array([effort for _, effort, *_ in tried])

    @property
    def family(self) -> str:
        return self.row.removeprefix("random: ").split()[0].split("(")[0]


def read(file: str) -> list[Kernel]:
    """The kernels of a file that have schedules to rank."""
    lines = map(json.loads, Path(file).read_text().splitlines())
    return [
        Kernel(line["device"], line["row"], tried)
        for line in lines
        for tried in line["kernels"]
        if len(tried) >= FEWEST
    ]


def fitted(kernels: list[Kernel]) -> np.ndarray:
    """Prices in nanoseconds."""
    factors = np.ones(len(kernels))
    for _ in range(ROUNDS):
        parts = [
            k.efforts / k.seconds[:, None] / factor / len(k.seconds) ** 0.5
            for k, factor in zip(kernels, factors, strict=True)
        ]
        ones = [np.full(len(k.seconds), len(k.seconds) ** -0.5) for k in kernels]
        usual = PULL * np.diag(1e9 / np.array(USUAL))
        pulled = np.full(len(USUAL), PULL)
        prices, _ = nnls(np.concatenate([*parts, usual]), np.concatenate([*ones, pulled]))
        means = [np.exp(np.mean(np.log(k.efforts @ prices / k.seconds))) for k in kernels]
        factors = np.array(means) ** OWN_SCALE
        factors /= np.exp(np.mean(np.log(factors)))
    return np.multiply(prices, 1e9)


def report(kernels: list[Kernel], prices: list[np.ndarray], name: str) -> None:
    """A line for each kernel, and the means."""
    rows = []
    for kernel, price in zip(kernels, prices, strict=True):
        estimated, best = kernel.efforts @ price, kernel.seconds.min()
        near = kernel.seconds <= NEAR * best
        ranked = near[np.argsort(estimated, kind="stable")]
        rows.append((kernel.seconds[estimated.argmin()] / best, kernel.seconds[0] / best,
                     ranked.argmax() + 1, near.argmax() + 1))  # fmt: skip
        if "-v" in sys.argv:
            print(
                f"    {kernel.row[:60]:60} {len(near):3} " + " ".join(f"{v:.2f}" for v in rows[-1])
            )
    table = np.array(rows)
    within = [(table[:, column] <= 1.05).mean() for column in (0, 1)]
    print(
        f"{name}: {len(rows)} kernels; regret {table[:, 0].mean() - 1:.1%}, own "
        f"{table[:, 1].mean() - 1:.1%}; within 5 %: {within[0]:.0%}, own {within[1]:.0%}; "
        f"trials {table[:, 2].mean():.1f} ranked, {table[:, 3].mean():.1f} as listed"
    )


def main() -> None:
    files = [word for word in sys.argv[1:] if not word.startswith("-")]
    fitted_to = read(files[0])
    for device in sorted({kernel.device for kernel in fitted_to}):
        kernels = [kernel for kernel in fitted_to if kernel.device == device]
        prices = fitted(kernels)
        print(device, ", ".join(f"{n}={p:.3g}" for n, p in zip(Costs._fields, prices, strict=True)))
        report(kernels, [prices] * len(kernels), "fitted")
        others = {
            family: fitted([k for k in kernels if k.family != family])
            for family in {k.family for k in kernels}
        }
        report(kernels, [others[kernel.family] for kernel in kernels], "left out")
        for file in files[1:]:
            held = [kernel for kernel in read(file) if kernel.device == device]
            if held:
                report(held, [prices] * len(held), f"held out, {Path(file).name}")


if __name__ == "__main__":
    main()
