"""Steps of data-parallel training beside what they are made of.

    python -m treadle.bench.distributed_training

    demo CNN   compute 3.0 ms   bare 0.1 ms   step 3.5 ms   89 % of the sum   PyTorch 6.1 ms

Each process trains on a batch of its own. `compute` is its step without the others, `bare` what
mpi4py's Allreduce takes for as many bytes, in the buckets of `average_gradients`, and `step` both,
captured. So (compute + bare) / step is 100 % where exchanging takes no more than it must; it is
more where kernels run meanwhile. `PyTorch` is a step of DistributedDataParallel's over Gloo.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from .models import Decoder, DigitNet, Network
from .processes import Times, Ways, connect_gloo, give, medians, run_bench
from .work import Input

if TYPE_CHECKING:
    import numpy as np
    from mpi4py import MPI

    from ..tensor import Tensor

__all__ = ["as_text", "main", "measured", "rows"]

BUCKET = 25 << 20  # bytes, as `average_gradients` has it
CALLS = 3  # in a row, of one turn
LEARNING_RATE = 1e-3
Row = tuple[Network, tuple[Input, ...]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the processes, and print what they have measured."""
    return run_bench("treadle.bench.distributed_training", __doc__, arguments, measured, as_text)[0]


def rows(quick: bool) -> dict[str, Row]:
    """The networks, and the batch of each process."""
    batch, tokens = (8, 8) if quick else (64, 64)
    sizes = {"layers": 1, "width": 48, "heads": 4, "words": 64} if quick else {
        "layers": 2, "width": 768, "heads": 12, "words": 1024}  # fmt: skip
    decoder = Decoder(tokens, **sizes)
    images = Input((batch, 1, 8, 8)), Input((batch,), "int32", below=10)
    words = (Input((1, tokens), "int32", below=decoder.words),
             Input((tokens,), "int32", below=decoder.words))  # fmt: skip
    return {"demo CNN": (DigitNet(), images), "GPT-2's layers": (decoder, words)}


def measured(options: argparse.Namespace) -> None:
    """Measure each row, as one of the processes."""
    from mpi4py import MPI

    from ..distributed import init

    world, comm = init(), MPI.COMM_WORLD.Dup()
    has_gloo = connect_gloo(world.rank, world.size, Path(options.worker))
    found: Times = {}
    for name, (net, given) in rows(options.quick).items():
        batch = [one.array(100 * (world.rank + 1) + n) for n, one in enumerate(given)]
        weights = {name: one.array(n) for n, (name, one) in enumerate(net.weights.items())}
        ways: dict[str, Callable[[], object]] = {
            "compute": _step(net, weights, batch, lambda _: None),
            "bare": _bare(sum(array.nbytes for array in weights.values()), comm),
            "step": _step(net, weights, batch, world.average_gradients),
        }
        if has_gloo:
            ways |= _of_pytorch(net, weights, batch)
        found[name] = medians(ways, CALLS, options.rounds, comm)
    give(options, found, world.rank)


def _step(
    net: Network, weights: Mapping[str, np.ndarray], batch: Sequence[np.ndarray],
    exchange: Callable[[list[Tensor]], None],
) -> Callable[[], object]:  # fmt: skip
    """A captured step of Adam's, whose gradients are exchanged."""
    from ..engine.background_calls import finish_calls
    from ..engine.devices import Device
    from ..engine.jit import TinyJit
    from ..nn.optim import Adam
    from ..tensor import Tensor
    from .libraries.tensor import TensorLibrary

    library = TensorLibrary("treadle")
    trained = {name: Tensor(array).realize() for name, array in weights.items()}
    parameters, given = [*trained.values()], [Tensor(array).realize() for array in batch]
    optimizer = Adam(parameters, lr=LEARNING_RATE)

    @TinyJit
    def step(*xs: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = cast("Tensor", net.loss(library, trained, *xs)).backward()
        exchange(parameters)
        return loss.realize(*optimizer.schedule_step())

    def run() -> None:
        with Tensor.train():
            step(*given)
        finish_calls()
        Device[Device.DEFAULT].synchronize()

    return run


def _bare(nbytes: int, comm: MPI.Comm) -> Callable[[], object]:
    """Sums of so many bytes by MPI itself."""
    import numpy as np

    sizes = [min(BUCKET, nbytes - begin) // 4 for begin in range(0, nbytes, BUCKET)]
    pairs = [(np.ones(size, np.float32), np.empty(size, np.float32)) for size in sizes]

    def run() -> None:
        for given, result in pairs:
            comm.Allreduce(given, result)

    return run


def _of_pytorch(
    net: Network, weights: Mapping[str, np.ndarray], batch: Sequence[np.ndarray]
) -> Ways:
    """The same step by PyTorch, with as many threads: alone, and of all processes."""
    import torch

    from .libraries.pytorch import Torch

    torch.set_num_threads(int(os.environ.get("TREADLE_CPU_COUNT") or torch.get_num_threads()))
    library = Torch()
    given = [library.tensor(array) for array in batch]

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.all = torch.nn.ParameterList([library.tensor(a) for a in weights.values()])

        def forward(self, *xs: torch.Tensor) -> torch.Tensor:
            loss = net.loss(library, dict(zip(weights, self.all, strict=True)), *xs)
            return cast("torch.Tensor", loss)

    def stepping(model: torch.nn.Module) -> Callable[[], object]:
        optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)

        def run() -> None:
            optimizer.zero_grad()
            model(*given).backward()
            optimizer.step()

        return run

    spread = torch.nn.parallel.DistributedDataParallel(Model())
    return {"PyTorch alone": stepping(Model()), "PyTorch": stepping(spread)}


def as_text(found: Times, count: int) -> str:
    """A line for each row."""
    lines = [f"a step of {count} processes, each with a batch of its own, the median:"]
    for name, times in found.items():
        words = [f"{way} {seconds * 1e3:,.2f} ms" for way, seconds in times.items()]
        words.insert(3, f"{(times['compute'] + times['bare']) / times['step']:.0%} of the sum")
        lines.append(f"{name:>16}  " + "   ".join(words))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
