"""Things that go wrong around a program: huge graphs, broken caches, forks, threads, kills."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from treadle import Tensor
from treadle.errors import TreadleError

PROGRAM = (
    "from treadle import Tensor, GlobalCounters as G; import numpy as np;"
    "x = Tensor(np.arange(64, dtype=np.float32).reshape(8, 8));"
    "print((x @ x + 1).softmax().sum().item(), G.compile_count, G.cache_hits)"
)


def run(code=PROGRAM, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip


def value_of(result):
    assert result.returncode == 0, result.stderr
    return float(result.stdout.split()[0])


def test_ten_thousand_operations_meet_no_recursion_limit():
    x = Tensor([1.0]).realize()
    for _ in range(10_000):
        x = x + 1
    assert x.item() == 10_001


def test_ten_thousand_operations_have_gradients():
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(5_000):
        y = y * 1.0001
    y.sum().backward()
    assert x.grad.item() == pytest.approx(1.0001**5000, rel=1e-3)


def test_a_list_of_a_million_numbers():
    x = Tensor(list(range(1_000_000)), dtype="float32")
    assert x.shape == (1_000_000,)
    assert x.max().item() == 999_999


def test_arrays_that_are_not_contiguous_or_read_only_are_copied():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    base.setflags(write=False)
    x = Tensor(base[::2, ::-1])
    np.testing.assert_array_equal(x.numpy(), base[::2, ::-1])
    back = x.numpy()
    back[:] = 0
    assert x.sum().item() == base[::2].sum()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_go_through_reductions_as_in_numpy(value):
    data = np.arange(3000, dtype=np.float32).reshape(3, 1000)
    data[1, 700] = value
    x = Tensor(data)
    with np.errstate(invalid="ignore"):
        for name in ("sum", "max", "min", "mean"):
            expected = getattr(data, name)(axis=1)
            np.testing.assert_allclose(getattr(x, name)(axis=1).numpy(), expected, rtol=1e-6)


def test_zero_size_and_zero_dimensional_tensors():
    empty = Tensor.zeros(0, 3)
    assert (empty + 1).numpy().shape == (0, 3)
    assert empty.sum().item() == 0
    assert empty.sum(axis=0).tolist() == [0, 0, 0]
    assert (empty @ Tensor.ones(3, 2)).shape == (0, 2)
    assert (Tensor.ones(2, 0) @ Tensor.ones(0, 2)).tolist() == [[0, 0], [0, 0]]
    scalar = Tensor(3.0)
    assert scalar.shape == ()
    assert (scalar * scalar).item() == 9


def test_a_second_process_takes_kernels_from_the_cache(tmp_path):
    first, second = (run(CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert value_of(first) == value_of(second) == pytest.approx(8)
    assert int(second.stdout.split()[1]) == 0
    assert int(second.stdout.split()[2]) > 0


def test_a_corrupt_cache_is_compiled_again(tmp_path):
    run(CACHE_DIR=str(tmp_path))
    entries = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert entries
    for entry in entries:
        content = bytearray(entry.read_bytes())
        content[len(content) // 2 :] = os.urandom(len(content) - len(content) // 2)
        entry.write_bytes(bytes(content))
    assert value_of(run(CACHE_DIR=str(tmp_path))) == pytest.approx(8)


def test_an_unwritable_cache_is_memory_only_with_a_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = run(CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert value_of(result) == pytest.approx(8)
    assert result.stderr.count("Warning") == 1


def test_processes_that_compile_at_once_share_one_cache(tmp_path):
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env={**os.environ, "CACHE_DIR": str(tmp_path)},
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    values = [float(process.communicate(timeout=100)[0].split()[0]) for process in running]
    assert values == pytest.approx([8] * 4)


def test_a_process_killed_while_it_compiles_leaves_a_good_cache(tmp_path):
    for wait in (0.15, 0.3, 0.45):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env={**os.environ, "CACHE_DIR": str(tmp_path)},
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert value_of(run(CACHE_DIR=str(tmp_path))) == pytest.approx(8)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_parent_and_child_both_compute_after_a_fork():
    code = (
        "import os, numpy as np\n"
        "from treadle import Tensor\n"
        "x = Tensor(np.ones((512, 512), np.float32)).realize()\n"
        "assert (x @ x).sum().item() == 512 ** 3\n"
        "pid = os.fork()\n"
        "assert (x @ x + 1).sum().item() == 512 ** 3 + 512 ** 2\n"
        "if pid == 0: os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "print('both')\n"
    )
    result = run(code)
    assert result.stdout == "both\n", result.stderr


def test_threads_use_tensors_at_the_same_time():
    shared = Tensor(np.arange(2000, dtype=np.float32).reshape(50, 40)).realize()
    failures = []

    def work(number):
        try:
            for i in range(8):
                mine = Tensor(np.full((7 + number, 5), i, np.float32))
                assert (mine * 2 + number).sum().item() == (2 * i + number) * (7 + number) * 5
                assert (shared + number).max().item() == 1999 + number
                assert Tensor.rand(3).shape == (3,)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=100)
    assert failures == []


def test_exit_with_a_live_jit_and_pending_work_is_quiet():
    code = (
        "from treadle import Tensor, TinyJit\n"
        "f = TinyJit(lambda x: (x + 1).realize())\n"
        "y = [f(Tensor([1.0])) for _ in range(3)]\n"
        "lazy = Tensor.rand(100) * 2\n"
    )
    result = run(code)
    assert (result.returncode, result.stderr) == (0, "")


def test_all_errors_that_users_meet_have_one_base():
    for mistake in (
        lambda: Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0]),
        lambda: Tensor([[1.0]]).sum(axis=5),
        lambda: Tensor([1.0, 2.0])[7],
        lambda: Tensor([1.0]) + Tensor([1.0], device="REF"),
    ):
        with pytest.raises(TreadleError):
            mistake()
