"""`treadle video`: what a stream says of itself, and its frames as PNG files.

treadle video info clip.hevc
treadle video decode clip.hevc --out frames
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from ..errors import UserError
from ..helpers import human_bytes, tqdm
from .errors import BitstreamError, VideoError
from .h273 import MATRICES, PRIMARIES, TRANSFERS
from .info import SequenceSummary, StreamInfo, stream_info

if TYPE_CHECKING:
    import numpy as np

    from .decode import Frame

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

__all__ = ["add_commands"]

_CHROMA = ("monochrome", "4:2:0", "4:2:2", "4:4:4")
_SPACES, _RANGES = ("auto", "bt601", "bt709", "bt2020"), ("auto", "limited", "full")
# What a file begins with, from the byte it begins at, and what that is.
_CONTAINERS = {
    (4, b"ftyp"): "an MP4",
    (0, b"\x1aE\xdf\xa3"): "a Matroska",
    (0, b"RIFF"): "an AVI",
}


def add_commands(commands: Commands) -> None:
    """Adds `video` with its actions to the subparsers of `treadle`."""
    summary = "HEVC streams: what is in them, and their frames"
    video = commands.add_parser("video", help=summary, description=summary)
    actions = video.add_subparsers(dest="action", required=True, metavar="action")
    info = _action(actions, _info, "what a stream says of itself")
    info.add_argument("--json", action="store_true", help="print JSON")
    decode = _action(actions, _decode, "write each frame as a PNG file")
    decode.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="where frame000000.png, ... go"
    )
    decode.add_argument(
        "--color-space", choices=_SPACES, default="auto", help="default: what the stream says"
    )
    decode.add_argument(
        "--color-range", choices=_RANGES, default="auto", help="default: what the stream says"
    )


def _action(
    actions: Commands, run: Callable[[argparse.Namespace], int], summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(run.__name__.strip("_"), help=summary, description=summary)
    parser.add_argument("file", type=Path, metavar="FILE", help="an Annex-B stream of HEVC")
    parser.set_defaults(run=run)
    return parser


def _open(path: Path) -> BinaryIO:
    try:
        file = _rewindable(path.open("rb"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    begin = file.read(16)
    file.seek(0)
    for (place, mark), name in _CONTAINERS.items():
        if begin[place : place + len(mark)] == mark:
            file.close()
            raise VideoError(
                f"{path} is {name} file, not a bare stream; take that out of it with: "
                f"ffmpeg -i {path} -c:v copy -f hevc {path.stem}.hevc"
            )
    return file


def _rewindable(file: BinaryIO) -> BinaryIO:
    """`file`, or what it gives until it ends, in a file without a name: a pipe is read once."""
    if file.seekable():
        return file
    with file:
        copy = tempfile.TemporaryFile()  # noqa: SIM115  # its user closes it
        shutil.copyfileobj(file, copy)
    copy.seek(0)
    return copy


def _info(options: argparse.Namespace) -> int:
    with _open(options.file) as file:
        info = stream_info(file)
        size = file.tell()
    if options.json:
        print(json.dumps(_as_json(info, size), indent=2))
    else:
        print("\n".join(_as_text(options.file.name, info, size)))
    return 0


def _as_text(name: str, info: StreamInfo, size: int) -> Iterator[str]:
    yield f"{name}: {human_bytes(size)}, {_count(info.pictures, 'picture')}"
    for number, summary in enumerate(info.sequences, 1):
        yield ""
        if len(info.sequences) > 1:
            yield f"sequence {number}"
        for label, text in _rows(summary):
            yield f"  {label:<10}{text}"
    yield ""
    yield "units: " + ", ".join(f"{count} {name}" for name, count in info.units.items())


def _rows(summary: SequenceSummary) -> Iterator[tuple[str, str]]:
    said = summary.sequence
    yield "profile", str(said.profile)
    size = f"{said.width} x {said.height}"
    if (said.width, said.height) != (said.coded_width, said.coded_height):
        size += f" of {said.coded_width} x {said.coded_height} coded"
    if said.sample_aspect_ratio not in (None, 1):
        size += f", pixels {said.sample_aspect_ratio} as wide as high"
    yield "size", size + (", each picture a field" if said.field_sequence else "")
    depths = sorted({said.bit_depth_luma, said.bit_depth_chroma})
    yield "samples", f"{_CHROMA[said.chroma_format]}, {' and '.join(map(str, depths))} bits"
    yield "colour", _colour(summary)
    rate = said.frame_rate
    yield "rate", f"{float(rate):.6g} frames/s" if rate else "not said"
    if seconds := summary.seconds:
        kilobits = 8e-3 * summary.nbytes / float(seconds)
        yield "length", f"{float(seconds):.6g} s, {kilobits:,.0f} kbit/s"
    types = ", ".join(f"{summary.types[letter]} {letter}" for letter in "IPB")
    yield "pictures", f"{summary.pictures}: {types}; {_count(summary.keyframes, 'keyframe')}"
    if hidden := summary.pictures - summary.shown:
        yield "not shown", str(hidden)
    buffering = said.buffering
    yield "buffers", f"{buffering.pictures} pictures, {buffering.reorder} out of order"


def _colour(summary: SequenceSummary) -> str:
    said = summary.sequence
    names = (
        ("matrix", MATRICES, said.matrix_coefficients),
        ("primaries", PRIMARIES, said.colour_primaries),
        ("transfer", TRANSFERS, said.transfer_characteristics),
    )
    parts = [f"{what} {table.get(number, number)}" for what, table, number in names]
    return ", ".join([*parts, "full range" if said.full_range else "limited range"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _as_json(info: StreamInfo, size: int) -> dict[str, object]:
    return {
        "bytes": size,
        "pictures": info.pictures,
        "units": info.units,
        "sequences": [_summary_as_json(summary) for summary in info.sequences],
    }


def _summary_as_json(summary: SequenceSummary) -> dict[str, object]:
    said = summary.sequence
    rate, seconds, shape = said.frame_rate, summary.seconds, said.sample_aspect_ratio
    return {
        "profile": str(said.profile),
        "width": said.width, "height": said.height,
        "coded_width": said.coded_width, "coded_height": said.coded_height,
        "chroma_format": said.chroma_format,
        "bit_depth_luma": said.bit_depth_luma, "bit_depth_chroma": said.bit_depth_chroma,
        "matrix_coefficients": said.matrix_coefficients,
        "colour_primaries": said.colour_primaries,
        "transfer_characteristics": said.transfer_characteristics,
        "full_range": said.full_range,
        "frame_rate": str(rate) if rate else None,
        "sample_aspect_ratio": str(shape) if shape else None,
        "pictures": summary.pictures, "shown": summary.shown, "keyframes": summary.keyframes,
        "types": summary.types, "bytes": summary.nbytes,
        "seconds": float(seconds) if seconds else None,
    }  # fmt: skip


def _decode(options: argparse.Namespace) -> int:
    from ..dtype import dtypes
    from .decode import decode_annexb_iter

    with _open(options.file) as file, warnings.catch_warnings():
        warnings.simplefilter("once")
        warnings.showwarning = _show_warning
        total = _shown(file)
        frames = decode_annexb_iter(
            file,
            dtype=dtypes.uint8,
            normalize=False,
            color_space=options.color_space,
            color_range=options.color_range,
            fallback="software",
        )
        with contextlib.closing(frames):
            count, seconds = _write_frames(frames, total, options.out)
    if not count:
        raise VideoError("the stream has no picture that is shown")
    print(f"{_count(count, 'frame')} in {options.out}, {count / seconds:.1f} frames/s")
    return 0


def _show_warning(message: Warning | str, *_: object) -> None:
    print(message, file=sys.stderr)


def _write_frames(frames: Iterable[Frame], total: int | None, folder: Path) -> tuple[int, float]:
    """How many frames were written, and in how many seconds."""
    from .png import png_files

    begin, done = time.perf_counter(), 0
    bar = tqdm(png_files(_pixels(frames)), "decoding", total=total)
    for data in bar:
        _write(folder / f"frame{done:06}.png", data)
        done += 1
        bar.set_description(f"{done / (time.perf_counter() - begin):.1f} frames/s")
    return done, time.perf_counter() - begin


def _pixels(frames: Iterable[Frame]) -> Iterator[np.ndarray]:
    """The frames' arrays; says first which decoder they are from, if it is not NVDEC."""
    for frame in frames:
        if not frame.index and frame.fallback_reason:
            reason = frame.fallback_reason.partition(";")[0]
            print(f"decoding on the processor: {reason}", file=sys.stderr)
        yield frame.tensor.numpy()


def _shown(file: BinaryIO) -> int | None:
    """How many frames there will be; None where that is not known before an error."""
    try:
        return sum(summary.shown for summary in stream_info(file).sequences)
    except BitstreamError:
        return None
    finally:
        file.seek(0)


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        if isinstance(error, FileExistsError) and error.filename == str(path):
            raise UserError(f"{path} is there already: pass another --out") from None
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
