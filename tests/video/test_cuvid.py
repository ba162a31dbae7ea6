"""libnvcuvid as Python sees it: finding it, its errors, what it tells of a GPU."""

import pytest

pytest.importorskip("av")

from treadle import Device
from treadle.errors import DeviceError
from treadle.video import cuvid
from treadle.video.cuvid import CuvidError, CuvidLibrary, CuvidUnavailable, check_cuvid
from treadle.video.decoder import NVVideoDecoder

from .fake_cuvid import FakeNvcuvid
from .nvdec import opened


@pytest.fixture
def nothing_installed(monkeypatch):
    def refuse(name):
        raise OSError(name)

    monkeypatch.setattr(cuvid.ctypes, "CDLL", refuse)
    cuvid.reset_cuvid_cache_for_tests()
    yield
    cuvid.reset_cuvid_cache_for_tests()


def test_a_missing_library_is_said_with_the_names_that_were_tried(nothing_installed):
    assert not cuvid.is_available()
    with pytest.raises(
        CuvidUnavailable, match=r"nvcuvid, libnvcuvid, libnvcuvid.so.1, nvcuvid"
    ) as e:
        cuvid.load_cuvid()
    with pytest.raises(CuvidUnavailable) as again:
        cuvid.load_cuvid()
    assert again.value is e.value  # what was found is kept
    assert isinstance(e.value, RuntimeError)
    with pytest.raises(CuvidUnavailable):
        NVVideoDecoder()


def test_a_library_that_is_given_needs_no_gpu_until_frames_are_read(monkeypatch, driver, clip):
    class Without:
        canonicalize = staticmethod(Device.canonicalize)

        def __getitem__(self, name):
            raise DeviceError(f"there is no {name}")

    monkeypatch.setattr("treadle.video.surfaces.Device", Without())
    with NVVideoDecoder(cuvid=CuvidLibrary(driver)) as decoder:
        decoder.feed_annexb_stream(clip.data[: len(clip.data) // 2])
        with decoder.acquire_frame() as frame:
            assert frame.luma_plane.width == 128
    monkeypatch.setattr("treadle.video.decoder.load_cuvid", lambda: CuvidLibrary(driver))
    with pytest.raises(CuvidUnavailable, match="there is no CUDA"):
        NVVideoDecoder()


def test_a_library_is_loaded_once(monkeypatch):
    driver = FakeNvcuvid()
    monkeypatch.setattr(cuvid.ctypes, "CDLL", lambda name: driver)
    cuvid.reset_cuvid_cache_for_tests()
    assert cuvid.load_cuvid() is cuvid.load_cuvid()
    assert cuvid.load_cuvid().raw is driver
    assert cuvid.is_available()
    cuvid.reset_cuvid_cache_for_tests()


def test_an_emulated_gpu_has_no_nvdec(monkeypatch):
    monkeypatch.setattr("treadle.video.decoder.load_cuvid", lambda: CuvidLibrary(FakeNvcuvid()))
    if Device["CUDA"].runtime.is_software:
        with pytest.raises(CuvidUnavailable, match="no NVDEC"):
            NVVideoDecoder()


def test_a_status_is_an_error_with_its_text():
    check_cuvid(0)
    with pytest.raises(CuvidError, match=r"status 801"):
        check_cuvid(801)


def test_caps_are_what_the_driver_tells():
    caps = CuvidLibrary(FakeNvcuvid()).get_decoder_caps(8, 1, 2)
    assert (caps.codec_type, caps.chroma_format, caps.bit_depth_minus8) == (8, 1, 2)
    assert (caps.min_width, caps.min_height) == (64, 64)
    assert (caps.max_width, caps.max_height, caps.max_mb_count) == (8192, 8192, 1 << 18)
    assert caps.is_supported
    assert caps.output_formats == (0, 1)
    assert not caps.is_partial_supported


def test_surfaces_are_asked_for_at_least_as_the_stream_needs(driver, clip):
    with pytest.raises(ValueError, match="1 or more"):
        opened(driver, max_decode_surfaces=0)
    with opened(driver, max_decode_surfaces=20) as decoder:
        decoder.feed_annexb_stream(clip.data)
        assert decoder._session.surfaces == 20
