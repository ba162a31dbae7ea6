"""scan: a loop over steps has the values and derivatives of the same steps one by one."""

import numpy as np
import pytest

from treadle import GlobalCounters, Tensor, TinyJit, func
from treadle.engine import memory, recurrence
from treadle.errors import DTypeError, ShapeError, UserError

STEPS, BATCH, SIZE = 5, 2, 3


def seeded(*shape, seed=0):
    data = np.random.default_rng(seed).standard_normal(shape) * 0.6
    return Tensor(data.astype(np.float32))


def given():
    return seeded(STEPS, BATCH, SIZE), seeded(BATCH, SIZE, seed=1), seeded(SIZE, SIZE, seed=2)


def step(w, state, x):
    slow, fast = state
    new = ((x @ w) * 0.5 + fast @ w).tanh()
    return (slow * 0.9 + new, new), (new * slow, x.sin())


def looped(xs, h, w, reverse=False):
    (slow, fast), (outs, sines) = func.scan(
        lambda state, x: step(w, state, x), (h * 2, h), xs, reverse=reverse
    )
    return (slow.sum() + fast.square().sum() + (outs * sines).sum()), (slow, fast, outs, sines)


def unrolled(xs, h, w, reverse=False):
    state, outs = (h * 2, h), {}
    for t in range(STEPS)[:: -1 if reverse else 1]:
        state, outs[t] = step(w, state, xs[t])
    columns = [list(column) for column in zip(*(outs[t] for t in range(STEPS)), strict=True)]
    outs, sines = (Tensor.stack(*column) for column in columns)
    slow, fast = state
    return (slow.sum() + fast.square().sum() + (outs * sines).sum()), (slow, fast, outs, sines)


def assert_same(found, expected):
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_values_are_those_of_the_steps(device, reverse):
    args = [x.to(device) for x in given()]
    assert_same(looped(*args, reverse)[1], unrolled(*given(), reverse)[1])


def test_derivatives_of_both_orders_and_directions_are_those_of_the_steps():
    args, numbers = given(), (0, 1, 2)
    loop, plain = (lambda *a, f=f: f(*a, reverse=True)[0] for f in (looped, unrolled))

    def squares(f):
        return lambda *a: sum((g * g).sum() for g in func.grad(f, numbers)(*a))

    assert_same(func.grad(squares(loop), numbers)(*args), func.grad(squares(plain), numbers)(*args))
    moving = [x.flip(0) for x in args]
    assert_same(func.jvp(loop, args, moving), func.jvp(plain, args, moving))


def test_a_loop_is_mapped_over_examples():
    xs, h, w = given()
    many, others = seeded(4, *xs.shape, seed=5), seeded(4, *w.shape, seed=6)
    found = func.vmap(lambda x, m: looped(x, h, m)[0])(many, others)
    each = [unrolled(x, h, m)[0] for x, m in zip(many, others, strict=True)]
    assert_same([found], [each[0].stack(*each[1:])])


def test_backward_reaches_leaves_that_the_step_reads_from_around_it():
    xs, h, w = given()
    w.requires_grad_()
    looped(xs, h, w.T)[0].backward()  # forward in time
    expected = func.grad(lambda m: unrolled(xs, h, m.T)[0])(w.detach())
    assert_same([w.grad], [expected])
    held = w.detach().T  # not a leaf, but one that gradients are asked for
    held.requires_grad_()
    assert_same(looped(xs, h, held)[0].gradient(held), [expected.T])


def test_a_step_is_compiled_once_and_products_with_the_input_are_one():
    xs, h, w = seeded(200, BATCH, SIZE), *given()[1:]
    loss = func.scan(lambda s, x: ((x @ w + s @ w).tanh(),) * 2, h, xs)[1].realize()
    GlobalCounters.reset()
    loss = func.scan(lambda s, x: ((x @ w + s @ w).cos(),) * 2, h, xs)[1].realize()
    assert loss.shape == (200, BATCH, SIZE)
    assert GlobalCounters.kernel_count <= 3 + 2 * 200


def test_steps_that_fill_tiles_multiply_their_rows_of_the_input_themselves():
    steps, batch, size = 6, 16, 64
    xs, h = seeded(steps, batch, size), seeded(batch, size, seed=1)
    u, w = seeded(size, size, seed=2) * 0.1, seeded(size, size, seed=3) * 0.1
    given = [x.realize() for x in (xs, xs.permute(2, 0, 1).contiguous(), h, u, w)]
    xs, turned, h, u, w = given
    state, expected = h, []
    for x in xs:
        state = (x @ u + state @ w).tanh()
        expected.append(state.realize())
    expected = Tensor.stack(*expected).realize()
    step = lambda s, x: ((x @ u + s @ w).tanh(),) * 2
    for sequence in (xs, turned.permute(1, 2, 0)):
        found = func.scan(step, h, sequence)[1]
        GlobalCounters.reset()
        found.realize()
        assert GlobalCounters.kernel_count <= 3 + steps  # one a step, and none for all steps
        assert_same([found], [expected])
    backward = func.scan(step, h, xs.flip(0).contiguous().realize(), reverse=True)[1]
    assert_same([backward.flip(0)], [expected])
    # What is read beside the loop is multiplied for all steps.
    both = func.scan(lambda s, x: (step(s, x)[0], (x @ u, step(s, x)[0])), h, xs)[1]
    Tensor.realize(*both)
    assert_same(both, [xs @ u, expected])


def test_a_loop_saves_what_its_gradient_and_products_over_all_steps_read():
    """No product is computed anew: the gradient takes two for each one forward."""
    steps, batch, size = 20, 8, 48
    xs, h = seeded(steps, batch, size).realize(), seeded(batch, size).realize()
    w = (seeded(size, size) * 0.1).realize()  # so that rounding does not grow from step to step

    def loss(w, gate=lambda x: x.tanh()):
        return func.scan(lambda s, x: (gate(x + s @ w),) * 2, h, xs)[1].square().sum()

    GlobalCounters.reset()
    loss(w).realize()
    forward = GlobalCounters.global_ops
    product = 2 * steps * batch * size * size
    assert product < forward < 1.2 * product
    for gate in (lambda x: x.tanh(), lambda x: x.relu() * 0.5, lambda x: x.sigmoid()):
        GlobalCounters.reset()
        value, found = func.value_and_grad(loss)(w, gate)
        value.realize(found)
        assert 3 * product < GlobalCounters.global_ops < 3.6 * product
        state, total = h, Tensor(0.0)
        leaf = w.detach().requires_grad_()
        for x in xs:
            state = gate(x + state @ leaf)
            total = total + state.square().sum()
        assert_same([value, found], [total, total.gradient(leaf)[0]])


def test_a_loss_that_is_known_before_its_gradient_is_asked_for():
    xs, h, w = (x.realize() for x in given())
    w.requires_grad_()
    loss = looped(xs, h, w)[0]
    value = loss.item()
    loss.backward()
    expected = func.value_and_grad(lambda m: unrolled(xs, h, m)[0])(w.detach())
    assert_same([Tensor(value), w.grad], expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 6])
def test_of_a_state_whose_history_nobody_reads_two_rows_are_enough(monkeypatch, steps, reverse):
    xs, h, w = (x.realize() for x in (seeded(steps, BATCH, SIZE), *given()[1:]))
    row, made = BATCH * SIZE, []

    def noted(device, dtype, size, image=None):
        made.append(size)
        return memory.new_memory(device, dtype, size, image)

    def loop(w):
        def one(state, x):
            fast = ((x @ w) * 0.5 + state[1] @ w).tanh()
            return (state[0] * 0.9 + fast, fast), fast

        return func.scan(one, (h * 2, h), xs, reverse=reverse)

    monkeypatch.setattr(recurrence, "new_memory", noted)
    (slow, _), fasts = loop(w)
    slow.realize(fasts)
    if steps > 1:  # the only step is the last
        assert sorted(made) == sorted([row, 2 * row, (steps + 1) * row])
    expected, state = h * 2, h
    for t in range(steps)[:: -1 if reverse else 1]:
        state = ((xs[t] @ w) * 0.5 + state @ w).tanh()
        assert_same([fasts[t]], [state])
        expected = expected * 0.9 + state
    assert_same([slow], [expected])


def test_a_history_that_somebody_may_still_ask_for_is_kept():
    """Its loop does not run again."""
    xs, h, w = (x.realize() for x in given())
    (slow, fast), (outs, _) = func.scan(lambda s, x: step(w, s, x), (h * 2, h), xs)
    del slow, fast
    steps = outs + 1  # of the histories of both states
    last = outs[-1].sum().realize()
    GlobalCounters.reset()
    np.testing.assert_allclose(steps[-1].sum().item(), last.item() + BATCH * SIZE, rtol=1e-5)
    assert GlobalCounters.kernel_count < STEPS


def test_a_captured_loop_gives_new_memory_each_time_and_sees_what_changes():
    _, h, w = given()
    w.realize()

    @TinyJit
    def run(xs):
        (_, fast), (outs, _) = func.scan(lambda s, x: step(w, s, x), (h, h), xs)
        return fast.realize(), outs.realize()

    kept = []
    for seed in range(5):
        xs = seeded(STEPS, BATCH, SIZE, seed=seed).realize()
        if seed == 4:
            w.assign(w * 0.5).realize()
        found = run(xs)
        kept.append((found, [x.numpy() for x in found]))
        (_, fast), (outs, _) = func.scan(lambda s, x: step(w, s, x), (h, h), xs)
        assert_same(found, (fast, outs))
    for found, before in kept:
        for mine, other in zip(found, before, strict=True):
            np.testing.assert_array_equal(mine.numpy(), other)


def test_loops_in_a_step_that_do_not_need_its_state_and_empty_ones():
    def rising(xs):
        return func.scan(lambda s, x: (s + x, s + x), Tensor(0.0), xs)[1]

    found = func.scan(lambda s, x: (s + rising(x).sum(),) * 2, Tensor(1.0), Tensor.ones(3, 4))[1]
    assert found.tolist() == [11, 21, 31]
    last, outs = func.scan(lambda s, x: (s + x, s), Tensor([1, 2]), Tensor.zeros(0, 2).int())
    assert (last.tolist(), outs.shape) == ([1, 2], (0, 2))


def test_complex_and_whole_numbers_are_states():
    turn = Tensor([0, 1], dtype="int32")
    z = Tensor(np.array([1 + 1j], np.complex64))
    (count, value), seen = func.scan(
        lambda s, x: ((s[0] + x, s[1] * 1j), s[1]), (Tensor(0), z), turn.cat(turn)
    )
    assert count.item() == 2
    assert value.tolist() == [1 + 1j]
    assert seen[:, 0].tolist() == [1 + 1j, -1 + 1j, -1 - 1j, 1 - 1j]


H, XS = Tensor.zeros(2), Tensor.zeros(3, 2)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ShapeError, "one known number of steps", lambda: func.scan(lambda s, x: (s, s), H, H[0])),
        (ShapeError, "before a step and", lambda: func.scan(lambda s, x: (s.sum(), s), H, XS)),
        (DTypeError, "cast one", lambda: func.scan(lambda s, x: (s.int(), s), H, XS)),
        (UserError, "a pair", lambda: func.scan(lambda s, x: s, H, XS)),
        (UserError, "forms", lambda: func.scan(lambda s, x: ((s, s), s), H, XS)),
        (UserError, "a Tensor is needed", lambda: func.scan(lambda s, x: (s, 1), H, XS)),
        (UserError, "at least one", lambda: func.scan(lambda s, x: (s, s), H, ())),
        (UserError, "not known while", lambda: func.scan(lambda s, x: (s, s.item()), H[0], XS)),
        (
            UserError,
            r"host of what depends on the state",
            lambda: func.scan(lambda s, x: ((s.outer(s)).det() * x, s), H, XS),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mistakes_say_what_was_expected(error, message, call):
    with pytest.raises(error, match=message):
        call()
