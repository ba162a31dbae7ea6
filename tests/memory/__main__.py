"""Random programs of writing, by hand: what differs from the reference, shrunk.

python -m tests.memory 17             program 17, and what is wrong with it
python -m tests.memory 0:500          all that differ among the first 500
python -m tests.memory 0:500 --sharded
"""

from __future__ import annotations

import argparse
import random

from .programs import program, varied
from .running import difference, expected, shrunk, stand_alone


def _differences(seed: int, sharded: bool) -> str | None:
    """The first difference of a program or its variants, with the least program that has it."""
    text = program(seed, sharded)
    wanted = expected(text)
    for kind, other, jit in (
        ("plain", text, False), ("captured", text, True),
        ("varied", varied(random.Random(seed), text), True),
    ):  # fmt: skip
        found = difference(other, wanted, jit)
        if found is not None:
            least = shrunk(other, jit)
            return f"{kind}: {found}\n{stand_alone(least, jit)}\n# -> {difference(least, jit=jit)}"
    return None


def main() -> None:
    """Prints one program, or the differences in a range of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory")
    parser.add_argument("seeds", help="a seed, or FIRST:END")
    parser.add_argument("--sharded", action="store_true", help="over two devices")
    given = parser.parse_args()
    first, _, end = given.seeds.partition(":")
    wrong = 0
    for seed in range(int(first), int(end or int(first) + 1)):
        if not end:
            print(program(seed, given.sharded), end="\n\n")
        found = _differences(seed, given.sharded)
        if found is not None:
            wrong += 1
            print(f"----- program {seed}, {found}", end="\n\n", flush=True)
    print(f"{wrong} programs differ")


main()
