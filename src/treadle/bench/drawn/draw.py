"""Random choices, and sizes as programs have them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Draw"]

T = TypeVar("T")

SMALL = 8  # by how much sizes shrink for a smoke test


class Draw:
    """A source of choices. `small` divides sizes by eight."""

    def __init__(self, source: random.Random, small: bool) -> None:
        self.source, self.small = source, small

    def one_of(self, *choices: T) -> T:
        return self.source.choice(choices)

    def order(self, values: Sequence[T]) -> list[T]:
        """The values in a random order."""
        return self.source.sample(values, len(values))

    def some_of(self, values: Sequence[T]) -> list[T]:
        """At least one of the values, in their order."""
        count = self.source.randint(1, len(values))
        places = sorted(self.source.sample(range(len(values)), count))
        return [values[place] for place in places]

    def below(self, end: int) -> int:
        return self.source.randrange(end)

    def size(self, low: int, high: int) -> int:
        """From `low` to `high`, each octave as likely: a multiple of 64, of 8, or of nothing."""
        if self.small:
            low, high = -(-low // SMALL), -(-high // SMALL)
        size = round(math.exp(self.source.uniform(math.log(low), math.log(high))))
        step = self.one_of(1, 1, 8, 64)
        return max(low, min(size // step * step, high)) if size >= step else size
