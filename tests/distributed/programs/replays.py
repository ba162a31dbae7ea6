"""Captured programs of large and small calls, whose processes are late at random places.

`replays.py SEEDS...`: small calls overtake large ones that wait for their turn, in one process and
not in another, and each must meet its own.
"""

from __future__ import annotations

import random
import sys
import time

import numpy as np

from treadle import Tensor, TinyJit, distributed

SMALL, LARGE = 48, 40_000  # elements: 64 KiB are between them
world = distributed.init()
pair = world.split(color=0)


def program(seed: int):
    """A function of a small and a large tensor, and the same by NumPy for what all give."""
    rng = random.Random(seed)
    plan = [
        (rng.choice(["sum", "sum", "max", "gather", "add", "other"]), rng.randrange(2))
        for _ in range(rng.randint(4, 12))
    ]

    def function(*inputs: Tensor) -> list[Tensor]:
        values, results = list(inputs), []
        for what, at in plan:
            x = values[at]
            if what == "sum":
                results.append(world.allreduce(x))
            elif what == "max":
                results.append(world.allreduce(x * 2, "max"))
            elif what == "gather":
                results.append(world.allgather(x))
            elif what == "other":
                results.append(pair.allreduce(x + 3))
            else:
                values[at] = x + results[-1].flatten()[0] if results else x + 1
        return [t.contiguous().realize() for t in results]

    def expected(inputs: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        """The results of each process, from what each gives."""
        values, results = [list(mine) for mine in inputs], []
        for what, at in plan:
            given = [mine[at] for mine in values]
            if what in ("sum", "other"):
                moved = [x + 3 for x in given] if what == "other" else given
                results.append([sum(moved)] * len(given))
            elif what == "max":
                results.append([np.maximum.reduce([x * 2 for x in given])] * len(given))
            elif what == "gather":
                results.append([np.concatenate(given)] * len(given))
            else:
                for rank, mine in enumerate(values):
                    mine[at] = mine[at] + (results[-1][rank].flat[0] if results else 1)
        return results

    return function, expected


right = wrong = 0
for seed in map(int, sys.argv[1:]):
    function, expected = program(seed)
    captured = TinyJit(function)
    delays = random.Random(1000 * seed + world.rank)
    for number in range(8):
        rng = np.random.default_rng([seed, number])
        inputs = [
            [rng.integers(-8, 9, n).astype(np.float32) for n in (SMALL, LARGE)]
            for _ in range(world.size)
        ]
        mine = [Tensor(x).realize() for x in inputs[world.rank]]
        if delays.random() < 0.5:
            time.sleep(delays.random() * 0.005)
        found = captured(*mine)
        for one, each in zip(found, expected(inputs), strict=True):
            is_right = np.array_equal(one.numpy(), each[world.rank])
            right, wrong = right + is_right, wrong + (not is_right)
assert not wrong, f"{wrong} of {right + wrong} are wrong"
print(f"{right} right", flush=True)
