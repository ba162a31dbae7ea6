"""NumPy's files: arrays come back as they were; pickled objects and broken files are refused."""

import io
import zipfile

import numpy as np
import pytest

from treadle.errors import DTypeError, UserError
from treadle.io import npy_load, npz_load

ARRAYS = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.int64).reshape(3, 2, order="F"),
    np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(1, 0, 2),
    np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
    np.arange(4, dtype=">f4"),
    np.array([True, False]),
    np.array(2.5),
    np.zeros((0, 3), np.uint8),
    np.arange(5, dtype=np.uint16).reshape(1, 5),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.str} {a.shape}")
def test_an_array_comes_back_as_it_was(tmp_path, array):
    np.save(tmp_path / "f.npy", array)
    back = npy_load(tmp_path / "f.npy")
    assert back.numpy().dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(back.numpy(), array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_the_arrays_of_an_npz_come_back_by_name(tmp_path, save):
    save(tmp_path / "f.npz", **{f"x{i}": array for i, array in enumerate(ARRAYS)})
    back = npz_load(tmp_path / "f.npz")
    assert list(back) == [f"x{i}" for i in range(len(ARRAYS))]
    for found, array in zip(back.values(), ARRAYS, strict=True):
        np.testing.assert_array_equal(found.numpy(), array)


def test_assigning_to_a_mapped_array_leaves_the_file(tmp_path):
    np.save(tmp_path / "f.npy", np.zeros(3, np.float32))
    before = (tmp_path / "f.npy").read_bytes()
    x = npy_load(tmp_path / "f.npy")
    assert x.is_realized
    x.assign(x + 1).realize()
    assert x.tolist() == [1.0, 1.0, 1.0]
    assert (tmp_path / "f.npy").read_bytes() == before


class Attack:
    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_pickled_objects_are_refused(tmp_path):
    hostile = np.array([Attack()], dtype=object)
    np.save(tmp_path / "f.npy", hostile, allow_pickle=True)
    with pytest.raises(UserError, match=r"\[npy_load\] .* cannot be read"):
        npy_load(tmp_path / "f.npy")
    np.savez(tmp_path / "f.npz", x=hostile, allow_pickle=True)
    with pytest.raises(UserError, match=r"\[npz_load\] .* cannot be read"):
        npz_load(tmp_path / "f.npz")


def test_elements_that_treadle_does_not_have_are_named(tmp_path):
    np.save(tmp_path / "f.npy", np.array(["text"]))
    with pytest.raises(DTypeError, match="<U4"):
        npy_load(tmp_path / "f.npy")


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", bytes(17)),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        b"\x93NUMPY\x09\x00\x02\x00{}",
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", bytes(15)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4,)}", bytes(16)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 62,)}", bytes(16)),
        npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 62}, 8)}}", bytes(16)),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4.0,)}", bytes(16)),
        npy("{'descr': '<f4', 'fortran_order': False}", bytes(16)),
        npy("__import__('os').system('false')", bytes(16)),
        npy("(" * 5000, bytes(16)),
    ],
)
def test_a_broken_file_is_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match=r"\[npy_load\] .* cannot be read"):
        npy_load(tmp_path / "f")
    with zipfile.ZipFile(tmp_path / "g", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(UserError, match=r"\[npz_load\] .* cannot be read"):
        npz_load(tmp_path / "g")


def test_an_npz_with_a_name_twice_or_broken_bytes_is_refused(tmp_path):
    content = io.BytesIO()
    np.save(content, np.zeros(300))
    with zipfile.ZipFile(tmp_path / "f", "w") as archive:
        archive.writestr("x.npy", content.getvalue())
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x.npy", content.getvalue())
    with pytest.raises(UserError, match="comes twice"):
        npz_load(tmp_path / "f")
    with zipfile.ZipFile(tmp_path / "g", "w") as archive:
        archive.writestr("x.npy", content.getvalue())
    data = bytearray((tmp_path / "g").read_bytes())
    data[500] ^= 1
    (tmp_path / "g").write_bytes(data)
    with pytest.raises(UserError, match="CRC"):
        npz_load(tmp_path / "g")
    (tmp_path / "h").write_bytes(b"PK")
    with pytest.raises(UserError, match="cannot be read"):
        npz_load(tmp_path / "h")
