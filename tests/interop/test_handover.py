"""PyTorch's tensors into captured functions, as they lie in memory, and replays on that memory."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch: pip install treadle[oracle]")

from treadle import Tensor, TinyJit  # noqa: E402
from treadle.interop.handover import Direct, Layout, taken  # noqa: E402

X = torch.arange(24.0).reshape(2, 3, 4)

CASES = {
    "contiguous": X,
    "a number": torch.tensor(3.0),
    "nothing": torch.zeros(0, 3),
    "transposed": X.permute(2, 0, 1),
    "channels last": X[None].to(memory_format=torch.channels_last),
    "repeated": torch.arange(3.0)[:, None].expand(3, 5),
    "repeated and transposed": torch.arange(6.0).reshape(2, 3).T[:, None].expand(3, 4, 2),
    "one repeated": torch.tensor(2.0).expand(3, 4),
    "with gaps": X[:, ::2],
    "within": X[:, :, 1:3],
    "overlapping": torch.arange(6.0).as_strided((4, 3), (1, 1)),
    "axes of one element": X[:1, :, :1],
    "halves": X.half().permute(1, 0, 2),
    "truths": X > 5,
    "out of line": torch.frombuffer(bytearray(4 * 6 + 1), dtype=torch.uint8)[1:].view(2, 12),
}


@pytest.mark.parametrize("tensor", CASES.values(), ids=CASES)
def test_a_layout_gives_back_what_a_tensor_is(tensor):
    layout = Layout.of(tensor)
    found = layout.view(taken(tensor, layout))
    assert found.shape == tuple(tensor.shape)
    assert found.tolist() == tensor.tolist()


@pytest.mark.parametrize("name", ["contiguous", "transposed", "repeated", "channels last"])
def test_memory_is_taken_and_not_copied(name):
    tensor = CASES[name].clone(memory_format=torch.preserve_format)
    tensor = tensor if name != "repeated" else torch.arange(3.0)[:, None].expand(3, 5)
    layout = Layout.of(tensor)
    found = taken(tensor, layout)
    layout.base(tensor).add_(100)
    assert layout.view(found).tolist() == tensor.tolist()


def direct(tensors, wanted, function):
    """Direct replays of a function of tensors like these, captured by two calls with them."""
    layouts = [Layout.of(t) for t in tensors]

    def run(*inputs):
        given = [layout.view(x) for layout, x in zip(layouts, inputs, strict=True)]
        results = function(*given)
        Tensor.realize(*results)
        return results

    captured = TinyJit(run)
    for _ in range(2):
        given = [taken(t, layout) for t, layout in zip(tensors, layouts, strict=True)]
        found = Direct(captured, tensors, given, wanted)
        captured(*given)
    return found


def sums(x, y):
    return [x + y, (x * y).sum(0)]


def test_replays_read_and_write_memory_of_pytorch():
    tensors = [torch.randn(3, 4), torch.randn(4, 3).T]
    replay = direct(tensors, [torch.empty(3, 4), torch.empty(4)], sums)
    for _ in range(3):
        x, y = torch.randn(3, 4), torch.randn(4, 3).T
        total, dot = replay([x, y])
        torch.testing.assert_close(total, x + y)
        torch.testing.assert_close(dot, (x * y).sum(0))
    kept, _ = replay([x, y])
    replay([y.contiguous(), x.T.contiguous().T])
    torch.testing.assert_close(kept, x + y)  # results are new memory each time


def test_results_get_the_strides_that_are_wanted():
    like = torch.empty_strided((3, 4), (8, 2)), torch.empty(4)
    replay = direct([torch.randn(3, 4)] * 2, like, sums)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    total, _ = replay([x, y])
    assert total.stride() == (8, 2)
    torch.testing.assert_close(total, x + y)


def test_one_tensor_may_be_given_twice():
    replay = direct(
        [torch.randn(3, 4), torch.randn(3, 4)], [torch.empty(3, 4), torch.empty(4)], sums
    )
    x = torch.randn(3, 4)
    total, dot = replay([x, x])
    torch.testing.assert_close(total, x + x)
    torch.testing.assert_close(dot, (x * x).sum(0))


@pytest.mark.parametrize(
    "other",
    [
        torch.randn(4, 3),
        torch.randn(4, 3).T,
        torch.randn(3, 4).double(),
        torch.randn(3, 8)[:, ::2],
        torch._neg_view(torch.randn(3, 4)),
    ],
    ids=["shape", "strides", "dtype", "gaps", "negative in name"],
)
def test_what_is_not_like_the_captured_tensors_has_to_be_looked_at(other):
    tensors = [torch.randn(3, 4), torch.randn(3, 4)]
    replay = direct(tensors, [torch.empty(3, 4), torch.empty(4)], sums)
    assert replay([tensors[0], other]) is None
    assert replay(tensors) is not None


@pytest.mark.parametrize("name", ["with gaps", "within", "overlapping"])
def test_a_tensor_with_gaps_is_copied_by_each_replay(name):
    like = CASES[name]
    rows = torch.randn(like.shape)
    replay = direct([like, rows], [torch.empty(like.shape), torch.empty(like.shape[1:])], sums)
    for _ in range(2):
        memory = torch.randn(
            1 + sum((n - 1) * s for n, s in zip(like.shape, like.stride(), strict=True))
        )
        x, y = memory.as_strided(like.shape, like.stride()), torch.randn(like.shape)
        total, dot = replay([x, y])
        torch.testing.assert_close(total, x + y)
        torch.testing.assert_close(dot, (x * y).sum(0))


def test_a_training_step_makes_no_tensors_after_its_first_calls(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    fast = torch.compile(model, backend="treadle")
    seen, run_at = [], TinyJit.run_at
    monkeypatch.setattr(
        TinyJit, "run_at", lambda self, *given: seen.append(run_at(self, *given)) or seen[-1]
    )
    for _ in range(5):
        x = torch.randn(5, 6)
        model.zero_grad()
        fast(x).square().sum().backward()
        found = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).square().sum().backward()
        for mine, p in zip(found, model.parameters(), strict=True):
            torch.testing.assert_close(mine, p.grad)
    assert seen.count(True) >= 2 * 2  # forward and backward, of at least two calls
    assert seen[-2:] == [True, True]
