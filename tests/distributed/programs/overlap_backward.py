"""Gradients are exchanged while `backward` goes on: what ran before what.

`treadle run -n 2 overlap_backward.py`, of buckets of a group, of a mesh, and of replays.
"""

from __future__ import annotations

from treadle import Tensor, TinyJit, distributed, nn
from treadle.engine import steps
from treadle.engine.background_calls import Job

world = distributed.init()
mesh = world.mesh()
LAYERS, WIDTH = 4, 256  # 256 KiB of gradients for each layer: a bucket, and a call in background


class Net:
    def __init__(self) -> None:
        Tensor.manual_seed(3)
        self.layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().mean()


events: list[str] = []


def note(step: steps.Step) -> None:
    if isinstance(step, steps.Run):
        events.append(f"{len(step.program.kernels)} kernels")
    elif isinstance(step, steps.Collective) and step.arg.shape != ():
        events.append("call")


def in_turns(events: list[str]) -> int:
    """How many calls were begun before kernels that ran later."""
    last = max(at for at, event in enumerate(events) if event != "call")
    return events[:last].count("call")


def grouped() -> list[str]:
    net = Net()
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.SGD(parameters, lr=0.1)
    x = Tensor.rand(16, WIDTH).realize()
    optimizer.zero_grad()
    loss = net(x)
    loss.realize()
    loss.backward()
    events.clear()
    world.average_gradients(parameters, bucket=WIDTH * WIDTH * 4)
    return [*events]


def meshed() -> list[str]:
    net = Net()
    parameters = nn.state.get_parameters(net)
    for parameter in parameters:
        parameter.shard_(mesh)
    optimizer = nn.optim.SGD(parameters, lr=0.1)
    x = Tensor.rand(16, WIDTH).shard(mesh, 0).realize()
    optimizer.zero_grad()
    loss = net(x)
    events.clear()
    loss.backward()
    return [*events]


steps.listeners.append(note)
for found in (grouped(), meshed()):
    print(found)
    assert found.count("call") == LAYERS, found
    assert in_turns(found) >= LAYERS - 1, found
print("2 right")
