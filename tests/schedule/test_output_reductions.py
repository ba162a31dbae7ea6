"""Reductions that join the kernel of an output, and those that must or had better stay apart."""

import numpy as np
import pytest

from treadle import Context, Tensor
from treadle.ir.op import Op

from ..choices.running import usual_caches

ROWS, COLUMNS = 1100, 1024


@pytest.fixture(autouse=True)
def caches():
    """Memory larger than the caches is what this is about; those of large servers hold all."""
    with usual_caches("CPU"):
        yield


def filled(*shape, seed=0):
    data = np.random.default_rng(seed).standard_normal(shape or (ROWS, COLUMNS))
    return Tensor(data.astype(np.float32), device="CPU").realize()


def stores(*tensors):
    """How many values each kernel stores."""
    return [len(kernel.roots) for kernel in tensors[0].schedule(*tensors[1:])]


def loads(kernel):
    """The arguments that a kernel loads."""
    return {n.src[0].arg.slot for n in kernel.ast.toposort() if n.op is Op.LOAD}


def test_a_total_of_what_is_stored_is_computed_beside_it():
    y = filled() * 2
    [kernel] = y.schedule((y * y).sum())
    assert len(loads(kernel)) == 1  # what is stored is not read again


def test_totals_of_rows_and_of_channels_are_too():
    y = filled() + 1
    assert stores(y, y.sum(1)) == [2]
    image = filled(8, 40, 56, 56).relu()
    assert stores(image, image.mean((0, 2, 3))) == [2]


def test_a_total_of_what_an_output_reads_is_too():
    x, z = filled(), filled(seed=1)
    assert stores((x - z) * 0.5, ((x - z) * (x - z)).mean(), x.max()) == [3]


def test_the_largest_index_is_computed_beside_what_is_gathered():
    places = Tensor(np.zeros((ROWS, COLUMNS), np.int32), device="CPU").realize()
    assert stores(filled().gather(1, places), places.max()) == [2]


def test_sums_down_columns_stay_apart():
    y = filled() * 2
    assert stores(y, y.sum(0)) == [1, 1]


def test_what_lies_in_another_order_stays_apart():
    x = filled(1024, 1024)
    assert stores(x.T * 2 + 1, x.sum()) == [1, 1]
    assert stores(Tensor.cat(x, x + 1, dim=1), x.max()) == [1, 1]
    assert stores(Tensor.stack(x, x + 1, dim=2), x.max()) == [1, 1]


def test_what_fits_a_cache_stays_apart():
    y = filled(64, 64) * 2
    assert stores(y, y.sum()) == [1, 1]


def test_a_small_part_of_the_traffic_is_not_worth_it():
    wide, narrow = [filled(seed=n) for n in range(5)], filled(ROWS, 1)
    assert stores(sum(wide) * narrow, narrow.sum()) == [1, 1]


def test_an_output_that_needs_the_total_waits_for_it():
    x = filled()
    assert stores(x - x.mean(), x.mean()) == [1, 1]
    y = x * 2
    scale = (y * y).sum()
    assert sum(stores(y, y / scale, scale)) == 3
    np.testing.assert_allclose((y / scale).numpy(), y.numpy() / scale.numpy(), rtol=1e-5)


def test_a_reduction_that_needs_another_stays_apart():
    y = filled() * 2
    assert max(stores(y, y.var())) == 1


@pytest.mark.parametrize("after", [False, True])
def test_what_an_assignment_overwrites_is_read_before(after):
    x = filled()
    old = x.numpy()
    total = (x * x).sum()
    x.assign(x * 3)
    if after:
        total = (x * x).sum()
    with Context(CHECK_KERNELS=1):
        Tensor.realize(x, total)
    np.testing.assert_allclose(x.numpy(), old * 3)
    right = np.square(old.astype(np.float64) * (3 if after else 1)).sum()
    np.testing.assert_allclose(total.numpy(), right, rtol=1e-5)


def test_nothing_joins_across_a_kernel_that_it_depends_on():
    x, w = filled(), filled(COLUMNS, COLUMNS, seed=1)
    y = x * 2
    z = (y @ w * 0.01).contiguous()
    total = (y * z).sum()
    assert sum(stores(y, z, total)) == 3
    right = (y.numpy().astype(np.float64) * z.numpy()).sum()
    np.testing.assert_allclose(total.numpy(), right, rtol=1e-3)


def test_workgroups_do_without():
    device = "CUDA"
    y = Tensor(np.ones((ROWS, COLUMNS), np.float32), device=device).realize() * 2
    assert stores(y, y.sum()) == [1, 1]
