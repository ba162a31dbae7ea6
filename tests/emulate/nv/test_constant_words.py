"""Words of constant bank 0 that machine code reads: nvdisasm lists them, and each is written."""

from __future__ import annotations

import functools
import os
import random
import struct

import numpy as np
import pytest
from tests.thinning import chosen

from treadle import Device, Tensor
from treadle.emulate.machine.platform import EmulatedPlatform
from treadle.emulate.nv import EmulatedNV
from treadle.emulate.nv.chips import chip
from treadle.emulate.nv.constant_words import Disassembler, Reads, words_read
from treadle.emulate.nv.execute import Executor
from treadle.emulate.nv.programs import Programs, unpack
from treadle.engine.host_code import compile_for_host
from treadle.errors import DeviceError
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.hardware.nv import RM, NVDevice, target_of
from treadle.runtime.hardware.nv.launches import Phase

from .disassembled import nvdisasm
from .machine import CHIPS, compiled, download, upload

LISTING = """
	.section	.text.first,"ax",@progbits
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0030*/                   ULDC.64 UR4, c[0x0][0x118] ;
        /*0040*/                   IMAD.WIDE.U32 R2, R6, R7, c[0x0][0x160] ;
        /*0050*/                   IMAD.WIDE R4, R6, c[0x0][0x178], R4 ;
        /*0060*/              @!P0 DFMA R4, R6, c[0x0][0x180], R4 ;
        /*0070*/                   MOV R5, c[0x4][0x4] ;
	.section	.text.second,"ax",@progbits
        /*0000*/                   LDC.128 R4, c[0x0][RZ] ;
        /*0010*/                   LDC R0, c[0x3][R0] ;
        /*0020*/              @UP1 LDCU UR4, c[0x0][UR6+0x210] ;
        /*0030*/                   LDG.E R2, desc[UR4][R2.64+0x4] ;
"""
COUNT = 64
SYMBOLS = ("add_number", "spill", "share")


@functools.cache
def disassembler():
    return Disassembler(nvdisasm())


def test_a_listing_says_which_words_are_read():
    assert words_read(LISTING) == {
        "first": Reads(frozenset({0x28, 0x118, 0x11C, 0x160, 0x164, 0x178, 0x180, 0x184})),
        "second": Reads(frozenset({0x0, 0x4, 0x8, 0xC}), True),
    }


@functools.cache
def programs():
    """What all GPUs here know of code."""
    return Programs(compile_for_host, words_read=disassembler())


def launch(arch, symbol, code=None):
    """A kernel of SOURCE on a GPU of its own, whose memory is all fresh."""
    platform = EmulatedPlatform()
    EmulatedNV(platform, [arch], Executor(programs()))
    device = NVDevice(
        "NV", RM(platform), 0, lambda own, facts: target_of(own, facts, None, True),
        on_load=programs().record,
    )  # fmt: skip
    slots = (Slot(0, 4 * COUNT, True), Slot(1, 4 * COUNT, True))
    entry = Entry(symbol, 1, COUNT, slots, (0,), shared=4 * COUNT if symbol == "share" else 0)
    (phase,) = device.load(code or compiled(arch), [entry]).phases
    x = upload(device, np.arange(COUNT, dtype=np.int32))
    out = upload(device, np.zeros(COUNT, np.int32))
    device.run([Launch([phase], [x.argument, out.argument], [5])])
    return download(device, out)


def kernels() -> list[tuple[str, str]]:
    """Kernels on chips; without `--full` one on each."""
    if "FULL_TESTS" in os.environ:
        return [(arch, symbol) for arch in CHIPS for symbol in SYMBOLS]
    return [(arch, SYMBOLS[number % len(SYMBOLS)]) for number, arch in enumerate(CHIPS)]


@pytest.mark.parametrize(("arch", "symbol"), kernels())
def test_a_word_that_is_read_and_never_written_is_a_fault(monkeypatch, arch, symbol):
    reads = disassembler()(unpack(compiled(arch))[0])[symbol]
    parameters = chip(arch).bank0.parameters
    read = {at for at in reads.words if at >= parameters}
    assert read <= {parameters + at for at in range(0, 20, 4)}
    assert {parameters + at for at in (0, 8, 16)} <= read
    right = launch(arch, symbol)
    pack = Phase.pack

    def without(self, block, *more):
        before = bytes(block[missing : missing + 4])
        pack(self, block, *more)
        block[missing : missing + 4] = before

    monkeypatch.setattr(Phase, "pack", without)
    words = sorted(reads.words)
    if "FULL_TESTS" not in os.environ:
        some = random.Random(f"{arch} {symbol}")
        words = [some.choice([at for at in words if at < parameters]), some.choice(sorted(read))]
    for missing in words:
        with pytest.raises(DeviceError) as caught:
            launch(arch, symbol)
        if missing >= parameters:
            assert f"reads the word {missing:#x} of constant bank 0, never written" in str(
                caught.value
            )
        else:
            assert "constant bank 0" in str(caught.value)
    missing = next(at for at in range(0, parameters, 4) if at not in reads.words and at > 0x40)
    np.testing.assert_array_equal(launch(arch, symbol), right)


def test_a_word_that_no_launch_has_is_a_fault():
    """sm_86's code, changed to read its stack's end from a place that nothing is written to."""
    cubin, _ = unpack(compiled("sm_86"))
    code = compiled("sm_86")
    move = 0x7A02 | 1 << 16  # MOV R1, c[0x0][0x28]
    at = next(
        at for at in range(0, len(cubin) - 16, 4)
        if struct.unpack_from("<I", cubin, at)[0] & 0xFFFFFFF == move & 0xFFFFFFF
    )  # fmt: skip
    (word,) = struct.unpack_from("<I", cubin, at + 4)
    changed = bytearray(code)
    struct.pack_into("<I", changed, at + 4, word + (4 << 6))

    def launch_all():
        for symbol in (*SYMBOLS, "globals"):
            launch("sm_86", symbol, bytes(changed))

    with pytest.raises(DeviceError, match="which no launch has"):
        launch_all()


PROGRAMS = {
    "matmul of halves": lambda x, y: (x.half() @ y.half()).float(),
    "softmax": lambda x, y: (x * y).softmax(1),
    "sort": lambda x, y: (x + y).sort(1)[0],
    "convolution": lambda x, y: x.reshape(1, 1, 24, 24).conv2d(y[:3, :3].reshape(1, 1, 3, 3)),
    "float64": lambda x, y: (x.double().exp() * y.double().sin()).sum(0),
    "integers": lambda x, y: (x * 100).int() // ((y * 10).int() * 2 + 1),
}


def cases() -> list[tuple[str, str, str]]:
    """Each program with both compilers on each chip; without `--full` a share of them."""
    found = []
    for arch in CHIPS:
        for compiler in ("NVRTC", "PTX"):
            for program in PROGRAMS:
                if chosen(f"{arch} {compiler} {program}", 18):
                    found.append((arch, compiler, program))
    return found


@pytest.mark.parametrize(("arch", "compiler", "program"), cases())
def test_programs_read_words_that_launches_have(monkeypatch, arch, compiler, program):
    device = f"NV:{compiler}:{arch}"
    try:
        known = Device[device].runtime._on_load.__self__
    except DeviceError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(known, "_words_read", disassembler())
    monkeypatch.setattr(known, "_seen", set())
    monkeypatch.setattr(known, "_kernels", {})
    rng = np.random.default_rng(len(program))
    x, y = (rng.standard_normal((24, 24)).astype(np.float32) for _ in range(2))
    made = PROGRAMS[program]
    found = made(Tensor(x, device=device), Tensor(y, device=device)).numpy()
    expected = made(Tensor(x, device="CPU"), Tensor(y, device="CPU")).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    kernels = [one for group in known._kernels.values() for one in group]
    assert kernels
    assert all(one.reads is not None and one.reads.words for one in kernels)
