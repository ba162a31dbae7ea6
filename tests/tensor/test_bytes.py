"""Hashes against hashlib, and bytes behind URLs."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from treadle import Tensor
from treadle.errors import DTypeError, UserError


@pytest.mark.parametrize("size", [0, 1, 135, 136, 137, 300])
def test_keccak_gives_what_hashlib_does(size):
    data = bytes(i * 7 % 251 for i in range(size))
    assert bytes(Tensor(data).keccak().tolist()) == hashlib.sha3_256(data).digest()
    assert bytes(Tensor(data).keccak("sha3_224").tolist()) == hashlib.sha3_224(data).digest()
    assert bytes(Tensor(data).keccak("shake_128").tolist()) == hashlib.shake_128(data).digest(16)


def test_each_line_of_a_batch_is_a_message():
    rows = [b"abc", b"abd", b"xyz"]
    got = Tensor(b"".join(rows)).reshape(3, 3).keccak().tolist()
    assert [bytes(row) for row in got] == [hashlib.sha3_256(row).digest() for row in rows]


def test_a_hash_is_a_tree_of_shake_128():
    leaves = [hashlib.shake_128(b"hello" + bytes(4091)).digest(16)]
    leaves += [hashlib.shake_128(bytes(4096)).digest(16)] * 255
    want = hashlib.shake_128(b"".join(leaves)).digest(16)
    assert bytes(Tensor(b"hello").hash().tolist()) == want


def test_what_is_no_bytes_or_no_hash_is_refused():
    with pytest.raises(DTypeError, match=r"\[keccak\] hashes bytes, not int32"):
        Tensor([1, 2]).keccak()
    with pytest.raises(DTypeError, match="'md5' is not one of sha3_224"):
        Tensor(b"a").keccak("md5")


def test_a_url_gives_its_bytes(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"\x01\x02\xff"))
    assert Tensor.from_url(path.as_uri(), gunzip=True).tolist() == [1, 2, 255]
    assert bytes(Tensor.from_url(path.as_uri()).tolist()) == path.read_bytes()
    with pytest.raises(UserError, match="cannot be read"):
        Tensor.from_url((tmp_path / "missing").as_uri())
    with pytest.raises(UserError, match="is no URL of http, https, file"):
        Tensor.from_url("ftp://somewhere/x")
