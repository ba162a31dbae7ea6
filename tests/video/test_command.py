"""`treadle video`: what a stream holds in words and in JSON, and its frames as PNG files."""

import json
import os
import sys
import threading

import numpy as np
import pytest

from treadle import cli
from treadle.helpers import human_bytes
from treadle.video.errors import DecoderUnavailable
from treadle.video.png import png_files

from .streams import clip, encode

av = pytest.importorskip("av")


@pytest.fixture
def file(tmp_path):
    def write(data: bytes):
        path = tmp_path / "clip.hevc"
        path.write_bytes(data)
        return path

    return write


WIDE = {"colormatrix": "bt2020nc", "colorprim": "bt2020", "transfer": "smpte2084", "sar": 4}


def test_info_says_what_the_stream_says(file, capsys):
    first = clip(8, 70, 66, "yuv420p10le", range="full", bframes=3, keyint=4, **WIDE)
    path = file(first + clip(3, 64, 64, vui_timing_info=0))
    assert cli.main(["video", "info", str(path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("clip.hevc: ")
    for text in (
        "11 pictures", "Main 10, level", "70 x 66 of 80 x 80 coded, pixels 16/11 as wide as high",
        "4:2:0, 10 bits", "matrix BT.2020, primaries BT.2020, transfer PQ, full range",
        "25 frames/s", "0.32 s, ", "sequence 2", "matrix unspecified", "limited range",
        "3: 1 I, ", "1 keyframe", "VPS_NUT", "IDR_N_LP",
    ):  # fmt: skip
        assert text in out, text


def test_info_as_json_has_the_same_numbers(file, capsys):
    assert cli.main(["video", "info", "--json", str(file(clip(6, 70, 66, bframes=2)))]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["pictures"] == 6
    assert report["units"]["SPS_NUT"] == 1
    (only,) = report["sequences"]
    assert (only["width"], only["height"], only["frame_rate"]) == (70, 66, "25")
    assert sum(only["types"].values()) == only["shown"] == 6
    assert only["seconds"] == 0.24


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the stream has no start code"),
        (b"\x00\x00\x01\x40\x01", "the unit ends within"),
        (b"\x00\x00\x01\x46\x01\x50", "the stream has no picture"),
        (b"\x00\x00\x00\x20ftypisom", "is an MP4 file, not a bare stream"),
        (b"\x1a\x45\xdf\xa3\x00\x00\x00\x00", "is a Matroska file"),
    ],
)
@pytest.mark.parametrize("action", ["info", "decode"])
def test_what_is_no_stream_is_one_sentence_and_exit_code_2(file, action, data, message, capsys):
    more = ["--out", "nowhere"] if action == "decode" else []
    assert cli.main(["video", action, str(file(data)), *more]) == 2
    err = capsys.readouterr().err.splitlines()
    assert err[-1].startswith("treadle video: ")
    assert message in err[-1]


def test_a_file_that_is_not_there_is_said(tmp_path, capsys):
    assert cli.main(["video", "info", str(tmp_path / "none.hevc")]) == 2
    assert "none.hevc cannot be read: No such file" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("action", ["info", "decode"])
def test_a_pipe_is_read_to_its_end(action, tmp_path, capsys):
    pipe, data = tmp_path / "pipe", clip(3)
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    more = ["--out", str(tmp_path / "out")] if action == "decode" else []
    assert cli.main(["video", action, str(pipe), *more]) == 0
    writer.join()
    expected = {"info": f"pipe: {human_bytes(len(data))}, 3 pictures", "decode": "3 frames in "}
    assert capsys.readouterr().out.startswith(expected[action])


def test_a_folder_that_cannot_be_is_said(file, tmp_path, capsys):
    folder = tmp_path / ("x" * 300)
    assert cli.main(["video", "decode", str(file(clip(1))), "--out", str(folder)]) == 2
    assert "cannot be written: File name too long" in capsys.readouterr().err


def test_decode_writes_the_frames(file, tmp_path, capsys):
    shades = [(30, 128, 128), (90, 100, 140), (200, 150, 90)]
    shapes = (48, 64), (24, 32), (24, 32)
    frames = [
        [np.full(shape, value, np.uint8) for shape, value in zip(shapes, shade, strict=True)]
        for shade in shades
    ]
    path = file(encode(frames, lossless=1, bframes=1, range="full", colormatrix="bt709"))
    folder = tmp_path / "a" / "b"
    assert cli.main(["video", "decode", str(path), "--out", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(f"3 frames in {folder}, ")
    assert sorted(p.name for p in folder.iterdir()) == [f"frame00000{i}.png" for i in range(3)]
    for index, (y, u, v) in enumerate(shades):
        blue, red = y + 1.8556 * (u - 128), y + 1.5748 * (v - 128)
        green = (y - 0.2126 * red - 0.0722 * blue) / 0.7152
        pixels = read_png(folder / f"frame00000{index}.png")
        assert pixels.shape == (48, 64, 3)
        assert np.abs(pixels - np.clip([red, green, blue], 0, 255)).max() <= 1


def read_png(path):
    with av.open(str(path)) as container:
        return next(container.decode(video=0)).to_ndarray(format="rgb24")


def test_decode_writes_over_nothing(file, tmp_path, capsys):
    path = file(clip(1))
    (tmp_path / "frame000000.png").write_bytes(b"mine")
    assert cli.main(["video", "decode", str(path), "--out", str(tmp_path)]) == 2
    assert "frame000000.png is there already" in capsys.readouterr().err
    assert (tmp_path / "frame000000.png").read_bytes() == b"mine"
    assert cli.main(["video", "decode", str(path), "--out", str(path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_frames_before_an_error_are_written(file, tmp_path, capsys):
    data = bytearray(clip(12, bframes=0, keyint=4, min_keyint=4, scenecut=0, repeat_headers=1))
    place = data.rindex(b"\x00\x00\x01\x42\x01") + 5
    data[place] |= 0x0E
    assert cli.main(["video", "decode", str(file(data)), "--out", str(tmp_path / "out")]) == 2
    assert "sps_max_sub_layers_minus1 is 7" in capsys.readouterr().err
    assert len(list((tmp_path / "out").iterdir())) == 8


def test_png_files_hold_the_pixels(tmp_path):
    rng = np.random.default_rng(0)
    shapes = [(5, 7, 3)] * 5 + [(16, 1, 3)] * 2 + [(5, 7, 3)]
    images = [rng.integers(0, 256, shape, np.uint8)[::-1] for shape in shapes]
    for data, pixels in zip(png_files(images), images, strict=True):
        (tmp_path / "x.png").write_bytes(data)
        np.testing.assert_array_equal(read_png(tmp_path / "x.png"), pixels)


def test_without_pyav_no_png_is_begun(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(DecoderUnavailable, match=r"PNG files .* pip install 'treadle\[video\]'"):
        png_files([])
