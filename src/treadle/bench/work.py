"""What is measured: a row is data and one function, in words that every library knows.

    Work("matmul", "matmul 1024", "flops", 2 * 1024**3, (a, b), lambda lib, a, b: a @ b, (BAR,))

The function takes a library (`libraries/`), the weights where the row has some, and the inputs.
`out` also takes the memory to write into: PyTorch without fresh pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "AS_FAST",
    "BANDWIDTH",
    "COMPILERS",
    "NINE_TENTHS",
    "TENTH_OF_NUMPY",
    "TORCH",
    "TWICE",
    "TWICE_AND_COMPILED",
    "Array",
    "Bar",
    "Form",
    "Input",
    "Task",
    "Work",
]  # fmt: skip

Form = Callable[..., Any]
Task = Literal["result", "gradients", "training", "update"]
Shape = tuple[int, ...]

BLOCK = 1_000_003  # values that repeat in every input; a prime, so that no two rows are alike


class Array(Protocol):
    """A tensor of whichever library: what forms do to it themselves, all else is the library's."""

    @property
    def shape(self) -> Shape: ...

    @property
    def T(self) -> Self: ...

    def __add__(self, other: Self | float, /) -> Self: ...
    def __radd__(self, other: float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __rmul__(self, other: float, /) -> Self: ...
    def __matmul__(self, other: Self, /) -> Self: ...
    def __getitem__(self, index: tuple[slice, ...], /) -> Self: ...
    def sum(self, axis: int | None, /) -> Self: ...
    def argmax(self, axis: int | None, /) -> Self: ...
    def cumsum(self, axis: int, /) -> Self: ...
    def reshape(self, shape: Shape, /) -> Self: ...


@dataclass(frozen=True)
class Input:
    """A random array: normal floats, or integers from 0 up to `below`.

    `definite`: a symmetric matrix with eigenvalues from 1 on.
    """

    shape: Shape
    dtype: str = "float32"
    below: int = 0
    mean: float = 0.0
    scale: float = 1.0
    definite: bool = False

    def array(self, seed: int) -> np.ndarray:
        """The same values for every library."""
        import ml_dtypes  # noqa: F401  # which names bfloat16
        import numpy as np

        generator, size = np.random.default_rng(seed), int(np.prod(self.shape))
        count = min(size, BLOCK)
        if self.below:
            block = generator.integers(0, self.below, count)
        else:
            block = generator.standard_normal(count, dtype=np.float32) * self.scale + self.mean
        found = np.resize(block.astype(self.dtype), self.shape)
        return found @ found.T + np.eye(*self.shape, dtype=self.dtype) if self.definite else found


@dataclass(frozen=True)
class Bar:
    """What a row must reach: `factor` times the best of these peers, or of the ceiling."""

    against: tuple[str, ...]
    factor: float

    def __str__(self) -> str:
        names = [name for name in self.against if name != "torch out="]
        if not names:
            return f"{self.factor:.0%} of ceiling"
        return f"{self.factor:g}x {' or '.join(names)}"


TORCH = ("torch", "torch out=")
COMPILERS = ("torch.compile", "jax")
AS_FAST, NINE_TENTHS, TWICE = Bar(TORCH, 1.0), Bar(TORCH, 0.9), Bar(TORCH, 2.0)
TWICE_AND_COMPILED = (TWICE, Bar(COMPILERS, 1.2))
BANDWIDTH = Bar((), 0.9)
TENTH_OF_NUMPY = Bar(("numpy",), 0.1)


@dataclass(frozen=True)
class Work:
    """One row of a group: `amount` of what `ceiling` bounds (operations, or bytes moved).

    task        what is done with `form`
    result      its result
    gradients   its result, and the gradients to the inputs `wanted`; the last input arrives there
    training    its result, a loss, and one Adam step for all weights
    update      an Adam step alone: the inputs are the gradients

    A device that works by itself is waited for once in `repeat` runs. With a `film` of more inputs
    and results than the caches hold, all of them come from memory. Times are those of one.
    """

    group: str
    name: str
    ceiling: Literal["flops", "read", "copy", "matrix"]
    amount: float
    inputs: tuple[Input, ...]
    form: Form
    bars: tuple[Bar, ...]
    out: Form | None = None
    weights: Mapping[str, Input] = field(default_factory=dict)
    task: Task = "result"
    wanted: tuple[int, ...] = ()
    random: bool = False
    repeat: int = 1  # runs that are started before they are waited for
    film: int = 1  # inputs that a run goes through, each with a result that stays until the next
    peers: tuple[str, ...] = ()  # those that take part where nobody asked for any; all: empty
    compared: bool = False  # whether the libraries' numbers must agree before any time counts

    @property
    def count(self) -> int:
        """How many times a Run does the work."""
        return self.repeat * self.film

    def call(self, library: object, weights: Mapping[str, object], inputs: Sequence[object]) -> Any:
        """The form's result."""
        given = (weights,) if self.weights else ()
        return self.form(library, *given, *inputs)
