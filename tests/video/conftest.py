"""Fixtures of the tests about NVDEC: a library in memory that has to be empty at the end."""

import gc

import pytest


@pytest.fixture
def driver():
    pytest.importorskip("av")
    from .fake_cuvid import FakeNvcuvid

    found = FakeNvcuvid()
    yield found
    gc.collect()
    found.check_empty()
    assert not found.memory.held


@pytest.fixture
def decoder(driver):
    from .nvdec import opened

    with opened(driver) as found:
        yield found


@pytest.fixture(scope="session")
def clip():
    """Eight frames of 128 x 64 with B-frames: 8 bits, BT.709, limited."""
    pytest.importorskip("av")
    from .clips import encode

    return encode()
