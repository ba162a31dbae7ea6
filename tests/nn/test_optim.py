"""Optimisers take PyTorch's steps, eagerly and replayed."""

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.errors import UserError

START = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)
SLOPE = np.random.default_rng(6).standard_normal((4, 3)).astype(np.float32)

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.1}),
]


def ours_after(make, steps, **options):
    w = Tensor(START, requires_grad=True)
    opt = make([w], **options)
    for _ in range(steps):
        opt.zero_grad()
        ((w * Tensor(SLOPE)).sum() + (w * w * w).sum()).backward()
        opt.step()
    return w.numpy()


@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n} {o}" for n, o in CASES])
def test_ten_steps_end_where_pytorch_ends(name, options):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    t = torch.tensor(START, requires_grad=True)
    oracle = getattr(torch.optim, name)([t], **options)
    for _ in range(10):
        oracle.zero_grad()
        ((t * torch.tensor(SLOPE)).sum() + (t * t * t).sum()).backward()
        oracle.step()
    ours = ours_after(getattr(nn.optim, name), 10, **options)
    np.testing.assert_allclose(ours, t.detach().numpy(), rtol=2e-5, atol=2e-5)


def test_muon_matches_its_formula_written_in_numpy():
    ours = ours_after(nn.optim.Muon, 2, lr=0.1, weight_decay=0.1)
    w, velocity = START.astype(np.float64), np.zeros_like(START)
    a, b, c = 3.4445, -4.775, 2.0315
    for _ in range(2):
        g = SLOPE + 3 * w**2
        velocity = 0.95 * velocity + g
        m = (g + 0.95 * velocity).T  # 3 x 4: the shorter side first
        m = m / (np.linalg.norm(m) + 1e-7)
        for _ in range(5):
            s = m @ m.T
            m = a * m + (b * s + c * s @ s) @ m
        w = w * (1 - 0.1 * 0.1) - 0.1 * m.T
    np.testing.assert_allclose(ours, w, rtol=1e-4, atol=1e-4)


def test_muon_agrees_with_pytorchs_which_computes_in_bfloat16():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    t = torch.tensor(START.T, requires_grad=True)  # not tall, where PyTorch scales its steps
    w = Tensor(START.T, requires_grad=True)
    oracle = torch.optim.Muon([t], lr=0.1, weight_decay=0.1)
    ours = nn.optim.Muon([w], lr=0.1, weight_decay=0.1)
    for _ in range(3):
        for opt, x, slope in ((ours, w, Tensor(SLOPE.T)), (oracle, t, torch.tensor(SLOPE.T))):
            opt.zero_grad()
            ((x * slope).sum() + (x * x * x).sum()).backward()
            opt.step()
    np.testing.assert_allclose(w.numpy(), t.detach().numpy(), atol=0.02)
    assert np.abs(w.numpy() - START.T).max() > 0.1


def test_lamb_and_lars_follow_their_formulas_over_several_steps():
    lamb, lars = START.astype(np.float64), START.astype(np.float64)
    mean = square = velocity = np.zeros_like(lamb)
    for step in range(1, 5):
        g = SLOPE + 3 * lamb**2
        mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
        update = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-6) + 0.1 * lamb
        lamb = lamb - 0.1 * np.linalg.norm(lamb) / np.linalg.norm(update) * update
        g = SLOPE + 3 * lars**2
        size = np.linalg.norm(lars)
        trust = 0.01 * size / (np.linalg.norm(g) + 0.1 * size)
        velocity = 0.9 * velocity + 0.5 * trust * (g + 0.1 * lars)
        lars = lars - velocity
    ours = ours_after(nn.optim.LAMB, 4, lr=0.1, weight_decay=0.1)
    np.testing.assert_allclose(ours, lamb, rtol=1e-4, atol=1e-4)
    ours = ours_after(nn.optim.LARS, 4, lr=0.5, weight_decay=0.1, tcoef=0.01)
    np.testing.assert_allclose(ours, lars, rtol=1e-4, atol=1e-5)


def test_lars_scales_each_layer_by_its_trust_ratio():
    ours = ours_after(nn.optim.LARS, 1, lr=0.5, momentum=0.0, weight_decay=0.1)
    g = SLOPE + 3 * START**2
    size, slope = np.linalg.norm(START), np.linalg.norm(g)
    expected = START - 0.5 * (0.001 * size / (slope + 0.1 * size)) * (g + 0.1 * START)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_lamb_scales_adams_step_to_the_size_of_the_layer():
    ours = ours_after(nn.optim.LAMB, 1, lr=0.1)
    update = np.sign(SLOPE + 3 * START**2)  # the first step of Adam
    expected = START - 0.1 * np.linalg.norm(START) / np.linalg.norm(update) * update
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)


def test_the_learning_rate_can_be_changed_between_steps():
    w = Tensor([1.0], requires_grad=True)
    opt = nn.optim.SGD([w], lr=0.5)
    w.sum().backward()
    opt.step()
    opt.lr = 0.125
    opt.step()
    assert w.item() == 1.0 - 0.5 - 0.125


def test_a_tied_weight_is_stepped_once():
    w = Tensor([1.0], requires_grad=True)
    opt = nn.optim.SGD([w, w], lr=0.5)
    w.sum().backward()
    opt.step()
    assert w.item() == 0.5


def test_tensors_that_need_no_gradient_are_left_alone():
    w, fixed = Tensor([1.0], requires_grad=True), Tensor([2.0], requires_grad=False)
    opt = nn.optim.SGD([w, fixed], lr=1.0)
    (w * fixed).sum().backward()
    opt.step()
    assert (w.item(), fixed.item(), opt.buffers) == (-1.0, 2.0, [fixed])


def test_half_precision_parameters_keep_their_dtype():
    w = Tensor([1.0], dtype="float16", requires_grad=True)
    opt = nn.optim.Adam([w], lr=0.25)
    w.sum().backward()
    opt.step()
    assert (w.dtype.name, w.item()) == ("float16", 0.75)


def test_a_step_without_a_gradient_names_the_parameter():
    opt = nn.optim.SGD([Tensor(START, requires_grad=True)], lr=0.1)
    with pytest.raises(UserError, match=r"\[SGD.step\] parameter 0 of shape \(4, 3\) has no"):
        opt.step()


def test_an_optimizer_needs_something_to_train():
    with pytest.raises(UserError, match="at least one tensor that requires a gradient"):
        nn.optim.Adam([Tensor([1.0], requires_grad=False)])


def test_nesterov_needs_a_momentum():
    with pytest.raises(UserError, match="needs a momentum above 0"):
        nn.optim.SGD([Tensor([1.0], requires_grad=True)], nesterov=True)


def test_a_group_steps_all_its_optimizers_with_their_own_rates():
    a, b = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    group = nn.optim.OptimizerGroup(nn.optim.SGD([a], lr=0.5), nn.optim.SGD([b], lr=0.25))
    group.zero_grad()
    (a + b).sum().backward()
    group.step()
    assert (a.item(), b.item(), len(group)) == (0.5, 0.75, 2)
    with pytest.raises(UserError, match="no one learning rate"):
        group.lr = 0.1


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_groups_have_their_own_options_as_in_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle of this test")
    options = {"lr": 0.05, "weight_decay": 0.1}

    def trained(optim, tensor, slope, w, b):
        groups = [{"params": [w], "weight_decay": 0.0}, {"params": [b], "lr": 0.2}]
        opt = getattr(optim, name)(groups, **options)
        for step in range(5):
            if step == 3:
                opt.param_groups[1]["lr"] = 0.01
            opt.zero_grad()
            ((w * slope).sum() + (b * b * b).sum()).backward()
            opt.step()
        return w, b

    ours = trained(nn.optim, Tensor, Tensor(SLOPE), *(Tensor(START, requires_grad=True),
                   Tensor(START[0], requires_grad=True)))  # fmt: skip
    theirs = trained(torch.optim, torch.tensor, torch.tensor(SLOPE), *(
        torch.tensor(START, requires_grad=True), torch.tensor(START[0], requires_grad=True)
    ))  # fmt: skip
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine.numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-5)


def test_groups_that_cannot_be_are_refused():
    w, other = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    with pytest.raises(UserError, match="unknown options momentun; known: params, lr, momentum"):
        nn.optim.SGD([{"params": [w], "momentun": 0.9}])
    with pytest.raises(UserError, match="a parameter is in two groups"):
        nn.optim.SGD([{"params": [w]}, {"params": [w]}])
    with pytest.raises(UserError, match='groups are dicts that have "params"'):
        nn.optim.SGD([{"params": [w]}, other])
    with pytest.raises(UserError, match="needs a momentum above 0"):
        nn.optim.SGD([{"params": [w], "nesterov": True}])
    opt = nn.optim.SGD([{"params": w}, {"params": other}])
    with pytest.raises(UserError, match="has no one learning rate"):
        opt.lr = 0.1


def test_an_optimizer_goes_on_from_its_saved_state(tmp_path):
    def train(opt, w, steps):
        for _ in range(steps):
            opt.zero_grad()
            ((w * Tensor(SLOPE)).sum() + (w * w * w).sum()).backward()
            opt.step()

    w = Tensor(START, requires_grad=True)
    opt = nn.optim.Adam([w], lr=0.05)
    train(opt, w, 3)
    nn.state.safe_save(nn.state.get_state_dict(opt), tmp_path / "f")
    resumed = Tensor.zeros(*START.shape).requires_grad_()
    again = nn.optim.Adam([resumed], lr=1.0)
    nn.state.load_state_dict(again, nn.state.safe_load(tmp_path / "f"), verbose=False)
    train(again, resumed, 4)
    np.testing.assert_allclose(resumed.numpy(), ours_after(nn.optim.Adam, 7, lr=0.05), atol=1e-6)


@pytest.mark.parametrize(
    ("make", "options"),
    [(nn.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (nn.optim.Adam, {"lr": 0.05})],
    ids=["SGD", "Adam"],
)
def test_a_captured_step_advances_the_optimizers_state_at_every_replay(make, options):
    from treadle import TinyJit

    w = Tensor(START, requires_grad=True)
    opt, slope = make([w], **options), Tensor(SLOPE)

    @TinyJit
    def step(slope):
        opt.zero_grad()
        loss = ((w * slope).sum() + (w * w * w).sum()).backward()
        return loss.realize(*opt.schedule_step())

    for _ in range(7):
        step(slope)
    np.testing.assert_allclose(w.numpy(), ours_after(make, 7, **options), rtol=1e-6, atol=1e-6)


def test_a_loss_from_before_a_step_says_that_it_has_no_gradients_any_more():
    w = Tensor(START, requires_grad=True).realize()
    opt = nn.optim.SGD([w], lr=0.1)
    loss = (w * w * w).sum()
    loss.backward()
    opt.step()
    loss.backward()
    with pytest.raises(UserError, match=r"had before it was changed, by an optimiser's step"):
        w.grad.numpy()
    np.testing.assert_allclose(loss.numpy(), (START**3).sum(), rtol=1e-5)
