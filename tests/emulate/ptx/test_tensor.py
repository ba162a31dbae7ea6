"""cp.async.bulk.tensor: boxes of tensors of one to five dimensions, in every layout of a map."""

import ml_dtypes
import numpy as np
import pytest

from treadle.runtime.cuda.driver import DriverError, TensorTiles

DTYPES = {"u8": np.uint8, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
          "u64": np.uint64}  # fmt: skip


def kernel(rank, nbytes, load="", store=""):
    """Loads a box at coordinates c0.. and stores it in a row; or the other way round."""
    coordinates = ", ".join(f"%c{d}" for d in range(rank))
    read = " ".join(f"ld.param.u32 %c{d}, [c{d}];" for d in range(rank))
    parameters = ", ".join(f".param .u32 c{d}" for d in range(rank))
    map_ = f"[%map, {{{coordinates}}}]"
    inwards = (
        load
        or f"""mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {nbytes};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
    [%tile], {map_}, [%bar]; bra WAIT;"""
    )
    outwards = f"""cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group {map_}, [%tile];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;"""
    rows = """ROWS: add.u32 %s, %tile, %i; add.u64 %g, %row, %w; MOVE
    add.u32 %i, %i, 4; add.u64 %w, %w, 4; setp.lt.u32 %p, %i, NBYTES; @%p bra ROWS;"""
    move_in = rows.replace("MOVE", "ld.shared.u32 %v, [%s]; st.global.u32 [%g], %v;")
    move_out = rows.replace("MOVE", "ld.global.u32 %v, [%g]; st.shared.u32 [%s], %v;")
    body = (
        move_out + "fence.proxy.async.shared::cta;" + outwards
        if store
        else inwards + """WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
        @!%p bra WAIT;""" + move_in
    )  # fmt: skip
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 row, .param .align 64 .b8 map[128], {parameters}) {{
.reg .b64 %row, %map, %g, %w; .reg .b32 %c<5>, %i, %s, %v, %bar, %tile; .reg .pred %p;
.shared .align 8 .b8 bar[8]; .shared .align 1024 .b8 tile[16384];
ld.param.u64 %row, [row]; mov.b64 %map, map; cvta.param.u64 %map, %map; {read}
mov.u32 %bar, bar; mov.u32 %tile, tile; mov.u32 %i, 0; mov.u64 %w, 0;
prefetch.tensormap [%map]; mbarrier.init.shared::cta.b64 [%bar], 1;
fence.mbarrier_init.release.cluster;
{body.replace("NBYTES", str(nbytes))} ret; }}"""


def placed(box, swizzle):
    """The bytes of a box as they lie in shared memory."""
    flat = np.ascontiguousarray(box).view("u1").ravel()
    at = np.arange(flat.size)
    if swizzle:
        at ^= (at >> 7 & (swizzle // 16 - 1)) << 4
    found = np.empty_like(flat)
    found[at] = flat
    return found


def map_of(gpu, array, box, swizzle=0, element="f32", **changes):
    """`array` in device memory, and a map of it."""
    address = gpu.put(array)
    tiles = TensorTiles(
        element, address, array.shape[::-1], array.strides[-2::-1], box, swizzle, **changes
    )
    return address, gpu.context.encode_tensor_map(tiles)


def launch(gpu, text, row, map_, coordinates):
    place = gpu.put(row)
    args = [("address", place), ("tensor_map", map_), *(("int32", c) for c in coordinates)]
    function = gpu.context.load(text.encode()).function("k")
    gpu.context.launch(function, (1, 1, 1), (1, 1, 1), 0, None, args)
    return gpu.get(place, row.shape, row.dtype)


def cut(array, box, coordinates):
    """The box of an array at coordinates, innermost first, with zeros outside."""
    result = np.zeros(box[::-1], array.dtype)
    for index in np.ndindex(result.shape):
        place = [i + c for i, c in zip(index, coordinates[::-1], strict=True)]
        if all(0 <= p < n for p, n in zip(place, array.shape, strict=True)):
            result[index] = array[tuple(place)]
    return result


def numbers(shape, element):
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(DTYPES[element])


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_boxes_of_a_matrix_are_loaded(gpu, element, swizzle):
    each = np.dtype(DTYPES[element]).itemsize
    columns = (swizzle or 48) // each
    data = numbers((24, 48 * 16 // each), element)
    text = kernel(2, 16 * columns * each)
    for coordinates in ((0, 0), (8, 3), (-3, -2), (data.shape[1] - 5, 20)):
        _, map_ = map_of(gpu, data, (columns, 16), swizzle, element)
        found = launch(gpu, text, np.zeros(16 * columns * each, "u1"), map_, coordinates)
        assert (found == placed(cut(data, (columns, 16), coordinates), swizzle)).all()


@pytest.mark.parametrize("shape", [(40,), (5, 6, 8), (3, 4, 5, 8), (2, 3, 4, 5, 8)])
def test_boxes_of_other_dimensions(gpu, shape):
    data = numbers(shape, "f32")
    box = (8, 3, 2, 2, 2)[: len(shape)]
    coordinates = (4, 1, -1, 2, 1)[: len(shape)]
    nbytes = 4 * int(np.prod(box))
    _, map_ = map_of(gpu, data, box)
    found = launch(gpu, kernel(len(shape), nbytes), np.zeros(nbytes, "u1"), map_, coordinates)
    assert (found.view("f4").reshape(box[::-1]) == cut(data, box, coordinates)).all()


def test_boxes_of_tf32_are_rounded(gpu):
    data = np.random.default_rng(3).standard_normal((4, 8)).astype("f4")
    data.view("u4")[0] = (
        0x3F800FFF,
        0x3F801000,
        0xBF801FFF,
        1,
        0x7FFFFFFF,
        0x7F800000,
        0,
        0x80000000,
    )
    _, map_ = map_of(gpu, data, (8, 4), element="tf32")
    found = launch(gpu, kernel(2, 128), np.zeros(128, "u1"), map_, (0, 0)).view("u4").reshape(4, 8)
    assert [hex(n) for n in found[0]] == [
        "0x3f800000", "0x3f802000", "0xbf802000", "0x0", "0x7fffffff", "0x7f800000", "0x0",
        "0x80000000",
    ]  # fmt: skip
    assert (found[1:] & 0x1FFF == 0).all()
    assert (np.abs(found[1:].view("f4") - data[1:]) <= np.abs(data[1:]) * 2.0**-11).all()


@pytest.mark.parametrize("swizzle", [0, 64])
def test_boxes_are_stored_where_the_tensor_is(gpu, swizzle):
    data = numbers((20, 32), "f16")
    box = (32, 8)
    address, map_ = map_of(gpu, data, box, swizzle, "f16")
    tile = -numbers((8, 32), "f16")
    launch(gpu, kernel(2, 512, store="yes"), placed(tile, swizzle), map_, (4, 15))
    expected = data.copy()
    expected[15:, 4:] = tile[:5, :28]
    assert (gpu.get(address, data.shape, data.dtype) == expected).all()


def test_what_was_stored_is_fenced_for_copies(gpu):
    _, map_ = map_of(gpu, numbers((20, 32), "f16"), (32, 8), 0, "f16")
    text = kernel(2, 512, store="yes").replace("fence.proxy.async.shared::cta;", "")
    with pytest.raises(DriverError, match=r"which thread .0, 0, 0. stored with no fence.proxy"):
        launch(gpu, text, np.zeros(512, "u1"), map_, (0, 0))


def test_a_copy_that_nobody_waited_for_is_not_read(gpu):
    _, map_ = map_of(gpu, numbers((8, 32), "f32"), (32, 4))
    text = kernel(2, 512)
    wait = text[text.index("WAIT:") : text.index("ROWS:")].removeprefix("WAIT:")
    with pytest.raises(DriverError, match="a data race with an asynchronous copy, which nobody"):
        launch(gpu, text.replace(wait, "\n"), np.zeros(512, "u1"), map_, (0, 0))


def test_a_tensor_that_ends_before_its_shape(gpu):
    data = numbers((8, 32), "f32")
    tiles = TensorTiles("f32", gpu.put(data), (32, 9), (128,), (32, 4))
    map_ = gpu.context.encode_tensor_map(tiles)
    with pytest.raises(DriverError, match=r"16 bytes at .* right behind the allocation of 1024"):
        launch(gpu, kernel(2, 512), np.zeros(512, "u1"), map_, (0, 6))


def test_maps_of_other_dimensions_and_what_is_no_map(gpu):
    _, map_ = map_of(gpu, numbers((8, 32), "f32"), (32, 4))
    with pytest.raises(DriverError, match="there is no tensor map of 3 dimensions at 0x"):
        launch(gpu, kernel(3, 512), np.zeros(512, "u1"), map_, (0, 0, 0))


def test_no_tensor_map(gpu):
    with pytest.raises(DriverError, match="there is no tensor map of 1 dimensions at 0x"):
        launch(gpu, kernel(1, 512), np.zeros(512, "u1"), bytes(128), (0,))


def test_shared_memory_that_is_not_aligned(gpu):
    _, map_ = map_of(gpu, numbers((8, 32), "f32"), (32, 4))
    text = kernel(2, 512).replace("mov.u32 %tile, tile;", "mov.u32 %tile, tile+64;")
    with pytest.raises(DriverError, match="0x440, which is no multiple of 128"):
        launch(gpu, text, np.zeros(512, "u1"), map_, (0, 0))


GOOD = {"element": "f16", "address": 4096, "shape": (64, 8), "strides": (128,), "box": (32, 4),
        "swizzle": 64}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"shape": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "6 dimensions; 1 to 5"),
     ({"strides": (128, 128)}, "2 strides"), ({"address": 4104}, "no multiple of 16"),
     ({"shape": (0, 8)}, "shape"), ({"strides": (130,)}, "multiples of 16"),
     ({"box": (32, 257)}, "1 to 256"), ({"box": (12, 4)}, "have 24 bytes, which is no multiple"),
     ({"swizzle": 48}, "a swizzle of 48"), ({"swizzle": 32}, "64 bytes and the swizzle 32")],
)  # fmt: skip
def test_maps_that_the_driver_refuses(gpu, changes, message):
    with pytest.raises(DriverError, match=message) as caught:
        gpu.context.encode_tensor_map(TensorTiles(**{**GOOD, **changes}))
    assert caught.value.code == "CUDA_ERROR_INVALID_VALUE"


def test_older_devices_have_no_tensor_maps(gpus):
    with pytest.raises(DriverError, match=r"need compute capability 9.0") as caught:
        gpus("sm_80").context.encode_tensor_map(TensorTiles(**GOOD))
    assert caught.value.code == "CUDA_ERROR_NOT_SUPPORTED"


def test_clusters_of_several_blocks_are_refused(gpu):
    text = kernel(1, 512).replace("{\n.reg", ".reqnctapercluster 2, 1, 1\n{\n.reg", 1)
    with pytest.raises(DriverError, match="line 5: clusters of several blocks are not emulated"):
        gpu.context.load(text.encode())
    gpu.context.load(text.replace("2, 1, 1", "1, 1, 1").encode())
