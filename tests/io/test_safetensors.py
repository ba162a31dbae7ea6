"""Safetensors files: round trips, agreement with the format's own library, unsound files."""

import json
import os
import stat

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import ArgumentError, UserError
from treadle.io.safetensors import NAMES, safe_load, safe_load_metadata, safe_save


def file_of(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("dtype", list(NAMES.values()), ids=lambda d: d.name)
def test_every_dtype_comes_back_as_it_was(tmp_path, dtype):
    tensor = Tensor([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    safe_save({"x": tensor}, tmp_path / "f")
    back = safe_load(tmp_path / "f")["x"]
    assert (back.shape, back.dtype) == ((2, 3), dtype)
    np.testing.assert_array_equal(back.numpy(), tensor.numpy())


def test_scalars_empty_tensors_and_odd_sizes_come_back(tmp_path):
    tensors = {
        "byte": Tensor([7], dtype=dtypes.uint8),  # what follows is not aligned to its size
        "scalar": Tensor(2.5), "empty": Tensor.zeros(0, 3), "after": Tensor([1.0, 2.0]),
    }  # fmt: skip
    safe_save(tensors, tmp_path / "f")
    back = safe_load(tmp_path / "f")
    assert {k: t.shape for k, t in back.items()} == {k: t.shape for k, t in tensors.items()}
    assert back["scalar"].item() == 2.5
    assert back["after"].tolist() == [1.0, 2.0]


def test_metadata_is_kept_beside_the_tensors(tmp_path):
    safe_save({"x": Tensor([1.0])}, tmp_path / "f", metadata={"step": "10"})
    data, start, header = safe_load_metadata(tmp_path / "f")
    assert header["__metadata__"] == {"step": "10"}
    assert (data.dtype, start % 8) == (dtypes.uint8, 0)
    assert data.shape == (start + 4,)


def test_a_tensor_of_bytes_loads_like_the_file(tmp_path):
    safe_save({"x": Tensor([1.0, 2.0])}, tmp_path / "f")
    content = np.frombuffer((tmp_path / "f").read_bytes(), np.uint8)
    assert safe_load(Tensor(content))["x"].tolist() == [1.0, 2.0]


def test_files_agree_with_the_formats_own_library_in_both_directions(tmp_path):
    library = pytest.importorskip("safetensors.numpy", reason="the format's own library")
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    safe_save({"x": Tensor(array)}, tmp_path / "ours")
    np.testing.assert_array_equal(library.load_file(tmp_path / "ours")["x"], array)
    library.save_file({"x": array}, tmp_path / "theirs")
    np.testing.assert_array_equal(safe_load(tmp_path / "theirs")["x"].numpy(), array)


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "f"
    safe_save({"x": Tensor([1.0])}, path)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        safe_save({"x": Tensor([2.0])}, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"{oops", b"", "is no safetensors file"),
        (b"[1, 2]", b"", "its header is no table"),
        ({"x": ENTRY}, b"1234", "cannot be bytes 0 to 8 of 4"),
        ({"x": ENTRY | {"shape": [3]}}, bytes(8), r"shape \(3,\) and dtype F32 cannot be bytes"),
        ({"x": ENTRY | {"data_offsets": [8, 0]}}, bytes(8), "cannot be bytes 8 to 0"),
        ({"x": ENTRY | {"shape": [-1, -2]}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"shape": 2}}, bytes(8), "malformed header entry"),
        ({"x": {"dtype": "F32"}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"dtype": "F12"}}, bytes(8), "has dtype F12, known: BOOL"),
        ({"x": ENTRY | {"dtype": ["F32"]}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"shape": [True, 2]}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"shape": [2.0]}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"data_offsets": [0, 8, 8]}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"strides": [1]}}, bytes(8), "malformed header entry"),
        ({"x": ENTRY | {"shape": [1 << 62, 1 << 62, 4]}}, bytes(8), "cannot be bytes"),
        ({"x": ENTRY | {"data_offsets": [0, 1 << 70]}}, bytes(8), "cannot be bytes"),
        ({"x": ENTRY, "y": ENTRY}, bytes(8), "'y', bytes 0 to 8, overlaps others"),
        ({"x": ENTRY | {"data_offsets": [4, 12]}}, bytes(12), "leaves a hole before it"),
        ({"x": ENTRY}, bytes(9), "1 bytes at its end belong to no tensor"),
        (b'{"x":1,"x":2}', b"", "'x' comes twice"),
        (b'{"x":{"dtype":"F32","dtype":"I32"}}', b"", "'dtype' comes twice"),
        (b' {"x":1}', b"", "does not begin with '{'"),
        (b'{"x":' + b"[" * 100_000, b"", "is no safetensors file"),
        (b"{" + b'"' + b"\xff" + b'":1}', b"", "is no safetensors file"),
        ({"__metadata__": {"a": 1}}, b"", "are no strings by name"),
        ({"__metadata__": ["a"]}, b"", "are no strings by name"),
        (
            {"x": ENTRY | {"dtype": "BOOL", "shape": [8]}},
            b"\0\1\0\1\2\0\0\0",
            "neither 0 nor 1",
        ),
    ],
)
def test_an_unsound_file_is_refused_with_what_is_wrong(tmp_path, header, data, message):
    with pytest.raises(UserError, match=message):
        safe_load(file_of(tmp_path / "f", header, data))


@pytest.mark.parametrize("content", [b"", b"abc", (1 << 40).to_bytes(8, "little") + b"{}"])
def test_a_cut_off_file_is_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match="is no safetensors file: it has"):
        safe_load(tmp_path / "f")


def test_a_header_longer_than_the_formats_bound_is_refused(tmp_path):
    with (tmp_path / "f").open("wb") as file:
        file.write((100_000_001).to_bytes(8, "little"))
        file.truncate(100_000_100)
    with pytest.raises(UserError, match="a header of 100000001 bytes is longer than 100000000"):
        safe_load(tmp_path / "f")


def test_tensors_are_the_files_own_memory_and_assigning_to_them_leaves_the_file(tmp_path):
    tensors = {"byte": Tensor([7], dtype=dtypes.uint8), "x": Tensor([1.0, 2.0])}
    safe_save(tensors, tmp_path / "f")
    before = (tmp_path / "f").read_bytes()
    x = safe_load(tmp_path / "f")["x"]
    assert x.is_realized
    x.assign(Tensor([3.0, 4.0])).realize()
    assert x.tolist() == [3.0, 4.0]
    assert (tmp_path / "f").read_bytes() == before


def test_a_file_may_be_saved_over_while_it_is_loaded(tmp_path):
    safe_save({"x": Tensor([1.0, 2.0])}, tmp_path / "f")
    loaded = safe_load(tmp_path / "f")
    safe_save({"x": loaded["x"] * 2}, tmp_path / "f")
    assert loaded["x"].tolist() == [1.0, 2.0]
    assert safe_load(tmp_path / "f")["x"].tolist() == [2.0, 4.0]


def test_what_the_format_cannot_hold_is_not_saved(tmp_path):
    with pytest.raises(UserError, match="metadata must be strings by name"):
        safe_save({"x": Tensor([1.0])}, tmp_path / "f", metadata={"step": 10})
    with pytest.raises(UserError, match="no tensor can be called '__metadata__'"):
        safe_save({"__metadata__": Tensor([1.0])}, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_plain_file_is_written_to_and_a_link_stays_one(tmp_path):
    pipe, link, target = (tmp_path / name for name in ("pipe", "link", "target"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    safe_save({"a": Tensor([1.0, 2.0])}, pipe)
    written = os.read(reader, 1 << 16)
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    target.write_bytes(b"")
    link.symlink_to(target)
    safe_save({"a": Tensor([1.0, 2.0])}, link)
    assert link.is_symlink()
    assert target.read_bytes() == written


@pytest.mark.parametrize("path", [1, None, [], 2.5])
def test_what_is_no_path_is_refused_by_name(path):
    with pytest.raises(ArgumentError, match=r"\[safe_load\] fn is .*, not a path or a uint8"):
        safe_load(path)
