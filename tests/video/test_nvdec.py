"""NVVideoDecoder over a library in memory, which writes over what was not mapped in time."""

import gc
import os
import threading
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("av")

from treadle import Device, dtypes
from treadle.video.annexb import iter_annexb_nalus
from treadle.video.cuvid import CuvidLibrary
from treadle.video.decoder import NVVideoDecoder
from treadle.video.frame import nv12_frames_to_tensors
from treadle.video.timestamps import Timestamps

from .clips import encode, reference_rgb
from .fake_cuvid import FakeNvcuvid
from .nvdec import assert_shows, opened

IS_FULL = "FULL_TESTS" in os.environ


@pytest.fixture(scope="module")
def small():
    return encode(96, 66, seed=1)


def test_frames_come_in_display_order_with_the_times_of_decoding(decoder, clip):
    pairs = decoder.decode_annexb_to_tensors(clip.data)
    assert_shows([tensor for _, tensor in pairs], clip)
    assert sorted(time for time, _ in pairs) == list(range(8))
    assert [time for time, _ in pairs] != list(range(8))  # there are B-frames


def test_given_timestamps_are_taken_and_then_a_counter(decoder, clip):
    assert decoder.feed_annexb_stream(clip.data, timestamps=[100, 200]) == 8
    times = [frame.timestamp for frame in decoder.drain_frames()]
    assert sorted(times) == [2, 3, 4, 5, 6, 7, 100, 200]


def test_packets_are_units_with_start_codes_times_and_flags(driver, decoder, clip):
    units = list(iter_annexb_nalus(clip.data))
    decoder.feed_annexb_stream(iter(units), long_start_code=True)
    flags, data, times = zip(*driver.packets, strict=True)
    assert list(data) == [b"\0\0\0\1" + unit for unit in units] + [b""]
    assert set(flags[:-1]) == {2}
    assert flags[-1] == 1  # the end of the stream
    assert times[:5] == (0, 0, 0, 0, 0)  # parameter sets and SEI carry the first picture's


def test_a_stream_may_end_later(driver, decoder, clip):
    tensors = list(decoder.decode_annexb_stream(
        clip.data, end_of_stream=False, include_timestamps=False
    ))  # fmt: skip
    assert len(tensors) < 8
    decoder.feed_end_of_stream()
    rest = decoder.frames_to_tensors(include_timestamps=False)
    assert_shows(tensors + rest, clip)


def test_frames_that_wait_are_copied_before_their_surface_is_written_again(driver, clip):
    long = clip.data * 4  # more pictures than there are surfaces
    with opened(driver) as decoder:
        decoder.feed_annexb_stream(long)
        assert decoder.pending_frames() == 32
        tensors = decoder.frames_to_tensors(include_timestamps=False)
    for start in range(0, 32, 8):
        assert_shows(tensors[start : start + 8], clip)


def test_any_number_of_frames_can_be_held(driver, decoder, clip):
    decoder.feed_annexb_stream(clip.data * 2)
    frames = list(decoder.drain_frames())
    assert all(frame.is_mapped for frame in frames)
    tensors = [frame.to_rgb_tensor() for frame in frames]
    assert_shows(tensors[:8], clip)
    assert_shows(tensors[8:], clip)
    assert driver.most_mapped <= 4
    for frame in frames:
        frame.release()


def test_a_frame_tells_its_planes_until_it_is_released(decoder, clip):
    decoder.feed_annexb_stream(clip.data)
    with decoder.acquire_frame() as frame:
        luma, chroma = frame.luma_plane, frame.chroma_plane
        assert (frame.width, frame.height, frame.pitch) == (128, 64, 256)
        assert (luma.pointer, luma.pitch, luma.channels) == (frame.device_pointer, 256, 1)
        assert (luma.row_bytes, luma.size_bytes) == (128, 256 * 64)
        assert chroma.pointer == luma.pointer + 256 * 64
        assert (chroma.width, chroma.height, chroma.channels) == (64, 32, 2)
        assert chroma.row_bytes == 128
        assert frame.surface_size_bytes == 256 * 96
        assert frame.progressive_frame
    assert not frame.is_mapped
    frame.release()  # once more
    for use in (lambda: frame.luma_plane, lambda: frame.chroma_plane, frame.to_rgb_tensor):
        with pytest.raises(RuntimeError, match="frame unmapped"):
            use()


def test_tensors_own_their_memory(driver, clip):
    with opened(driver) as decoder:
        tensors = decoder.decode_annexb_to_tensors(clip.data, include_timestamps=False)
    gc.collect()
    assert_shows(tensors, clip)


def test_frames_are_released_as_they_become_tensors(decoder, clip):
    decoder.feed_annexb_stream(clip.data)
    frames = list(decoder.drain_frames())
    pairs = nv12_frames_to_tensors(frames, dtype=dtypes.uint8, normalize=False)
    assert not any(frame.is_mapped for frame in frames)
    assert pairs[0][1].dtype is dtypes.uint8


def test_acquire_rgb_tensor_gives_none_when_there_is_no_frame(decoder, clip):
    assert decoder.acquire_frame() is None
    assert decoder.acquire_rgb_tensor() is None
    decoder.feed_annexb_stream(clip.data)
    time, tensor = decoder.acquire_rgb_tensor(dtype=dtypes.float16)
    assert time == 0
    assert tensor.dtype is dtypes.float16


def test_coefficients_are_for_full_range_at_a_frame(decoder, clip):
    decoder.feed_annexb_stream(clip.data)
    with decoder.acquire_frame() as frame:
        found = frame.to_rgb_tensor(color_space=(1.5748, -0.187324, -0.468124, 1.8556))
    expected = reference_rgb(clip.frames[0], 8, "bt709", True)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


def test_a_frame_converts_on_its_own_device(decoder, clip):
    decoder.feed_annexb_stream(clip.data)
    with decoder.acquire_frame() as frame:
        assert frame.to_rgb_tensor(device="cpu").device == "CPU"
        with pytest.raises(ValueError, match="the frame is on CPU, not on CL"):
            frame.to_rgb_tensor(device="CL")


def test_a_decoder_gives_tensors_on_its_own_device(decoder, clip):
    tensors = decoder.decode_annexb_to_tensors(clip.data, device="cpu:0", include_timestamps=False)
    assert {tensor.device for tensor in tensors} == {"CPU"}
    for wrong in (decoder.acquire_rgb_tensor, lambda **on: decoder.decode_annexb_stream(b"", **on)):
        with pytest.raises(ValueError, match="the frame is on CPU, not on CL"):
            wrong(device="CL")


def test_an_option_that_is_not_allowed_takes_no_frame(decoder, clip):
    decoder.feed_annexb_stream(clip.data)
    for wrong in ({"device": "CL"}, {"dtype": dtypes.uint8}, {"color_space": "bt1"}):
        with pytest.raises(ValueError):
            decoder.acquire_rgb_tensor(**wrong)
    assert decoder.acquire_rgb_tensor(device="CPU")[0] == 0


def test_coefficients_are_for_full_range_at_a_decoder(decoder, clip):
    decoder.feed_annexb_stream(clip.data)
    bt709 = (1.5748, -0.187324, -0.468124, 1.8556)
    _, found = decoder.acquire_rgb_tensor(color_space=bt709)
    expected = reference_rgb(clip.frames[0], 8, "bt709", True)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


# -- sequences --------------------------------------------------------------------------------


def test_the_resolution_may_change_in_mid_stream(driver, decoder, clip, small):
    data = clip.data + small.data + clip.data
    tensors = decoder.decode_annexb_to_tensors(data, include_timestamps=False)
    assert_shows(tensors[:8], clip)
    assert_shows(tensors[8:16], small)
    assert_shows(tensors[16:], clip)
    assert driver.calls["cuvidCreateDecoder"] == 3


def test_sequences_of_one_format_share_a_decoder(driver, decoder, clip):
    other = encode(seed=2)
    tensors = decoder.decode_annexb_to_tensors(clip.data + other.data, include_timestamps=False)
    assert_shows(tensors[:8], clip)
    assert_shows(tensors[8:], other)
    assert driver.calls["cuvidCreateDecoder"] == 1


def test_colours_change_with_the_sequence(decoder):
    first, second = encode(matrix="bt601"), encode(matrix="bt2020", full_range=True)
    data = first.data + second.data
    tensors = decoder.decode_annexb_to_tensors(data, include_timestamps=False, color_space="auto")
    for tensor, clip, space in ((tensors[0], first, "bt601"), (tensors[8], second, "bt2020")):
        expected = reference_rgb(clip.frames[0], 8, space, clip.full_range)
        np.testing.assert_allclose(tensor.numpy(), expected, atol=2e-6)


def test_frames_outlive_a_change_of_format_and_the_decoder(driver, clip, small):
    with opened(driver) as decoder:
        decoder.feed_annexb_stream(clip.data, end_of_stream=True)
        frame = decoder.acquire_frame()
        decoder.feed_annexb_stream(small.data)
        frames = list(decoder.drain_frames())
    assert_shows([frame.to_rgb_tensor(), *(one.to_rgb_tensor() for one in frames[:7])], clip)
    for one in (frame, *frames):
        one.release()


@pytest.mark.parametrize("depth", [10, 12])
def test_deeper_samples_come_as_p016(driver, depth):
    clip = encode(depth=depth)
    with opened(driver) as decoder:
        decoder.feed_annexb_stream(clip.data)
        with decoder.acquire_frame() as frame:
            assert (frame.bit_depth, frame.luma_plane.row_bytes) == (depth, 256)
        rest = decoder.frames_to_tensors(include_timestamps=False)
    assert_shows(rest, clip, first=1)


# -- many -------------------------------------------------------------------------------------


def test_two_decoders_at_once(driver, clip, small):
    with opened(driver) as first, opened(driver) as second:
        one = first.decode_annexb_stream(clip.data, include_timestamps=False)
        other = second.decode_annexb_stream(small.data, include_timestamps=False)
        pairs = list(zip(one, other, strict=True))
    assert_shows([pair[0] for pair in pairs], clip)
    assert_shows([pair[1] for pair in pairs], small)


def test_decoders_in_threads(driver, clip):
    results = {}

    def work(number):
        with opened(driver) as decoder:
            results[number] = decoder.decode_annexb_to_tensors(clip.data, include_timestamps=False)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in results.values():
        assert_shows(found, clip)
    assert len(results) == 3


def test_thousands_of_frames_leave_nothing_behind(driver):
    clip = encode(64, 64)
    rounds = 1250 if IS_FULL else 40
    with opened(driver) as decoder:
        tracemalloc.start()
        for turn in range(rounds):
            if turn == 10:
                gc.collect()
                before, _ = tracemalloc.get_traced_memory()
            decoder.feed_annexb_stream(clip.data)
            driver.packets.clear()
            assert sum(1 for frame in decoder.drain_frames() if frame.release() is None) == 8
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(driver.objects) == 2  # the parser and one decoder
        assert len(driver.memory.held) == 1
    assert after - before < 100_000


# -- on a GPU that is emulated ----------------------------------------------------------------


def test_surfaces_on_cuda_are_read_in_place_in_its_context_and_stream(clip):
    runtime = Device["CUDA"].runtime
    if not runtime.is_software:
        pytest.skip("the library in memory needs an emulated GPU")
    driver = FakeNvcuvid(runtime.context)
    with NVVideoDecoder(cuvid=CuvidLibrary(driver)) as decoder:
        assert not runtime.context.is_current
        decoder.feed_annexb_stream(clip.data)
        frame = decoder.acquire_frame()
        tensor = frame.to_rgb_tensor()
        frame.release()
        assert tensor.device == "CUDA"
        assert_shows([tensor], clip._replace(frames=clip.frames[:1]))
        assert decoder._session.memory.stream in driver.streams
        assert len(driver.streams) == 1
    driver.check_empty()


class Recorder:
    """A context that tells which calls wait for the device or its events."""

    def __init__(self, context):
        self.context, self.calls = context, []

    def __getattr__(self, name):
        found = getattr(self.context, name)
        if name not in ("record", "finish_event", "delete_event", "wait_stream", "synchronize"):
            return found

        def called(*arguments):
            self.calls.append((name, arguments[0] if arguments else None))
            return found(*arguments)

        return called


def test_surfaces_go_back_after_the_event_of_their_reading_and_nothing_else_is_waited_for(
    clip, monkeypatch
):
    runtime = Device["CUDA"].runtime
    if not runtime.is_software:
        pytest.skip("the library in memory needs an emulated GPU")
    driver = FakeNvcuvid(runtime.context)
    library, recorder = CuvidLibrary(driver), Recorder(runtime.context)
    calls, unmap = recorder.calls, library.unmap_video_frame
    library.unmap_video_frame = lambda *of: (calls.append(("unmap", of[1])), unmap(*of))
    monkeypatch.setattr(runtime, "context", recorder)
    with NVVideoDecoder(cuvid=library) as decoder:
        stream, tensors = decoder._memory.stream, []
        for _ in decoder._fed(clip.data, 1 << 16, Timestamps(None), False, True):
            while (frame := decoder.acquire_frame()) is not None:
                tensors.append(frame.to_rgb_tensor())
                calls_before = len(calls)
                frame.release()
                assert len(calls) == calls_before  # what reads it may still be running
    assert ("wait_stream", stream) not in calls
    assert "synchronize" not in [name for name, _ in calls]
    events = [event for name, event in calls if name == "record"]
    assert len(events) >= len(clip.frames)
    unmapped = [at for at, (name, _) in enumerate(calls) if name == "unmap"]
    for at, event in zip(unmapped, events, strict=True):
        assert calls[at - 2 : at] == [("finish_event", event), ("delete_event", event)]
    assert driver.most_mapped <= 4
    assert_shows(tensors, clip)
    driver.check_empty()
