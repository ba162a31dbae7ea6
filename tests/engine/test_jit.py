"""TinyJit: replays mean what calls mean, or raise."""

import gc
import threading
import weakref

import numpy as np
import pytest

from treadle import Context, GlobalCounters, Tensor, TinyJit, Variable, nn
from treadle.engine.arguments import Glance, at_a_glance
from treadle.engine.memory import memory_of
from treadle.engine.realized import resolve
from treadle.errors import JitError


def test_replays_give_what_plain_calls_give():
    w = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)).realize()

    def plain(x):
        return (x @ w).relu() + 1

    jitted = TinyJit(lambda x: plain(x).realize())
    for seed in range(5):
        data = np.random.default_rng(seed).standard_normal((2, 3)).astype(np.float32)
        x = Tensor(data)
        np.testing.assert_allclose(jitted(x).numpy(), plain(x).numpy(), rtol=1e-6)


def test_results_of_earlier_calls_keep_their_values():
    double = TinyJit(lambda x: (x * 2).realize())
    results = [double(Tensor([float(i)])) for i in range(6)]
    assert [r.item() for r in results] == [0, 2, 4, 6, 8, 10]


def test_a_capture_keeps_no_memory_of_its_arguments():
    data = np.arange(6, dtype=np.float32)
    double, owners = TinyJit(lambda x: (x * 2).realize()), []
    for _ in range(4):
        owner = data.view()
        owners.append(weakref.ref(owner))
        x = Tensor.from_blob(data.ctypes.data, (6,), owner=owner)
        del owner
        np.testing.assert_array_equal(double(x).numpy(), data * 2)
        del x
        gc.collect()
        assert owners[-1]() is None


def test_tensors_inside_lists_dicts_and_keywords_are_inputs():
    @TinyJit
    def mix(pair, table, *, scale):
        return {"sum": (pair[0] + pair[1]).realize(), "more": [(table["x"] * scale).realize()]}

    for i in range(5):
        a, b, c, d = (Tensor([float(i + k)]).realize() for k in range(4))
        out = mix([a, b], {"x": c}, scale=d)
        assert out["sum"].item() == 2 * i + 1
        assert out["more"][0].item() == (i + 2) * (i + 3)


def test_state_goes_on_from_replay_to_replay():
    count = Tensor([0.0]).realize()

    @TinyJit
    def step(x):
        count.assign(count + x)
        return (count * 1).realize()

    assert [step(Tensor([1.0])).item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert count.item() == 6


def test_random_numbers_advance():
    Tensor.manual_seed(7)
    draw = TinyJit(lambda x: (Tensor.rand(4) + x * 0).realize())
    zero = Tensor(0.0).realize()
    jitted = [draw(zero).tolist() for _ in range(5)]
    Tensor.manual_seed(7)
    plain = [Tensor.rand(4).tolist() for _ in range(5)]
    assert jitted == plain


def test_a_seed_counts_for_what_was_captured_before_it():
    draw = TinyJit(lambda x: (Tensor.rand(4) + x).realize())
    zero = Tensor(0.0).realize()
    drawn = []
    for _ in range(3):
        Tensor.manual_seed(7)
        drawn.append([draw(zero).tolist() for _ in range(3)])
    pending = Tensor.rand(4)  # keeps its value when the memory starts anew
    Tensor.manual_seed(7)
    assert drawn[0] == drawn[1] == drawn[2] == [Tensor.rand(4).tolist() for _ in range(3)]
    fourth = pending.tolist()
    Tensor.manual_seed(7)
    assert fourth == [Tensor.rand(4).tolist() for _ in range(4)][3]


def test_training_with_and_without_jit_is_the_same():
    x = np.random.default_rng(0).standard_normal((32, 8)).astype(np.float32)
    y = (np.arange(32) % 4).astype(np.int32)

    def losses(jit):
        Tensor.manual_seed(0)
        layer = nn.Linear(8, 4)
        optimizer = nn.optim.Adam(nn.state.get_parameters(layer), lr=0.05)

        def step(x, y):
            optimizer.zero_grad()
            loss = layer(x).sparse_categorical_crossentropy(y).backward()
            return loss.realize(*optimizer.schedule_step())

        run = TinyJit(step) if jit else step
        with Tensor.train():
            return [run(Tensor(x), Tensor(y)).item() for _ in range(8)]

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)


def test_a_loss_that_is_computed_after_the_step_is_that_of_each_replay():
    def losses(jit):
        weight = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        optimizer = nn.optim.SGD([weight], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (x @ weight).square().mean().backward()
            optimizer.step()
            return loss.realize()

        run = TinyJit(step) if jit else step
        with Tensor.train():
            return [run(Tensor([[1.0, 1.0]])).item() for _ in range(5)]

    expected = [26 * 0.64**n for n in range(5)]
    np.testing.assert_allclose(losses(False), expected, rtol=1e-5)
    np.testing.assert_allclose(losses(True), expected, rtol=1e-5)


def test_old_state_that_a_capture_copies_is_copied_by_each_replay():
    state = Tensor([1.0, 2.0]).contiguous().realize()

    @TinyJit
    def step(x):
        many = state.reshape(2, 1).expand(2, 100) * Tensor.arange(100)  # larger than the state
        state.assign(state + x).realize()
        return many.realize()

    sums = [step(Tensor([1.0, 1.0])).sum(1).tolist() for _ in range(5)]
    assert sums == [[4950.0 * (n + 1), 4950.0 * (n + 2)] for n in range(5)]


def test_a_lazy_tensor_over_state_keeps_the_value_it_had():
    state = Tensor([1.0]).realize()

    @TinyJit
    def step(x):
        state.assign(state + x)
        return (state * 1).realize()

    for _ in range(3):
        step(Tensor([1.0]))
    before = state * 10
    step(Tensor([1.0]))
    assert before.item() == 40
    assert state.item() == 5


def test_another_shape_or_argument_is_refused():
    f = TinyJit(lambda x, n: (x * n).realize())
    for _ in range(3):
        f(Tensor([1.0, 2.0]), 3)
    with pytest.raises(JitError, match="only tensors may change"):
        f(Tensor([1.0, 2.0]), 4)
    with pytest.raises(JitError, match="shape"):
        f(Tensor([1.0, 2.0, 3.0]), 3)
    with pytest.raises(JitError, match="int32"):
        f(Tensor([1, 2]), 3)


def test_reading_a_value_while_capturing_is_refused():
    f = TinyJit(lambda x: (x * x.sum().item()).realize())
    f(Tensor([1.0, 2.0]))
    with pytest.raises(JitError, match="read on the host"):
        f(Tensor([1.0, 2.0]))


def test_an_argument_that_requires_gradients_gets_them_from_replays():
    w = Tensor([2.0, 3.0], requires_grad=True)

    @TinyJit
    def step(w, x):
        loss = (w * w * x).sum()
        loss.backward()
        return loss.realize(), w.grad.realize()

    for i in range(1, 6):
        w.grad = None
        loss, gradient = step(w, Tensor([float(i), 1.0]).realize())
        assert loss.item() == 4 * i + 9
        assert gradient.tolist() == w.grad.tolist() == [4 * i, 6]
    other = Tensor([1.0, 1.0], requires_grad=True)
    step(other, Tensor([1.0, 5.0]))
    assert other.grad.tolist() == [2, 10]
    assert w.grad.tolist() == [20, 6]


def test_a_gradient_from_before_is_not_added_to_in_silence():
    w = Tensor([2.0, 3.0], requires_grad=True)
    step = TinyJit(lambda w: ((w * w).sum().backward(), w.grad.realize())[1])
    step(w)
    for _ in range(2):  # the call that would be captured
        with pytest.raises(JitError, match=r"has one from before.* set its \.grad to None"):
            step(w)
    for _ in range(3):
        w.grad = None
        assert step(w).tolist() == [4, 6]
    with pytest.raises(JitError, match="has one from before"):
        step(w)
    plain = TinyJit(lambda w: (w * 2).realize())  # which asks for no gradient
    assert [plain(w).tolist() for _ in range(4)] == [[4, 6]] * 4


def test_each_call_writes_to_its_argument():
    f = TinyJit(lambda x: x.assign(x + 1).realize())
    same = Tensor([1.0]).realize()
    assert all(f(same) is same for _ in range(4))
    other = Tensor([10.0, 20.0]).realize()
    f(other[1:])
    assert (same.tolist(), other.tolist()) == ([5], [10, 21])


def test_inputs_that_newly_share_memory_are_refused():
    f = TinyJit(lambda a, b: (a + b).realize())
    for _ in range(3):
        f(Tensor([1.0]).realize(), Tensor([2.0]).realize())
    same = Tensor([1.0]).realize()
    with pytest.raises(JitError, match="in memory of its own, now it is in that of argument"):
        f(same, same)


def test_equal_inputs_share_memory_for_the_engine_alone():
    state = Tensor([0.0]).contiguous().realize()

    @TinyJit
    def f(a, b):
        a += 1
        state.assign(state + a * b)

    wanted = 0.0
    for n in range(6):
        a, b = (Tensor([n + 1.0]) + 1, Tensor([n + (1.0 if n > 2 else 4.0)]) + 1)
        wanted += (n + 3) * (n + (2 if n > 2 else 5))
        f(a, b)
        assert (a.tolist(), b.tolist()) == ([n + 3], [n + (2 if n > 2 else 5)])
    assert state.tolist() == [wanted]


def test_a_binding_of_a_variable_belongs_to_the_captured_call():
    n = Variable("n", 1, 8)
    x = Tensor(np.ones((8, 2), np.float32)).realize()
    f = TinyJit(lambda t: t.sum().realize())
    for _ in range(3):
        assert f(x.shrink(((0, n.bind(4)), (0, 2)))).item() == 8


def test_the_setting_turns_it_off():
    calls = []
    f = TinyJit(lambda x: (calls.append(1), (x + 1).realize())[1])
    with Context(JIT=0):
        for _ in range(4):
            f(Tensor([1.0]))
    assert len(calls) == 4


def test_on_the_interpreter_every_call_runs_plainly():
    f = TinyJit(lambda x: (x + 1).realize())
    assert [f(Tensor([float(i)], device="REF")).item() for i in range(4)] == [1, 2, 3, 4]


def test_a_thousand_kernels_are_replayed_by_one_call():
    def many(x):
        for _ in range(1000):
            x = (x + 1).contiguous()
        return x.realize()

    f = TinyJit(many)
    for _ in range(2):
        f(Tensor([0.0]))
    GlobalCounters.reset()
    assert f(Tensor([5.0])).item() == 1005
    assert GlobalCounters.kernel_count >= 1000
    assert GlobalCounters.compile_count == 0


def test_methods_can_be_jitted():
    class Model:
        def __init__(self):
            self.w = Tensor([2.0]).realize()

        @TinyJit
        def run(self, x):
            return (x * self.w).realize()

    model = Model()
    assert [model.run(Tensor([float(i)])).item() for i in range(4)] == [0, 2, 4, 6]


def _counter():
    count = Tensor([0.0]).realize()

    @TinyJit
    def step():
        count.assign(count + 1).realize()

    for _ in range(4):
        step()
    return count, step


def test_an_expression_over_state_is_computed_anew_after_each_replay():
    count, step = _counter()
    for n in range(4, 8):
        assert (count * 10).item() == 10 * n
        step()
        step()
        step()
        count.assign(count - 2).realize()


def test_a_result_over_state_that_is_kept_does_not_stand_for_a_later_one():
    count, step = _counter()
    first = (count * 10).realize()
    lazy = count * 100
    step()
    step()
    assert first.item() == 40
    assert lazy.item() == 400
    assert (count * 10).item() == 60
    step()
    assert (count * 10).item() == 70


def test_state_with_gradients_keeps_the_graphs_over_it_apart():
    w = Tensor([1.0, 2.0], requires_grad=True).realize()

    @TinyJit
    @Tensor.no_grad()
    def step():
        w.assign(w * 2).realize()

    for _ in range(3):
        step()
    kept = w.square().realize()  # a tensor with gradients keeps its graph
    step()
    step()
    assert kept.tolist() == [64, 256]
    assert w.square().tolist() == [1024, 4096]
    assert w.tolist() == [32, 64]


def test_replays_that_nothing_looks_at_make_no_versions():
    count, step = _counter()
    step()
    node = count.node
    for _ in range(5):
        step()
    assert count.node is node
    assert count.item() == 10


def test_what_reads_state_outlives_assignments_and_replays_alike():
    count, step = _counter()
    step()
    step()
    lazy = count * 10
    count.assign(count - 2).realize()
    later = count * 100
    step()
    step()
    assert [lazy.item(), later.item(), count.item()] == [60, 400, 6]


def test_arguments_like_the_captured_ones_are_seen_to_be_at_once():
    step = TinyJit(lambda x, y: (x * 2 + y).realize())
    values = [np.full((4, 4), i, np.float32) for i in range(6)]
    tensors = [Tensor(value).realize() for value in values]
    for i in range(2):
        step(tensors[i], tensors[i + 1])
    assert step._capture is not None
    glances = step._capture.settled.glances
    assert glances is not None
    memories = at_a_glance((tensors[4], tensors[5]), glances)
    assert memories is not None
    assert [memory.array().tolist() for memory in memories] == [[4.0] * 16, [5.0] * 16]
    for unlike in (
        (tensors[4], tensors[4]),  # memory that two arguments share
        (tensors[4], tensors[5] + 1),  # nothing in memory yet
        (tensors[4], tensors[5].reshape(2, 8)),
        (tensors[4], Tensor(values[5].astype(np.int32)).realize()),
        (tensors[4], 5),
        (tensors[4],),
    ):
        assert at_a_glance(unlike, glances) is None
    np.testing.assert_array_equal(step(tensors[4], tensors[5]).numpy(), values[4] * 2 + values[5])
    np.testing.assert_array_equal(step(tensors[4], tensors[5] + 1).numpy(), np.full((4, 4), 14.0))
    assert step.calls == 4
    assert Glance.of((tensors[0], 3), {}) is None
    assert Glance.of((tensors[0],), {"y": tensors[1]}) is None


def test_a_name_that_has_got_another_tensor_is_noticed():
    weight = Tensor(np.ones((4, 4), np.float32)).realize()
    layer = nn.Linear(4, 4)
    for parameter in nn.state.get_parameters(layer):
        parameter.realize()
    step = TinyJit(lambda x: (layer(x) @ weight).realize())
    x = Tensor(np.eye(4, dtype=np.float32)).realize()
    for _ in range(3):
        step(x)
    weight = Tensor(np.full((4, 4), 2, np.float32)).realize()
    layer.weight, layer.bias = Tensor.ones(4, 4).realize(), Tensor.zeros(4).realize()
    for _ in range(3):
        np.testing.assert_array_equal(step(x).numpy(), np.full((4, 4), 8.0))


def test_an_alias_that_goes_away_is_no_other_tensor():
    weight = Tensor(np.ones((4, 4), np.float32)).realize()
    step = TinyJit(lambda x: (x @ weight).realize())
    x = Tensor(np.eye(4, dtype=np.float32)).realize()
    alias = weight.reshape(16).realize()
    for _ in range(2):
        step(x)
    capture = step._capture
    del alias
    step(x)
    assert step._capture is capture


def test_assignments_that_were_pending_before_a_capture_happen_once():
    count = Tensor.zeros(2).contiguous().realize()
    shown = TinyJit(lambda x: (x + count).realize())
    x = Tensor.zeros(2).contiguous().realize()
    shown(x)
    count.assign(count + 1)  # not computed before the next call, which is captured
    assert [shown(x).tolist() for _ in range(4)] == [[1, 1]] * 4
    assert count.tolist() == [1, 1]


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_random_weights_that_were_never_computed_are_drawn_once(scale):
    layer = {"w": Tensor.rand(3) * scale}
    added = TinyJit(lambda x: (x + layer["w"]).realize())
    x = Tensor.zeros(3).contiguous().realize()
    for _ in range(3):
        added(x)
    layer["w"] = Tensor.rand(3) * scale  # recorded with it, for it is another tensor
    found = []
    for _ in range(4):
        found.append(added(x).tolist())
        Tensor.rand(5).realize()  # moves the generator on
    assert found == [layer["w"].tolist()] * 4


def test_another_value_for_weights_that_were_never_computed_is_seen():
    w = Tensor.rand(3) * 2
    added = TinyJit(lambda x: (x + w).realize())
    x = Tensor.zeros(3).contiguous().realize()
    for _ in range(3):
        added(x)
    w.assign(Tensor.ones(3))
    assert added(x).tolist() == [1, 1, 1]


def test_draws_before_a_capture_and_in_it_are_apart():
    Tensor.manual_seed(5)
    first, second = Tensor.rand(3), Tensor.rand(3)
    expected = [first.tolist(), second.tolist()]
    Tensor.manual_seed(5)
    kept, read = Tensor.rand(3), Tensor.rand(3)
    noisy = TinyJit(lambda x: (x + read + Tensor.rand(3)).realize())
    x = Tensor.zeros(3).contiguous().realize()
    drawn = [tuple(noisy(x).tolist()) for _ in range(5)]
    assert len(set(drawn)) == 5
    assert [kept.tolist(), read.tolist()] == expected


@pytest.mark.parametrize("layer", ["LSTM", "Linear"])
def test_gradients_that_a_step_leaves_cost_no_kernel_that_it_has_not(layer):
    def kernels_of_a_replay(leaves):
        Tensor.manual_seed(1)
        net = nn.LSTM(8, 8) if layer == "LSTM" else nn.Linear(8, 8)
        opt = nn.optim.Adam(nn.state.get_parameters(net), lr=1e-3)

        @TinyJit
        def step(x):
            opt.zero_grad()
            found = net(x)
            loss = (found[0] if layer == "LSTM" else found).square().sum().backward()
            loss.realize(*opt.schedule_step())
            if not leaves:
                opt.zero_grad()
            return loss

        x = Tensor(np.ones((20, 3, 8), np.float32)).realize()
        with Tensor.train():
            for _ in range(4):
                step(x)
            before = GlobalCounters.kernel_count
            step(x).realize()
        return GlobalCounters.kernel_count - before

    assert 0 < kernels_of_a_replay(True) <= kernels_of_a_replay(False)


def test_what_other_threads_make_meanwhile_is_not_left_by_a_captured_function():
    """Their tensors are theirs: a replay does not count them as overwritten."""
    theirs, made = [], threading.Event()

    def make():
        theirs.append((Tensor.arange(8, device="CPU") + len(theirs)).realize())
        made.set()

    @TinyJit
    def doubled(x):
        made.clear()
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        assert made.is_set()
        return (x * 2).realize()

    for number in range(5):
        x = Tensor([1.0, 2.0, 3.0], device="CPU") + number
        assert doubled(x.realize()).tolist() == [2 * (n + number) for n in (1, 2, 3)]
    for number, tensor in enumerate(theirs):
        assert tensor.tolist() == [number + n for n in range(8)]
        assert (tensor + 1).tolist() == [number + n + 1 for n in range(8)]
        assert memory_of(resolve(tensor.node).arg).version == 0
