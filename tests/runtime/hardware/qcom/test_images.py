"""Images of Adreno in memory: where lines begin, what the GPU is told, what a launch has."""

import numpy as np
import pytest
from tests.runtime.hardware.qcom.machine import Machine

from treadle import dtypes
from treadle.emulate.kgsl import tables
from treadle.emulate.kgsl.images import Format, image_of
from treadle.emulate.kgsl.packets import packets
from treadle.errors import DeviceError, OutOfMemory
from treadle.ir3_object import ImageSlot, KernelCode, pack
from treadle.runtime.base import Entry, Launch, Slot
from treadle.runtime.hardware.qcom.images import SAMPLER, ImageLayout


@pytest.fixture
def device():
    return Machine(seed=3).device()


@pytest.mark.parametrize(
    ("height", "width", "bits", "pitch"),
    [
        # One line: whole steps of 64 bytes. A step more right below 128 texels of 16 bytes.
        (1, 1, 32, 64), (1, 5, 32, 128), (1, 100, 32, 1600), (1, 123, 32, 1984),
        (1, 124, 32, 2048), (1, 128, 32, 2112), (1, 129, 32, 2112),
        # The fewer the lines, the larger the step.
        (2, 1, 32, 1024), (3, 1, 32, 1024), (4, 1, 32, 512), (8, 1, 32, 256), (16, 1, 32, 128),
        (31, 1, 32, 128), (32, 1, 32, 64), (1000, 1, 32, 64),
        (2, 64, 32, 1024), (2, 65, 32, 3072), (2, 70, 32, 3072), (4, 65, 32, 1536),
        # From 32 lines on fewer texels are too near to a power of two, from 128 on the last alone.
        (32, 124, 32, 1984), (32, 125, 32, 2112), (63, 125, 32, 2112), (64, 125, 32, 2048),
        (64, 126, 32, 2112), (96, 126, 32, 2048), (96, 127, 32, 2112), (128, 127, 32, 2048),
        (128, 128, 32, 2112), (16384, 127, 32, 2048), (16384, 128, 32, 2112),
        (64, 249, 16, 2048), (64, 250, 16, 2112), (256, 255, 16, 2048), (256, 256, 16, 2112),
        # Multiples of 2 KiB are nearer than the next power of two; short lines are near to none.
        (32, 380, 32, 6080), (32, 381, 32, 6208), (32, 384, 32, 6208), (32, 385, 32, 6208),
        (32, 64, 32, 1024), (32, 63, 32, 1024), (4, 64, 32, 1024), (32, 128, 16, 1024),
        # Half of the lines' step is as many texels of halves.
        (2, 129, 16, 3072), (4, 193, 16, 2560), (4, 192, 16, 1536), (8, 225, 16, 2304),
        # Halves: 8 bytes to a texel, and 256 of them to the same bytes.
        (1, 1, 16, 64), (1, 200, 16, 1600), (1, 247, 16, 1984), (1, 248, 16, 2048),
        (1, 249, 16, 2048 + 64), (1000, 256, 16, 2048 + 64), (1000, 255, 16, 2048),
    ],
)  # fmt: skip
def test_lines_are_as_far_apart_as_qualcomms(height, width, bits, pitch):
    layout = ImageLayout.with_sizes(height, width, bits)
    assert layout.pitch == pitch
    assert layout.nbytes == pitch * (height - 1) + width * bits // 2


@pytest.mark.parametrize("is_texture", [True, False])
@pytest.mark.parametrize("bits", [32, 16])
def test_a_descriptor_is_read_as_meant(bits, is_texture):
    layout = ImageLayout.with_sizes(5, 7, bits)
    words = list(layout.descriptor(is_texture))
    address = 0x7F12_3456_7840
    words[4:6] = address & 0xFFFFFFFF, address >> 32
    found = image_of(words, is_texture)
    assert (found.address, found.height, found.width) == (address, 5, 7)
    assert (found.pitch, found.format) == (512, Format(bits, 4))
    assert tables.packet("A6XX_TEX_CONST", words)["PITCHALIGN"] == 3  # 64 << 3


def test_texels_are_copied_line_by_line(device):
    buffer = device.allocator.alloc_image(dtypes.imageh((5, 7)))
    texels = np.arange(140, dtype=np.float16)
    device.write(buffer, texels.view(np.uint8).data)
    memory = np.ctypeslib.as_array(
        (np.ctypeslib.ctypes.c_uint16 * (5 * 256)).from_address(buffer.argument)
    ).view(np.float16)
    np.testing.assert_array_equal(memory.reshape(5, 256)[:, :28], texels.reshape(5, 28))
    found = np.empty_like(texels)
    device.read(buffer, found.view(np.uint8).data)
    np.testing.assert_array_equal(found, texels)


def test_an_image_that_does_not_fit_is_out_of_memory(device):
    with pytest.raises(OutOfMemory, match=r"at most 4.0 GiB, not 4.0 GiB: split the tensor"):
        device.allocator.alloc_image(dtypes.imagef((16384, 16384)))


def test_what_is_nobodys_memory_is_no_image(device):
    with pytest.raises(DeviceError, match="begins at 0x1000 is neither memory of this process nor"):
        device.allocator.image_from_pointer(0x1000, dtypes.imagef((3, 4)))


# -- launches

IMAGES = (
    ImageSlot(0, True, 0, 3, 4, 32), ImageSlot(2, True, 1, 1, 8, 16),
    ImageSlot(1, False, 0, 3, 4, 32),
)  # fmt: skip


def phase_with(device, images):
    entry = Entry("k", 1, 64, tuple(Slot(n, 256, n == 1) for n in range(3)))
    code = KernelCode("k", 64, 3, 0, 4, 1, 64, 0, 0, 2, 2, False, (), (0,), images)
    return device.load(pack([code]), [entry]).phases[0]


def test_descriptors_lie_behind_the_constants_of_a_launch(device):
    phase = phase_with(device, IMAGES)
    block = memoryview(bytearray(phase.kernarg_bytes))
    assert len(block) == 64 + 3 * 64 + 64
    addresses = [0x1_0000_0040, 0x2_0000_0080, 0x3_0000_00C0]
    phase.pack(block, addresses, [])
    words = block.cast("I").tolist()
    assert block.cast("Q").tolist()[:3] == addresses
    found = [image_of(words[n : n + 16], n < 48) for n in (16, 32, 48)]
    assert [image.address for image in found] == [addresses[0], addresses[2], addresses[1]]
    assert [image.width for image in found] == [4, 8, 4]
    assert words[64:72] == 2 * list(SAMPLER)  # one for each texture


def test_a_replay_knows_each_place_of_an_address(device):
    phase = phase_with(device, IMAGES)
    assert phase.arguments.places(False, 0) == [0, 16 + 4]
    assert phase.arguments.places(False, 1) == [2, 48 + 4]
    assert phase.arguments.places(False, 2) == [4, 32 + 4]
    assert phase.arguments.places(True, 0) == []


def packets_of(device, images):
    phase = phase_with(device, images)
    names, values = [], {}
    for packet in packets(phase.words(0x1_2345_6000, device.private)):
        if packet.opcode is not None:
            names.append(tables.opcode(packet.opcode))
            continue
        for n, value in enumerate(packet.words):
            name = tables.register(packet.register + n)
            names.append(name)
            values[name] = value
    return names, values


def test_a_launch_tells_of_its_images(device):
    names, values = packets_of(device, IMAGES)
    assert None not in names
    config = tables.fields("SP_CS_CONFIG", values["SP_CS_CONFIG"])
    assert (config["NTEX"], config["NSAMP"], config["NIBO"]) == (2, 2, 1)
    assert tables.fields("SP_MODE_CONTROL", values["SP_MODE_CONTROL"])["ISAMMODE"] == 1
    assert tables.fields("SP_TP_MODE_CNTL", values["SP_TP_MODE_CNTL"])["ISAMMODE"] == 1
    assert values["SP_CS_TEX_CONST"] == 0x2345_6000 + 64
    assert values["SP_CS_IBO"] == 0x2345_6000 + 64 + 128
    assert values["SP_CS_TEX_SAMP"] == 0x2345_6000 + 64 + 192
    invalidated = tables.fields("HLSQ_INVALIDATE_CMD", values["HLSQ_INVALIDATE_CMD"])
    assert (invalidated["CS_STATE"], invalidated["CS_IBO"]) == (1, 1)
    # What kernels before have stored is in no texture's cache.
    assert names.index("CP_EVENT_WRITE") < names.index("CP_EXEC_CS")


def test_a_launch_without_images_tells_of_none(device):
    names, values = packets_of(device, ())
    config = tables.fields("SP_CS_CONFIG", values["SP_CS_CONFIG"])
    assert (config["NTEX"], config["NSAMP"], config["NIBO"]) == (0, 0, 0)
    assert not {"SP_CS_TEX_CONST", "SP_CS_IBO", "SP_TP_MODE_CNTL", "CP_EVENT_WRITE"} & {*names}


def test_a_descriptor_of_what_is_no_image_ends_the_context(device):
    phase = phase_with(device, IMAGES)
    device.run([Launch([phase], [0x20, 0x2_0000_0080, 0x3_0000_00C0])])
    with pytest.raises(DeviceError, match="an image at 0x20, which is no multiple of 64"):
        device.synchronize()
