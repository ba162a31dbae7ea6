"""What every library shares: inputs from a row's data, and one method for each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..work import Work

if TYPE_CHECKING:
    import numpy as np

__all__ = ["LEARNING_RATE", "Library", "NotOffered", "Run"]

Run = Callable[[], object]

T = TypeVar("T")  # the library's own tensors

LEARNING_RATE = 1e-3


class NotOffered(Exception):
    """The library has no direct counterpart of a row."""


def _film(starts: Sequence[Run]) -> Run:
    """All of them in turn; each result stays until the next turn has another in its place."""
    results: list[object] = [None] * len(starts)

    def run() -> object:
        for place, start in enumerate(starts):
            results[place] = start()
        return results[-1]

    return run


class Library(Generic[T]):
    """A peer; subclasses have the words, and the tasks of `Work` that they know."""

    def __getattr__(self, word: str) -> Any:
        raise NotOffered(f"{type(self).__name__} has no {word}")

    def prepare(self, work: Work) -> Run:
        """A function that does the work `work.count` times, waits, and returns the last result.

        Raises NotOffered where the library has no form of it.
        """
        starts = [self._start(work) for _ in range(work.film)]
        start = starts[0] if work.film == 1 else _film(starts)

        def run() -> object:
            for _ in range(work.repeat - 1):
                start()
            result = start()
            self.finish(result)
            return result

        return run

    def _start(self, work: Work) -> Run:
        given = [*work.weights.values(), *work.inputs]
        tensors = [self.tensor(each.array(seed)) for seed, each in enumerate(given)]
        weights = dict(zip(work.weights, tensors, strict=False))
        return getattr(self, work.task)(work, weights, tensors[len(weights) :])

    def finish(self, result: object) -> None:
        """Waits for what has been started, where a library does not do so itself."""

    def tensor(self, array: np.ndarray) -> T:
        """The array in the library's own memory."""
        raise NotImplementedError

    def result(self, work: Work, weights: Mapping[str, T], inputs: Sequence[T]) -> Run:
        """What starts task `result`, which every library has."""
        raise NotImplementedError

    def arrays(self, result: Any) -> list[np.ndarray]:
        """What a Run returned, as NumPy arrays."""
        results = result if isinstance(result, (list, tuple)) else [result]
        return [self.array(r) for r in results]

    def array(self, tensor: T) -> np.ndarray:
        import numpy as np

        return np.asarray(tensor)
