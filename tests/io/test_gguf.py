"""GGUF files: agreement with the format's own library, and files that claim what is not there."""

import struct

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import UserError
from treadle.io import gguf_load
from treadle.io.quantized import FORMATS

QUANTIZED = {form.name: (number, form) for number, form in FORMATS.items()}


def library():
    return pytest.importorskip("gguf", reason="the format's own library is the oracle of this test")


# -- decoding --------------------------------------------------------------------------------------

# Where the half floats of each block are.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "MXFP4": [],
}  # fmt: skip


def random_blocks(name, count, seed=0):
    """Blocks of random bytes with scales that are ordinary numbers."""
    generator, form = np.random.default_rng(seed), QUANTIZED[name][1]
    blocks = generator.integers(0, 256, (count, form.nbytes), np.uint8)
    for begin in HALVES[name]:
        scales = generator.standard_normal(count).astype(np.float16)
        blocks[:, begin : begin + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks


@pytest.mark.parametrize("name", list(QUANTIZED))
def test_random_blocks_decode_as_in_the_formats_library(name):
    gguf = library()
    blocks = random_blocks(name, 40)
    if name == "MXFP4":
        blocks[:40, 0] = [0, 1, 2, 3, 250, 251, *range(100, 134)]
    number, form = QUANTIZED[name]
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType(number))
    ours = form.decode(Tensor(blocks)).numpy()
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=0)


def test_a_block_of_q4_0_is_its_formula():
    block = np.zeros((1, 18), np.uint8)
    block[0, :2] = np.array([0.5], np.float16).view(np.uint8)
    block[0, 2:] = np.arange(16) | (15 - np.arange(16)) << 4
    expected = 0.5 * (np.concatenate([np.arange(16), 15 - np.arange(16)]) - 8)
    np.testing.assert_array_equal(FORMATS[2].decode(Tensor(block)).numpy()[0], expected)


@pytest.mark.parametrize("name", ["Q4_0", "Q6_K"])
def test_blocks_decode_alike_on_every_device(device, name):
    blocks = random_blocks(name, 3)
    expected = QUANTIZED[name][1].decode(Tensor(blocks, device="CPU")).numpy()
    ours = QUANTIZED[name][1].decode(Tensor(blocks, device=device)).numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


# -- whole files -----------------------------------------------------------------------------------


def test_a_file_of_the_formats_library_comes_back(tmp_path):
    gguf = library()
    generator = np.random.default_rng(1)
    plain = {
        "f32": generator.standard_normal((3, 4)).astype(np.float32),
        "f16": generator.standard_normal(5).astype(np.float16),
        "f64": generator.standard_normal((2, 1, 3)),
        "i8": np.arange(4, dtype=np.int8), "i16": np.arange(4, dtype=np.int16),
        "i32": np.arange(4, dtype=np.int32), "i64": np.arange(4, dtype=np.int64),
    }  # fmt: skip
    weights = generator.standard_normal((2, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "f", "llama")
    writer.add_uint32("a.count", 7)
    writer.add_array("a.list", [1, 2, 3])
    writer.add_array("a.words", ["x", "é"])
    writer.add_bool("a.flag", True)
    writer.add_float32("a.rate", 0.5)
    for name, array in plain.items():
        writer.add_tensor(name, array)
    expected = {}
    for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"):
        kind = gguf.GGMLQuantizationType[name]
        packed = gguf.quants.quantize(weights, kind)
        writer.add_tensor(name, packed, raw_dtype=kind)
        expected[name] = gguf.quants.dequantize(packed, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    metadata, tensors = gguf_load(tmp_path / "f")
    assert metadata["general.architecture"] == "llama"
    assert (metadata["a.count"], metadata["a.flag"], metadata["a.rate"]) == (7, True, 0.5)
    assert (metadata["a.list"], metadata["a.words"]) == ([1, 2, 3], ["x", "é"])
    assert tensors.keys() == plain.keys() | expected.keys()
    for name, array in plain.items():
        np.testing.assert_array_equal(tensors[name].numpy(), array)
        assert tensors[name].numpy().dtype == array.dtype
    for name, array in expected.items():
        assert not tensors[name].is_realized  # decoded when it is used
        np.testing.assert_allclose(tensors[name].numpy(), array, rtol=1e-6)


def string(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def pair(name, kind, data):
    return string(name) + struct.pack("<I", kind) + data


def info(name="x", shape=(2, 2), kind=0, offset=0):
    sizes = b"".join(struct.pack("<Q", n) for n in shape)
    return string(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def content(pairs=(), infos=(), data=b"", version=3, counts=None, magic=b"GGUF", align=32):
    tensors, entries = counts or (len(infos), len(pairs))
    head = magic + struct.pack("<IQQ", version, tensors, entries) + b"".join((*pairs, *infos))
    return head + bytes(-len(head) % align) + data


def array(kind, count, data):
    return struct.pack("<IQ", kind, count) + data


def deep(levels):
    return array(9, 1, b"") * levels + array(0, 1, b"\1")


def test_the_fastest_axis_comes_last_and_plain_tensors_are_the_files_memory(tmp_path):
    data = np.arange(6, dtype=np.float32)
    (tmp_path / "f").write_bytes(content([], [info(shape=(3, 2))], data.tobytes()))
    tensor = gguf_load(tmp_path / "f")[1]["x"]
    assert (tensor.shape, tensor.dtype, tensor.is_realized) == ((2, 3), dtypes.float32, True)
    np.testing.assert_array_equal(tensor.numpy(), data.reshape(2, 3))


def test_metadata_alignment_and_every_kind_of_value_are_read(tmp_path):
    pairs = [
        pair("general.alignment", 4, struct.pack("<I", 64)),
        pair("deep", 9, deep(3)),
        pair("odd", 8, string(b"\xff\xfe")),
        *(
            pair(f"v{kind}", kind, struct.pack(form, 1))
            for kind, form in zip(range(8), "BbHhIif?", strict=True)
        ),
        *(pair(f"v{k}", k, struct.pack(f, 1)) for k, f in ((10, "<Q"), (11, "<q"), (12, "<d"))),
    ]
    infos = [info("a", (4,), 0, 0), info("b", (4,), 0, 64), info("none", (0,), 2, 0)]
    pieces = struct.pack("<4f", *range(4)) + bytes(48) + struct.pack("<4f", *range(4, 8))
    (tmp_path / "f").write_bytes(content(pairs, infos, pieces, align=64))
    metadata, tensors = gguf_load(tmp_path / "f")
    assert metadata["deep"] == [[[[1]]]]
    assert metadata["odd"].encode("utf-8", "surrogateescape") == b"\xff\xfe"
    assert all(metadata[f"v{kind}"] == 1 for kind in (*range(8), 10, 11, 12))
    assert tensors["b"].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert tensors["none"].shape == (0,)


ONE = [info()]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (content(magic=b"GGML"), "does not begin with 'GGUF'"),
        (b"", "go past the end"),
        (b"GGUF", "go past the end"),
        (content(version=1), "its version is 1; 2 and 3 are read"),
        (content(version=1 << 24), "its version is"),
        (content(counts=(1 << 60, 0)), "it counts 1152921504606846976 entries"),
        (content(counts=(0, (1 << 64) - 1)), "it counts 18446744073709551615 entries"),
        (content([], ONE, bytes(15)), r"would end at byte 16 of 15"),
        (content([], [info(offset=1 << 40)], bytes(16)), "would end at"),
        (content([], [info(offset=(1 << 64) - 32)], bytes(16)), "would end at"),
        (content([], [info(shape=(1 << 32, 1 << 32))], bytes(16)), "would end at"),
        (content([], [info(shape=(1 << 62, 4))], bytes(16)), "would end at"),
        (content([], [info(shape=((1 << 64) - 1, (1 << 64) - 1))], bytes(16)), "would end at"),
        (content([], [info(shape=(1,) * 9)], bytes(16)), "has 9 axes"),
        (content([], [info(offset=4)], bytes(64)), "at byte 4 is not aligned"),
        (content([], [info(), info("y")], bytes(16)), "'y' overlaps another one"),
        (content([], [info(), info()], bytes(64)), "the name 'x' comes twice"),
        (content([], [info(kind=99)], bytes(64)), "has the type 99; read are Q4_0"),
        (content([], [info(shape=(33,), kind=2)], bytes(64)), "whole number of blocks of 32"),
        (content([], [info(shape=(), kind=2)], bytes(64)), "whole number of blocks of 32"),
        (content([], [info(shape=(64,), kind=2)], bytes(35)), "would end at byte 36 of 35"),
        (content([pair("a", 0, b"\1")] * 2), "the name 'a' comes twice"),
        (content([pair("a", 13, b"\1")]), "unknown type 13"),
        (content([pair("a", 7, b"\2")]), "neither 0 nor 1"),
        (content([pair("a", 8, struct.pack("<Q", 1 << 63))]), "it counts"),
        (content([pair("a", 9, array(0, 1 << 62, b""))]), "it counts"),
        (content([pair("a", 9, array(12, 100, b""))]), "it counts|past the end"),
        (content([pair("a", 9, deep(100_000))]), "arrays in arrays go deeper than 8"),
        (content([pair("general.alignment", 4, struct.pack("<I", 0))]), "no power of two"),
        (content([pair("general.alignment", 4, struct.pack("<I", 48))]), "no power of two"),
        (content([pair("general.alignment", 8, string("32"))]), "no power of two"),
        (content([pair("general.alignment", 7, b"\1")]), "no power of two"),
    ],
)
def test_an_unsound_file_is_refused_with_what_is_wrong(tmp_path, data, message):
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(UserError, match=message):
        gguf_load(tmp_path / "f")


def test_files_that_are_cut_off_or_changed_are_refused_or_read_never_worse(tmp_path):
    pairs = [pair("a", 9, array(8, 2, string("x") + string("y"))), pair("b", 4, bytes(4))]
    whole = content(pairs, [info(), info("q", (64,), 2, 32)], bytes(68))
    generator = np.random.default_rng(0)
    refused = 0
    for trial in range(400):
        data = bytearray(whole)
        if trial % 3 == 0:
            data = data[: generator.integers(len(data))]
        else:
            data[generator.integers(len(data))] = generator.integers(256)
        (tmp_path / "g").write_bytes(data)
        try:
            gguf_load(tmp_path / "g")
        except UserError:
            refused += 1
    assert 400 // 3 < refused < 400  # what is cut off, and more
