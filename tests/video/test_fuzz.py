"""Damaged streams: each is read to its end, or to an error with its place, in bounded time."""

import io
import os
import random
import time

import numpy as np
import pytest

from treadle.video.annexb import iter_annexb_nalus
from treadle.video.errors import BitstreamError, VideoError
from treadle.video.software import decode_pictures
from treadle.video.stream import access_units

from .streams import SLICED, encode

pytest.importorskip("av")

FULL = bool(os.environ.get("FULL_TESTS"))
STREAMS = 100_000 if FULL else 3000
DECODED = 5000 if FULL else 200


@pytest.fixture(scope="module")
def originals():
    one, two = gray(6, 64, np.uint8), gray(3, 72, np.uint16)
    return [
        SLICED,
        encode(one, bframes=2, keyint=3, min_keyint=3, scenecut=0, repeat_headers=1, aud=1),
        encode(two, "yuv420p10le", hrd=1, vbv_bufsize=90, vbv_maxrate=90, colormatrix="bt709"),
        encode(one, temporal_layers=2, bframes=2, info=0) + encode(two, "yuv420p10le", info=0),
    ]


def gray(count: int, width: int, dtype: type):
    """Frames of one value each: small streams, most of which are headers."""
    shapes = (64, width), (32, width // 2), (32, width // 2)
    return [[np.full(shape, 60 + 9 * i, dtype) for shape in shapes] for i in range(count)]


def damaged(rng: random.Random, original: bytes) -> bytes:
    """One to four changes, most of them in the headers at the beginning."""
    data = bytearray(original)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(min(len(data), rng.choice((60, 200, 1 << 30))))
        kind = rng.randrange(7)
        if kind <= 1:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            data[place] = rng.choice((0, 1, 3, 127, 128, 255))
        elif kind == 3:
            del data[place : place + rng.randint(1, 40)]
        elif kind == 4:
            data[place:place] = data[place : place + rng.randint(1, 40)]
        elif kind == 5:
            data[place:place] = b"\x00\x00\x01" + rng.randbytes(rng.randint(0, 9))
        else:
            data[place : place + 8] = rng.randbytes(rng.randint(0, 12))
        if len(data) < 8:
            break
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.1 else data)


def read(source, chunk_size):
    """The pictures up to an error, and the error."""
    pictures = []
    try:
        for picture in access_units(source, chunk_size=chunk_size):
            pictures.append(picture)
    except BitstreamError as error:
        return pictures, error
    return pictures, None


def test_damaged_headers_are_read_or_refused_with_their_place(originals):
    rng = random.Random(2026)
    outcomes = {True: 0, False: 0}
    for number in range(STREAMS):
        data = damaged(rng, rng.choice(originals))
        source = data if number % 2 else io.BytesIO(data)
        pictures, error = read(source, 16 << number % 8)
        for picture in pictures:
            said = picture.sequence
            assert 0 < said.width <= said.coded_width <= 65535
            assert 0 < said.height <= said.coded_height <= 65535
        assert error is None or (error.offset is not None and 0 <= error.offset <= len(data))
        outcomes[error is None] += 1
    assert min(outcomes.values()) > STREAMS // 10, outcomes


def test_damaged_pictures_are_decoded_or_refused(originals):
    rng = random.Random(7)
    outcomes = {True: 0, False: 0}
    for _ in range(DECODED):
        data = damaged(rng, rng.choice(originals))
        try:
            for unit, picture in decode_pictures(access_units(data)):
                said = unit.sequence
                assert (picture.width, picture.height) == (said.width, said.height)
            outcomes[True] += 1
        except VideoError:
            outcomes[False] += 1
    assert min(outcomes.values()) > 0, outcomes


FILLERS = {
    "zeros": b"\x00", "codes": b"\x00\x00\x01", "emulated": b"\x00\x00\x03", "ones": b"\xff",
}  # fmt: skip


@pytest.mark.parametrize("filler", FILLERS)
def test_time_grows_with_the_length_alone(filler):
    """A second for a megabyte, of which an hour would be quadratic."""
    data = SLICED + FILLERS[filler] * 350_000
    start = time.process_time()
    assert len(list(access_units(data))) == 3
    assert time.process_time() - start < 1


def test_many_tiny_units_take_little_more():
    start = time.process_time()
    assert sum(1 for _ in iter_annexb_nalus(b"\x00\x00\x01\x50\x01" * 200_000)) == 200_000
    assert time.process_time() - start < 2
