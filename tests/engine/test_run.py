"""Realizing graphs: versions of memory, assignments against readers, caches and counters."""

import os
import subprocess
import sys

import numpy as np
import pytest

from treadle import Context, Device, GlobalCounters, Tensor, Variable, nn
from treadle.engine import effects
from treadle.engine.selection import parse_choice, spellings
from treadle.engine.steps import Transfer
from treadle.errors import DeviceError, SettingError


def test_pending_reads_of_an_old_version_keep_it(device):
    x = Tensor([1.0, 2.0], device=device).realize()
    before = x * 10
    x.assign(x + 1)
    assert x.tolist() == [2, 3]
    assert before.tolist() == [10, 20]


def test_two_pending_assignments_that_read_each_other(device):
    a, b = (Tensor([v, v + 1], device=device).realize() for v in (1.0, 5.0))
    new_a, new_b = b * 2, a * 3
    a.assign(new_a)
    b.assign(new_b)
    a.realize(b)
    assert a.tolist() == [10, 12]
    assert b.tolist() == [3, 6]


def test_assigning_a_moved_view_of_itself(device):
    data = np.arange(9, dtype=np.float32).reshape(3, 3)
    x = Tensor(data, device=device).realize()
    x.assign(x.flip(0))
    assert x.tolist() == data[::-1].tolist()
    x.assign(x.T)
    assert x.tolist() == data[::-1].T.tolist()


def test_a_chain_of_writes_into_parts(device):
    x = Tensor.zeros(4, 4, device=device).contiguous().realize()
    x[1] = 1
    x[:, 2] = x[:, 2] + 5
    x[0, 0] = x.sum()
    expected = np.zeros((4, 4))
    expected[1] = 1
    expected[:, 2] += 5
    expected[0, 0] = expected.sum()
    np.testing.assert_array_equal(x.numpy(), expected)


def test_an_alias_keeps_the_old_values(device):
    x = Tensor([1.0, 2.0], device=device).realize()
    view = x.reshape(2, 1)
    x.assign(x * 100)
    assert x.tolist() == [100, 200]
    assert view.tolist() == [[1], [2]]


def test_copies_between_devices():
    x = Tensor([1.0, 2.0], device="CPU")
    y = (x + 1).to("REF") * 2
    assert y.device == "REF"
    assert y.to("CPU").tolist() == [4, 6]


def test_the_null_device_schedules_and_compiles_but_has_no_values():
    x = Tensor.rand(16, 16, device="NULL")
    y = (x @ x).softmax().realize()
    assert y.shape == (16, 16)
    with pytest.raises(DeviceError, match="NULL"):
        y.numpy()


def test_the_same_graph_again_compiles_nothing():
    def run(seed):
        data = np.random.default_rng(seed).standard_normal((5, 7)).astype(np.float32)
        return (Tensor(data).exp() * 3).sum(axis=1).numpy()

    run(0)
    GlobalCounters.reset()
    run(1)
    assert GlobalCounters.compile_count == 0
    assert GlobalCounters.kernel_count == 1


def test_a_schedule_can_be_looked_at_without_running():
    x = Tensor(np.ones((4, 8), np.float32)).realize()
    GlobalCounters.reset()
    kernels = (x.softmax() @ x.T).schedule()
    assert len(kernels) == 2
    assert all(kernel.reason for kernel in kernels)
    assert GlobalCounters.kernel_count == 0
    assert x.schedule() == []


def test_counters_know_what_a_matmul_costs():
    a = Tensor(np.ones((64, 32), np.float32)).realize()
    b = Tensor(np.ones((32, 48), np.float32)).realize()
    GlobalCounters.reset()
    (a @ b).realize()
    assert GlobalCounters.kernel_count == 1
    assert GlobalCounters.global_ops == 2 * 64 * 32 * 48
    assert GlobalCounters.global_mem == 4 * (64 * 32 + 32 * 48 + 64 * 48)
    assert GlobalCounters.mem_used > 0


def test_a_size_known_at_launch_compiles_once():
    data = np.random.default_rng(0).standard_normal((10, 4)).astype(np.float32)
    x, n = Tensor(data).realize(), Variable("n", 1, 10)
    for count in (10, 3, 7):
        part = x.shrink(((0, n.bind(count)), (0, 4)))
        np.testing.assert_allclose(
            (part * 2).sum(axis=0).numpy(), 2 * data[:count].sum(0), rtol=1e-5
        )
        assert (part + 1).numpy().shape == (count, 4)
        if count == 10:
            GlobalCounters.reset()
    assert GlobalCounters.compile_count == 0


def test_debug_shows_kernels_with_their_share_of_the_roofline(capfd):
    with Context(DEBUG=4):
        (Tensor([1.0, 2.0, 3.0]) * 7.25).realize()
    shown = capfd.readouterr().err
    assert "*** CPU" in shown
    assert "GFLOP/s" in shown
    assert "roofline" in shown
    assert "define void" in shown


# -- choosing a device --------------------------------------------------------------------------


def chosen(**variables):
    code = "from treadle import Device; d = Device[Device.DEFAULT]; print(d.name, d.compiler.name)"
    kept = {k: v for k, v in os.environ.items() if k not in ("DEV", "EMULATE", *spellings())}
    return subprocess.run(
        [sys.executable, "-c", code], env={**kept, **variables}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "variables", [{}, {"CPU": "1"}, {"CPU_LLVM": "1"}, {"LLVM": "1"}, {"DEV": "CPU:LLVM"}], ids=str
)
def test_spellings_of_the_embedded_compiler(variables):
    assert chosen(**variables).stdout == "CPU LLVM\n"


def test_an_architecture_can_be_named():
    assert chosen(DEV="CPU:LLVM:x86-64-v2").stdout == "CPU LLVM\n"


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"DEV": "CPX"}, ("DEV=CPX", "CPX", "CPU")),
        ({"DEV": "CPU:GCC"}, ("GCC", "LLVM, CLANG")),
        ({"CPU_LLVM": "1", "CPU_CLANG": "1"}, ("CPU_LLVM=1", "CPU_CLANG=1")),
        ({"DEV": "REF", "CPU": "1"}, ("DEV=REF", "CPU=1")),
        ({"CPU": "yes"}, ("CPU=yes", "0 or 1")),
    ],
    ids=str,
)
def test_typos_and_contradictions_are_errors_that_name_both(variables, words):
    error = chosen(**variables).stderr
    assert "SettingError" in error
    assert all(word in error for word in words)


def test_device_names_have_one_spelling():
    assert Device.canonicalize("cpu:0") == "CPU"
    assert Device.canonicalize("CPU:1") == "CPU:1"
    with pytest.raises(DeviceError, match="no device 'TPU'"):
        Device.canonicalize("TPU")
    with pytest.raises(SettingError):
        parse_choice("CPU:NOPE")


def test_two_cpu_devices_work_side_by_side():
    x = Tensor([1.0, 2.0], device="CPU:1")
    assert (x + 1).tolist() == [2, 3]
    assert (x.to("CPU") * 3).tolist() == [3, 6]


@pytest.fixture
def copies(monkeypatch):
    """The elements of each old version that is copied before it is overwritten."""
    found = []

    def counted(source, target):
        found.append(source.size)
        return Transfer(source, target)

    monkeypatch.setattr(effects, "Transfer", counted)
    return found


def test_a_gradient_outlives_the_step_that_used_it_without_a_copy_of_the_weights(device, copies):
    w = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3), device=device, requires_grad=True)
    x = Tensor(np.ones((2, 2), np.float32), device=device).realize()
    optimizer = nn.optim.SGD([w.realize()], lr=0.5)
    with Context(TRAINING=1):
        scores = x @ w
        loss = (scores * scores).sum().backward()
        loss.realize(*optimizer.schedule_step())
    before = np.arange(6).reshape(2, 3)
    assert not copies
    np.testing.assert_allclose(scores.numpy(), np.ones((2, 2)) @ before)
    np.testing.assert_allclose(w.grad.numpy(), 2 * np.ones((2, 2)) @ np.ones((2, 2)) @ before)
    np.testing.assert_allclose(w.numpy(), before - 0.5 * w.grad.numpy())


def test_what_is_much_larger_than_the_old_version_is_not_stored_for_a_reader(device, copies):
    w = Tensor([1.0, 2.0], device=device).realize()
    large = w.reshape(1, 2).expand(100, 2) * Tensor.arange(100, device=device).reshape(100, 1)
    w.assign(w + large.sum(0))
    w.realize()
    assert copies == [2]
    np.testing.assert_array_equal(w.numpy(), np.array([1, 2]) * 4951)
    np.testing.assert_array_equal(large.numpy(), np.arange(100)[:, None] * [[1, 2]])


def test_a_loss_outlives_the_step_that_did_not_compute_it_without_a_copy(device, copies):
    w = Tensor([[1.0, 2.0]], device=device, requires_grad=True)
    x = Tensor([[3.0], [4.0]], device=device).realize()
    optimizer = nn.optim.SGD([w.realize()], lr=0.5)
    with Tensor.train():
        loss = (x @ w).square().mean().backward()  # its gradient does not need the mean
        optimizer.step()
    assert not copies
    assert loss.item() == (9 + 36 + 16 + 64) / 4


def test_outputs_on_several_devices_come_in_the_order_they_were_asked_for(device):
    x, y = Tensor([1.0, 2.0], device=device), Tensor([3.0], device="REF")
    (a, b), (c, d) = (x + 1, x * 5), (y + 1, y * 5)
    a.realize(c, b, a, d)
    assert [t.tolist() for t in (a, b, c, d)] == [[2, 3], [5, 10], [4], [15]]
