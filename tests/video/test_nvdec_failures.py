"""What goes wrong in NVVideoDecoder: an error that says what, and nothing left behind."""

import numpy as np
import pytest

pytest.importorskip("av")

from treadle.video.cuvid import CuvidError
from treadle.video.errors import BitstreamError, UnsupportedStream

from . import streams
from .fake_cuvid import FakeNvcuvid
from .nvdec import opened


@pytest.mark.parametrize(
    ("caps", "message"),
    [
        ({"supported": 0}, "128x64 4:2:0 of 8 bits: this GPU's NVDEC does not decode"),
        ({"max": (64, 64)}, "takes 64x64 to 64x64"),
        ({"min": (256, 256)}, "takes 256x256 to 8192x8192"),
        ({"blocks": 16}, "16 blocks of 16x16"),
        ({"formats": 2}, "no surface format"),
    ],
)
def test_what_the_gpu_does_not_decode_is_said_before_a_decoder_is_made(caps, message, clip):
    driver = FakeNvcuvid(caps=caps)
    with opened(driver) as decoder, pytest.raises(UnsupportedStream, match=message):
        decoder.feed_annexb_stream(clip.data)
    driver.check_empty()
    assert "cuvidCreateDecoder" not in driver.calls


@pytest.mark.parametrize(
    ("pixels", "message"),
    [
        ("gray", "monochrome of 8 bits"),
        ("yuv422p", "4:2:2 of 8 bits"),
        ("yuv422p10le", "4:2:2 of 10 bits"),
        ("yuv444p", "4:4:4 of 8 bits"),
        ("yuv444p12le", "4:4:4 of 12 bits"),
    ],
)
def test_chroma_formats_other_than_420_are_refused_by_name(decoder, pixels, message):
    with pytest.raises(UnsupportedStream, match=message):
        decoder.feed_annexb_stream(streams.clip(2, pixels=pixels))


@pytest.mark.parametrize("call", [
    "cuvidCreateDecoder", "cuvidDecodePicture", "cuvidMapVideoFrame64", "cuvidParseVideoData",
])  # fmt: skip
def test_a_call_that_fails_is_an_error_that_names_it(driver, clip, call):
    driver.fail[call] = (0 if call == "cuvidCreateDecoder" else 2, 2)
    with opened(driver) as decoder:
        with pytest.raises(CuvidError, match=f"{call} failed: out of memory"):
            decoder.decode_annexb_to_tensors(clip.data)
        driver.fail.clear()


def test_a_parser_that_cannot_be_made_leaves_nothing(driver):
    driver.fail["cuvidCreateVideoParser"] = (0, 801)
    with pytest.raises(CuvidError, match="cuvidCreateVideoParser failed: operation not supported"):
        opened(driver)


def test_an_exception_of_the_caller_closes_nothing_behind_its_back(driver, decoder, clip):
    steps = decoder.decode_annexb_stream(clip.data)
    next(steps)
    with pytest.raises(KeyError):
        steps.throw(KeyError("the caller's"))
    decoder.feed_end_of_stream()


def test_a_generator_that_is_closed_early_leaves_no_frame_mapped(driver, clip):
    with opened(driver) as decoder:
        steps = decoder.decode_annexb_stream(clip.data)
        next(steps)
        steps.close()


def test_a_closed_decoder_says_so_and_closes_twice(driver, clip):
    decoder = opened(driver)
    decoder.feed_annexb_stream(clip.data)
    decoder.close()
    decoder.close()
    assert decoder.pending_frames() == 0
    for use in (decoder.acquire_frame, decoder.feed_end_of_stream):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_a_forgotten_decoder_closes_itself(driver, clip):
    decoder = opened(driver)
    decoder.feed_annexb_stream(clip.data)
    frame = decoder.acquire_frame()
    del decoder, frame  # without the collector: nothing refers to itself


def test_streams_with_damage_leave_a_decoder_that_can_be_closed(driver, clip):
    rng = np.random.default_rng(3)
    for _ in range(20):
        data = bytearray(clip.data)
        for place in rng.integers(0, len(data), 8):
            data[place] ^= 1 << int(rng.integers(8))
        with opened(driver) as decoder:
            try:
                decoder.feed_annexb_stream(bytes(data[: int(rng.integers(10, len(data)))]))
            except (CuvidError, UnsupportedStream, ValueError):
                continue
            for frame in decoder.drain_frames():
                frame.release()


@pytest.mark.parametrize("status", [8, 9])  # an error, and one that NVDEC has painted over
def test_a_damaged_picture_is_an_error_and_those_around_it_are_frames(driver, clip, status):
    driver.statuses = [2, status]  # of the second that is mapped, when it is copied out early
    frames, damaged = [], []
    with opened(driver) as decoder:
        decoder.feed_annexb_stream(clip.data)
        count = decoder.pending_frames()
        while decoder.pending_frames():
            try:
                frames.append(decoder.acquire_rgb_tensor()[0])
            except BitstreamError as error:
                damaged.append(str(error))
    assert len(damaged) == 1
    assert "picture of timestamp" in damaged[0]
    assert len(frames) == count - 1 > 1


def test_a_library_that_tells_nothing_of_pictures_is_believed(driver, clip):
    driver.fail["cuvidGetDecodeStatus"] = (0, 801)
    with opened(driver) as decoder:
        assert decoder.decode_annexb_to_tensors(clip.data)
