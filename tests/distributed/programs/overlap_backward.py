"""Gradients are exchanged while `backward` goes on: what ran before what.

`treadle run -n 2 overlap_backward.py`, of buckets of a group, of a mesh, and of replays.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from treadle import Tensor, TinyJit, distributed, nn
from treadle.engine import steps
from treadle.engine.repeated_calls import RepeatedCall

world = distributed.init()
mesh = world.mesh()
LAYERS, WIDTH = 4, 256  # 256 KiB of gradients for each layer: a bucket, and a call in background


class Net:
    def __init__(self, width: int = WIDTH) -> None:
        Tensor.manual_seed(3)
        self.layers = [nn.Linear(width, width, bias=False) for _ in range(LAYERS)]

    def __call__(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().mean()


events: list[str] = []


def is_gradient(call: steps.Collective | RepeatedCall) -> bool:
    """Whether it is no loss that is added up."""
    step = call.step if isinstance(call, RepeatedCall) else call
    return math.prod(step.arg.shape) > 1


def note(step: steps.Step) -> None:
    if isinstance(step, steps.Run):
        events.append(f"{len(step.program.kernels)} kernels")
    elif isinstance(step, steps.Collective) and is_gradient(step):
        events.append("call")


def in_turns(events: list[str]) -> int:
    """How many calls were begun before kernels that ran later."""
    last = max(at for at, event in enumerate(events) if event.endswith("kernels"))
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


def kernels_for(exchange: Callable[[list[Tensor]], None]) -> int:
    """How many kernels gradients of more than 1 MiB and a loss take that nobody has asked for."""
    net = Net(600)
    parameters = nn.state.get_parameters(net)
    optimizer = nn.optim.SGD(parameters, lr=0.1)
    x = Tensor.rand(16, 600).realize()
    optimizer.zero_grad()
    loss = net(x).backward()
    events.clear()
    exchange(parameters)
    loss.realize(*(p.grad for p in parameters if p.grad is not None))
    return sum(int(event.split()[0]) for event in events if event.endswith("kernels"))


def replayed() -> list[str]:
    """Of a captured step: its call lists, and what each waits for before it begins."""
    net = Net()
    parameters = nn.state.get_parameters(net)
    for parameter in parameters:
        parameter.shard_(mesh)
    optimizer = nn.optim.SGD(parameters, lr=0.1)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).backward()
        return loss.realize(*optimizer.schedule_step())

    with Tensor.train():
        for _ in range(4):
            step(Tensor.rand(16, WIDTH).shard(mesh, 0).realize())
    capture = step._capture
    assert capture is not None
    found: list[str] = []
    for place, part in enumerate(capture.replay):
        found += ["wait" for call in capture.awaited.get(place, ()) if is_gradient(call)]
        if not isinstance(part, steps.Collective | RepeatedCall):
            found.append("kernels")
        elif is_gradient(part):
            found.append("call")
    return found


def meshed(width: int) -> list[str]:
    net = Net(width)
    parameters = nn.state.get_parameters(net)
    for parameter in parameters:
        parameter.shard_(mesh)
    optimizer = nn.optim.SGD(parameters, lr=0.1)
    x = Tensor.rand(16, width).shard(mesh, 0).realize()
    optimizer.zero_grad()
    loss = net(x)
    events.clear()
    loss.backward()
    return [*events]


steps.listeners.append(note)
for found in (grouped(), meshed(WIDTH)):
    print(found)
    assert found.count("call") == LAYERS, found
    assert in_turns(found) >= LAYERS - 1, found
found = meshed(16)  # small gradients are one call
assert found.count("call") == 1, found
found = replayed()
print(found)
assert found.count("call") == LAYERS
# No call is waited for before the last one is begun: kernels run meanwhile.
assert found.index("wait") > len(found) - 1 - found[::-1].index("call")
assert in_turns(found[: found.index("wait")]) >= LAYERS - 1
# Neither copies nor the loss's layers once more; the means are of parts that the kernels store.
exchanged, alone = kernels_for(world.average_gradients), kernels_for(lambda _: None)
assert exchanged == alone, (exchanged, alone)
print("5 right")
