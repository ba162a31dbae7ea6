"""Descriptors of images: from packets to pixels."""

import struct

import numpy as np
import pytest
from tests.emulate.ir3.test_images import PLACE, R1, R5, SYNC, isam, stib
from tests.emulate.ir3.words import word
from tests.emulate.kgsl.rig import EXEC_CS, LOAD_STATE, Rig, halves, packet, setup, write

from treadle.compile.llvm import LLVMCompiler
from treadle.emulate.ir3.execute import Executor
from treadle.emulate.kgsl.faults import KernelFault
from treadle.emulate.kgsl.images import Format, image_of
from treadle.target import host_target

FLOATS, HALVES = 0x82, 0x62  # FMT6_32_32_32_32_FLOAT and FMT6_16_16_16_16_FLOAT
COPY = [*PLACE, isam(R5, R1, "f32"), SYNC, stib(R5, R1, "f32"), SYNC, word("end")]


def descriptor(address, width=8, height=8, pitch=256, fmt=FLOATS, first=0, kind=1, is_texture=True):
    swizzle = (0 << 4 | 1 << 7 | 2 << 10 | 3 << 13) if is_texture else 0
    low, high = halves(address)
    words = [
        first | swizzle | fmt << 22,
        width | height << 15,
        pitch << 7 | kind << 29,
        0,
        low,
        high,
    ]
    return [*words, *[0] * 10]


def state(block, kind, address, count):
    return packet(LOAD_STATE, kind << 14 | 2 << 16 | block << 18 | count << 22, *halves(address))


@pytest.mark.parametrize("fmt", [FLOATS, HALVES])
def test_a_kernel_copies_a_texture_to_an_image(fmt):
    machine = Rig(Executor(LLVMCompiler(host_target()).compile))
    code, table, samplers, source, target = (machine.memory() for _ in range(5))
    code.put(struct.pack(f"<{len(COPY)}Q", *COPY))
    pixels = np.random.default_rng(3).standard_normal((8, 64)).astype(np.float32)
    pixels[:, 32:] = 0
    source.put(pixels.tobytes())
    target.put(bytes(4096))
    words = descriptor(source.address) + descriptor(target.address, fmt=fmt, is_texture=False)
    table.put(struct.pack("<32I", *words))
    machine.run(
        setup(code.address, 1, 4, workgroup=(64, 1, 1)),
        write(0xA9BB, 1 << 8 | 1 << 9 | 1 << 17 | 1 << 22),  # SP_CS_CONFIG: NTEX, NSAMP, NIBO
        state(5, 1, table.address, 1), state(5, 0, samplers.address, 1),
        state(13, 3, table.address + 64, 1), packet(EXEC_CS, 0, 1, 1, 1),
    )  # fmt: skip
    kind = np.float32 if fmt == FLOATS else np.float16
    found = np.array(target.words(512), np.uint32).view(kind).reshape(8, -1)
    assert np.array_equal(found[:, :32], pixels[:, :32].astype(kind))
    assert not found[:, 32:].any()


def test_a_descriptor_says_where_lines_are():
    found = image_of(descriptor(0x12_3456_7800, 30, 7, 512, HALVES))
    assert (found.address, found.width, found.height) == (0x12_3456_7800, 30, 7)
    assert (found.pitch, found.format) == (512, Format(16, 4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": 2}, "tiles"), ({"first": 4}, "sRGB"), ({"first": 1 << 30}, "a swap"),
        ({"first": 1 << 16}, "smaller levels"), ({"kind": 3}, "other than two dimensions"),
        ({"first": 1 << 4}, "components in another order"), ({"fmt": 0x30}, "FMT6_8_8_8_8_UNORM"),
        ({"fmt": 0x74}, "FMT6_32_32_32_FLOAT"), ({"fmt": 0xFF}, "FMT6_NONE"),
        ({"height": 0}, "an image of 0 lines"), ({"address": 0x1020}, "no multiple of 64"),
        ({"width": 16385, "pitch": 1 << 19}, "8 lines of 16385 texels"),
        ({"height": 16385}, "16385 lines of 8 texels"),
        ({"pitch": 64}, "8 times 16 bytes at a pitch of 64"), ({"pitch": 160}, "a pitch of 160"),
    ],
)  # fmt: skip
def test_a_descriptor_that_is_not_emulated_is_a_fault(change, message):
    with pytest.raises(KernelFault, match=message):
        image_of(descriptor(**{"address": 0x1000, **change}))


def test_an_image_that_is_written_tells_no_order_of_components():
    assert image_of(descriptor(0x1000, is_texture=False), is_texture=False).width == 8
    with pytest.raises(KernelFault, match="components in another order"):
        image_of(descriptor(0x1000), is_texture=False)


def test_a_texture_without_a_sampler_is_a_fault():
    machine = Rig(lambda dispatch: None)
    code, table = machine.memory(), machine.memory()
    table.put(struct.pack("<16I", *descriptor(0x1000)))
    with pytest.raises(OSError, match="a fault"):
        machine.run(
            setup(code.address), write(0xA9BB, 1 << 8 | 1 << 9), state(5, 1, table.address, 1),
            packet(EXEC_CS, 0, 1, 1, 1),
        )  # fmt: skip
    assert "1 textures and no sampler" in machine.platform.explain()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (1 << 9, "1 textures are announced, and 0 loaded"), (1 << 22, "1 images are announced"),
        (1 << 17, "1 samplers are announced, and fewer loaded"),
    ],
)  # fmt: skip
def test_images_that_nobody_has_loaded_are_a_fault(config, message):
    machine = Rig(lambda dispatch: None)
    code = machine.memory()
    with pytest.raises(OSError, match="a fault"):
        machine.run(
            setup(code.address), write(0xA9BB, 1 << 8 | config), packet(EXEC_CS, 0, 1, 1, 1)
        )
    assert message in machine.platform.explain()
