"""Engines that run beside each other, one step at a time, in an order that a seed decides.

    scheduler = Scheduler(seed=7)
    scheduler.add(engine())          # a generator: yields True for a step done, False for "I wait"
    scheduler.step()                 # one step of an engine that can go on; False if none can

An engine that waits is asked again at each step. So whatever order is possible on hardware comes up
at some seed, and the same seed gives the same order again.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

__all__ = ["Engine", "Scheduler"]

Engine = Iterator[bool]


class Scheduler:
    """The engines of all devices of one machine."""

    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.is_paused = False  # nothing runs: engines see their doorbells later
        self._engines: list[Engine] = []

    def add(self, engine: Engine) -> None:
        """A new engine, which has not begun."""
        self._engines.append(engine)

    def remove(self, engine: Engine) -> None:
        """An engine that is no more; what it had not done is not done."""
        if engine in self._engines:
            self._engines.remove(engine)

    def step(self) -> bool:
        """One step of one engine. False, and nothing has happened, if all of them wait."""
        if self.is_paused:
            return False
        for engine in self.random.sample(self._engines, len(self._engines)):
            went_on = next(engine, None)
            if went_on is None:
                self.remove(engine)
            elif went_on:
                return True
        return False

    def some_steps(self, most: int) -> bool:
        """Up to `most` steps. False if there was nothing to do."""
        went_on = False
        for _ in range(self.random.randint(0, most)):
            if not self.step():
                break
            went_on = True
        return went_on

    def settle(self) -> None:
        """Runs until every engine waits."""
        while self.step():
            pass
