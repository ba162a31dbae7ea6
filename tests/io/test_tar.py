"""Tar archives: the bytes of their files, whatever the archive claims."""

import io
import tarfile

import numpy as np
import pytest

from treadle import Tensor, dtypes
from treadle.errors import UserError
from treadle.io import tar_extract


def archive(path, files, form=tarfile.PAX_FORMAT):
    with tarfile.open(path, "w", format=form) as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
    return path


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_files_come_as_bytes_without_links_and_folders(tmp_path, form):
    long = "d/" * 45 + "long"
    files = [("a/b.bin", b"abc"), ("empty", b""), (long, bytes(range(256)) * 9)]
    found = tar_extract(archive(tmp_path / "f", files, form))
    assert {name: bytes(t.numpy()) for name, t in found.items()} == dict(files)
    assert all(t.dtype is dtypes.uint8 for t in found.values())


def test_an_archive_in_a_tensor_is_read_like_the_file(tmp_path):
    path = archive(tmp_path / "f", [("x", b"123")])
    content = Tensor(np.frombuffer(path.read_bytes(), np.uint8))
    assert bytes(tar_extract(content)["x"].numpy()) == b"123"


def test_the_last_of_files_with_one_name_counts_and_names_are_only_names(tmp_path):
    found = tar_extract(archive(tmp_path / "f", [("../x", b"old"), ("../x", b"new")]))
    assert bytes(found["../x"].numpy()) == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_a_file_that_claims_more_than_there_is_is_refused(tmp_path):
    data = bytearray(archive(tmp_path / "f", [("x", b"123")], tarfile.USTAR_FORMAT).read_bytes())
    for size in (b"77777777777\0", b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"):
        data[124:136] = size
        data[148:156] = b" " * 8
        data[148:156] = b"%06o\0 " % sum(data[:512])
        (tmp_path / "g").write_bytes(data)
        with pytest.raises(UserError, match=r"\[tar_extract\]"):
            tar_extract(tmp_path / "g")


@pytest.mark.parametrize("content", [b"", b"no archive", b"x" * 2000])
def test_what_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match="is no sound tar archive"):
        tar_extract(tmp_path / "f")


def test_archives_that_are_cut_off_or_changed_are_refused_or_read_never_worse(tmp_path):
    whole = archive(tmp_path / "f", [("d/" * 60 + "x", b"123"), ("y", b"4" * 600)]).read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for trial in range(300):
        data = bytearray(whole)
        if trial % 3 == 0:
            data = data[: generator.integers(len(data))]
        else:
            data[generator.integers(2048)] = generator.integers(256)
        (tmp_path / "g").write_bytes(data)
        try:
            tar_extract(tmp_path / "g")
        except UserError:
            refused += 1
    assert 300 // 3 < refused < 300  # what is cut off, and more
