"""A process that has decoded ends, whatever PyAV reports and whatever was refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("av")

PROGRAM = """
import gc
import av
from tests.video.clips import encode
from treadle.video.decode import decode_annexb_iter
from treadle.video.errors import BitstreamError

av.logging.set_level(av.logging.{level})
data = encode(64, 64, 8, hash=1).data
damaged = bytearray(data)
for place in range(600, len(damaged), 97):
    damaged[place] ^= 0x55
damaged = bytes(damaged)
refused = 0
for stream in [data[: len(data) // 2], data[:-20], damaged] * 3 + [data]:
    frames = decode_annexb_iter(
        stream, fallback="software", device="CPU", dtype="uint8", normalize=False
    )
    try:
        first = next(frames)
        rest = list(frames)
    except BitstreamError:
        refused += 1
left = []  # where threads may still be at a damaged picture
for start in range(0, len(data), 40):
    stream = data[:start] + damaged[start : start + 100] + data[start + 100 :]
    frames = decode_annexb_iter(stream, fallback="software", device="CPU")
    try:
        next(frames)
        left.append(frames)
    except BitstreamError:
        refused += 1
assert len(left) > 10
gc.collect()
print(refused, flush=True)
"""


@pytest.mark.parametrize("level", ["ERROR", "DEBUG"])
def test_2_08_a_process_ends_after_streams_that_were_refused(level):
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=level)], capture_output=True, text=True,
        timeout=200, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout.split()[-1]) >= 3
