"""CUDA's code of bitsandbytes, which others' toolkits linked, through our loader of cubins.

nvdisasm judges where absolute calls lead, and which words of constant bank 0
code reads. Compressed cubins (those of CUDA 13) are left out: a loader gets them unpacked.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.emulate.judges import judge
from tests.runtime.hardware.nv.test_cubin import generation_of_arch, written

from treadle.runtime.hardware.cubin import link

from .disassembled import constants, targets

ADDRESS = 0x7F12_3456_7800
OLDEST = 75  # what nvdisasm reads; Pascal's code has other places for addresses
LIBRARIES = [118, 121, 124, 126, 128]
DISASSEMBLED = 100 if os.environ.get("FULL_TESTS") else 2  # functions of each library

_FATBIN = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_CUBIN, _COMPRESSED = 2, 0xA000


class _Cubin(NamedTuple):
    chip: int
    data: bytes


def _cubins(library: bytes) -> Iterator[_Cubin]:
    """The cubins in a library's fat binaries that are not compressed."""
    at = 0
    while (at := library.find(_FATBIN, at)) >= 0:
        end = at + 16 + struct.unpack_from("<Q", library, at + 8)[0]
        at += 16
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", library, at)
            (chip,) = struct.unpack_from("<I", library, at + 28)
            (flags,) = struct.unpack_from("<Q", library, at + 40)
            data = library[at + header : at + header + size]
            if kind == _CUBIN and not flags & _COMPRESSED:
                yield _Cubin(chip, data)
            at += header + size


def _found(version: int) -> list[_Cubin]:
    library = judge("bitsandbytes") / "bitsandbytes" / f"libbitsandbytes_cuda{version}.so"
    return [cubin for cubin in _cubins(library.read_bytes()) if cubin.chip >= OLDEST]


@pytest.mark.parametrize("version", LIBRARIES)
def test_cubins_load_and_their_calls_lead_to_functions(version: int) -> None:
    found = _found(version)
    assert len(found) > 3
    calling = []
    for chip, data in found:
        image = link(data)
        placed = image.placed(ADDRESS)
        functions = {ADDRESS + one.at for one in image.kernels.values()}
        for one in image.kernels.values():
            code = placed[one.at : one.at + one.nbytes]
            if any(one.at <= place.at < one.at + one.nbytes and place.kind in (0x3A, 0x4B)
                   for place in image.pending):  # fmt: skip
                calling.append((chip, code, functions))
    assert calling
    rng = random.Random(version)
    for chip, code, functions in rng.sample(calling, min(DISASSEMBLED, len(calling))):
        called = targets(code, f"SM{chip}")
        assert called
        assert set(called) <= functions


DRIVEN = {80: "sm_80", 86: "sm_86", 89: "sm_89", 90: "sm_90a", 100: "sm_100a", 120: "sm_120"}


@pytest.mark.parametrize("version", LIBRARIES)
def test_code_reads_no_word_of_constant_bank_0_that_a_launch_does_not_write(
    version: int,
) -> None:
    kernels = []
    for chip, data in _found(version):
        if chip in DRIVEN:
            image = link(data)
            kernels += [(chip, image, one) for one in image.kernels.values()]
    assert kernels
    rng = random.Random(version)
    for chip, image, one in rng.sample(kernels, min(DISASSEMBLED, len(kernels))):
        code = image.data[one.at : one.at + one.nbytes]
        read = constants(code, f"SM{chip}")
        assert read
        assert read <= written(generation_of_arch(DRIVEN[chip]), one), one.name
