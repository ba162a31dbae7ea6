"""What becomes one kernel, and why."""

import functools

import numpy as np
import pytest

from treadle import Tensor, nn
from treadle.engine.pipeline import program_of
from treadle.engine.realized import current
from treadle.ir.loops import loop_size
from treadle.ir.op import Op
from treadle.schedule.passes import schedule

from .work import BAR, work


def kernels(*tensors):
    """The kernels that computing `tensors` would run; nothing runs."""
    roots, _ = current(t.node for t in tensors)
    return schedule(roots, "CPU")[0]


def filled(*shape):
    return Tensor(np.ones(shape, np.float32)).realize()


ONE_KERNEL = {
    "softmax": lambda x: x.softmax(),
    "softmax over columns": lambda x: x.softmax(axis=0),
    "log softmax": lambda x: x.log_softmax(),
    "layer norm": lambda x: x.layernorm(),
    "layer norm with weights": lambda x: x.layernorm() * filled(128) + filled(128),
    "variance": lambda x: x.var(axis=1),
    "elementwise chain": lambda x: ((x * 2 + 1).gelu() * x).exp(),
    "cross-entropy": lambda x: x.sparse_categorical_crossentropy(
        Tensor(np.arange(64, dtype=np.int32)).realize()
    ),
    "matmul, bias, activation, residual": lambda x: (
        (x @ filled(128, 96) + filled(96)).relu() + filled(64, 96)
    ),
    "convolution and activation": lambda x: (
        x.reshape(2, 4, 32, 32).conv2d(filled(8, 4, 3, 3), padding=1).relu()
    ),
    "views alone": lambda x: x.permute(1, 0).flip(0).pad(((1, 1), (0, 2)))[3:9],
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_is_one_kernel(name):
    found = kernels(ONE_KERNEL[name](filled(64, 128)))
    assert [kernel.reason for kernel in found] == ["it is an output"]


def test_a_matmul_of_a_matmul_is_two_kernels_with_the_reason_recorded():
    x = filled(64, 128)
    found = kernels((x @ filled(128, 96)) @ filled(96, 32))
    assert len(found) == 2
    assert "recomputed" in found[0].reason


def test_a_product_that_is_a_part_of_one_line_is_a_kernel_of_its_own():
    """In a buffer of gradients, say: one loop has no rows and columns to make tiles of."""
    weights = filled(64, 10).T @ filled(64, 512)
    product, line = kernels(Tensor.cat(filled(10), weights.flatten(), filled(4600)))
    assert "cannot be tiled" in product.reason
    assert line.reason == "it is an output"
    (alone,) = kernels(weights.flatten() + 1)
    assert alone.reason == "it is an output"


def test_a_costly_activation_is_not_computed_anew_for_each_result_of_a_product_with_a_vector():
    hidden = filled(1, 256) @ filled(256, 1024)
    wide, narrow = kernels(hidden.gelu() @ filled(1024, 256))
    assert "costly" in wide.reason
    assert [Op.ERF in {n.op for n in k.ast.toposort()} for k in (wide, narrow)] == [True, False]


def test_an_activation_between_matmuls_is_stored_where_it_is_computed():
    found = kernels((filled(64, 128) @ filled(128, 96)).gelu() @ filled(96, 32))
    assert len(found) == 2
    assert "is read many times" in found[0].reason


def small_image():
    x = filled(1, 16, 16, 16).conv2d(filled(16, 16, 3, 3), filled(16), padding=1)
    return x.relu()


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param(lambda x: x.conv2d(filled(16, 16, 3, 3)), id="a product"),
        pytest.param(lambda x: x.max_pool2d((3, 3), stride=1), id="overlapping windows"),
    ],
)
def test_what_follows_a_product_is_computed_before_it_is_read_many_times(reader):
    product, rest = kernels(reader(small_image()))
    assert "ends the kernel of a matmul-like reduction" in product.reason
    assert filled(16).node.shape in [b.shape for b in product.buffers]  # the bias
    assert filled(16).node.shape not in [b.shape for b in rest.buffers]


def test_what_follows_a_product_is_computed_where_it_is_read_once():
    product, _ = kernels(small_image().max_pool2d((2, 2)))
    assert "ends the kernel of a matmul-like reduction" not in product.reason


def test_an_activation_and_its_gradient_share_the_product_below_them_and_nothing_between():
    x, inner, outer = filled(64, 128), filled(128, 96), filled(96, 32)
    result = ((x @ inner + filled(96)).gelu() @ outer).square().sum()
    found = kernels(result, *result.gradient(inner, outer))
    large = [root for kernel in found for root in kernel.roots if root.shape[:2] == (64, 96)]
    product, *factors = large
    assert product.op is Op.REDUCE
    assert len(factors) == 2  # the activation, and what arrives at the product


def test_a_reduction_that_two_outputs_need_is_stored_once():
    x = filled(64, 128)
    total = x.sum(axis=1)
    found = kernels(total * 2, (total + 1).reshape(8, 8).sum(axis=1))
    sums = [[n.src[1:] for n in k.ast.toposort() if n.op is Op.REDUCE] for k in found]
    assert [[loop_size(*loops) for loops in each] for each in sums] == [[128], [8]]
    assert "2 kernels need this reduction" in found[0].reason


def test_two_outputs_over_the_loops_of_one_reduction_compute_it_once():
    total = filled(64, 128).sum(axis=1)
    (kernel,) = kernels(total * 2, total + 1)
    assert [n.op for n in kernel.ast.toposort()].count(Op.REDUCE) == 1


def chain(length):
    x = filled(4)
    for _ in range(length):
        x = x * 1.5 + 1
    return x


def test_scheduling_ten_times_the_nodes_takes_about_ten_times_the_work():
    scheduled = lambda length: work(functools.partial(kernels, chain(length)))
    scheduled(50)
    assert scheduled(1000) < BAR * scheduled(100)


def test_a_long_chain_is_cut_into_kernels_of_bounded_size():
    found = kernels(chain(3000))
    assert len(found) > 5
    assert max(len(kernel.ast.toposort()) for kernel in found) < 3000


def test_a_training_step_of_a_linear_layer_has_few_kernels():
    x, y = filled(64, 128), Tensor(np.arange(64, dtype=np.int32) % 10).realize()
    layer = nn.Linear(128, 10)
    layer.weight.realize(layer.bias)
    optimizer = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.1)
    with Tensor.train():
        loss = layer(x).sparse_categorical_crossentropy(y).backward()
        found = kernels(loss, *optimizer.schedule_step())
    assert len(found) <= 12


def test_the_same_graph_over_other_buffers_is_the_same_program():
    first, second = filled(8, 8), filled(8, 8)
    program, _, _ = program_of([current([first.softmax().node])[0][0]], "CPU")
    again, _, _ = program_of([current([second.softmax().node])[0][0]], "CPU")
    assert program is again


def test_the_gradient_of_pooling_keeps_maxima_instead_of_windows():
    x = filled(2, 3, 20, 20)
    y = x.max_pool2d((3, 3), 2, 1, 1)
    found = kernels(y.gradient(x, gradient=filled(*y.shape))[0])
    shapes = [root.shape for kernel in found for root in kernel.roots]
    assert shapes == [(2, 3, 10, 10, 1, 1)] * 2 + [(2, 3, 20, 20)]


def test_values_that_are_used_twice_again_and_again_are_looked_at_once():
    def product(times):
        y = Tensor(np.ones((64, 64), np.float32)).realize()
        for _ in range(times):
            y = y * y + y
        return y @ Tensor(np.ones((64, 64), np.float32)).realize()

    product(2).schedule()
    small = work(product(8).schedule)
    assert work(product(16).schedule) < 4 * small  # in 2 ** 16 ways they are reached
