"""Addresses in machine code are where NVIDIA's disassembler reads them."""

from __future__ import annotations

import os
import random

import pytest
from tests.emulate.nv.disassembled import constants, targets
from tests.emulate.nv.machine import CHIPS, SOURCE, compiled

from treadle.emulate.nv.programs import unpack
from treadle.runtime.hardware.cubin import _PARTS, Image, KernelCode, _Pending, link
from treadle.runtime.hardware.nv.classes import _GENERATIONS, Generation

CALL = bytes.fromhex("43790000000000000000c00300ea0f00")  # CALL.ABS.NOINC 0
LENGTH = 64  # instructions
ABS47_34, ABS55_16_34 = 0x3A, 0x4B


def written(generation: Generation, kernel: KernelCode) -> set[int]:
    """The words of constant bank 0 that a launch writes."""
    bank = generation.bank0
    places = [(bank.block, 12), (bank.grid, 12), (bank.local, 8), (bank.stack, 4),
              (bank.descriptor, 8), (bank.parameters, kernel.parameters_bytes)]  # fmt: skip
    if bank.shared is not None:
        places.append((bank.shared, 8))
    return {at for start, nbytes in places for at in range(start, start + nbytes, 4)}


def generation_of_arch(arch: str) -> Generation:
    """What differs between GPUs, of one architecture."""
    return next(one for one in _GENERATIONS.values() if one.arch == arch)


# A kernel that reads all that a launch tells it: sizes, its stack, and generic pointers.
EVERYTHING = r"""
__device__ __noinline__ int sum(int* p, int n) { return n ? p[n] + sum(p, n - 1) : p[0]; }
extern "C" __global__ void everything(int* out, double scale, char byte, long long n) {
  __shared__ int part[64];
  extern __shared__ int more[];
  int own[32];
  for (int k = 0; k < 32; k++) own[k] = out[k];
  part[threadIdx.x] = more[threadIdx.x] + byte;
  int* p = n & 1 ? own : n & 2 ? part : more;
  out[gridDim.x * gridDim.y * gridDim.z + blockDim.x * blockDim.y * blockDim.z] =
      sum(p, n) * scale;
}
"""


@pytest.mark.parametrize("arch", CHIPS)
def test_words_that_code_reads_of_constant_bank_0_are_those_that_a_launch_writes(arch):
    generation = generation_of_arch(arch)
    read: set[int] = set()
    for source in (SOURCE, EVERYTHING) if "FULL_TESTS" in os.environ else (EVERYTHING,):
        image = link(unpack(compiled(arch, source))[0])
        for kernel in image.kernels.values():
            code = image.data[kernel.at : kernel.at + kernel.nbytes]
            found = constants(code, arch.rstrip("a").upper().replace("_", ""))
            assert found <= written(generation, kernel), kernel.name
            read |= found
    bank = generation.bank0
    for start in (bank.block, bank.grid, bank.stack, bank.descriptor, bank.parameters):
        assert start in read


@pytest.mark.parametrize(
    ("chip", "kind"),
    [
        ("SM80", ABS47_34), ("SM86", ABS47_34), ("SM89", ABS47_34),
        ("SM90", ABS55_16_34), ("SM100", ABS55_16_34), ("SM120", ABS55_16_34),
    ],
)  # fmt: skip
def test_calls_lead_to_their_targets(chip, kind):
    rng = random.Random(chip)
    address = 0x7F12_3456_7800
    places = [4 * rng.randrange(1 << rng.randrange(1, 40)) for _ in range(LENGTH)]
    pending = tuple(_Pending(16 * i, kind, place) for i, place in enumerate(places))
    placed = Image(CALL * LENGTH, {}, pending).placed(address)
    assert targets(placed, chip) == [address + place for place in places]


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
