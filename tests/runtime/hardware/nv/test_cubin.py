"""Addresses in machine code are where NVIDIA's disassembler reads them."""

from __future__ import annotations

import random
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from treadle.runtime.hardware.cubin import _PARTS, Image, _Pending

CALL = bytes.fromhex("43790000000000000000c00300ea0f00")  # CALL.ABS.NOINC 0
LENGTH = 64  # instructions
ABS47_34, ABS55_16_34 = 0x3A, 0x4B


def nvdisasm() -> str:
    try:
        files = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        pytest.skip("nvidia-cuda-nvdisasm is not installed")
    return str(next(file.locate() for file in files if file.name == "nvdisasm"))


def targets(code: bytes, chip: str, folder: Path) -> list[int]:
    """Where the absolute calls in raw code lead, as nvdisasm reads them."""
    file = folder / "code"
    file.write_bytes(code)
    command = [nvdisasm(), "-b", chip, str(file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [int(found, 16) for found in re.findall(r"CALL\.ABS\.NOINC (0x[0-9a-f]+)", text)]


@pytest.mark.parametrize(
    ("chip", "kind"),
    [
        ("SM80", ABS47_34), ("SM86", ABS47_34), ("SM89", ABS47_34),
        ("SM90", ABS55_16_34), ("SM100", ABS55_16_34), ("SM120", ABS55_16_34),
    ],
)  # fmt: skip
def test_calls_lead_to_their_targets(chip, kind, tmp_path):
    rng = random.Random(chip)
    address = 0x7F12_3456_7800
    places = [4 * rng.randrange(1 << rng.randrange(1, 40)) for _ in range(LENGTH)]
    pending = tuple(_Pending(16 * i, kind, place) for i, place in enumerate(places))
    placed = Image(CALL * LENGTH, {}, pending).placed(address)
    assert targets(placed, chip, tmp_path) == [address + place for place in places]


@pytest.mark.parametrize("kind", sorted(_PARTS))
def test_only_the_address_changes(kind):
    rng = random.Random(kind)
    data, address = rng.randbytes(48), rng.randrange(1 << 47) & ~0xFF
    placed = Image(data, {}, (_Pending(16, kind, 0),)).placed(address)
    assert placed[:16] == data[:16]
    assert placed[32:] == data[32:]
    changed = int.from_bytes(placed[16:32], "little") ^ int.from_bytes(data[16:32], "little")
    for _low, bits, place in _PARTS[kind]:
        changed &= ~(((1 << bits) - 1) << place)
    assert changed == 0
