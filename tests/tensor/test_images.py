"""Textures as memory: values in and out, kernels that read and write them, IMAGE=1."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import Context, Tensor, TinyJit, dtypes
from treadle.engine.devices import Device
from treadle.errors import DeviceError, DTypeError, JitError, ShapeError
from treadle.ir.choices import observing

VALUES = np.random.default_rng(5).standard_normal((6, 8)).astype(np.float32)
IMAGE = dtypes.imagef((3, 4))


@pytest.fixture(scope="module", params=["CL", "QCOM"])
def home(request):
    """A device with textures."""
    return opened(request.param)


def opened(name):
    try:
        target = Device[name].target
    except DeviceError as error:
        pytest.skip(f"{name}: {error}")
    if target.max_image is None:
        pytest.skip(f"{target.name} has no textures")
    return name


def stored_in(tensor):
    """The memory of a realised tensor: its BUFFER's record."""
    node = tensor.realize().node
    while node.src:
        node = node.src[0]
    return node.arg


@pytest.mark.parametrize(("kind", "bits"), [("imagef", np.float32), ("imageh", np.float16)])
def test_values_go_into_a_texture_and_out_again(home, kind, bits):
    image = getattr(dtypes, kind)((3, 4))
    x = Tensor(VALUES, device=home).cast(image)
    assert stored_in(x).image is image
    assert x.dtype is dtypes.float32
    np.testing.assert_array_equal(x.numpy(), VALUES.astype(bits).astype(np.float32))


def test_integers_become_floats_in_a_texture(home):
    x = Tensor(np.arange(48, dtype=np.int16), device=home).cast(IMAGE)
    np.testing.assert_array_equal(x.numpy(), np.arange(48, dtype=np.float32))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1,
        lambda x: x.sum(0) if isinstance(x, Tensor) else x.sum(0, dtype=np.float32),
        lambda x: x.max(1),
        lambda x: x.T * 2,
        lambda x: x[1:5, 3:6],
        lambda x: x[::-1, ::3] if isinstance(x, np.ndarray) else x.flip(0)[:, ::3],
        lambda x: x.reshape(4, 12)[:, 1:],
        lambda x: x[[3, 1]],
    ],
    ids=["add", "columns", "rows", "transpose", "part", "flip", "reshape", "gather"],
)
def test_kernels_read_textures_at_any_place(home, compute):
    x = Tensor(VALUES, device=home).cast(IMAGE)
    np.testing.assert_allclose(compute(x).numpy(), compute(VALUES), rtol=1e-5, atol=1e-6)


def test_padding_of_a_texture_is_zero(home):
    x = Tensor(VALUES, device=home).cast(IMAGE).pad(((1, 2), (3, 0)))
    np.testing.assert_array_equal(x.numpy(), np.pad(VALUES, ((1, 2), (3, 0))))


def test_a_texture_is_assigned_to(home):
    x = Tensor(VALUES, device=home).cast(IMAGE).realize()
    before = stored_in(x).token
    x.assign(Tensor(VALUES, device=home) * 2)
    assert stored_in(x).token is before
    x.assign(x + 1)
    np.testing.assert_allclose(x.numpy(), VALUES * 2 + 1, rtol=1e-6)


def test_part_of_a_texture_is_not_assigned_to(home):
    x = Tensor(VALUES, device=home).cast(IMAGE).realize()
    with pytest.raises(DTypeError, match="part of a texture"):
        x[1:3] = 7.0
    with pytest.raises(DTypeError, match="part of a texture"):
        x[:, 1].assign(Tensor.zeros(6, device=home))
    np.testing.assert_array_equal(x.numpy(), VALUES)


def test_gradients_pass_through_a_texture(home):
    x = Tensor(VALUES, device=home, requires_grad=True)
    (x.cast(IMAGE) * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full_like(VALUES, 3))


def test_a_texture_goes_to_another_device(home):
    x = Tensor(VALUES, device=home).cast(dtypes.imageh((3, 4))).realize()
    np.testing.assert_array_equal(x.to("CPU").numpy(), VALUES.astype(np.float16))


def test_replays_take_other_textures(home):
    step = TinyJit(lambda x: (x * 2).realize())
    for factor in range(1, 5):
        x = (Tensor(VALUES, device=home) * factor).cast(IMAGE).realize()
        np.testing.assert_allclose(step(x).numpy(), VALUES * factor * 2, rtol=1e-6)


def test_a_replay_refuses_plain_memory_for_a_texture(home):
    step = TinyJit(lambda x: (x * 2).realize())
    for _ in range(3):
        step(Tensor(VALUES, device=home).cast(IMAGE).realize())
    with pytest.raises(JitError, match="texture"):
        step(Tensor(VALUES, device=home).realize())


def test_image_setting_takes_images_whose_rows_are_shorter_than_a_texel(home):
    x, w = VALUES.reshape(6, 2, 2, 2), VALUES[:, :6].reshape(2, 2, 3, 3)
    with Context(IMAGE=1):
        y = Tensor(x, device=home).realize().conv2d(Tensor(w, device=home).realize(), padding=1)
        found = (y - y.sum(-1, keepdim=True)).numpy()
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = [[padded[:, :, i : i + 3, j : j + 3] for j in (0, 1)] for i in (0, 1)]
    right = np.einsum("ijnchw,fchw->nfij", np.array(parts), w)
    right -= right.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 8])
def test_places_along_long_rows_fill_texels(home, rows):
    """Lanes are the results where these are of several rows, and else may be those of the row."""
    numbers = np.random.default_rng(3).standard_normal((rows, 20_000)).astype(np.float32)
    scales = np.arange(8, dtype=np.float32)
    x, y = (Tensor(array, device=home).realize() for array in (numbers, scales))
    with observing() as seen:
        found = (x.argmax(1).float() * y + 1).cast(dtypes.imagef((1, 2))).numpy()
    assert "texel_groups" in seen.reached()
    np.testing.assert_array_equal(found, numbers.argmax(1) * scales + 1)


@pytest.mark.parametrize("half", [0, 1])
def test_image_setting_keeps_intermediate_results_in_textures(home, half):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((24, 40), (40, 32), (32, 12)))
    x, y, z = (Tensor(array, device=home) for array in (a, b, c))
    expected = np.maximum(a @ b, 0) @ c
    with Context(IMAGE=1, FLOAT16=half):
        product = (x @ y).relu() @ z
        stored = [k.ast.src[0].src[0].src[0].arg.image for k in product.schedule()]
        texture = dtypes.imageh if half else dtypes.imagef
        assert stored == [texture((1, 192)), None]
        np.testing.assert_allclose(product.numpy(), expected, rtol=1e-2, atol=0.2 if half else 1e-4)


def test_image_setting_computes_a_network_as_without(home):
    from treadle import nn

    Tensor.manual_seed(3)
    first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8 * 8 * 8, 10)
    for parameter in (first.weight, first.bias, second.weight, second.bias):
        parameter.to_(home)
    x = Tensor.randn(2, 3, 8, 8, device=home).realize()

    def network():
        return second(first(x).relu().flatten(1)).softmax()

    plain = network().numpy()
    with Context(IMAGE=1):
        np.testing.assert_allclose(network().numpy(), plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [20, 90])
def test_a_kernel_may_read_many_textures(count):
    """More than Adreno has in one kernel: 16 of its textures and 64 others."""
    home = opened("QCOM")
    values = [np.full(16, n, np.float32) for n in range(count)]
    images = [Tensor(v, device=home).cast(dtypes.imagef((2, 2))).realize() for v in values]
    np.testing.assert_array_equal(sum(images[1:], images[0]).numpy(), sum(values))


def test_sizes_that_make_no_texels_stay_in_plain_memory(home):
    x = Tensor(VALUES[:3, :5], device=home)
    with Context(IMAGE=1):
        result = (x @ x.T).relu() @ x
        np.testing.assert_allclose(
            result.numpy(), np.maximum(VALUES[:3, :5] @ VALUES[:3, :5].T, 0) @ VALUES[:3, :5],
            rtol=1e-4,
        )  # fmt: skip


# -- memory of others ------------------------------------------------------------------------------


@pytest.fixture
def texture():
    """A pyopencl image of 3 rows of 4 texels in the device's context, and that context's queue."""
    cl = pytest.importorskip("pyopencl")
    runtime = Device[opened("CL")].runtime
    kind = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    image = cl.create_image(runtime.context, cl.mem_flags.READ_WRITE, kind, shape=(4, 3))
    return cl, image, runtime.queue


@pytest.mark.parametrize("as_number", [False, True])
def test_from_blob_takes_an_image(texture, as_number):
    cl, image, queue = texture
    handle = cl.Image.from_int_ptr(image.int_ptr) if as_number else image
    x = Tensor.from_blob(handle, (48,), dtype=IMAGE, device="CL", owner=image)
    cl.enqueue_copy(queue, image, VALUES, origin=(0, 0), region=(4, 3))
    np.testing.assert_array_equal((x + 1).numpy(), VALUES.reshape(-1) + 1)
    x.assign(Tensor(VALUES.reshape(-1), device="CL") * 2).realize()
    seen = np.empty((6, 8), np.float32)
    cl.enqueue_copy(queue, seen, image, origin=(0, 0), region=(4, 3))
    np.testing.assert_array_equal(seen, VALUES * 2)


def test_from_blob_refuses_an_image_of_other_size_or_format(texture):
    _, image, _ = texture
    with pytest.raises(DeviceError, match="3 rows of 4 texels"):
        Tensor.from_blob(image, (48,), dtype=dtypes.imagef((4, 3)), device="CL", owner=image)
    with pytest.raises(DeviceError, match="format"):
        Tensor.from_blob(image, (48,), dtype=dtypes.imageh((3, 4)), device="CL", owner=image)
    with pytest.raises(ShapeError, match="48 elements, not 40"):
        Tensor.from_blob(image, (40,), dtype=IMAGE, device="CL", owner=image)
    with pytest.raises(DeviceError, match=r"takes a pyopencl\.Buffer"):
        Tensor.from_blob(image, (48,), device="CL", owner=image)


# -- what cannot be a texture ----------------------------------------------------------------------


def test_a_count_that_does_not_fill_the_texture_is_refused(home):
    with pytest.raises(ShapeError, match=r"3 \* 4 \* 4 = 48 elements, not 40"):
        Tensor(VALUES[:5], device=home).cast(IMAGE)


def test_too_large_a_texture_is_refused(home):
    with pytest.raises(DTypeError, match="too large"):
        Tensor.empty(4 << 20, device=home).cast(dtypes.imagef((1, 1 << 20)))


def test_devices_without_textures_say_so():
    with pytest.raises(DTypeError, match="CPU has no textures"):
        Tensor(VALUES, device="CPU").cast(IMAGE)


@pytest.mark.parametrize("shape", [(3,), (0, 4), (3, 4, 4), (2.0, 2)])
def test_a_texture_has_a_height_and_a_width(shape):
    with pytest.raises(DTypeError, match="height and a width"):
        dtypes.imagef(shape)
