"""CHECK_KERNELS: kernels that compute what their graph says pass, and others are named."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, TinyJit, dtypes
from treadle.engine import kernels, pipeline
from treadle.engine.check_kernels import TALLY, _require
from treadle.engine.prepacked import Kept
from treadle.errors import KernelMismatch
from treadle.ir.loops import loop_size
from treadle.ir.node import Node
from treadle.ir.op import Op
from treadle.ir.rounding import Value
from treadle.optimize.moves import Schedule
from treadle.schedule.kernel import Kernel
from treadle.target import Target


@pytest.fixture
def checked() -> Iterator[None]:
    with Context(CHECK_KERNELS=1, CACHE=0):
        yield


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _wrong(ast: Node, old: float, new: float) -> Node:
    """`ast` with another constant."""
    [constant] = [n for n in ast.toposort() if n.op is Op.CONST and n.arg == old]
    return ast.substitute({constant: constant.replace(arg=new)})


def test_kernels_that_are_right_pass(device: str, checked: None) -> None:
    if device == "REF":
        pytest.skip("the interpreter has no kernels")
    before, seen = TALLY.kernels, TALLY.elements
    x, w = Tensor(_numbers(20, 33), device=device), Tensor(_numbers(33, 17), device=device)
    (x @ w).relu().realize()
    x.softmax().realize()
    x.cumsum(1).realize()
    x.argmax(1).realize()
    x.half().sum(0).realize()
    x[3:5] = 7.0
    x.realize()
    Tensor.zeros(9, device=device).contiguous().scatter_reduce(
        0, Tensor([1, 1, 8], device=device), Tensor([1.0, 2.0, 3.0], device=device), reduce="sum"
    ).realize()
    assert TALLY.kernels >= before + 7
    assert TALLY.elements >= seen + 300


def test_a_wrong_kernel_is_named_with_element_moves_and_line(
    checked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kernels.optimize
    monkeypatch.setattr(
        kernels, "optimize", lambda ast, target: right(_wrong(ast, 3.25, 3.5), target)
    )
    y = Tensor(np.arange(5, dtype=np.float32)) * 3.25
    with pytest.raises(KernelMismatch) as caught:
        y.realize()
    said = str(caught.value)
    assert "stores 3.5 as element (1,) of float32 of shape (5,); 3.25, within " in said
    assert "is what its loops compute before any move" in said
    assert "moves: " in said
    assert "test_check_kernels.py" in said


@pytest.mark.parametrize("number", range(4))
def test_what_is_wrong_in_one_step_of_an_outer_loop_is_found(
    number: int, checked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and last two steps of each loop that moves have made are among what is compared."""
    right, size = kernels.optimize, 100_000 + 64 * number

    def optimize(ast: Node, target: Target) -> tuple[Node, Schedule]:
        made, moves = right(ast, target)
        [store] = [node for node in made.toposort() if node.op is Op.STORE]
        grid = max((n for n in made.toposort() if n.op is Op.RANGE), key=loop_size)
        step = (0, 1, loop_size(grid) - 2, loop_size(grid) - 1)[number]
        memory, index, value, *gate = store.src
        wrong = value + grid.eq(step).where(*(Node.const(value.dtype, n) for n in (1, 0)))
        return made.substitute({store: store.replace(src=(memory, index, wrong, *gate))}), moves

    monkeypatch.setattr(kernels, "optimize", optimize)
    x = Tensor(_numbers(size, 8)).realize()
    with pytest.raises(KernelMismatch, match="its loops compute before any"):
        (x * 2.5).realize()


def test_a_wrong_fusion_is_told_from_a_wrong_kernel(
    checked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = pipeline.schedule

    def schedule(*args: object) -> tuple[list[Kernel], list[Node]]:
        found, nodes = right(*args)  # type: ignore[arg-type]
        return [
            Kernel(_wrong(k.ast, 1.25, 1.5), k.roots, k.buffers, k.writes, k.device, k.reason)
            for k in found
        ], nodes

    monkeypatch.setattr(pipeline, "schedule", schedule)
    y = Tensor(np.arange(5, dtype=np.float32)) * 1.25
    with pytest.raises(KernelMismatch, match="what the graph says that was fused into it"):
        y.realize()


def _miscombined(ast: Node, op: Op | None, more: float) -> Node:
    """`ast` with a scatter that combines by another op, or whose last value is `more` larger."""
    for end in ast.src:
        store = end.src[0]
        memory, place, value, inside = store.src if len(store.src) == 4 else (store, *[None] * 3)
        if memory.op is not Op.AFTER or memory.src[0].op is not Op.PARAM:
            continue
        is_old = [s.op is Op.LOAD and s.src[0] is memory for s in value.src]
        term = value.src[is_old.index(False)] if any(is_old) else value
        if more:
            loop = end.src[-1]
            constants = (Node.const(term.dtype, n) for n in (more, 0))
            last = loop.alu(Op.CMPEQ, loop.src[0] - 1).where(*constants)
            wrong = value.substitute({term: term + last})
        else:
            old = Node(Op.LOAD, value.dtype, (memory, place, inside, Node.const(value.dtype, 0)))
            wrong = term if op is None else old.alu(op, term)
        return ast.substitute({store: store.replace(src=(memory, place, wrong, inside))})
    return ast


MISTAKES = [
    ("sum", dtypes.float32, None, 0), ("sum", dtypes.float32, Op.MAX, 0),
    ("sum", dtypes.float32, None, 1e-2), ("sum", dtypes.float16, None, 0.5),
    ("sum", dtypes.int32, None, 1), ("prod", dtypes.float32, Op.ADD, 0),
    ("prod", dtypes.float32, None, 1e-2), ("amax", dtypes.float32, Op.MIN, 0),
    ("amin", dtypes.int32, None, 0), ("set", dtypes.float32, Op.ADD, 0),
    ("set", dtypes.float32, None, 1e-5), ("set", dtypes.int32, None, 1),
]  # fmt: skip
NAMES = [f"{how}-{dtype.name}-{op and op.name}-{more}" for how, dtype, op, more in MISTAKES]


@pytest.mark.parametrize(
    ("where", "number"),
    [*(("kernel", n) for n in range(len(MISTAKES))), *(("graph", n) for n in (0, 4, 7, 11))],
    ids=[*(f"kernel-{name}" for name in NAMES), *(f"graph-{NAMES[n]}" for n in (0, 4, 7, 11))],
)
def test_a_wrong_scatter_is_found(
    where: str, number: int, checked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    how, dtype, op, more = MISTAKES[number]
    rng = np.random.default_rng(0)
    size = 40 + 2 * number + (where == "graph")  # of its own: wrong programs are remembered
    places = Tensor(np.append(rng.integers(0, size, 3000), 7).astype(np.int32)).realize()
    values = Tensor(np.append(rng.uniform(0.99, 1.01, 3000), 1.0).astype(np.float32) * 3)
    values = (values / 3 if how == "prod" else values).cast(dtype).realize()
    base = Tensor.ones(size, dtype=dtype).contiguous().realize()

    right, scheduled = kernels.optimize, pipeline.schedule

    def schedule(*args: object) -> tuple[list[Kernel], list[Node]]:
        found, nodes = scheduled(*args)  # type: ignore[arg-type]
        return [replace(k, ast=_miscombined(k.ast, op, more)) for k in found], nodes

    if where == "graph":
        monkeypatch.setattr(pipeline, "schedule", schedule)
    else:
        wrong = lambda ast, target: right(_miscombined(ast, op, more), target)
        monkeypatch.setattr(kernels, "optimize", wrong)
    said = "its loops compute before any" if where == "kernel" else "the graph says that was fused"
    if how == "set":
        found = base.scatter(0, places, values)
    else:
        found = base.scatter_reduce(0, places, values, how)
    with pytest.raises(KernelMismatch, match=said):
        found.realize()


def test_a_scatter_of_many_values_to_one_place_is_right_within_its_roundings(checked: None) -> None:
    before = TALLY.unknown, dict(TALLY.skipped)
    places = Tensor.zeros(300_000, dtype="int32").contiguous().realize()
    values = Tensor.full((300_000,), 1.1).contiguous().realize()
    for how in ("sum", "amax", "mean"):
        Tensor.zeros(3).contiguous().scatter_reduce(0, places, values, how).realize()
    Tensor.zeros(3).contiguous().scatter(0, places, values).realize()
    assert before == (TALLY.unknown, TALLY.skipped)


def test_what_a_kernel_overwrites_is_saved_first(checked: None) -> None:
    x = Tensor(_numbers(50)).realize()
    expected = x.numpy() * 2 + 1
    x.assign(x * 2 + 1).realize()
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)


def test_a_replay_with_stale_packed_weights_is_found(
    checked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = Tensor(_numbers(128, 128)).realize()
    step = TinyJit(lambda x: x @ w)
    x = Tensor(_numbers(64, 128, seed=1)).realize()
    for _ in range(3):
        np.testing.assert_allclose(step(x).numpy(), x.numpy() @ w.numpy(), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(Kept, "refresh", lambda self: None)
    w.assign(Tensor(_numbers(128, 128, seed=2))).realize()
    with pytest.raises(KernelMismatch, match="a replay of <lambda>"):
        step(x)


def test_replays_with_state_and_several_results_pass(checked: None) -> None:
    total = Tensor(np.zeros(4, np.float32)).realize()

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, Tensor]:
        total.assign(total + x).realize()
        return (total * 2).realize(), (x.relu()).realize()

    for number in range(5):
        double, _ = step(Tensor(np.full(4, number, np.float32)).realize())
    np.testing.assert_array_equal(total.numpy(), np.full(4, 10))
    np.testing.assert_array_equal(double.numpy(), np.full(4, 20))


def test_loops_over_steps_pass(checked: None) -> None:
    from treadle import nn

    before = TALLY.kernels
    nn.LSTM(8, 16)(Tensor(_numbers(12, 3, 8)))[0].realize()
    assert TALLY.kernels > before + 12


def test_a_remembered_program_keeps_no_memory_of_what_it_was_made_for(checked: None) -> None:
    gc.collect()
    before = GlobalCounters.mem_used
    x = Tensor(np.ones((64, 33), np.float32), requires_grad=True).realize()
    (x * 2 + x.max()).sum().backward()
    assert x.grad is not None
    x.grad.realize()
    assert GlobalCounters.mem_used > before
    del x
    gc.collect()
    assert GlobalCounters.mem_used == before


@pytest.mark.parametrize("off", [1, -40])
def test_bits_of_float64_may_be_off_where_no_float64_tells_them_apart(off: int) -> None:
    bits = np.array([13824727720441940992 + n for n in range(0, 4096, 64)], np.uint64)
    right = Value((bits.astype(object) + off).astype(np.uint64), np.full(bits.shape, 46.0))
    rounded = np.abs(bits.astype(np.float64) - right.value.astype(np.float64))
    assert rounded.max() > 46  # two numbers between which both lie
    there = SimpleNamespace(opened=SimpleNamespace(name="CPU"))
    before = TALLY.elements
    _require(there, 0, np.arange(bits.size), bits, right, "")
    assert TALLY.elements == before + bits.size
