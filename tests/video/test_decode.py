"""Streams as tensors: the rules of decode_annexb_iter, over both decoders."""

import ctypes
import gc
import io
import weakref

import numpy as np
import pytest

pytest.importorskip("av")

from treadle import dtypes
from treadle.runtime.cuvid import (
    CUVIDEOFORMAT,
    CUVIDPARSERDISPINFO,
    CuvidLibrary,
    CuvidUnavailable,
    DecoderCaps,
    decode_annexb_iter,
    decode_annexb_to_tensors_auto,
    is_available,
)
from treadle.runtime.hevc_annexb import AnnexBParserError, iter_annexb_nalus
from treadle.video.errors import BitstreamError

from . import streams
from .clips import encode, reference_rgb
from .streams import noise

needs_no_nvdec = pytest.mark.skipif(is_available(), reason="there is NVDEC here")


@pytest.fixture(scope="module")
def deep():
    return encode(104, 70, depth=10, matrix="bt2020", full_range=True, seed=4)


@pytest.fixture(params=["nvdec", "software"])
def options(request, driver):
    """What makes each of the two decoders decode onto the CPU."""
    if request.param == "software":
        if is_available():
            pytest.skip("there is NVDEC here")
        return {"fallback": "software", "device": "CPU"}
    return {"decoder_kwargs": {"cuvid": CuvidLibrary(driver), "device": "CPU"}}


def check(tensors, clip, space="bt709"):
    assert len(tensors) == len(clip.frames)
    for tensor, planes in zip(tensors, clip.frames, strict=True):
        expected = reference_rgb(planes, clip.depth, space, clip.full_range)
        np.testing.assert_allclose(tensor.numpy(), expected, atol=2 / 255)


# -- what comes out ---------------------------------------------------------------------------


def test_known_pixels_come_back_with_what_is_known_of_each_frame(options, clip):
    frames = list(decode_annexb_iter(clip.data, **options))
    check([tensor for _, tensor in frames], clip)
    assert [frame.index for frame in frames] == list(range(8))
    assert [frame.poc for frame in frames] == list(range(8))
    assert [frame.keyframe for frame in frames] == [True] + [False] * 7
    assert frames[0].color.matrix == 1
    assert not frames[0].color.full_range
    backend = "software" if "fallback" in options else "nvdec"
    assert {frame.backend for frame in frames} == {backend}
    assert (frames[0].fallback_reason is None) == (backend == "nvdec")
    assert frames[3].timestamp == frames[3][0]
    assert frames[3].tensor is frames[3][1]


def test_the_streams_own_colours_are_read_on_request(options, deep):
    tensors = decode_annexb_to_tensors_auto(
        deep.data, color_space="auto", include_timestamps=False, **options
    )
    check(tensors, deep, "bt2020")


def test_streams_that_do_not_say_their_matrix_are_guessed_at_with_a_warning(options):
    silent = encode(count=2, matrix=None)
    with pytest.warns(UserWarning, match="does not say which matrix .* bt601 is taken, by its 64"):
        tensors = decode_annexb_to_tensors_auto(
            silent.data, color_space="auto", include_timestamps=False, **options
        )
    check(tensors, silent, "bt601")


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.uint8])
def test_types_of_results(driver, clip, dtype):
    kwargs = {"decoder_kwargs": {"cuvid": CuvidLibrary(driver), "device": "CPU"}}
    normalize = dtype is not dtypes.uint8
    tensors = decode_annexb_to_tensors_auto(
        clip.data, dtype=dtype, normalize=normalize, include_timestamps=False, **kwargs
    )
    assert {tensor.dtype for tensor in tensors} == {dtype}
    scaled = [tensor if normalize else tensor.float() / 255 for tensor in tensors]
    check(scaled, clip)


def test_both_decoders_give_the_same_bits(driver, deep):
    kwargs = {"dtype": dtypes.uint8, "normalize": False, "color_space": "auto"}
    nvdec = {"cuvid": CuvidLibrary(driver), "device": "CPU"}
    first = decode_annexb_to_tensors_auto(deep.data, decoder_kwargs=nvdec, **kwargs)
    other = decode_annexb_to_tensors_auto(deep.data, fallback="software", device="CPU", **kwargs)
    for (time, one), (same_time, two) in zip(first, other, strict=True):
        assert time == same_time
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_two_resolutions_in_one_stream(options, clip, deep):
    data = clip.data + deep.data + clip.data
    frames = list(decode_annexb_iter(data, include_timestamps=False, **options))
    shapes = [frame.shape for frame in frames]
    assert shapes == [(64, 128, 3)] * 8 + [(70, 104, 3)] * 8 + [(64, 128, 3)] * 8
    check(frames[16:], clip)


@needs_no_nvdec
@pytest.mark.parametrize("pixels", ["gray", "gray10le"])
def test_monochrome_streams_of_odd_sizes_are_gray(pixels):
    top = 255 if pixels == "gray" else 1023
    planes = [[plane] for (plane,) in noise(2, 67, 65, pixels)]
    data = streams.encode(planes, pixels, lossless=1, range="full")
    frames = list(decode_annexb_iter(data, fallback="software", device="CPU"))
    for frame, (luma,) in zip(frames, planes, strict=True):
        expected = np.repeat(luma[:, :, None] / top, 3, axis=2)
        np.testing.assert_allclose(frame.tensor.numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("open_gop", [0, 1], ids=["closed", "open"])
def test_groups_of_pictures(options, open_gop):
    clip = encode(count=24, keyint=8, min_keyint=8, open_gop=open_gop, bframes=3)
    check(decode_annexb_to_tensors_auto(clip.data, include_timestamps=False, **options), clip)


def test_leading_pictures_after_a_random_access_point_are_left_out(options):
    clip = encode(count=24, keyint=8, min_keyint=8, open_gop=1, bframes=3, repeat_headers=1)
    units = list(iter_annexb_nalus(clip.data))
    kinds = [unit[0] >> 1 & 0x3F for unit in units]
    first = kinds.index(21)  # a CRA picture
    headers = [unit for unit, kind in zip(units[:10], kinds, strict=False) if 32 <= kind <= 34]
    frames = list(decode_annexb_iter(headers + units[first:], **options))
    following = kinds[first + 1 :]
    leading = following[: following.index(21)] if 21 in following else following
    skipped = sum(kind in (8, 9) for kind in leading)
    assert skipped
    assert len(frames) == sum(kind <= 31 for kind in kinds[first:]) - skipped
    check([frame.tensor for frame in frames][-4:], clip._replace(frames=clip.frames[-4:]))


def test_every_kind_of_source(driver, clip):
    def count(source):
        kwargs = {"cuvid": CuvidLibrary(driver), "device": "CPU"}
        return sum(1 for _ in decode_annexb_iter(source, decoder_kwargs=kwargs, chunk_size=97))

    data = clip.data
    pieces = (data[at : at + 51] for at in range(0, len(data), 51))
    for source in (bytearray(data), memoryview(data), io.BytesIO(data), pieces,
                   list(iter_annexb_nalus(data))):  # fmt: skip
        assert count(source) == 8


# -- timestamps -------------------------------------------------------------------------------


def test_timestamps_follow_decoding_or_fps(options, clip):
    def stamps(**more):
        frames = list(decode_annexb_iter(clip.data, **options, **more))
        return [frame.timestamp for frame in frames], [frame.timestamp_source for frame in frames]

    times, sources = stamps()
    assert sorted(times) == list(range(8))
    assert set(sources) == {"index"}
    times, sources = stamps(timestamps=[100, 200])
    assert times[0] == 100
    assert sorted(times) == [2, 3, 4, 5, 6, 7, 100, 200]
    assert set(sources) == {"user"}
    times, sources = stamps(fps=25)
    assert times == [number / 25 for number in range(8)]
    assert set(sources) == {"fps"}
    with pytest.raises(ValueError, match="fps is more than 0"):
        stamps(fps=0)


# -- fallback ---------------------------------------------------------------------------------


@needs_no_nvdec
def test_without_nvdec_the_call_itself_says_what_is_missing(clip):
    with pytest.raises(CuvidUnavailable, match="libnvcuvid"):
        decode_annexb_iter(clip.data)
    with pytest.raises(CuvidUnavailable):
        decode_annexb_to_tensors_auto(clip.data)


@needs_no_nvdec
def test_a_fallback_gets_the_error_and_gives_the_result(clip):
    seen = []
    value = object()

    def fallback(error):
        seen.append(error)
        return value

    assert decode_annexb_iter(clip.data, fallback=fallback) is value
    assert decode_annexb_to_tensors_auto(clip.data, fallback=fallback) is value
    assert all(isinstance(error, CuvidUnavailable) for error in seen)


@needs_no_nvdec
@pytest.mark.parametrize("value", [b"bytes", "text", 7, None, [1, 2], (1, 2), {"a": 1}, iter((1,))])
def test_what_a_fallback_returns_is_passed_through(value):
    assert decode_annexb_to_tensors_auto(b"", fallback=lambda error: value) is value


@needs_no_nvdec
def test_the_software_decoder_is_chosen_by_name(clip):
    frames = list(decode_annexb_iter(clip.data, fallback="software", device="CPU"))
    assert frames[0].backend == "software"
    assert "libnvcuvid" in frames[0].fallback_reason
    with pytest.raises(ValueError, match="fallback is None, 'software' or a callable"):
        decode_annexb_iter(clip.data, fallback="ffmpeg")
    with pytest.raises(ValueError, match="on CUDA, not on CPU"):
        decode_annexb_iter(clip.data, device="CPU")


# -- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"source": 7}, TypeError, "an HEVC stream is bytes"),
        ({"source": "text"}, TypeError, "an HEVC stream is bytes"),
        ({"dtype": dtypes.int32}, NotImplementedError, "float32, float16, uint8"),
        ({"dtype": dtypes.uint8}, ValueError, "normalize=False"),
        ({"color_space": "rgb"}, ValueError, "bt601, bt709, bt2020"),
        ({"color_space": (1.0,)}, TypeError, "4 coefficients"),
        ({"color_range": "pc"}, ValueError, "color_range"),
        ({"chunk_size": 0}, ValueError, "chunk_size"),
    ],
)
def test_wrong_arguments_are_errors_of_the_call(arguments, error, message, driver):
    given = {"source": b"\0\0\1", **arguments}
    with pytest.raises(error, match=message):
        decode_annexb_iter(given.pop("source"), decoder_kwargs={
            "cuvid": CuvidLibrary(driver), "device": "CPU"}, **given)  # fmt: skip


# -- what goes wrong --------------------------------------------------------------------------


def test_streams_without_pictures_are_errors_with_a_place(options, clip):
    with pytest.raises(AnnexBParserError, match="no start code") as found:
        list(decode_annexb_iter(b"", **options))
    assert found.value.offset == 0
    units = list(iter_annexb_nalus(clip.data))
    pictures = [unit for unit in units if unit[0] >> 1 & 0x3F < 32]
    with pytest.raises(BitstreamError, match="PPS 0, which the stream has not sent"):
        list(decode_annexb_iter(pictures, **options))


def test_what_is_sound_before_an_error_comes_first(options, clip):
    broken = clip.data + b"\0\0\1\x80\1\xff"  # the forbidden bit
    steps = decode_annexb_iter(broken, **options)
    # To a decoder of whole pictures the last one might go on in the broken unit.
    count = 7 if "fallback" in options else 8
    frames = [next(steps) for _ in range(count)]
    check([frame.tensor for frame in frames], clip._replace(frames=clip.frames[:count]))
    with pytest.raises(BitstreamError, match="forbidden_zero_bit") as found:
        next(steps)
    assert found.value.offset == len(clip.data) + 3


def test_nvdec_judges_units_whose_headers_are_not_understood():
    """The library may know better: it has its own parser."""

    class Library:
        def __init__(self):
            self.packets = []

        def create_video_parser(self, params):
            self.show = params.pfnDisplayPicture
            self.begin = params.pfnSequenceCallback
            return 1

        def get_decoder_caps(self, codec, chroma_format, bit_depth_minus8):
            return DecoderCaps(codec, chroma_format, bit_depth_minus8, is_supported=True)

        def create_decoder(self, info):
            self.surface = np.full(128 * 96, 128, np.uint8)
            return 2

        def parse_video_data(self, parser, packet):
            if not packet.payload_size:
                return
            if not self.packets:
                form = CUVIDEOFORMAT(codec=8, coded_width=128, coded_height=64, chroma_format=1)
                form.display_area.right, form.display_area.bottom = 128, 64
                assert self.begin(None, ctypes.pointer(form)) >= 8
            self.packets.append((packet.timestamp, packet.flags))
            info = CUVIDPARSERDISPINFO(picture_index=0, timestamp=packet.timestamp)
            assert self.show(None, ctypes.pointer(info))

        def map_video_frame(self, decoder, picture_index, params):
            return self.surface.ctypes.data, 128

        def unmap_video_frame(self, decoder, pointer):
            pass

        destroy_decoder = destroy_video_parser = lambda self, handle: None

    library = Library()
    made_up = b"\0\0\1\x26\1\x80" + b"\0\0\0\1\x02\1\x80\1"
    kwargs = {"cuvid": library, "device": "CPU"}
    frames = list(decode_annexb_iter(made_up, timestamps=[5, 6], decoder_kwargs=kwargs))
    assert [frame.timestamp for frame in frames] == [5, 6]
    assert frames[0].poc is None
    assert library.packets == [(5, 2), (6, 2)]
    gray = frames[0].tensor.numpy()
    np.testing.assert_allclose(gray, (128 - 16) / 219, atol=1e-6)


def test_closing_early_closes_the_decoder(driver, clip):
    kwargs = {"cuvid": CuvidLibrary(driver), "device": "CPU"}
    frames = decode_annexb_iter(clip.data, decoder_kwargs=kwargs)
    next(frames)
    assert driver.objects
    frames.close()
    driver.check_empty()
    untouched = decode_annexb_iter(clip.data, decoder_kwargs=kwargs)
    del untouched
    gc.collect()
    driver.check_empty()


def test_an_error_of_the_source_closes_the_decoder(driver, clip):
    def source():
        yield clip.data[: len(clip.data) // 2]
        raise OSError("the disk is gone")

    kwargs = {"cuvid": CuvidLibrary(driver), "device": "CPU"}
    with pytest.raises(OSError, match="the disk is gone"):
        list(decode_annexb_iter(source(), decoder_kwargs=kwargs))
    driver.check_empty()


def test_frames_that_nobody_keeps_are_freed(driver, clip):
    kwargs = {"cuvid": CuvidLibrary(driver), "device": "CPU"}
    watched = []
    for _, tensor in decode_annexb_iter(clip.data * 2, decoder_kwargs=kwargs):
        watched.append(weakref.ref(tensor))
        del tensor
    gc.collect()
    assert not any(watch() for watch in watched)
