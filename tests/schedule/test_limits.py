"""Devices that bind few buffers, or small parts of them, still compute everything."""

from __future__ import annotations

import dataclasses
import functools
import operator

import numpy as np
import pytest

from treadle import Device, Tensor
from treadle.engine.run import scheduled
from treadle.errors import DeviceError
from treadle.runtime.webgpu import device as webgpu
from treadle.schedule.limits import fits
from treadle.schedule.passes import schedule
from treadle.target import host_target

RANDOM = np.random.default_rng(3)


def few_buffers(count, **more):
    return dataclasses.replace(host_target(), max_buffers=count, **more)


def numbers(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def steps(tensor, target):
    return schedule([tensor.node], "CPU", target)[0]


@pytest.mark.parametrize("most", [4, 8])
def test_no_kernel_has_more_buffers_than_the_target_binds(most):
    tensors = [Tensor(numbers(5, 7)).realize() for _ in range(20)]
    target = few_buffers(most)
    for x in (
        functools.reduce(operator.add, tensors),
        functools.reduce(operator.add, tensors).sum(),
        Tensor.cat(*tensors, dim=1),
        Tensor.stack(*tensors).softmax(),
    ):
        kernels = steps(x, target)
        assert len(kernels) > 1
        assert all(len(k.buffers) <= most and fits(k, target) for k in kernels)
        assert any(f"at most {most} buffers" in k.reason for k in kernels)
        assert len(steps(x, host_target())) < len(kernels)


def test_a_buffer_larger_than_a_binding_counts_for_each_of_its_parts():
    x, y = (Tensor(numbers(1000)).realize() for _ in range(2))
    assert len(steps(x + y, few_buffers(6, max_binding=2048))) == 1  # three times two parts
    with pytest.raises(DeviceError, match=r"one kernel needs .*at most 5.*smaller tensors"):
        steps(x + y, few_buffers(5, max_binding=2048))


@pytest.mark.parametrize("device", ["CPU", "CL", "WEBGPU"])
def test_a_sum_of_twenty_tensors_is_right_on_every_device(device):
    try:
        target = Device[device].target
    except DeviceError as error:
        pytest.skip(str(error))
    data = [numbers(33, 5) for _ in range(20)]
    tensors = [Tensor(d, device=device).realize() for d in data]
    total = functools.reduce(operator.add, tensors)
    assert all(fits(k, target) for k in scheduled([(total.node, device)]))
    np.testing.assert_allclose(total.numpy(), sum(data), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def small():
    """A WebGPU device that sees 1 KiB of a buffer at a time."""
    make, name = webgpu.target_of, "WEBGPU:9"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            webgpu, "target_of", lambda *facts: dataclasses.replace(make(*facts), max_binding=1024)
        )
        try:
            assert Device[name].target.max_binding == 1024
        except DeviceError as error:
            pytest.skip(str(error))
    return name


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "float16", "bool"])
def test_tensors_larger_than_a_binding_are_read_and_written_right(small, dtype):
    size = 2500 // np.dtype(dtype).itemsize + 3
    data = (np.arange(size) % 2 if dtype == "bool" else np.arange(size) % 100).astype(dtype)
    x = Tensor(data, device=small).realize()
    np.testing.assert_array_equal(x.numpy(), data)
    np.testing.assert_array_equal(x.flip(0).contiguous().numpy(), data[::-1])
    np.testing.assert_array_equal(x.cast("int32").sum().numpy(), data.astype(np.int32).sum())


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
def test_vectors_of_parts_are_read_and_written_right(small, dtype):
    data = (np.arange(1024) % 100).astype(dtype)
    x = Tensor(data, device=small).realize()
    np.testing.assert_array_equal((x + x.flip(0)).numpy(), data + data[::-1])
    np.testing.assert_array_equal((x * 2 + 1).numpy(), data * 2 + 1)


def test_views_and_matmuls_of_parts_are_right(small):
    a, b = numbers(20, 30), numbers(30, 10)
    x, y = Tensor(a, device=small), Tensor(b, device=small)
    np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x.T.contiguous().numpy(), a.T)
    np.testing.assert_array_equal(x[3:17:2, ::3].contiguous().numpy(), a[3:17:2, ::3])
    x[5:9, 7] = 4.0
    a[5:9, 7] = 4
    np.testing.assert_array_equal(x.numpy(), a)


def test_what_cannot_be_bound_at_all_is_refused_with_the_reason(small):
    x, y = (Tensor(numbers(2000), device=small) for _ in range(2))
    with pytest.raises(DeviceError, match=r"one kernel needs"):
        (x + y).realize()
    assert (Tensor([1.0], device=small) + 1).tolist() == [2]


def test_a_kernel_of_the_processor_may_have_more_than_a_thousand_arguments():
    tensors = [Tensor([float(n)], device="CPU").realize() for n in range(1100)]
    total = functools.reduce(operator.add, tensors)
    assert total.item() == sum(range(1100))
