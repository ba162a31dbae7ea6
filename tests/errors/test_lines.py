"""What fails while a graph runs names the user's own line, from inside fused kernels too."""

import inspect

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit
from treadle.engine import kernels, pipeline
from treadle.errors import IndexOutOfRange, InternalError, NonFiniteError, OutOfMemory
from treadle.ir.origin import origin_of
from treadle.nn import Linear


def line(offset=0):
    """This file and the line of the caller, as messages name it."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset}: "


def test_a_node_knows_the_line_and_the_operation_that_made_it():
    here = line(1)
    y = Tensor([1.0, 2.0]).softmax()
    origin = origin_of(y.node)
    assert origin.operation == "softmax"
    assert origin.where == here + "y = Tensor([1.0, 2.0]).softmax()"


def test_operators_subscripts_and_constructors_have_names():
    x = Tensor([1.0, 2.0])
    y = (x / 3, x[1:], x.T)
    assert [origin_of(t.node).operation for t in (x, *y)] == ["Tensor", "div", "getitem", "Tensor"]


class Model:
    def __init__(self):
        self.inner, self.layers = Linear(2, 2), [Linear(2, 2)]

    def __call__(self, x):
        return (self.inner(x), self.layers[0](x).relu(), self.inner.weight.exp(), x @ x)


def test_a_layer_has_the_name_of_the_attribute_that_a_method_calls():
    found = [origin_of(t.node) for t in Model()(Tensor([[1.0, 2.0], [3.0, 4.0]]))]
    assert [origin.layer for origin in found] == ["Model.inner", "relu", "Model.inner.weight.exp",
                                                  "matmul"]  # fmt: skip
    assert found[0].operation == "Linear"
    assert found[0].line == (__file__, Model.__call__.__code__.co_firstlineno + 1)


def test_a_layer_outside_of_a_method_has_its_kind():
    layer = Linear(2, 2)
    assert origin_of(layer(Tensor([[1.0, 2.0]])).node).layer == "Linear"


def test_source_that_is_gone_leaves_the_operation():
    names = {"x": Tensor([1.0, 2.0])}
    exec(compile("y = x @ x", "<gone>", "exec"), names)
    assert origin_of(names["y"].node).layer != ""


def test_the_line_is_no_part_of_what_a_node_is():
    x = Tensor([1.0, 2.0]).realize()
    first = x + 1
    second = x + 1
    assert first.node is second.node


def test_the_line_survives_that_sources_are_computed():
    x = Tensor([1.0, -1.0]).realize()
    y = x * 2
    here = line(1)
    z = y.log()
    y.realize()
    with Context(CHECK_NAN=1), pytest.raises(NonFiniteError) as caught:
        z.realize()
    assert here in str(caught.value)


def test_nan_is_named_where_it_began(device):
    x = Tensor([1.0, -1.0, 2.0], device=device)
    here = line(1)
    y = x.log() * 2
    z = (y + 1).sum()
    with Context(CHECK_NAN=1), pytest.raises(NonFiniteError) as caught:
        z.item()
    assert str(caught.value) == (
        "[log] 1 of 3 values is NaN, the first at (1,): float32 of shape (3,)\n"
        f"  {here}y = x.log() * 2\n"
        "  what it is computed from holds none: look for a division by 0, the log or root of a "
        "number below 0, or an overflow"
    )


def test_a_masked_nan_is_nobodys_concern():
    x = Tensor([1.0, -1.0, 4.0])
    with Context(CHECK_NAN=1):
        assert (x < 0).where(0.0, x.sqrt()).tolist() == [1, 0, 2]


def test_the_line_of_the_forward_pass_is_named_for_its_gradient():
    w = Tensor([0.0, 4.0], requires_grad=True)
    here = line(1)
    root = w.sqrt()
    (root * Tensor([0.0, 1.0])).sum().backward()
    with (
        Context(CHECK_NAN=1),
        pytest.raises(NonFiniteError, match="the gradient of sqrt") as caught,
    ):
        w.grad.realize()
    assert here in str(caught.value)


def test_a_nan_is_refused_before_it_is_assigned():
    w = Tensor([0.0, 4.0]).realize()
    w.assign(w / 0.0)
    with Context(CHECK_NAN=1), pytest.raises(NonFiniteError, match="\\[div\\] 1 of 2"):
        w.realize()


def test_a_nan_that_was_there_before_is_told_apart():
    x = Tensor([1.0, float("nan")]).realize()
    with Context(CHECK_NAN=1), pytest.raises(NonFiniteError, match="in memory before"):
        (x + 1).realize()


def test_infinities_are_named_on_request():
    x = Tensor([1.0, 0.0]).realize()
    with Context(CHECK_NAN=1):
        assert (1 / x).tolist() == [1, float("inf")]
    with Context(CHECK_NAN=2), pytest.raises(NonFiniteError, match="1 of 2 values is infinite"):
        (2 / x).realize()


def test_checked_results_are_the_same():
    rng = np.random.default_rng(0)
    x, w = rng.random((4, 5), np.float32), rng.random((5, 3), np.float32)

    def step(a, b):
        v = Tensor(b, requires_grad=True)
        loss = ((Tensor(a) @ v).softmax() ** 2).sum()
        loss.backward()
        with Tensor.no_grad():
            v.assign(v - v.grad)
        return loss.numpy(), v.numpy()

    plain = step(x, w)
    with Context(CHECK_NAN=2, CHECK_INDEX=2):
        checked = step(x, w)
    for a, b in zip(plain, checked, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_captured_function_is_checked_too():
    @TinyJit
    def step(x):
        return x.log().realize()

    with Context(CHECK_NAN=1):
        for _ in range(3):
            step(Tensor([1.0]).realize())
        with pytest.raises(NonFiniteError):
            step(Tensor([-1.0]).realize())


def test_places_out_of_range_raise_when_checked(device):
    table = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3), device=device)
    index = Tensor([[0, 3], [4, 9]], device=device)
    with Context(CHECK_INDEX=0):
        assert table[index].numpy()[1, 1].tolist() == [0, 0, 0]
    with Context(CHECK_INDEX=2):
        assert table[Tensor([-4, 3], device=device)].tolist() == [[0, 1, 2], [9, 10, 11]]
        with pytest.raises(IndexOutOfRange) as caught:
            table[index]
    assert str(caught.value) == (
        "[getitem] 2 of 4 places lie outside of axis 0 of size 4: the index tensor of shape (2, 2) "
        "has 4 at (1, 0), expected -4 to 3"
    )


@pytest.mark.parametrize("name", ["gather", "scatter", "setitem"])
def test_every_way_to_index_is_checked(name):
    x = Tensor(np.zeros((2, 3), np.float32))
    index = Tensor([[0, -1, 7]])
    ways = {
        "gather": lambda: x.gather(1, index),
        "scatter": lambda: x.scatter(1, index, 1.0),
        "setitem": lambda: x.__setitem__((0, index), 1.0),
    }
    with Context(CHECK_INDEX=2), pytest.raises(IndexOutOfRange, match=r"axis 1 of size 3|axis 0"):
        ways[name]()


def test_a_kernel_that_cannot_be_compiled_names_the_lines_in_it(monkeypatch):
    def fails(*args):
        raise InternalError("LLVM rejected generated IR")

    monkeypatch.setattr(kernels, "_compile", fails)
    first = line(1)
    x = Tensor([1.0, 2.0, 3.0, 4.0, 5.0]) * 1234.5
    second = line(1)
    y = x.exp()
    with pytest.raises(InternalError) as caught:
        y.realize()
    message = str(caught.value)
    assert message.startswith(
        "LLVM rejected generated IR\n  while computing float32 of shape (5,), 20 bytes\n"
    )
    assert message.index(second) < message.index(first)


def test_too_little_memory_names_the_tensor_and_its_line():
    small = Tensor([1.0]).realize()
    here = line(1)
    huge = small.expand(1 << 30, 1 << 14).contiguous()
    with pytest.raises(OutOfMemory) as caught:
        huge.realize()
    message = str(caught.value)
    assert "while computing float32 of shape (1073741824, 16384), 65536.0 GiB" in message
    assert here in message


def test_the_representation_computes_nothing():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]]).realize()
    assert repr(x) == (
        "<Tensor [[1., 2.],\n         [3., 4.]] shape=(2, 2), dtype=float32, device=CPU>"
    )
    y = x + 1
    assert repr(y) == "<Tensor lazy shape=(2, 2), dtype=float32, device=CPU>"
    assert not y.is_realized
    leaf = Tensor([1.0], requires_grad=True).realize()
    assert repr(leaf) == "<Tensor [1.] shape=(1,), dtype=float32, device=CPU, requires_grad=True>"
    assert "[0., 0., ..., 0., 0.]" in repr(Tensor(np.zeros(4000, np.float32)))


def test_printing_inside_a_captured_function_is_allowed():
    @TinyJit
    def step(x):
        assert "shape=(1,)" in repr(x)
        return (x + 1).realize()

    assert [step(Tensor([float(i)]).realize()).item() for i in range(4)] == [1, 2, 3, 4]


def test_a_tensor_over_several_devices_shows_its_values():
    x = Tensor([1, 2, 3, 4]).shard(("CPU", "CPU:1"), axis=0).realize()
    assert repr(x).startswith("<Tensor [1, 2, 3, 4] shape=(4,)")


def test_what_a_replay_computes_names_the_line_that_was_captured():
    """Whether it was captured under CHECK_NAN or before, and in its gradient."""
    lines = []
    w = Tensor([4.0, 9.0], requires_grad=True)

    @TinyJit
    def step(x):
        w.grad = None
        lines.append(line(1))
        y = (w * x).sqrt()
        y.sum().backward()
        return y.realize(), w.grad.realize()

    for _ in range(3):
        step(Tensor([1.0, 1.0]).realize())
    for x, name in (([-1.0, 1.0], "[sqrt]"), ([0.0, 1.0], "[the gradient of sqrt]")):
        with Context(CHECK_NAN=2), pytest.raises(NonFiniteError) as caught:
            step(Tensor(x).realize())
        assert name in str(caught.value)
        assert lines[-1] in str(caught.value)


def test_a_replay_checks_places_and_raises_at_the_line():
    @TinyJit
    def step(x, index):
        return (x.gather(0, index) * 2).sum().realize()

    x = Tensor([1.0, 2.0]).realize()
    for _ in range(3):
        step(x, Tensor([0, 1]).realize())
    with Context(CHECK_INDEX=2), pytest.raises(IndexOutOfRange, match=r"^\[gather\] ") as caught:
        step(x, Tensor([0, 7]).realize())
    here = [entry for entry in caught.traceback if str(entry.path) == __file__]
    assert "x.gather(0, index)" in str(here[-1].statement)


@pytest.mark.parametrize("name", ["cross_entropy", "sparse_categorical_crossentropy", "nll_loss"])
def test_labels_are_checked_as_places_of_classes(name):
    logits = Tensor(np.zeros((3, 4), np.float32))
    with Context(CHECK_INDEX=2):
        ignored = -1 if name.startswith("sparse") else -100
        getattr(logits, name)(Tensor([0, ignored, 3]), ignore_index=ignored).item()
        with pytest.raises(IndexOutOfRange, match=rf"^\[{name}\] 1 of 3 places .* has 4 at"):
            getattr(logits, name)(Tensor([0, 4, 3]))


@pytest.mark.parametrize(("module", "name"), [(kernels, "optimize"), (pipeline, "schedule")])
def test_what_fails_inside_of_treadle_is_a_bug_with_the_users_lines(module, name, monkeypatch):
    def fails(*args, **options):
        raise ValueError("negative shift count")

    x = Tensor(np.ones((37, 41), "float32"), device="CPU").realize()
    here = line(1)
    y = x.exp().sum(0)
    monkeypatch.setattr(module, name, fails)
    for read in (y.realize, y.numpy):
        with pytest.raises(InternalError, match=r"ValueError: negative shift count.*bug") as caught:
            read()
        assert here in str(caught.value)
        assert isinstance(caught.value.__cause__, ValueError)


def test_an_interrupt_or_too_little_memory_while_kernels_are_made_is_no_bug(monkeypatch):
    x = Tensor(np.ones((37, 43), "float32"), device="CPU").realize()
    for error in (KeyboardInterrupt, MemoryError):

        def fails(*args, error=error, **options):
            raise error

        monkeypatch.setattr(kernels, "optimize", fails)
        with pytest.raises(error):
            x.exp().sum(0).numpy()
